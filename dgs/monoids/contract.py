"""The contract of a vectorised monoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dgs import codec
from dgs.errors import ProgramError
from dgs.errors.calls import refusing
from dgs.model import columns
from dgs.model.columns import Column

Cuts = npt.NDArray[np.int64]
"""Rows at which a window ends and the next begins, non-decreasing: n cuts make n + 1 windows, some of them empty."""


class Monoid(Protocol):
    """A commutative monoid of states, with functions from values to states, one at a time or many.

    Laws: `join` is associative and commutative, and `identity()` neutral. `fold(column)` equals joining `lift(value)` for
    each of its values, and `windows(column, cuts)[i]` equals `fold` of the rows of window i. Sums of floats satisfy the laws
    up to rounding, like all parallel sums. `join` owns both states and may change them.
    """

    def identity(self) -> Any:
        """Return the state of no values."""

    def lift(self, value: Any) -> Any:
        """Return the state of one value."""

    def join(self, left: Any, right: Any) -> Any:
        """Return the state of the values of both states."""

    def fold(self, column: Column) -> Any:
        """Return the state of all values of a column."""

    def windows(self, column: Column, cuts: Cuts) -> Column:
        """Return the state of each window of a column."""

    def result(self, state: Any) -> Any:
        """Return the result of a state: a sum, a mean, ...; None if no values have no result."""


@refusing
def refuses(name: str, takes: str, problem: str) -> ProgramError:
    """Let what makes a monoid raise ProgramError for arguments that it does not take."""
    return ProgramError(program=name, problem=f"it takes {takes}: {problem}")


class Simple:
    """A monoid without settings."""

    def __init__(self, *given: Any, **named: Any) -> None:
        if given or named:
            name = type(self).__name__
            problem = f"takes no arguments: of a field of records write FieldOf({name}(), 'field')"
            raise ProgramError(program=name, problem=problem)


METHODS = ("identity", "lift", "join", "result")
"""What every monoid has; ready-made ones have `fold` and `windows`, too."""


def check_parts(owner: str, *monoids: Any, methods: Sequence[str] = METHODS) -> None:
    """Check that these are monoids. Raises ProgramError."""
    for one in monoids:
        if isinstance(one, type) or not all(callable(getattr(one, name, None)) for name in methods):
            found = f"the class {one.__name__}" if isinstance(one, type) else repr(one)
            fix = f"give {one.__name__}()" if isinstance(one, type) else "give one of dgs.monoids, as SUM"
            raise ProgramError(program=owner, problem=f"is made of monoids, and {found} is none: {fix}")


def check_names(owner: str, *names: Any) -> None:
    """Check that these are names of fields, or places in a tuple. Raises ProgramError."""
    for one in names:
        if not isinstance(one, (str, int)) or isinstance(one, bool):
            problem = f"takes names of fields, and {one!r} is none: give a text, or the place in a tuple"
            raise ProgramError(program=owner, problem=problem)


def are_equal(left: Any, right: Any) -> bool:
    """Return whether two states are equal; those with arrays in them, by their codec bytes.

    >>> are_equal((1, 2.0), (1.0, 2)), are_equal([np.zeros(2)], [np.zeros(2)]), are_equal(np.zeros(2), np.ones(2))
    (True, True, False)
    """
    try:
        return bool(left == right)
    except ValueError:  # arrays compare element by element
        return codec.encode(left) == codec.encode(right)


def bounds(count: int, cuts: Cuts) -> tuple[Cuts, Cuts]:
    """Return the first row of each window, and the row after its last, among `count` rows."""
    return np.concatenate(([0], cuts)).astype(np.int64), np.concatenate((cuts, [count])).astype(np.int64)


def windows_by_fold(monoid: Monoid, column: Column, cuts: Cuts) -> list[Any]:
    """Return the state of each window by `fold`, for monoids without a faster way."""
    starts, stops = bounds(columns.length(column), cuts)
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return [monoid.fold(columns.cut(column, start, stop)) for start, stop in pairs]


def field_of(column: Column, name: str) -> Column:
    """Return a field of a column of records."""
    if isinstance(column, dict):
        return column[name]
    return [record[name] for record in columns.to_list(column)]
