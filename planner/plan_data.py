"""The `plan:` section of plan.yaml as plain data: nested nodes, easy to read and write by hand.

A node is `{id, tags: {stream: tags}, state, node, forks, children}`, every field optional. Defaults: ids are numbered, forks are
balanced over the children in order, and with several state types the planner matches them.
`forks` is the name of one fork, used throughout, or a tree `{fork: NAME, left: CHILD, right: CHILD}`.

>>> from dgs.model.tags import kind
>>> class Sum(Program):
...     kinds = (kind("value"), kind("barrier"))
>>> plan = from_data({"tags": {"barriers": "barrier"}, "children": [{"tags": {"a": "value"}}, {"tags": {"b": "*"}}]}, Sum())
>>> [node.id for node in plan.nodes()], plan.root.children[0].tags
(['w0', 'w1', 'w2'], {a: {value}})
>>> to_data(plan, Sum())["children"]
[{'id': 'w1', 'tags': {'a': ['value']}}, {'id': 'w2', 'tags': {'b': '*'}}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dgs.errors import InvalidError
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.planner.optimizers.matching import match
from dgs.planner.plan import DEFAULT_FORK, ForkStep, Plan, PlanNode, balanced, rebuilt
from dgs.planner.tags_data import TagDataError, tags_from_data, tags_to_data

FIELDS = ("id", "tags", "state", "node", "forks", "children")


class PlanSectionError(InvalidError):
    """The `plan:` section is not readable. `node` is the id, or the path from the root, of the faulty node."""

    code = "DGS320"
    template = "plan, {node}: {problem}"
    fix = "A node is {{id, tags: {{STREAM: TAGS}}, state, node, forks, children}}"


def to_data(plan: Plan, program: Program | None = None, *, streams: Sequence[str] = ()) -> dict[str, Any]:
    """Return the plan as dictionaries, lists and scalars; `streams` gives the order in which a node lists its tags.

    With a program, parts that follow from it (whole kinds, its only state type, its only fork) are left out.
    """
    rank = {stream: i for i, stream in enumerate(streams)}
    data: dict[int, dict[str, Any]] = {}
    state, fork = _defaults(program)
    for node in reversed(list(plan.nodes())):
        made: dict[str, Any] = {"id": node.id}
        owned = sorted(node.tags.streams, key=lambda pair: (rank.get(pair[0], len(rank)), pair[0]))
        if owned:
            made["tags"] = {stream: tags_to_data(tags, program) for stream, tags in owned}
        if node.state_type != state:
            made["state"] = node.state_type
        if node.node is not None:
            made["node"] = node.node
        if node.fork_tree is not None and (
            fork is None or node.fork_tree != balanced(len(node.children), fork)
        ):
            made["forks"] = _forks_to_data(node)
        if node.children:
            made["children"] = [data.pop(id(child)) for child in node.children]
        data[id(node)] = made
    return data[id(plan.root)]


def _defaults(program: Program | None) -> tuple[str | None, str | None]:
    """Return the state type and the fork that the plan may leave out, None for each that it must name."""
    if program is None:
        return None, None
    types, forks = program.states(), program.fork_joins()
    return (types[0].name, forks[0].name if forks else DEFAULT_FORK) if len(types) == 1 else (None, None)


def _forks_to_data(node: PlanNode) -> Any:
    first = node.fork_tree.fork if node.fork_tree else DEFAULT_FORK
    if node.fork_tree == balanced(len(node.children), first):
        return first

    def show(side: int | ForkStep | None) -> Any:
        if isinstance(side, ForkStep):
            return {"fork": side.fork, "left": show(side.left), "right": show(side.right)}
        return node.children[side].id if side is not None and side < len(node.children) else side

    return show(node.fork_tree)


@dataclass(slots=True, eq=False)
class _Draft:
    """A node that is being read."""

    data: Mapping[str, Any]
    path: str
    id: str = ""
    children: list[_Draft] = field(default_factory=list)

    def walk(self) -> Iterator[_Draft]:
        stack = [self]
        while stack:
            draft = stack.pop()
            yield draft
            stack.extend(reversed(draft.children))


def from_data(data: Any, program: Program, everything: ImplTagSet | None = None) -> Plan:
    """Return the plan that the data describes. Its validity is not checked here, but by `dgs.planner.validity.check`.

    `everything`: all implementation tags of the streams. With it the name of a split stream stands for all of its splits, and a
    kind (or `*`) for the part of it that the stream carries.

    Raises PlanSectionError for unreadable data, NoPlanError if the program has several state types and none fit.
    """
    root = _drafted(data)
    reader = _Reader(program, everything or ImplTagSet())
    built: dict[int, PlanNode] = {}
    for draft in reversed(list(root.walk())):
        built[id(draft)] = reader.node(draft, tuple(built[id(child)] for child in draft.children))
    plan = Plan(built[id(root)])
    if len(program.states()) == 1:
        return plan
    return Plan(_restored(match(plan.root, program, fixed=reader.known_types(plan)), reader.forks))


def _drafted(data: Any) -> _Draft:
    """Check the shape of the nested data and give every node an id."""
    root = _Draft(data, "root")
    waiting = [root]
    while waiting:
        draft = waiting.pop()
        _check_shape(draft)
        children = draft.data.get("children") or []
        draft.children = [_Draft(child, f"{draft.path}.children[{i}]") for i, child in enumerate(children)]
        waiting.extend(draft.children)
    taken = {draft.data.get("id") for draft in root.walk()}
    numbers = (f"w{i}" for i in range(10**9))
    for draft in root.walk():
        draft.id = draft.data.get("id") or next(name for name in numbers if name not in taken)
    return root


def _check_shape(draft: _Draft) -> None:
    data = draft.data
    if not isinstance(data, Mapping):
        raise PlanSectionError(node=draft.path, problem=f"expected a node, got {data!r}")
    name = str(data.get("id", draft.path))
    unknown = [key for key in data if key not in FIELDS]
    if unknown:
        raise PlanSectionError(node=name, problem=f"unknown {', '.join(map(repr, unknown))}")
    for key, expected in (("id", str), ("tags", Mapping), ("state", str), ("node", str), ("children", list)):
        if data.get(key) is not None and not isinstance(data[key], expected):
            problem = f"`{key}` must be a {_WORDS[expected]}, got {data[key]!r}"
            raise PlanSectionError(node=name, problem=problem)


_WORDS: Mapping[type, str] = {str: "text", Mapping: "mapping from stream to tags", list: "list of nodes"}


class _Reader:
    """Reads single nodes, and collects the state types and forks that they name."""

    def __init__(self, program: Program, everything: ImplTagSet) -> None:
        self._program = program
        self._carried = dict(everything.streams)
        self._state = program.states()[0].name
        self._fork = next((fork.name for fork in program.fork_joins()), DEFAULT_FORK)
        self._given: dict[str, str] = {}
        self.forks: dict[str, ForkStep] = {}

    def node(self, draft: _Draft, children: tuple[PlanNode, ...]) -> PlanNode:
        """Return the node that a draft describes."""
        state = draft.data.get("state")
        if state is not None:
            self._given[draft.id] = state
        forks = draft.data.get("forks")
        tree = (
            self._forks(draft, forks, children)
            if forks is not None
            else balanced(len(children) or 1, self._fork)
        )
        if forks is not None and isinstance(tree, ForkStep):
            self.forks[draft.id] = tree
        made = tree if isinstance(tree, ForkStep) else None
        return PlanNode(
            draft.id, self._tags(draft), state or self._state, children, made, draft.data.get("node")
        )

    def known_types(self, plan: Plan) -> dict[str, str]:
        """Return the state types that are given, or that follow from given forks, by node id."""
        known = dict(self._given)
        made = {fork.name: fork for fork in self._program.fork_joins()}
        for node in plan.nodes():
            for step in self.forks[node.id].steps() if node.id in self.forks else ():
                if step.fork not in made:
                    names = ", ".join(made)
                    raise PlanSectionError(
                        node=node.id, problem=f"there is no fork {step.fork!r}; there are {names}"
                    )
                fork = made[step.fork]
                for side, name in ((step.left, fork.left), (step.right, fork.right)):
                    if isinstance(side, int):
                        known.setdefault(node.children[side].id, name)
            if node.id in self.forks:
                known.setdefault(node.id, made[self.forks[node.id].fork].parent)
        return known

    def _tags(self, draft: _Draft) -> ImplTagSet:
        found: dict[str, TagSet] = {}
        for name, data in (draft.data.get("tags") or {}).items():
            for stream in self._streams(str(name)):
                try:
                    tags = tags_from_data(data, self._program, self._carried.get(stream))
                except TagDataError as error:
                    problem = f"tags of stream {name!r}: {error}"
                    raise PlanSectionError(node=draft.id, problem=problem) from None
                found[stream] = found.get(stream, TagSet()) | tags
        return ImplTagSet.of(found)

    def _streams(self, name: str) -> list[str]:
        """Return the implementation streams of a stream, which may be split."""
        parts = [stream for stream in self._carried if stream.rpartition("/")[0] == name]
        return parts if parts and name not in self._carried else [name]

    def _forks(self, draft: _Draft, data: Any, children: tuple[PlanNode, ...]) -> int | ForkStep:
        if isinstance(data, str):
            return balanced(len(children) or 1, data)
        if isinstance(data, Mapping) and set(data) == {"fork", "left", "right"}:
            left, right = (self._side(draft, data[side], children) for side in ("left", "right"))
            return ForkStep(str(data["fork"]), left, right)
        problem = f"`forks` must be a name or {{fork: NAME, left: CHILD, right: CHILD}}, got {data!r}"
        raise PlanSectionError(node=draft.id, problem=problem)

    def _side(self, draft: _Draft, data: Any, children: tuple[PlanNode, ...]) -> int | ForkStep:
        if isinstance(data, Mapping):
            return self._forks(draft, data, children)
        ids = [child.id for child in children]
        if data in ids:
            return ids.index(data)
        if type(data) is int and 0 <= data < len(ids):
            return data
        problem = f"`forks` leads to {data!r}, which is not a child; the children are {', '.join(ids)}"
        raise PlanSectionError(node=draft.id, problem=problem)


def _restored(root: PlanNode, forks: Mapping[str, ForkStep]) -> PlanNode:
    """Replace the forks that the matching chose by those written by hand."""

    def visit(node: PlanNode, below: tuple[PlanNode, ...]) -> PlanNode:
        return replace(node, children=below, fork_tree=forks.get(node.id, node.fork_tree))

    return rebuilt(root, visit)
