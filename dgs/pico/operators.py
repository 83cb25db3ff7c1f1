"""The operators of pipelines as plain data (PiCo, section 2.2).

Functions take values, and the function `by=` returns the key of a value. `p` splits a collection by key, `w` into windows, `w_p` first by key
and then into windows. Operators on single elements do not depend on how a collection is split, so that `p(map(f), by=b)` is `map(f)`.

>>> low = w_p(reduce(min), by=first, over=window(10, 5, "count"))
>>> low.label, p(map(str), by=first).label
('w_p(reduce(min))', 'map(str)')
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from dgs.flow.edge_types import fits
from dgs.flow.mistakes import FlowError, Mistake, checks_call, user_place
from dgs.flow.panes import CountWindow, Partial, TimeWindow, Window

UNNAMED = "pipeline"
"""The name of a pipeline that has got none."""

Function = Callable[..., Any]
Structure = Literal["bag", "list", "stream"]


@dataclass(frozen=True, eq=False)
class Operator:
    """The base of the operators. `takes`, `offers`: the number of collections that it has as input and as output."""

    takes: ClassVar[int] = 1
    offers: ClassVar[int] = 1

    @property
    def label(self) -> str:
        """Its name in reports."""
        return type(self).__name__.lower()

    def __or__(self, other: Any) -> Any:
        """Refuse another operator, since only pipelines are put together. Raises FlowError."""
        return self._put_together("|", other)

    def __add__(self, other: Any) -> Any:
        """Refuse another operator, as `|` does."""
        return self._put_together("+", other)

    def _put_together(self, sign: str, other: Any) -> Any:
        if hasattr(other, "term"):  # a pipeline, which takes operators
            return NotImplemented
        found = other.label if isinstance(other, Operator) else repr(other)
        shown = f"{self.label} {sign} {found}"
        mistake = Mistake("P10", self.label, "is an operator, and no pipeline yet", str(user_place()), found=shown,
                          fix=f"Make a pipeline of each: new(...) {sign} new(...)")  # fmt: skip
        raise FlowError.of(UNNAMED, [mistake])


@dataclass(frozen=True, eq=False)
class Source(Operator):
    """Reads a collection. `path`: a file whose lines or rows are the elements; None for the stream `name` of the job.

    `window`: the blocks of a stream, within which operators on whole collections work.
    """

    name: str
    structure: Structure
    path: str | None = None
    window: Window | None = None
    gives: Any = Any
    form: Literal["lines", "csv", "stream"] = "stream"
    takes: ClassVar[int] = 0

    @property
    def label(self) -> str:
        """The function that makes it, with its name."""
        return f"from_{self.form}({self.name!r})"


@dataclass(frozen=True, eq=False)
class Sink(Operator):
    """Writes a collection, as JSON lines in the folder `path`."""

    path: str
    offers: ClassVar[int] = 0

    @property
    def folder(self) -> str:
        """The path in its shortest form: sinks of one folder write into one file."""
        return os.path.normpath(self.path)

    @property
    def label(self) -> str:
        """The function that makes it, with its folder."""
        return f"to_jsonl({self.path!r})"


@dataclass(frozen=True, eq=False)
class Elementwise(Operator):
    """Works on single elements: `map`, `flat_map`, `filter`."""

    form: Literal["map", "flat_map", "filter"]
    function: Function
    gives: Any = None

    @property
    def label(self) -> str:
        """Its kind, with the name of its function."""
        return _shown(self.form, self.function)


@dataclass(frozen=True, eq=False)
class Combine(Operator):
    """Makes one value of a collection, of each of its groups (`by`) or of each of its windows (`over`).

    `reduce(join)` joins elements. With `fold`, elements are folded into `start`, and `join` joins the states of parts of a collection.
    Laws: `join` is associative, and commutative unless `commutative` is False; `join(start, s) == s`; the result does not depend on how a
    collection is cut into parts.
    """

    join: Function
    fold: Function | None = None
    start: Any = None
    commutative: bool = True
    by: Function | None = None
    over: Window | None = None
    gives: Any = None
    binary: bool = False

    @property
    def label(self) -> str:
        """Its decomposition and its kind, with the name of its function."""
        inner = "join_fold_reduce" if self.binary else "fold_reduce" if self.fold else "reduce"
        shown = _shown(inner, self.fold or self.join)
        prefix = "_".join(letter for letter, given in (("w", self.over), ("p", self.by)) if given is not None)
        return f"{prefix}({shown})" if prefix else shown


@dataclass(frozen=True, eq=False)
class Unknown(Operator):
    """A value in place of an operator, which it is not."""

    given: Any

    @property
    def label(self) -> str:
        """The value."""
        return repr(self.given)


@dataclass(frozen=True)
class UnknownWindow:
    """A window with a word that does not exist, which the checker reports."""

    size: Any
    slide: Any
    unit: Any
    partial: Any = "drop"

    def __repr__(self) -> str:
        more = "" if self.partial == "drop" else f", partial={self.partial!r}"
        return f"window({self.size!r}, {self.slide!r}, {self.unit!r}{more})"


class NothingGiven:
    """None in place of an optional argument, which the checker reports."""

    def __repr__(self) -> str:
        return "None"


def _given(value: Any) -> Any:
    """Return the argument; for None, a value that is neither a function nor a window."""
    return NothingGiven() if value is None else value


def _shown(form: str, function: Any) -> str:
    name = getattr(function, "__name__", "<lambda>")
    return form if name == "<lambda>" else f"{form}({name})"


@checks_call
def from_lines(
    path: str, *, structure: Structure = "bag", window: Window | None = None, name: str | None = None
) -> Source:
    """Read the lines of a text file, `.gz` allowed; the time of a line is its number, from 0."""
    return Source(_name_of(path, name), structure, path, _by_time(window), str, "lines")


@checks_call
def from_csv(
    path: str,
    *,
    structure: Structure = "bag",
    window: Window | None = None,
    gives: Any = dict[str, str],
    name: str | None = None,
) -> Source:
    """Read the rows of a CSV file with a header, as dictionaries of texts; the time of a row is its number, from 0."""
    return Source(_name_of(path, name), structure, path, _by_time(window), gives, "csv")


@checks_call
def from_stream(
    name: str, *, gives: Any = Any, structure: Structure = "stream", window: Window | None = None
) -> Source:
    """Read a stream of the job, which `run(streams={name: [(ts, value), ...]})` gives."""
    return Source(name, structure, None, window, gives)


@checks_call
def to_jsonl(path: str) -> Sink:
    """Write each value as a line of `outputs.jsonl` in a folder. Sinks of one folder write into one file."""
    return Sink(path)


@checks_call
def map(function: Function, *, gives: Any = None) -> Elementwise:  # noqa: A001 - the paper's name
    """Replace each value by `function(value)`."""
    return Elementwise("map", function, gives)


@checks_call
def flat_map(function: Function, *, gives: Any = None) -> Elementwise:
    """Replace each value by the values of `function(value)`; `gives`: the type of one of them."""
    return Elementwise("flat_map", function, gives)


@checks_call
def filter(function: Function) -> Elementwise:  # noqa: A001 - the usual name
    """Keep the values for which `function(value)` holds."""
    return Elementwise("filter", function)


@checks_call
def reduce(join: Function) -> Combine:
    """Join all values with `join(a, b)`, which is associative and commutative."""
    return Combine(join)


@checks_call
def fold_reduce(
    fold: Function, start: Any, join: Function, *, commutative: bool = True, gives: Any = None
) -> Combine:
    """Fold values into `start` with `fold(state, value)`, and join the states of parts with `join(a, b)`.

    `commutative=False`: the order of the values counts; it then needs an ordered collection.
    """
    return Combine(join, _given(fold), start, commutative, gives=gives)


@checks_call
def join_fold_reduce(fold: Function, start: Any, join: Function, *, gives: Any = None) -> Combine:
    """Fold all pairs of values of two collections into `start` with `fold(state, left, right)`. An operator of `pair`."""
    return Combine(join, _given(fold), start, gives=gives, binary=True)


AnyOperator = TypeVar("AnyOperator", bound=Operator)


@checks_call
def p(operator: AnyOperator, by: Function) -> AnyOperator:
    """Apply an operator to each group of values with the same key `by(value)`."""
    if isinstance(operator, Combine):
        return replace(operator, by=_given(by))
    return operator if callable(by) else Unknown(by)  # the checker reports it


@checks_call
def w(operator: AnyOperator, over: Window) -> AnyOperator:
    """Apply an operator to each window of an ordered collection."""
    if isinstance(operator, Combine):
        return replace(operator, over=_given(over))
    if isinstance(over, (CountWindow, TimeWindow, UnknownWindow)):
        return operator
    return Unknown(over)  # the checker reports it


@checks_call
def w_p(operator: AnyOperator, by: Function, over: Window) -> AnyOperator:
    """Apply an operator to each window of each group."""
    return p(w(operator, over), by)


@checks_call
def window(
    size: Any,
    slide: Any,
    unit: Literal["count", "time"] = "count",
    *,
    partial: Partial = "drop",
    allow_gaps: bool = False,
) -> Window:
    """Return windows of `size` values, one every `slide` values; or of time, with lengths as numbers or texts such as "10s".

    `partial`: whether windows by count that the end of the input cuts short are emitted or dropped.
    """
    if unit == "time" and fits(partial, Partial):
        return TimeWindow(size, slide, allow_gaps)
    if unit == "count":
        return CountWindow(size, slide, partial, allow_gaps)
    unknown: Any = UnknownWindow(size, slide, unit, partial)
    return unknown  # type: ignore[no-any-return]  # the checker reports it


@checks_call
def tumbling(size: Any, unit: Literal["count", "time"] = "count", *, partial: Partial = "drop") -> Window:
    """Return windows side by side."""
    return window(size, size, unit, partial=partial)


def first(pair: Any) -> Any:
    """Return the first part of a pair."""
    return pair[0]


def second(pair: Any) -> Any:
    """Return the second part of a pair."""
    return pair[1]


def _name_of(path: str, name: str | None) -> str:
    """Return the name for the stream of a file."""
    if name is not None or not isinstance(path, str):
        return path if name is None else name
    return re.sub(r"[^\w.-]|^(?=[^A-Za-z_])", "_", path)


def _by_time(given: Window | None) -> Window | None:
    """Return a window over lines as one over their times, which are their numbers."""
    if isinstance(given, CountWindow):
        return TimeWindow(given.size, given.slide, given.allow_gaps)
    return given
