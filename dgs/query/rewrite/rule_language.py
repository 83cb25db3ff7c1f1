"""The language of rules: the nodes that a rule applies to, its conditions, and the function that rewrites.

>>> rules = Rules("mine")
>>> @rules.to_replace(Union).when(lambda node: len(node.parts) == 1)
... def union_of_one(node):
...     return node.parts[0]
>>> [rule.title for rule in rules]
['mine.union_of_one']

A rule that merges has a parent and a child, and applies if the child has no other reader. A rule that replaces has one node, or with
`Script` all outputs. The function returns the new node, or None if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from dgs.query.functions import name_of
from dgs.query.relation import Group, Map, Relation, Source, Union  # noqa: F401 - Union: for the example above
from dgs.query.rewrite.shared_graph import SharedGraph
from dgs.query.scalar import Scalar, column

Condition = Callable[..., Any]
"""A condition of a rule. It gets the same arguments as the rule's function."""
Kind = type[Any] | tuple[type[Any], ...]

PHASES = ("normal", "push", "combine", "windows", "user", "spark")
"""The phases of rewriting, in their order. Rules of users are in `user` unless they name another phase; `spark` is for `--on spark`."""

_graph: ContextVar[SharedGraph] = ContextVar("_graph")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `kind` is the class of nodes that it applies to. With `child` it merges an input of that class into its reader."""

    name: str
    rules: str
    kind: Kind
    child: Kind | None
    condition: Condition
    function: Callable[..., Any]

    @property
    def title(self) -> str:
        """The name of the rule, after that of its `Rules`."""
        return f"{self.rules}.{self.name}"

    def applied(self, node: Any, graph: SharedGraph) -> Any:
        """Return the new node in place of a node, or None. Raises what the rule's functions raise."""
        if not isinstance(node, self.kind):
            return None
        if self.child is None:
            return self.function(node) if self.condition(node) else None
        for one in node.inputs:
            if isinstance(one, self.child) and len(graph.readers(one)) == 1 and self.condition(node, one):
                found = self.function(node, one)
                if found is not None:
                    return found
        return None


def always(*_: Any) -> bool:
    """Hold for every node."""
    return True


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule without its function. As a decorator, or by `apply_pattern`, it takes one and adds the rule.

    Conditions are combined from left to right: `when(a).unless(b).or_(c)` means `(a and not b) or c`.
    """

    _rules: Rules
    _kind: Kind
    _child: Kind | None = None
    _condition: Condition = always

    def when(self, condition: Condition) -> Draft:
        """Apply only if a condition holds."""
        before = self._condition
        return replace(self, _condition=lambda *nodes: before(*nodes) and condition(*nodes))

    def unless(self, condition: Condition) -> Draft:
        """Apply only if a condition does not hold."""
        return self.when(lambda *nodes: not condition(*nodes))

    def when_matches(self, extractor: Condition) -> Draft:
        """Apply only if an extractor finds something: it returns neither None nor False."""
        return self.when(_matches(extractor))

    def unless_matches(self, extractor: Condition) -> Draft:
        """Apply only if an extractor finds nothing."""
        return self.unless(_matches(extractor))

    def and_(self, condition: Condition) -> Draft:
        """Apply only if a condition also holds."""
        return self.when(condition)

    def or_(self, condition: Condition) -> Draft:
        """Apply also if another condition holds."""
        before = self._condition
        return replace(self, _condition=lambda *nodes: before(*nodes) or condition(*nodes))

    def apply_pattern(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Add the rule that rewrites by a function, and return the function."""
        name = getattr(function, "__name__", type(function).__name__)
        rules = self._rules
        rules.all.append(Rule(name, rules.name, self._kind, self._child, self._condition, function))
        return function

    __call__ = apply_pattern


def _matches(extractor: Condition) -> Condition:
    def condition(*nodes: Any) -> bool:
        found = extractor(*nodes)
        return found is not None and found is not False

    return condition


@dataclass(slots=True)
class Rules:
    """Rules under a name, in the order in which they are tried. `phase`, one of `PHASES`: when they are."""

    name: str
    phase: str = "user"
    all: list[Rule] = field(default_factory=list)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.all)

    def to_replace(self, kind: Kind) -> Draft:
        """Begin a rule for nodes of a class: its function gets the node. With `Script` it gets the whole script."""
        return Draft(self, kind)

    def to_merge(self, parent: Kind, child: Kind) -> Draft:
        """Begin a rule for a node and an input that only it reads: its function gets both."""
        return Draft(self, parent, child)

    def when(self, condition: Condition) -> Draft:
        """Begin a rule for all nodes for which a condition holds."""
        return Draft(self, Relation).when(condition)

    def unless(self, condition: Condition) -> Draft:
        """Begin a rule for all nodes for which a condition does not hold."""
        return Draft(self, Relation).unless(condition)

    def when_matches(self, extractor: Condition) -> Draft:
        """Begin a rule for all nodes in which an extractor finds something."""
        return Draft(self, Relation).when_matches(extractor)

    def unless_matches(self, extractor: Condition) -> Draft:
        """Begin a rule for all nodes in which an extractor finds nothing."""
        return Draft(self, Relation).unless_matches(extractor)


@contextmanager
def looking_at(graph: SharedGraph) -> Iterator[None]:
    """Let `succ` look at a graph."""
    token = _graph.set(graph)
    try:
        yield
    finally:
        _graph.reset(token)


def pred(node: Relation) -> tuple[Relation, ...]:
    """Return the nodes that a node reads."""
    return node.inputs


def succ(node: Relation) -> tuple[Relation, ...]:
    """Return the nodes that read a node, in the graph that is being rewritten. An output of the script is not a node."""
    return tuple(one for one in _graph.get().readers(node) if one is not None)


def is_shared(node: Relation) -> bool:
    """Return whether several nodes or outputs read a node, in the graph that is being rewritten."""
    return len(_graph.get().readers(node)) > 1


def calls(scalar: Scalar, name: str) -> bool:
    """Return whether a scalar calls a function, by its name."""
    return any(name_of(one) == name for one in parts_of(scalar))


def parts_of(scalar: Scalar) -> Iterator[Scalar]:
    """Yield a scalar and all its parts; of a query over a bag only the bag."""
    return (one for one in scalar.walk() if isinstance(one, Scalar))


def foreach_calls(name: str) -> Condition:
    """Return the extractor that finds a Map that calls a function: it returns the names of the fields that do."""

    def extractor(node: Any, *_: Any) -> Any:
        found = [field for field, one in node.fields if calls(one, name)] if isinstance(node, Map) else []
        return found or None

    return extractor


def scalars_of(node: Any) -> Iterator[Scalar]:
    """Yield the scalars of a node: fields, predicates, keys, arguments of aggregates. Those of its inputs are not among them."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, tuple):
        for one in node:
            yield from scalars_of(one)
    elif is_dataclass(node) and not isinstance(node, Source):
        for one in fields(node):
            value = getattr(node, one.name)
            if not isinstance(value, Relation) and not _are_relations(value):
                yield from scalars_of(value)


def _are_relations(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Relation)


class _Distinctness(type):
    def __instancecheck__(cls, node: object) -> bool:
        return isinstance(node, Group) and bool(node.keys) and not node.aggregates


class Distinct(metaclass=_Distinctness):
    """A Group without aggregates, for rules: as a class to match, and `Distinct(node)` makes the one over all columns."""

    def __new__(cls, node: Relation) -> Group:  # type: ignore[misc]
        """Return the different rows of a node."""
        return Group(node, tuple((name, column(name)) for name in node.schema.names))
