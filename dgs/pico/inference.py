"""The types of pipelines (PiCo, section 3) with the corrections P1 to P4, and all mistakes of a pipeline in one pass.

A whole pipeline has one structure: bag, list or stream. Types of elements are compared as far as functions are annotated.

>>> from dgs.pico.operators import from_lines, map
>>> def doubled(number: int) -> int: return 2 * number
>>> wrong = To(New(from_lines("a.txt")), (New(map(doubled)),))
>>> [mistake.problem for mistake in Checker("lines", wrong).check().mistakes]
['takes other elements: expected int, found str']
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dgs.errors.raised import RAISED, is_ours
from dgs.flow.edge_types import (
    Signature,
    difference_of,
    gives_instead,
    is_type,
    misfits,
    shown_type,
    signature_of,
)
from dgs.flow.mistakes import Mistake
from dgs.pico.operators import Combine, Elementwise, Operator, Sink, Source, Unknown
from dgs.pico.structures import Wrong, of_combine, of_source, of_window, shown_structure
from dgs.pico.syntax import Merge, New, Pair, Term, To, drawn, ends_of, inputs_of, takes_input, terms_of


class Data(NamedTuple):
    """The output of a term: the type of its elements, and the source that decides their structure."""

    value: Any
    source: New | None = None


@dataclass(slots=True)
class Checker:
    """The pass over a tree. `takes`, `gives`: the types of the elements of its input and output, None if it has none."""

    name: str
    root: Term
    mistakes: list[Mistake] = field(default_factory=list)
    takes: Any = None
    gives: Any = None

    def check(self) -> Checker:
        """Check the tree, and set `takes` and `gives`."""
        found = self._data(self.root, None)
        self.gives = found.value if found else None
        self._check_names()
        return self

    def check_top_level(self) -> Checker:
        """Check the tree, and that it has no input."""
        self.check()
        if takes_input(self.root):
            problem = f"is not top level: it has input ({shown_type(self.takes)})s"
            carets = dict.fromkeys(inputs_of(self.root), "")
            fix = "Put a source in front, such as new(from_lines(path))"
            self._add(self.root, Wrong("P09", problem, fix=fix, carets=carets))
        return self

    def _add(self, term: Term, wrong: Wrong | None) -> None:
        if wrong is None:
            return
        drawing = drawn(self.root, {term: ""} if wrong.carets is None else wrong.carets)
        where = f"pipeline {self.name!r}" if wrong.carets else _title(term)
        place = str(term.place or "")
        self.mistakes.append(
            Mistake(wrong.code, where, wrong.problem, place, wrong.expected, wrong.found, wrong.fix, drawing)
        )

    def _check_names(self) -> None:
        """Check that no two files are read under one name."""
        files: dict[str, Source] = {}
        for term in terms_of(self.root, New):
            one = term.operator
            if not isinstance(one, Source) or not isinstance(one.name, str):
                continue
            if (other := files.setdefault(one.name, one)).path != one.path:
                problem = f"has the name {one.name!r} of another source"
                before, now = (repr(it.path) if it.path else "a stream of the job" for it in (other, one))
                self._add(term, Wrong("P10", problem, before, now, "Give one of them another name"))

    def _data(self, term: Term, given: Data | None) -> Data | None:
        """Return the output of a term for its input."""
        match term:
            case New(operator):
                return self._operator(term, operator, given)
            case To(first, branches):
                return self._to(term, self._data(first, given), branches)
            case Merge(left, right):
                return self._merged(term, *self._sides("P07", term, left, right, given))
            case Pair(left, right, operator):
                return self._paired(term, operator, *self._sides("P06", term, left, right, given))
        fix = "Write the rounds one after the other, with | between them"
        self._add(term, Wrong("P12", "loops are not in PiCo", fix=fix))
        return Data(Any)

    def _check_words(self, term: Term, operator: Operator) -> None:
        """Check the texts and truths that an operator was given."""
        for name, expected in misfits(operator):
            if name != "structure":  # P02
                found = repr(getattr(operator, name))
                self._add(term, Wrong("P10", f"has no such {name}=", expected, found, "Give one of them"))

    def _operator(self, term: New, operator: Operator, given: Data | None) -> Data | None:
        self._check_words(term, operator)
        is_binary = isinstance(operator, Combine) and operator.binary
        if isinstance(operator, Unknown) or is_binary:
            fix = (
                "Give it to pair(left, right, operator)"
                if is_binary
                else "Give an operator such as map(f) or reduce(f)"
            )
            self._add(term, _no_operator("one collection", operator, fix))
            return Data(Any, given.source if given else None)
        if isinstance(operator, Source):
            if given is not None:
                fix = "Put it first, or merge with +"
                self._add(term, Wrong("P10", "takes no input", "no collection", "one before it", fix))
            for wrong in of_source(operator):
                self._add(term, wrong)
            self._check_given_type(term, operator.gives)
            return Data(operator.gives, term)
        if given is None:
            given = Data(_taken(operator))
            self.takes = given.value if self.takes is None else self.takes
        if isinstance(operator, Combine):
            return self._combined(term, operator, (given,))
        if isinstance(operator, Elementwise):
            return Data(self._elementwise(term, operator, given.value), given.source)
        return None if isinstance(operator, Sink) else Data(Any, given.source)

    def _elementwise(self, term: New, operator: Elementwise, value: Any) -> Any:
        """Return the type of the elements that an operator on single elements gives."""
        sign = self._function(term, operator.function, (value,), may_yield=operator.form == "flat_map")
        self._check_given_type(term, operator.gives)
        if operator.form == "filter":
            return value
        if operator.gives is not None:
            return operator.gives
        return sign.item if operator.form == "flat_map" else sign.gives

    def _combined(self, term: Term, operator: Combine, given: Sequence[Data]) -> Data:
        values = [one.value for one in given]
        for value in values if operator.by is not None else ():
            self._function(term, operator.by, (value,), role=f"by={_name(operator.by)}")
        self._add(term, of_window(operator.over))
        source = next((one.source for one in given if one.source), None)
        if source is not None:
            self._add(term, of_combine(self.root, term, operator, source))
        if operator.fold is None:
            self._function(term, operator.join, (values[0], values[0]))
            return Data(values[0], source)
        sign = self._function(term, operator.fold, (Any, *values))
        self._check_given_type(term, operator.gives)
        joined = self._function(
            term, operator.join, (sign.gives, sign.gives), role=f"join={_name(operator.join)}"
        )
        is_called = joined.least is not None and not gives_instead(operator.join)
        if is_called and (broken := _start_mistake(operator)):
            fix = "Give a start that changes nothing when it is joined"
            problem = "depends on how its input is cut into parts"
            self._add(term, Wrong("F22", problem, "join(start, start) == start", broken, fix))
        return Data(sign.gives if operator.gives is None else operator.gives, source)

    def _to(self, term: To, found: Data | None, branches: Sequence[Term]) -> Data | None:
        if found is None:
            fix = "Put nothing behind a sink"
            self._add(ends_of(term.first)[-1], Wrong("P10", "gives no output", "a collection", "none", fix))
            found = Data(Any)
        if not branches:
            self._add(
                term,
                Wrong(
                    "P10", "has no branches", "to(pipeline, one, other, ...)", "none", "Give it at least one"
                ),
            )
        results = [(one, data) for one in branches if (data := self._data(one, found)) is not None]
        if not results:
            return None
        value = results[0][1].value
        for branch, data in results[1:]:
            if text := _apart(value, data.value):
                problem = f"gives other elements than the first branch: {text}"
                fix = "Give all branches one type with map(...)"
                self._add(branch, Wrong("P08", problem, shown_type(value), shown_type(data.value), fix))
        return Data(value, found.source)

    def _sides(self, code: str, term: Term, left: Term, right: Term, given: Data | None) -> list[Data]:
        if takes_input(left) and takes_input(right):
            fix = "Put a source in front of one of them"
            self._add(term, Wrong(code, "has two inputs", "a source in one of its pipelines", "none", fix))
        found = []
        for side in (left, right):
            data = self._data(side, given if takes_input(side) else None)
            if data is None:
                wrong = Wrong("P10", "gives no output", "a collection", "none", "Leave out its sink")
                self._add(ends_of(side)[-1], wrong)
            found.append(data or Data(Any))
        sources = [one.source.operator for one in found if one.source is not None]
        kinds = [shown_structure(one) for one in sources if isinstance(one, Source)]
        if len(set(kinds)) > 1:
            fix = "Give both sources one structure and window"
            self._add(term, Wrong("P02", "puts two structures together", kinds[0], kinds[1], fix))
        return found

    def _merged(self, term: Term, left: Data, right: Data) -> Data:
        if text := _apart(left.value, right.value):
            problem, fix = f"merges elements of two types: {text}", "Give them one type with map(...)"
            self._add(term, Wrong("P01", problem, shown_type(left.value), shown_type(right.value), fix))
        return Data(left.value, left.source or right.source)

    def _paired(self, term: Term, operator: Operator, left: Data, right: Data) -> Data:
        if isinstance(operator, Combine) and operator.binary:
            return self._combined(term, operator, (left, right))
        self._add(term, _no_operator("two collections", operator, "Give join_fold_reduce(...)"))
        return Data(Any, left.source or right.source)

    def _function(
        self, term: Term, function: Any, values: Sequence[Any], *, role: str = "", may_yield: bool = False
    ) -> Signature:
        """Return the signature of a function, and check that it takes these values. `role`: its name in reports."""
        sign = signature_of(function)
        if not callable(function) or (sign.least is not None and not sign.least <= len(values) <= sign.most):
            expected = f"a function of {len(values)} argument{'s' * (len(values) > 1)}"
            found = f"a function of {sign.count}" if callable(function) else repr(function)
            problem = "has a function that does not fit" + (f", {role}" if role else "")
            self._add(term, Wrong("P10", problem, expected, found, "Correct its parameters"))
            return Signature()
        if (what := gives_instead(function)) and (what == "a coroutine" or not may_yield):
            problem, expected = (
                "has a function that does nothing when it is called",
                "one that returns its result",
            )
            self._add(
                term,
                Wrong("P10", problem, expected, f"one that gives {what}", "Write it with `def` and `return`"),
            )
        pairs = zip(sign.takes, values, strict=False)
        apart = [(text, *both) for both in pairs if (text := difference_of(both[1], both[0]))]
        for text, wanted, value in apart[:1]:
            problem = f"{role} takes other elements: {text}".lstrip()
            fix = "Correct the annotation, or put map(...) before it"
            self._add(term, Wrong("P01", problem, shown_type(wanted), shown_type(value), fix))
        return sign

    def _check_given_type(self, term: Term, gives: Any) -> None:
        if gives is not None and not is_type(gives):
            problem, expected = "needs the type of what it gives", "a type, as in gives=tuple[str, int]"
            self._add(term, Wrong("P11", problem, expected, repr(gives), "Write the type itself"))


def _no_operator(of: str, operator: Operator, fix: str) -> Wrong:
    return Wrong("P10", "takes no such operator", f"an operator of {of}", operator.label, fix)


def _start_mistake(operator: Combine) -> str | None:
    """Return how joining the start of a fold with itself changes it; None if it does not."""
    start = operator.start
    try:
        joined = operator.join(deepcopy(start), deepcopy(start))
    except RAISED as error:
        if is_ours(error):
            raise
        return f"join({start!r}, {start!r}) raises {error!r}"
    same: Any = joined == start
    is_same = same.all() if hasattr(same, "all") else same  # of arrays, element by element
    return None if is_same else f"join({start!r}, {start!r}) == {joined!r}"


def _taken(operator: Operator) -> Any:
    """Return the type of the elements that an operator takes."""
    if isinstance(operator, Combine) and operator.fold is not None:
        return (*signature_of(operator.fold).takes, Any, Any)[1]
    function = getattr(operator, "function", None) or getattr(operator, "join", None)
    return (*signature_of(function).takes, Any)[0]


def _apart(left: Any, right: Any) -> str | None:
    return difference_of(right, left) if difference_of(left, right) else None


def _title(term: Term) -> str:
    return term.operator.label if isinstance(term, (New, Pair)) else type(term).__name__.lower()


def _name(function: Any) -> str:
    return getattr(function, "__name__", "<lambda>")
