"""The types of pipelines (PiCo, section 3) with the corrections P1 to P4, and all mistakes of a pipeline in one pass.

A whole pipeline has one structure: bag, list or stream. Operators on whole collections need a bounded one, a bag or a list, or a
stream whose source has a window (P1); windows need an ordered one, a list or a stream. Data types meet where functions are annotated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args, get_origin

from dgs.flow.clock import ticks_of
from dgs.flow.edge_types import Signature, difference_of, shown_type, signature_of
from dgs.flow.mistakes import Mistake
from dgs.flow.panes import CountWindow, TimeWindow
from dgs.pico.laws import start_mistake
from dgs.pico.operators import Combine, Elementwise, Operator, Sink, Source, Unknown
from dgs.pico.syntax import Iterate, Merge, New, Pair, Term, To, combines_of, drawn, takes_input, terms_of

WINDOWED = "stream with a window at its source"


class Data(NamedTuple):
    """What a term gives: the type of its elements, its structure where a source says it, and that source."""

    value: Any
    source: New | None


@dataclass(slots=True)
class Checker:
    """The pass over a tree: `takes` has the type of the elements that the whole pipeline reads, if it has an input."""

    name: str
    root: Term
    mistakes: list[Mistake] = field(default_factory=list)
    values: dict[Term, Any] = field(default_factory=dict)
    takes: Any = None
    gives: Any = None

    def check(self) -> Checker:
        """Check the tree, and set `takes` and `gives`; None: no input, no output."""
        found = self._data(self.root, None)
        self.gives = found.value if found else None
        return self

    def add(  # noqa: PLR0917 - read as a sentence
        self,
        code: str,
        term: Term,
        problem: str,
        expected: str = "",
        found: str = "",
        fix: str = "",
        carets: dict[Term, str] | None = None,
    ) -> None:
        """Add a mistake of a term, with the pipeline drawn."""
        drawing = drawn(self.root, {term: ""} if carets is None else carets)
        where = f"pipeline {self.name!r}" if carets else _title(term)
        self.mistakes.append(
            Mistake(code, where, problem, str(term.place or ""), expected, found, fix, drawing)
        )

    def _data(self, term: Term, given: Data | None) -> Data | None:
        """Return what a term gives for what it is given."""
        match term:
            case New(operator):
                found = self._operator(term, operator, given)
            case To(first, branches):
                found = self._to(term, self._data(first, given), branches)
            case Merge(left, right):
                found = self._merged(term, *self._sides("P07", term, left, right, given))
            case Pair(left, right, operator):
                found = self._paired(term, operator, *self._sides("P06", term, left, right, given))
            case Iterate():
                self.add(
                    "P12",
                    term,
                    "loops are not in PiCo",
                    fix="Write the rounds one after the other, with | between them",
                )
                found = Data(Any, None)
            case _:
                found = None
        self.values[term] = found.value if found else None
        return found

    def _operator(self, term: New, operator: Operator, given: Data | None) -> Data | None:
        is_binary = isinstance(operator, Combine) and operator.binary
        if isinstance(operator, Unknown) or is_binary:
            wanted = "an operator of one collection"
            fix = (
                "Give it to pair(left, right, operator)" if is_binary else "Give such as map(f) or reduce(f)"
            )
            self.add("P10", term, "takes no such operator", wanted, operator.label, fix)
            return Data(Any, given.source if given else None)
        if isinstance(operator, Source):
            self._source(term, operator, given)
            return Data(operator.gives, term)
        if given is None:
            if self.takes is None:
                self.takes = _taken(operator)
            given = Data(_taken(operator), None)
        if isinstance(operator, Sink):
            return None
        if isinstance(operator, Combine):
            return self._combined(term, operator, (given,))
        value = self._elementwise(term, operator, given.value) if isinstance(operator, Elementwise) else Any
        return Data(value, given.source)

    def _source(self, term: New, source: Source, given: Data | None) -> None:
        if given is not None:
            self.add(
                "P10",
                term,
                "takes no input",
                "no collection",
                "one before it",
                "Put it first, or merge with +",
            )
        if source.structure not in ("bag", "list", "stream"):
            self.add(
                "P02",
                term,
                "has no such structure",
                '"bag", "list" or "stream"',
                repr(source.structure),
                "Give one of them",
            )
        self._window(term, source.window)
        over = source.window
        if over is not None and source.structure != "stream":
            self.add(
                "P05",
                term,
                "has the window of a stream",
                "a stream",
                source.structure,
                'Say structure="stream"',
            )
        elif over is not None and (isinstance(over, CountWindow) or over.size != over.slide):
            self.add(
                "W01",
                term,
                "needs a window by time whose size is its slide",
                'tumbling(size, "time")',
                str(over),
                "Give such a window",
            )

    def _window(self, term: Term, over: Any) -> None:
        if over is None:
            return
        if not isinstance(over, (CountWindow, TimeWindow)):
            self.add(
                "W01",
                term,
                "has no window",
                "window(size, slide) or tumbling(size)",
                repr(over),
                "Give one of them",
            )
            return
        read: Callable[[Any], Any] = (
            ticks_of if isinstance(over, TimeWindow) else (lambda n: n if type(n) is int else None)
        )
        size, slide = read(over.size), read(over.slide)
        if size is None or slide is None or size < 1 or slide < 1:
            self.add(
                "W01",
                term,
                "has a size or slide that is no length",
                "at least 1",
                f"size {over.size!r}, slide {over.slide!r}",
                "Correct it",
            )
        elif slide > size and not over.allow_gaps:
            self.add("W02", term, "leaves out elements between its windows", f"a slide of at most {size}", f"slide {slide}",
                     "Give such a slide, or allow_gaps=True")  # fmt: skip

    def _elementwise(self, term: New, operator: Elementwise, value: Any) -> Any:
        sign = self._function(term, operator.function, (value,), operator.gives)
        if operator.form == "filter":
            return value
        if operator.gives is not None:
            return operator.gives
        return sign.item if operator.form == "flat_map" else sign.gives

    def _combined(self, term: Term, operator: Combine, given: Sequence[Data]) -> Data:
        values = [one.value for one in given]
        for value in values if operator.by is not None else ():
            self._function(term, operator.by, (value,))
        self._window(term, operator.over)
        self._structure(term, operator, next((one for one in given if one.source), given[0]))
        if operator.fold is None:
            self._function(term, operator.join, (values[0], values[0]))
            return Data(values[0], given[0].source)
        sign = self._function(term, operator.fold, (Any, *values), operator.gives)
        joined = self._function(term, operator.join, (sign.gives, sign.gives))
        if joined.least is not None and (broken := start_mistake(operator)):
            self.add("F22", term, "depends on how its input is cut into parts", "join(start, start) == start", broken,
                     "Give a start that changes nothing when it is joined")  # fmt: skip
        return Data(operator.gives if operator.gives is not None else sign.gives, given[0].source)

    def _structure(self, term: Term, operator: Combine, given: Data) -> None:
        """Check that a collection of this structure can be combined."""
        if given.source is None or not isinstance(source := given.source.operator, Source):
            return
        if source.structure == "bag":
            if operator.over is not None:
                self.add("P05", term, "has a window, and a bag has no order", "list or stream", "bag",
                         'Leave out the window, or say structure="list" at the source')  # fmt: skip
            elif not operator.commutative:
                self.add("P03", term, "fits no structure", fix='Say structure="list" at the source, or give a commutative operator',
                         carets={given.source: "gives a bag", term: "needs list or stream: the order of the values counts"})  # fmt: skip
        elif source.structure == "stream" and operator.over is None and source.window is None:
            shown = operator.label.removeprefix("p(").removesuffix(")") if operator.by else operator.label
            by = f"{getattr(operator.by, '__name__', '...')}"
            mended = (
                f"w_p({shown}, by={by}, over=tumbling(10))"
                if operator.by
                else f"w({shown}, over=tumbling(10))"
            )
            if windowed := [one for one, other in combines_of(self.root) if other.over is not None]:
                carets = {
                    windowed[0]: "needs list or stream: windows need order",
                    term: "needs bag or list: a combine is bounded",
                }
                self.add(
                    "P03",
                    term,
                    "fits no structure",
                    fix=f"For a stream give {operator.label} a window: {mended}",
                    carets=carets,
                )
            else:
                self.add("P04", term, "works on whole collections, and a stream has no end", "bag, list, or a stream with a window",
                         "stream", f"Write {mended}, or give the source a window")  # fmt: skip
        elif (
            source.window is not None and isinstance(source.window, TimeWindow) and operator.over is not None
        ):
            self._aligned(term, operator.over, source.window)

    def _aligned(self, term: Term, over: Any, outer: TimeWindow) -> None:
        """Check that windows over a stream of windows are made of these."""
        unit = ticks_of(outer.size) or 1
        lengths = [ticks_of(over.size), ticks_of(over.slide)] if isinstance(over, TimeWindow) else [None]
        if any(length is None or length % unit for length in lengths):
            self.add("W03", term, "has windows that are not made of those of the source", f"time, in multiples of {outer.size}",
                     str(over), "Give such a window, or leave out that of the source")  # fmt: skip

    def _to(self, term: To, found: Data | None, branches: Sequence[Term]) -> Data | None:
        if found is None:
            self.add(
                "P10",
                list(terms_of(term.first, New))[-1],
                "gives no output",
                "a collection",
                "none",
                "Put nothing behind a sink",
            )
            found = Data(Any, None)
        results = [
            (branch, result) for branch in branches if (result := self._data(branch, found)) is not None
        ]
        for branch, result in results[1:]:
            if text := _apart(results[0][1].value, result.value):
                self.add("P08", branch, f"gives other elements than the first branch: {text}", shown_type(results[0][1].value),
                         shown_type(result.value), "Give all branches one type with map(...)")  # fmt: skip
        return Data(results[0][1].value, found.source) if results else None

    def _sides(self, code: str, term: Term, left: Term, right: Term, given: Data | None) -> list[Data]:
        if takes_input(left) and takes_input(right):
            self.add(
                code,
                term,
                "has two inputs",
                "a source in one of its pipelines",
                "none",
                "Put a source in front of one of them",
            )
        found = []
        for side in (left, right):
            data = self._data(side, given if takes_input(side) else None)
            if data is None:
                self.add("P10", side, "gives no output", "a collection", "none", "Leave out its sink")
            found.append(data or Data(Any, None))
        sources = [one.source.operator for one in found if one.source is not None]
        kinds = [_shown_structure(one) for one in sources if isinstance(one, Source)]
        if len(set(kinds)) > 1:
            self.add(
                "P02",
                term,
                "puts two structures together",
                kinds[0],
                kinds[1],
                "Give both sources one structure and window",
            )
        return found

    def _merged(self, term: Term, left: Data, right: Data) -> Data:
        self._meet(term, left.value, right.value, "merges elements of two types")
        return Data(left.value, left.source or right.source)

    def _paired(self, term: Term, operator: Operator, left: Data, right: Data) -> Data:
        if not isinstance(operator, Combine) or not operator.binary:
            self.add(
                "P10",
                term,
                "takes no such operator",
                "an operator of two collections",
                operator.label,
                "Give join_fold_reduce(...)",
            )
            return Data(Any, left.source or right.source)
        return self._combined(term, operator, (left, right))._replace(source=left.source or right.source)

    def _meet(self, term: Term, left: Any, right: Any, problem: str) -> None:
        if text := _apart(left, right):
            self.add(
                "P01",
                term,
                f"{problem}: {text}",
                shown_type(left),
                shown_type(right),
                "Give them one type with map(...)",
            )

    def _function(self, term: Term, function: Any, values: Sequence[Any], gives: Any = None) -> Signature:
        """Return what a function's annotations say, and check that it takes these values."""
        sign = signature_of(function)
        if not callable(function) or (sign.least is not None and not sign.least <= len(values) <= sign.most):
            found = f"a function of {sign.count}" if callable(function) else repr(function)
            self.add(
                "P10",
                term,
                "has a function that does not fit",
                f"a function of {len(values)} argument{'s' * (len(values) > 1)}",
                found,
                "Correct its parameters",
            )
            return Signature()
        for wanted, value in zip(sign.takes, values, strict=False):
            if text := difference_of(value, wanted):
                self.add("P01", term, f"takes other elements: {text}", shown_type(wanted), shown_type(value),
                         "Correct the annotation, or put map(...) before it")  # fmt: skip
        if isinstance(gives, str) or not (
            gives is None or gives is Any or isinstance(gives, type) or get_origin(gives) or get_args(gives)
        ):
            self.add(
                "P11",
                term,
                "needs the type of what it gives",
                "a type, as in gives=tuple[str, int]",
                repr(gives),
                "Write the type itself",
            )
        return sign


def structures(root: Term) -> list[str]:
    """Return the structures that a pipeline without mistakes fits, a stream whose source has a window apart from one without."""
    combines = [operator for _, operator in combines_of(root)]
    found = ["bag", "list", "stream", WINDOWED]
    if any(one.over is not None or not one.commutative for one in combines):
        found.remove("bag")
    if any(one.over is None for one in combines):
        found.remove("stream")
    kinds = {
        _shown_structure(one.operator) for one in terms_of(root, New) if isinstance(one.operator, Source)
    }
    return [one for one in found if not kinds or one in kinds]


def _shown_structure(source: Source) -> str:
    return WINDOWED if source.window is not None and source.structure == "stream" else source.structure


def _taken(operator: Operator) -> Any:
    function = (
        operator.function
        if isinstance(operator, Elementwise)
        else operator.join
        if isinstance(operator, Combine)
        else None
    )
    if isinstance(operator, Combine) and operator.fold is not None:
        return (*signature_of(operator.fold).takes, Any, Any)[1]
    return (*signature_of(function).takes, Any)[0]


def _apart(left: Any, right: Any) -> str | None:
    return difference_of(right, left) if difference_of(left, right) else None


def _title(term: Term) -> str:
    if isinstance(term, (New, Pair)):
        return term.operator.label
    return type(term).__name__.lower()
