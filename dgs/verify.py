"""Comparing outputs, as multisets, with those of the sequential program.

Values are equal when their codec bytes are (NumPy scalars count as the Python numbers they stand for). With a tolerance,
numbers at the same places of otherwise equal values may differ by `tolerance * max(1, |a|, |b|)`, if one of them is a float.

>>> compare([1, 2, 2], [2, 1, 2])
Comparison(missing=(), unexpected=())
>>> compare([("a", 1.0)], [("a", 1.0 + 1e-12)], tolerance=1e-9).is_equal
True
>>> print(compare([1, 2, 2], [2, 3]))
the outputs differ from those of the sequential program: 2 missing, 1 unexpected
  missing:    1
  missing:    2
  unexpected: 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dgs import codec
from dgs.close_pairs import plain, without_close_pairs

SHOWN = 5
"""How many differences of each kind are shown."""


@dataclass(frozen=True)
class Comparison:
    """What is missing from the outputs, and what is there although it should not be."""

    missing: tuple[Any, ...]
    unexpected: tuple[Any, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the two multisets are equal."""
        return not self.missing and not self.unexpected

    def differences(self) -> list[str]:
        """Return the first differences, one a line."""
        lines = [f"missing:    {_shown(value)}" for value in self.missing[:SHOWN]]
        return lines + [f"unexpected: {_shown(value)}" for value in self.unexpected[:SHOWN]]

    def __str__(self) -> str:
        if self.is_equal:
            return "the outputs equal those of the sequential program"
        head = f"{len(self.missing):,} missing, {len(self.unexpected):,} unexpected"
        lines = "".join(f"\n  {line}" for line in self.differences())
        return f"the outputs differ from those of the sequential program: {head}{lines}"


def compare(expected: Iterable[Any], got: Iterable[Any], *, tolerance: float | None = None) -> Comparison:
    """Compare two multisets of values. Raises CodecError for values the codec does not carry."""
    wanted, found = list(expected), list(got)
    lacking, surplus = _difference(wanted, found)
    if lacking or surplus:  # rarely: looking into every value for NumPy scalars takes longer than comparing
        lacking, surplus = _difference(lacking, surplus, plain)
    if tolerance is not None and lacking and surplus:
        # Equal values are not always the best pairs: 1.0 and 1.1 go with 1.1 and 1.2, if 0.1 is allowed.
        attempts = (without_close_pairs(*pair, tolerance) for pair in ((lacking, surplus), (wanted, found)))
        lacking, surplus = next(attempts)
        if lacking or surplus:
            lacking, surplus = min((lacking, surplus), next(attempts), key=lambda rest: len(rest[0]))
    return Comparison(tuple(lacking), tuple(surplus))


def _difference(
    wanted: list[Any], found: list[Any], form: Callable[[Any], Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """Return what only one of two multisets holds, each value compared in its `form` (None: as it is)."""
    values: dict[bytes, list[Any]] = {}
    for value in wanted:
        values.setdefault(codec.encode(form(value) if form else value), []).append(value)
    surplus: list[Any] = []
    for value in found:
        same = values.get(codec.encode(form(value) if form else value))
        if same:
            same.pop()
        else:
            surplus.append(value)
    return [value for same in values.values() for value in same], surplus


def _shown(value: Any) -> str:
    from dgs.user_code import shown

    return shown(value)
