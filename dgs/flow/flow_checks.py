"""The checker: the type of every edge of a flow and all mistakes, found in one pass over the graph.

>>> from dgs.flow.building import Builder
>>> from dgs.flow.templates import KeyedOrdered
>>> builder = Builder("clicks", None)
>>> edge = builder.source("events").key_by("user").key_by("page").apply(KeyedOrdered())
>>> [mistake.code for mistake in checked(builder.finished(edge)).mistakes]
['F01', 'F02']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from dgs.flow import steps
from dgs.flow.clock import Every, On, ticks_of
from dgs.flow.demands import Demands, Fact
from dgs.flow.edge_types import UNIT, EdgeType, Signature, is_no_record, is_sequence
from dgs.flow.flow_graph import End, Graph, Node
from dgs.flow.mistakes import Mistake
from dgs.flow.panes import TimeWindow
from dgs.flow.templates import KeyedOrdered, KeyedUnordered, Stateless


@dataclass(frozen=True, slots=True)
class Checked:
    """A graph with the facts of its edges, and its mistakes in the order of the steps."""

    graph: Graph
    facts: Mapping[Node, Fact]
    mistakes: Sequence[Mistake]

    @property
    def types(self) -> dict[Node, EdgeType]:
        """The type of each node's edge."""
        return {node: fact.type for node, fact in self.facts.items()}


def checked(graph: Graph, *, noticed: Sequence[Mistake] = (), is_whole: bool = True) -> Checked:
    """Return the facts and the mistakes of a graph; `noticed`: mistakes found while it was built. `is_whole`: it was completely built."""
    checker = _Checker(graph)
    checker.check_clock()
    for node in graph.nodes:
        checker.facts[node] = checker.fact_of(node)
    if is_whole:
        checker.check_ends()
    return Checked(graph, checker.facts, [*noticed, *checker.mistakes])


class _Checker(Demands):
    """The pass: one method for each kind of step, which returns the fact of its edge."""

    def check_clock(self) -> None:
        """Check the clock: its type, its period, and that its stream is a parameter; and the fate of the last block."""
        clock = self.graph.clock
        streams = [node.step.stream for node in self.graph.sources if isinstance(node.step, steps.Source)]
        if not isinstance(clock, (Every, On, type(None))):
            self.add("F01", None, "its clock= is no clock", expected="every(...), on(...) or nothing", found=repr(clock),
                     fix=f"Give clock=every({clock!r})" if ticks_of(clock) else 'Give clock=every("1s"), or leave it out')  # fmt: skip
        if isinstance(clock, Every) and clock.ticks < 1:
            self.add(
                "W01", None, "the clock's period is no length of time",
                expected='a number of at least 1 or a text such as "500ms", "10s", "1h"', found=repr(clock.period),
                fix="Give every(...) such a period",
            )  # fmt: skip
        for name in ("origin", "start") if isinstance(clock, Every) else ():
            given = getattr(clock, name)
            if type(given) is not int and (given is not None or name == "origin"):
                self.add("W01", None, f"the clock's {name} is no timestamp", expected="an integer in the unit of ts",
                         found=repr(given), fix=f"Give every(..., {name}=) a ts, such as that of the first block")  # fmt: skip
        if self.graph.end not in get_args(End):
            self.add("F01", None, f"does not know end={self.graph.end!r}", expected="'close' or 'drop'",
                     fix="Give one of these, or leave end= out")  # fmt: skip
        if isinstance(clock, On) and clock.stream not in streams:
            self.add(
                "F12", None, f"the clock is on stream {clock.stream!r}, which is no parameter",
                expected=f"one of {', '.join(streams)}", fix="Name a parameter of the flow",
            )  # fmt: skip

    def check_ends(self) -> None:
        """Check that every stream and every step leads to the result."""
        if self.graph.result is None:
            self.add(
                "F12",
                None,
                "gives no edge: it has no outputs",
                expected="an edge",
                found=self.graph.returned,
                fix="Return the edge whose values are the outputs",
            )
            return
        reached, clock = self.graph.reached(), self.graph.clock
        for node in self.graph.nodes:
            is_marker = isinstance(clock, On) and node.step == steps.Source(
                clock.stream, getattr(node.step, "value", Any)
            )
            if is_marker and any(self.graph.readers(node)):
                self.add(
                    "F01",
                    node,
                    "carries the markers of the clock, no items",
                    fix="Use another stream, or another clock",
                )
            elif node not in reached and not is_marker and not any(self.graph.readers(node)):
                more = (
                    ", or put it behind `*` if it is no stream" if isinstance(node.step, steps.Source) else ""
                )
                self.add("F12", node, "is not used", fix=f"Use what it gives, or remove it{more}")

    def fact_of(self, node: Node) -> Fact:
        """Return the fact of a node's edge, and add the node's mistakes."""
        step = node.step
        if isinstance(step, steps.Source):
            return Fact(EdgeType("O", UNIT, step.value, is_placed=True), sources=frozenset([node]))
        if isinstance(step, steps.Wrong):
            self.add("F01", node, step.problem, expected=step.expected, found=step.found, fix=step.fix)
            return Fact(EdgeType("O", Any, Any, is_placed=True))
        if isinstance(step, steps.Merge):
            return self._merge(node)
        fact = self.facts[node.inputs[0]]
        self.check_options(node)
        self.check_window(node, fact)
        rules: dict[type[steps.Step], Callable[[Node, Any, Fact], Fact]] = {
            steps.Lookup: self._record_step,
            steps.FilterBy: self._record_step,
            steps.Project: self._project,
            steps.KeyBy: self._key_by,
            steps.Pairs: self._pairs,
            steps.Sort: self._sort,
            steps.Aggregate: self._aggregate,
            steps.Fold: self._fold,
            steps.Block: self._block,
            steps.Join: self._join,
            steps.Apply: self._apply,
            steps.Into: self._into,
        }
        return rules.get(type(step), self._keeping)(node, step, fact)

    def _keeping(self, node: Node, step: Any, fact: Fact) -> Fact:
        """Handle the steps on single values, which keep key and order."""
        arity = 3 if isinstance(step, steps.Each) else 2
        sign = self.function(node, step.function, arity, fact)
        if isinstance(step, steps.Filter):
            return fact
        value = sign.item if isinstance(step, steps.FlatMap) else sign.gives
        return self._with_value(fact, step.gives if step.gives is not None else value)

    def _record_step(self, node: Node, step: Any, fact: Fact) -> Fact:
        name = step.field if isinstance(step, steps.FilterBy) else step.key
        self.field(node, name, fact.type.value)
        if isinstance(step, steps.FilterBy):
            return fact
        if not isinstance(step.table, Mapping):
            self.add("F01", node, "needs a table", expected="a Table or a mapping", found=type(step.table).__name__,
                     fix="Give Table.json(path) or Table({...})")  # fmt: skip
        return self._with_value(fact, Any)

    def _project(self, node: Node, step: steps.Project, fact: Fact) -> Fact:
        for name in step.fields:
            self.field(node, name, fact.type.value)
        return self._with_value(fact, Any)

    def _key_by(self, node: Node, step: steps.KeyBy, fact: Fact) -> Fact:
        before, constant = fact.type, None
        key: Any
        if not isinstance(step.by, tuple):
            key = self.function(node, step.by, 2, fact).gives
        elif (
            len(step.by) == 1
            and isinstance(step.by[0], str)
            and (is_no_record(before.value) or is_sequence(before.value))
        ):
            constant, key = step.by[0], str
        else:
            fields: Any = tuple(self.field(node, name, before.value) for name in step.by)
            key = (
                fields[0] if len(fields) == 1 else (Any if Any in fields else tuple.__class_getitem__(fields))
            )
        stays = before.order == "O" and before.key == UNIT
        kind = EdgeType(
            "O" if stays else "U",
            step.gives if step.gives is not None else key,
            before.value,
            stays and before.is_placed,
        )
        return self._reordered(node, replace(fact, type=kind, constant=constant))

    def _pairs(self, node: Node, step: steps.Pairs, fact: Fact) -> Fact:
        sign = self.function(node, step.function, 2, fact)
        key, value = sign.pair if step.gives is None else signature_pair(step.gives)
        return self._reordered(node, replace(fact, type=EdgeType("U", key, value), constant=None))

    def _sort(self, node: Node, step: steps.Sort, fact: Fact) -> Fact:
        if step.ties == "arrival" and fact.type.order == "U":
            since = self.since(fact)
            self.add("F08", node, "asks for the order of arrival, which an unordered edge does not have",
                     expected=str(replace(fact.type, order="O")), found=f"{fact.type}{since}",
                     fix='Sort with ties="value", or by a field that has no ties')  # fmt: skip
        if callable(step.by):
            self.function(node, step.by, 2, fact)
        else:
            self.field(node, step.by, fact.type.value)
        kind = replace(fact.type, order="O", is_placed=False)
        return replace(fact, type=kind, unordered_since=None, sort=node, lost=None)

    def _aggregate(self, node: Node, step: steps.Aggregate, fact: Fact) -> Fact:
        self.check_monoid(node, step.monoid)
        self.check_parts(node, step.accept_parts or step.over == "history", fact)
        slide = fact.slide
        if isinstance(step.over, TimeWindow) and step.over.slide is not None:
            slide = ticks_of(step.over.slide)
        return Fact(EdgeType("O", fact.type.key, Any), constant=fact.constant, slide=slide)

    def _fold(self, node: Node, step: steps.Fold, fact: Fact) -> Fact:
        self.needs_order(node, fact)
        self.function(node, step.function, 2, fact, of=("state", "value"))
        kind = EdgeType("O", fact.type.key, step.gives if step.gives is not None else Any)
        return Fact(kind, constant=fact.constant, slide=fact.slide)

    def _block(self, node: Node, step: Any, fact: Fact) -> Fact:
        self.check_parts(node, step.accept_parts, fact)
        sign = self.function(node, step.function, 3, fact, of=("key", "items", "at"))
        kind = EdgeType("U", fact.type.key, step.gives if step.gives is not None else sign.item)
        return Fact(kind, unordered_since=node, constant=fact.constant, slide=fact.slide)

    def _join(self, node: Node, step: steps.Join, fact: Fact) -> Fact:
        other = self.facts[node.inputs[1]]
        left, right = fact.type.key, other.type.key
        if (left == ()) != (right == ()):
            self.add("F03", node, "pairs the items of one key, and one of its edges has no keys", expected="keys on both edges",
                found=f"{fact.type} and {other.type}", fix="Give both edges the key to pair by with .key_by(...)")  # fmt: skip
        else:
            self.same(node, "F03", "keys of its two edges", left, right)
        for one in (fact, other):
            self.check_parts(node, step.accept_parts, one)
        if step.function is not None:
            self.function(node, step.function, 3, fact, of=("key", "left", "right"))
        kind = EdgeType("U", fact.type.key, step.gives if step.gives is not None else Any)
        return Fact(kind, unordered_since=node, slide=_common_slide([fact, other]))

    def _merge(self, node: Node) -> Fact:
        facts = [self.facts[one] for one in node.inputs]
        first = facts[0].type
        for fact in facts[1:]:
            self.same(node, "F03", "keys of the merged edges", first.key, fact.type.key)
            self.same(node, "F04", "values of the merged edges", first.value, fact.type.value)
        ordered = all(fact.type.order == "O" for fact in facts)
        sources = frozenset[Node]().union(*(fact.sources for fact in facts))
        # otherwise two items may have the same place
        is_apart = len(sources) == sum(len(fact.sources) for fact in facts)
        placed = ordered and is_apart and all(fact.type.is_placed for fact in facts)
        constants = [fact.constant for fact in facts]
        apart = None not in constants and len(set(constants)) == len(constants)
        value = first.value if all(fact.type.value == first.value for fact in facts) else Any
        key = first.key if all(fact.type.key == first.key for fact in facts) else Any
        kind = EdgeType("O" if placed or (ordered and apart) else "U", key, value, placed)
        lost = next((fact.lost for fact in facts if fact.lost), None)
        sort = next((fact.sort for fact in facts if fact.sort), None)
        fact = Fact(kind, None, sort, lost, None, _common_slide(facts), sources)
        since = next((fact.unordered_since for fact in facts if fact.unordered_since), node)
        return fact if kind.order == "O" else replace(fact, unordered_since=since)

    def _apply(self, node: Node, step: steps.Apply, fact: Fact) -> Fact:
        template = step.template
        if not isinstance(template, (Stateless, KeyedOrdered, KeyedUnordered)):
            self.add("F01", node, "needs a template", expected="Stateless, KeyedOrdered or KeyedUnordered, as an object",
                     found=repr(template), fix="Give an object of a subclass of one of them")  # fmt: skip
            return fact
        self.check_template(node, template, fact)
        if isinstance(template, KeyedOrdered):
            self.needs_order(node, fact)
            kind = EdgeType("O", fact.type.key, template.gives)
            if step.keeps or fact.sort is None:
                return replace(fact, type=kind, unordered_since=None)
            return replace(fact, type=kind, unordered_since=None, lost=node)
        kind = EdgeType("U", template.gives_key, template.gives)
        if isinstance(template, Stateless):
            return self._reordered(node, replace(fact, type=kind, constant=None))
        self.check_parts(node, step.keeps, fact)
        return Fact(kind, unordered_since=node, slide=fact.slide)

    def _into(self, node: Node, step: steps.Into, fact: Fact) -> Fact:
        from dgs.model.program import Program

        if any(self.graph.readers(node)):
            self.add(
                "F01", node, "must be the last step: its outputs have no key", fix="Return what it gives"
            )
        if not isinstance(step.program, Program):
            self.add("F01", node, "needs a program", expected="an object of a subclass of dgs.Program",
                     found=repr(step.program), fix="Give such an object")  # fmt: skip
        elif not fact.type.is_placed and (step.program.dependence.is_total or step.program.dependence.rules):
            self.add("F02", node, "has events that depend on each other, and the items have lost their places in the total order",
                     expected="steps on single items of streams, and key_by", found=f"{fact.type} of {node.inputs[0].title}",
                     fix="Give the items to the program before a step that sorts, keeps something or makes pairs")  # fmt: skip
        for function in [step.tag] if step.payload is None else [step.tag, step.payload]:
            self.function(node, function, 2, fact)
        return Fact(EdgeType("U", UNIT, Any), unordered_since=node)

    def _reordered(self, node: Node, fact: Fact) -> Fact:
        if fact.type.order == "O":
            return replace(fact, unordered_since=None)
        return replace(fact, unordered_since=fact.unordered_since or node)

    def _with_value(self, fact: Fact, value: Any) -> Fact:
        return replace(fact, type=replace(fact.type, value=value))


def _common_slide(facts: Sequence[Fact]) -> int | None:
    """Return the least multiple of the slides of several edges, None if none has one."""
    slides = [fact.slide for fact in facts if fact.slide]
    return math.lcm(*slides) if slides else None


def signature_pair(kind: Any) -> tuple[Any, Any]:
    """Return the types of key and value of a type of pairs."""
    return Signature(gives=kind).pair
