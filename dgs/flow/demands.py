"""Demands of steps on their input: an order, types of keys and values, fields, windows that fit the clock.

A broken demand becomes a mistake with its place, what was expected, what was found, and a fix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dgs.errors.raised import RAISED, function_of, is_ours
from dgs.flow import steps
from dgs.flow.clock import Every, shown, ticks_of
from dgs.flow.edge_types import (
    EdgeType,
    Signature,
    difference_of,
    field_of_type,
    fits,
    gives_instead,
    is_no_record,
    is_type,
    misfits,
    shown_type,
    signature_of,
)
from dgs.flow.flow_graph import Graph, Node
from dgs.flow.mistakes import Mistake
from dgs.flow.panes import CountWindow, TimeWindow
from dgs.flow.templates import KeyedOrdered, KeyedUnordered, Stateless, Template, overrides


@dataclass(frozen=True, slots=True)
class Fact:
    """The facts about an edge. `unordered_since`: the node that lost the order; `sort`: the last sort, whose order the node `lost` has lost.

    `constant`: the one key of all items, if it is known. `slide`: the time between its items, after a window. `sources`: the streams
    that placed items come from.
    """

    type: EdgeType
    unordered_since: Node | None = None
    sort: Node | None = None
    lost: Node | None = None
    constant: str | None = None
    slide: int | None = None
    sources: frozenset[Node] = frozenset()


class Demands:
    """Checks demands of the nodes of a graph; `facts` and `mistakes` are those so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.facts: dict[Node, Fact] = {}
        self.mistakes: list[Mistake] = []

    def add(
        self,
        code: str,
        node: Node | None,
        problem: str,
        *,
        expected: str = "",
        found: str = "",
        fix: str = "",
    ) -> None:
        """Add a mistake at a node, or at the flow as a whole."""
        if node is None:
            where, place = (
                f"flow {self.graph.name!r}",
                next((str(one.place) for one in self.graph.sources if one.place), ""),
            )
            self.mistakes.append(Mistake(code, where, problem, place, expected, found, fix))
            return
        drawing = self.graph.drawn(node)
        self.mistakes.append(
            Mistake(code, node.title, problem, str(node.place or ""), expected, found, fix, drawing)
        )

    def check_options(self, node: Node) -> None:
        """Check the arguments of a step that are not functions: words of a choice, fields, and the kind of its window."""
        step = node.step
        over = getattr(step, "over", None)
        for holder in (step, over) if isinstance(over, (TimeWindow, CountWindow)) else (step,):
            for name, expected in misfits(holder):
                self.add("F01", node, f"does not know {name}={getattr(holder, name)!r}", expected=expected,
                         fix=f"Give one of these, or leave {name}= out")  # fmt: skip
        if (gives := getattr(step, "gives", None)) is not None and not is_type(gives):
            self.add("F01", node, "its gives= is no type", expected="a type, as in gives=tuple[str, int]", found=repr(gives),
                     fix="Write the type itself, or leave gives= out")  # fmt: skip
        form, arity = getattr(step, "columns", None), 3 if isinstance(step, steps.Each) else 2
        sign = signature_of(form) if callable(form) else Signature(least=0, most=-1)
        if form is not None and sign.least is not None and not sign.least <= arity <= sign.most:
            found = f"a function of {sign.count}" if callable(form) else repr(form)
            self.add("F01", node, "gets a columns= that does not fit", found=found, expected=f"a function of {arity} arguments",
                     fix="Give it the parameters of the function; it gets columns of them")  # fmt: skip
        by = getattr(step, "by", "")
        if by is None or by in ((), (None,)):
            self.add("F01", node, "needs a field or a function", expected="names of fields, or a function of (key, value)",
                     found="none", fix=f"Write .{step.name}(lambda key, value: ...)")  # fmt: skip
        elif wrong := [one for one in fields_named(step) if not is_field(one)]:
            self.add("F01", node, "gets what is no name of a field", expected="a text, or the number of an entry of a tuple",
                     found="a function" if callable(wrong[0]) else repr(wrong[0]), fix="Name fields one by one" + (", or give one function of (key, value)" if hasattr(step, "by") else ""))  # fmt: skip
        for name in ("values", "fields"):
            if getattr(step, name, None) == ():
                self.add("F01", node, f"gets no {name}", fix=f"Name the {name} to keep")
        kinds: Any = {steps.Aggregate: TimeWindow, steps.Fold: CountWindow}.get(type(step), object)
        if over not in (None, "history") and not isinstance(over, kinds):
            right = "sliding(...), tumbling(...)" if kinds is TimeWindow else "count(...)"
            self.add("W01", node, "its over= is no window that it can take", expected=f'{right}, "history" or nothing',
                     found=repr(over), fix="A fold takes windows by count, an aggregate takes windows of time")  # fmt: skip

    def check_window(self, node: Node, fact: Fact) -> None:
        """Check a window: its lengths, its clock, and the windows before it."""
        over, clock = getattr(node.step, "over", None), self.graph.clock
        if isinstance(over, CountWindow):
            self._check_lengths(node, over.size, over.slide, over)
        if not isinstance(over, TimeWindow) or not isinstance(node.step, steps.Aggregate):
            return
        size = ticks_of(over.size)
        period = clock.ticks if isinstance(clock, Every) else 0
        slide = (period or size) if over.slide is None else ticks_of(over.slide)
        is_window = self._check_lengths(node, size, slide, over)
        if not isinstance(clock, Every):
            self.add("F07", node, "a window of time needs a clock of equal blocks", expected="clock=every(...)",
                     found=str(clock or "no clock"), fix="Give the flow clock=every(...)")  # fmt: skip
        elif period and is_window:
            self._check_multiples(node, fact, clock, [length for length in (size, slide) if length])

    def _check_lengths(self, node: Node, size: int | None, slide: int | None, over: Any) -> bool:
        if type(size) is not int or type(slide) is not int or size < 1 or slide < 1:
            self.add("W01", node, "size and slide of a window are lengths of at least 1",
                     found=f"size {over.size!r}, slide {over.slide!r}", fix="Give positive lengths")  # fmt: skip
            return False
        if slide > size and not over.allow_gaps:
            self.add("W02", node, "the window's slide is longer than its size: items between two windows are in none",
                     found=f"size {over.size!r}, slide {over.slide!r}", fix="Give a slide of at most the size, or allow_gaps=True")  # fmt: skip
        return True

    def _check_multiples(self, node: Node, fact: Fact, clock: Every, lengths: Sequence[int]) -> None:
        if odd := next((length for length in lengths if length % clock.ticks), None):
            below = odd // clock.ticks * clock.ticks
            near = f"{shown(below, clock.period)} or " if below else ""
            self.add("F07", node, f"window of {shown(odd, clock.period)} is no multiple of the clock's {shown(clock.ticks, clock.period)}",
                     fix=f"Take {near}{shown(below + clock.ticks, clock.period)}, or a clock whose period divides it")  # fmt: skip
        elif fact.slide and any(length % fact.slide for length in lengths):
            self.add("W03", node, "the window is not aligned with the windows that it gets",
                     expected=f"a multiple of {shown(fact.slide, clock.period)}", found=shown(lengths[0], clock.period),
                     fix="Take a size and a slide that are multiples of the slide before")  # fmt: skip

    def _check_identity(self, node: Node, template: KeyedUnordered) -> None:
        """Check the effect of a block without items on the first state: it must not raise or give NaN, and with `skip` it must change nothing."""
        try:
            start = template.initial_state()
            after = template.update_state(
                template.initial_state(), template.monoid.result(template.monoid.identity())
            )
        except RAISED as error:
            if is_ours(error):
                raise
            called = function_of(error) or "update_state"
            self.add("F20", node, f"{called} raises {type(error).__name__} for a block without items: {error}",
                     fix="Return the state as it is when there is nothing to add")  # fmt: skip
            return
        if has_nan(after):
            self.add("F20", node, "update_state gives NaN for a block without items, and every later state of the key too",
                     expected=repr(start), found=repr(after), fix="Return the state as it is when there is nothing to add")  # fmt: skip
        elif template.idle == "skip" and repr(after) != repr(start):
            self.add("F23", node, 'has idle="skip", and a block without items changes the state',
                     expected=repr(start), found=repr(after), fix='Say idle = "all", or return the state as it is')  # fmt: skip

    def check_parts(self, node: Node, accepts: bool, fact: Fact) -> None:
        """Check that the order was not lost by which no item is older than its block, unless parts are accepted."""
        if fact.lost is not None and fact.sort is not None and not accepts:
            by = getattr(fact.sort.step, "by", None)
            named = "its key" if callable(by) else repr(by)
            self.add("F09", node, f"needs its items sorted by {named}, which {fact.lost.title} loses: it may emit items older than their block",
                     found=f"sorted in {fact.sort.title} ({fact.sort.place}), lost in {fact.lost.title} ({fact.lost.place})",
                     fix="Give it accept_parts=True if an item may come in two blocks, or apply(..., keeps=True) if none is older than its block")  # fmt: skip

    def check_template(self, node: Node, template: Template, fact: Fact) -> None:
        """Check the types a template takes, whether it owns the values it changes, and whether ticks are exact for its snapshots."""
        for name in ("gives", "gives_key", "takes_key", "takes_value"):
            if not is_type(given := getattr(template, name)):
                self.add("F01", node, f"its {name} is no type", expected=f"a type, as in {name} = tuple[str, int]", found=repr(given),
                         fix=f"Write the type itself, or leave {name} out")  # fmt: skip
                return
        if type(template.changes_values) is not bool:
            self.add("F01", node, f"does not know changes_values = {template.changes_values!r}", expected="True or False",
                     fix="Say one of these, or leave changes_values out")  # fmt: skip
        for code, part, found, expected in (
            ("F03", "key", fact.type.key, template.takes_key),
            ("F04", "value", fact.type.value, template.takes_value),
        ):
            if text := difference_of(found, expected):
                self.add(code, node, f"takes other {part}s: {text}", expected=shown_type(expected), found=shown_type(found),
                         fix=f"Give it items with such {part}s, or correct `takes_{part}` of {type(template).__name__}")  # fmt: skip
        readers = len(list(self.graph.readers(node.inputs[0])))
        if template.changes_values and readers > 1:
            self.add("F05", node, "changes the values it gets, and another step gets them too",
                     found=f"{readers} steps read {node.inputs[0].title}",
                     fix="Copy the values in a .map(...) before it, or let it make new ones and say changes_values = False")  # fmt: skip
        if self._check_methods(node, template) and isinstance(template, KeyedUnordered):
            self._check_identity(node, template)
        is_unordered = isinstance(template, KeyedUnordered)
        clock = self.graph.clock
        if is_unordered and overrides(template, "on_item") and clock is not None and not clock.is_exact:
            self.add("F13", node, "has an on_item that reads the state of the last marker, and ticks are not exact",
                     expected="a tick at the end of every block", found=f"clock {clock}",
                     fix="Give the clock every(..., start=) or on(stream)")  # fmt: skip

    def _check_methods(self, node: Node, template: Template) -> bool:
        """Check that a template has the methods that it needs, with their parameters; return whether it does."""
        before = len(self.mistakes)
        base = next(one for one in METHODS if isinstance(template, one))
        for name, parameters in METHODS[base].items():
            text = f"def {name}(self, {parameters})"
            sign = signature_of(getattr(template, name))
            needed = parameters.count(",") + 1
            if name == REQUIRED[base] and not overrides(template, name):
                self.add(
                    "F01",
                    node,
                    f"has no {name}",
                    expected=text,
                    fix=f"Write {name} in class {type(template).__name__}",
                )
            elif sign.least is not None and not sign.least <= needed <= sign.most:
                self.add("F01", node, f"its {name} does not fit", expected=text, found=f"a method of {sign.count}",
                         fix="Give it these parameters")  # fmt: skip
            elif what := gives_instead(getattr(template, name)):
                self.add("F01", node, f"its {name} does nothing when it is called", expected=text, found=f"a method that gives {what}",
                         fix="Write it with `def`, and call `emit(...)` in place of `yield`" if "emit" in parameters else "Write it with `def` and `return`")  # fmt: skip
        if isinstance(template, KeyedUnordered):
            self.check_monoid(node, template.monoid)
            if not fits(template.idle, steps.Idle):
                self.add(
                    "F01",
                    node,
                    f"does not know idle = {template.idle!r}",
                    expected="'skip' or 'all'",
                    fix="Say one of these",
                )
        return len(self.mistakes) == before

    def check_monoid(self, node: Node, monoid: Any) -> None:
        """Check that a step has a monoid object."""
        methods = ("identity", "lift", "join", "result")
        missing = [name for name in methods if not callable(getattr(monoid, name, None))]
        if missing or isinstance(monoid, type):
            found = (
                f"the class {monoid.__name__}"
                if isinstance(monoid, type)
                else f"{type(monoid).__name__} without {', '.join(missing)}"
            )
            self.add("F01", node, "needs a monoid", expected="identity, lift, join and result", found=found,
                     fix="Take one of dgs.monoids")  # fmt: skip

    def needs_order(self, node: Node, fact: Fact) -> None:
        """Check that the input has the values of a key in order."""
        if fact.type.order == "O":
            return
        since = fact.unordered_since
        expected, found = str(replace(fact.type, order="O")), f"{fact.type}{self.since(fact)}"
        if since is not None and isinstance(since.step, steps.Merge):
            self.add("F11", node, "needs the values of a key in order, and the merged edges may share keys", expected=expected,
                     found=found, fix="Merge before the first step that keeps state, or put .sort(by=...) before it")  # fmt: skip
            return
        self.add("F02", node, "needs the values of a key in order", expected=expected, found=found,
                 fix="Put .sort(by=...) before it")  # fmt: skip

    def since(self, fact: Fact) -> str:
        """Return the place where an edge lost its order, as the end of a sentence."""
        since = fact.unordered_since
        return f", unordered since {since.title} ({since.place})" if since is not None else ""

    def same(self, node: Node, code: str, what: str, left: Any, right: Any) -> None:
        """Check that two types are one."""
        text = difference_of(right, left) if difference_of(left, right) else None
        if text:
            fix = (
                "Give them one type with .key_by(...)"
                if code == "F03"
                else "Give them one type with .map(...)"
            )
            self.add(
                code,
                node,
                f"the {what} differ: {text}",
                expected=shown_type(left),
                found=shown_type(right),
                fix=fix,
            )

    def field(self, node: Node, name: Any, value: Any) -> Any:
        """Return the type of a field of the values; add a mistake if they have no such field."""
        if not is_field(name):  # `check_options` reports it
            return Any
        kind, known = field_of_type(value, name)
        if known is not None:
            fix = "Use a function of (key, value), or correct the type of the values"
            self.add("F04", node, f"the values have no field {name!r}", expected=known, found=shown_type(value),
                     fix=fix if is_no_record(value) else "Correct the name of the field")  # fmt: skip
        return kind

    def function(
        self, node: Node, function: Any, arity: int, fact: Fact, of: tuple[str, ...] = ("key", "value", "at")
    ) -> Signature:
        """Return a function's signature; add a mistake if it does not take its arguments."""
        sign = signature_of(function)
        names = of[:arity]
        if not callable(function) or (sign.least is not None and not sign.least <= arity <= sign.most):
            found = f"a function of {sign.count}" if callable(function) else repr(function)
            self.add("F01", node, "gets a function that does not fit", expected=f"a function of ({', '.join(names)})",
                     found=found, fix=f"Write it as `lambda {', '.join(names)}: ...`")  # fmt: skip
            return Signature()
        if (what := gives_instead(function)) and not (what == "a generator" and isinstance(node.step, MANY)):
            self.add("F01", node, "its function does nothing when it is called", expected="a function that returns its result",
                     found=f"one that gives {what}", fix="Write it with `def` and `return`")  # fmt: skip
        for code, name, found_type in (("F03", "key", fact.type.key), ("F04", "value", fact.type.value)):
            wanted = (
                sign.takes[names.index(name)]
                if name in names and names.index(name) < len(sign.takes)
                else Any
            )
            if name in names and (text := difference_of(found_type, wanted)):
                self.add(code, node, f"its function takes another {name}: {text}", expected=shown_type(wanted),
                         found=shown_type(found_type), fix=f"Correct the annotation, or give the step such {name}s")  # fmt: skip
        return sign


MANY = (steps.FlatMap, steps.Block)
"""The steps whose functions return several values, and so may yield them."""

METHODS: dict[type[Template], dict[str, str]] = {
    Stateless: {"on_item": "key, value, emit"},
    KeyedOrdered: {
        "on_item": "state, key, value, emit",
        "on_marker": "state, key, at, emit",
        "on_end": "state, key, emit",
    },
    KeyedUnordered: {
        "update_state": "state, found",
        "on_item": "state, key, value, emit",
        "on_marker": "state, key, at, emit",
        "lift": "key, value",
    },
}
"""The parameters of the methods of templates."""

REQUIRED = {Stateless: "on_item", KeyedOrdered: "on_item", KeyedUnordered: "update_state"}
"""The method that each template needs."""


def fields_named(step: Any) -> list[Any]:
    """Return the arguments of a step that are names of fields."""
    match step:
        case steps.Lookup(_, key, into):
            return [key, into]
        case steps.FilterBy(field):
            return [field]
        case steps.Project(fields):
            return list(fields)
        case steps.KeyBy(by) if isinstance(by, tuple):
            return list(by)
        case steps.Sort(by) if not callable(by):
            return [by]
    return []


def is_field(name: Any) -> bool:
    """Return whether a value may name a field.

    >>> is_field("ad"), is_field(0), is_field(["ad", "user"]), is_field(3.5), is_field(True), is_field(len)
    (True, True, False, False, False, False)
    """
    return isinstance(name, (str, int, bytes)) and not isinstance(name, bool)


def has_nan(value: Any) -> bool:
    """Return whether a value, or a part of it, is NaN.

    >>> has_nan((1, [float("nan")])), has_nan({"a": 0.0})
    (True, False)
    """
    if isinstance(value, dict):
        return any(map(has_nan, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_nan, value))
    return isinstance(value, float) and math.isnan(value)
