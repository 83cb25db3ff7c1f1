"""Programs: a sequential update, a dependence relation, and fork and join of the state (Definition 2.1).

>>> from dgs.model.tags import kind
>>> from dgs.model.dependence import ALWAYS
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class EventWindow(Program):
...     '''The sum of the values between two barriers.'''
...     depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
...     accumulates = (VALUE,)
...     def init(self): return 0
...     def update(self, state, event, emit):
...         if event.tag.kind == VALUE:
...             return state + event.payload
...         emit(state)
...         return 0
...     def identity(self): return 0
...     def join(self, left, right): return left + right
>>> EventWindow().fork_joins()[0].fork(7, TagSet.of(VALUE), TagSet.of(BARRIER))       # derived from `accumulates`
(0, 7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dgs.errors import ProgramError
from dgs.errors.nearest import did_you_mean
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.dependence import Dependence, TagPredicate
from dgs.model.events import Event, EventBatch, Int64s
from dgs.model.tag_sets import TagSet
from dgs.model.tags import AnyKind, Kind, Tag

if TYPE_CHECKING:  # `Program[int, str]` gives the types of state and outputs; at run time it is Program
    from typing import Generic

    from typing_extensions import TypeVar

    OwnState = TypeVar("OwnState", default=Any)
    OwnOutput = TypeVar("OwnOutput", default=Any)

    class Typed(Generic[OwnState, OwnOutput]):
        """The base of `Program`, generic over the types of state and outputs."""

else:
    from typing import TypeVar

    OwnState, OwnOutput = TypeVar("OwnState"), TypeVar("OwnOutput")

    class Typed:
        """The base of `Program`, generic over the types of state and outputs."""

        __class_getitem__ = classmethod(GenericAlias)


State = Any
Emit = Callable[[OwnOutput], None]
"""A function that takes an output: `Emit[str]` takes texts."""


class EmitBatch(Protocol):
    """A function that takes a column of outputs and the batch row of each output's event: see `OutputBatch.of_rows`."""

    def __call__(self, values: Column, rows: Any = None) -> None:
        """Emit values at non-decreasing rows; without rows, one value for each event of the batch."""


Depends = Dependence | TagPredicate | Callable[[Any, Tag, Tag], bool]
"""A dependence relation, or a function or method of two tags."""

RowFront = Callable[[str, int, Any], list[tuple[Tag, Any]]]
"""A function of the stream, the ts and the payload of a row: the tags and payloads of its events."""

Update = Callable[[State, Any, Emit], State]
UpdateBatch = Callable[[State, EventBatch, EmitBatch], State]
UpdateWindows = Callable[[EventBatch, Int64s], Column]
Fork = Callable[[State, TagSet, TagSet], tuple[State, State]]
Join = Callable[[State, State], State]


@dataclass(frozen=True, slots=True)
class StateType:
    """A type of state: its name, the tags it can handle, and its update (Definition 2.1, clauses 4 to 6).

    Law: `update_batch(s, batch, emit_batch)` equals folding `update` over the batch in order, outputs included, and
    `update_windows(batch, cuts)[i]` equals folding it from the identity over window i, for kinds that accumulate and emit nothing.
    """

    name: str
    handles: TagSet
    update: Update
    update_batch: UpdateBatch | None = None
    update_windows: UpdateWindows | None = None


def window_states(made: Column) -> list[Any]:
    """Return the states that `update_windows`, or the `windows` of a monoid, gives as a column.

    A row of an array with several dimensions is a state too, and stays an array. It is a copy, since updates and joins may change states.

    >>> window_states({"n": np.array([1, 2]), "of": np.zeros((2, 3))})[0]
    {'n': 1, 'of': array([0., 0., 0.])}
    """
    if isinstance(made, np.ndarray) and made.ndim > 1:
        return [row.copy() for row in made]
    if isinstance(made, dict):
        made = {name: window_states(part) for name, part in made.items()}
    return columns.to_list(made)


@dataclass(frozen=True, slots=True)
class ForkJoin:
    """A fork of a state of type `parent` into types `left` and `right`, with its join back (clause 7).

    Law C2: `join(*fork(s, a, b)) == s` for independent tag sets a, b. Law C1: `join(update(l, e), r) ==
    update(join(l, r), e)` for events e that the left side handles, and its mirror image. The states given are not used again.
    """

    name: str
    parent: str
    left: str
    right: str
    fork: Fork
    join: Join


class Program(Typed[OwnState, OwnOutput]):
    """A computation over events, written once, as a sequential program. Subclasses give at least `init` and `update`.

    `class P(Program[int, str])` tells type checkers that the state is an int and that outputs are texts; plain `Program` leaves
    both open.

    `depends`: a Dependence, or a function of two tags over the finite `kinds`; by default everything depends on everything.
    `kinds`: the kinds of the program with their key domains, unless `depends` or `accumulates` names them already; `dgs.ANY` if events
    may be of any kind. Events of a kind that the program does not name are refused; a program that names none may not look at tags.
    `accumulates`: kinds for which `update(s, e) == join(s, update(identity(), e))`, with the same outputs for every s.
    `stamps`: kinds whose events emit `Stamped` values, of `dgs.model.outputs`; no stream with such a kind is split.
    `emits_columns`: the `emit` of `update` also has `emit.column(values)`, which takes many outputs of one event as a column (see
    `dgs.model.columns`). It equals calling `emit` for each value, without an object for each.
    `front`: makes the events of each row where the row is read; `tags:` and kinds of rows are then ignored. Flows use it.
    `states` and `fork_joins`: several state types and their forks and joins; the first type is the initial one.
    `version`: part of the program's identity; raise it when old states no longer fit, and give `migrate`.

    `fork`, `join`, `identity`, `update_batch`, `update_windows` and `migrate` are optional: a program without fork and join
    runs as one worker.
    """

    depends: Depends = Dependence.everything()
    kinds: ClassVar[tuple[Kind, ...]] = ()
    accumulates: ClassVar[tuple[Kind | str, ...]] = ()
    stamps: ClassVar[tuple[Kind | str, ...]] = ()
    emits_columns: ClassVar[bool] = False
    front: RowFront | None = None
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        refuse_taken_names(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_taken(type(self), name, value)
        super().__setattr__(name, value)

    def init(self) -> OwnState:
        """Return the initial state."""
        raise NotImplementedError

    def update(self, state: OwnState, event: Event, emit: Emit[OwnOutput]) -> OwnState:
        """Process one event: return the new state, and call `emit` zero or more times. It may change `state`."""
        raise NotImplementedError

    def update_batch(self, state: OwnState, batch: EventBatch, emit_batch: EmitBatch) -> OwnState:
        """Process a batch of one stream, equal to folding `update` over it. `emit_batch(values, rows)`: see `dgs.model.outputs`."""
        raise NotImplementedError

    def update_windows(self, batch: EventBatch, cuts: Int64s) -> Column:
        """Return the partial states of `len(cuts) + 1` windows of a batch, as a column or a list. A row of a 2-D array is a state.

        State i is the fold of `update` from the identity over rows `cuts[i - 1]` to `cuts[i]` (0 before the first cut and
        `len(batch)` after the last; int64, non-decreasing), and the identity without rows. It is called only with batches whose
        kinds all accumulate. A program may give it only if its accumulating kinds emit nothing.
        """
        raise NotImplementedError

    def fork(self, state: OwnState, left: TagSet, right: TagSet) -> tuple[OwnState, OwnState]:
        """Split a state: the left part will get only events of `left`, the right part only events of `right`."""
        raise NotImplementedError

    def join(self, left: OwnState, right: OwnState) -> OwnState:
        """Merge two states that `fork` made, after their updates."""
        raise NotImplementedError

    def identity(self) -> OwnState:
        """Return the state that is neutral in `join` on both sides."""
        raise NotImplementedError

    def migrate(self, state: OwnState, from_version: int) -> OwnState:
        """Return the state of this version of the program for `state`, which version `from_version` saved.

        A run that resumes from a checkpoint calls it if only `version` differs, and then continues on the same streams.
        """
        raise NotImplementedError

    def identity_parts(self) -> Mapping[str, str]:
        """Return more parts of the program's identity, as text by name: a checkpoint in which one differs is refused. None by default."""
        return {}

    made_by: tuple[str, Mapping[str, Any]] | None = None
    """The function by which another process makes this program, as `module:name`, and its arguments. None: it is made from its class and attributes."""

    def hold_at_most(self, buffer_bytes: int) -> None:
        """Note `runtime.buffer_bytes` of the run, before it begins."""

    def when_skipping(self) -> Program[Any, Any]:
        """Return the program for `on_error: skip`. If an event does the work of many, the program may leave out parts of it, as `LeftOut` outputs."""
        return self

    def states(self) -> tuple[StateType, ...]:
        """Return the state types, the initial one first. Override it for several state types."""
        batch = self.update_batch if self.gives("update_batch") else None
        windows = self.update_windows if self.gives("update_windows") else None
        return (StateType("state", TagSet.everything(), self.update, batch, windows),)

    def fork_joins(self) -> tuple[ForkJoin, ...]:
        """Return the typed fork-join pairs. Override it for several state types."""
        if not self.gives("join"):
            return ()
        if self.gives("fork"):
            return (ForkJoin("fork", "state", "state", "state", self.fork, self.join),)
        if self.accumulating:
            return (ForkJoin("fork", "state", "state", "state", self._derived_fork, self.join),)
        return ()

    def gives(self, method: str) -> bool:
        """Return whether the program overrides an optional method."""
        return getattr(type(self), method) is not getattr(Program, method)

    @property
    def name(self) -> str:
        """The name of the program's class."""
        return type(self).__name__

    @cached_property
    def dependence(self) -> Dependence:
        """The dependence relation.

        Raises AsymmetricDependenceError if it is a function that is not symmetric, ProgramError if it is a function over
        infinite kinds.
        """
        declared = type(self).depends if "depends" not in vars(self) else vars(self)["depends"]
        if isinstance(declared, Dependence):
            return declared
        is_plain = isinstance(declared, FunctionType) and declared.__code__.co_argcount == 2  # noqa: PLR2004 - (a, b)
        function: Any = declared if is_plain else self.depends
        return Dependence.from_function(function, self._finite_tags())

    @cached_property
    def accumulating(self) -> frozenset[str]:
        """The kinds that may accumulate: those in `accumulates`, if they are independent and `identity` is neutral in `join`."""
        kinds = frozenset(map(str, self.accumulates))
        some = TagSet.of(*self.accumulates)
        if type(self).states is not Program.states:  # partial states have the one type that `identity` makes
            return frozenset()
        if not (self.gives("identity") and self.gives("join")) or self.dependence.between(some, some):
            return frozenset()
        return kinds if kinds and self._identity_is_neutral() else frozenset()

    def _identity_is_neutral(self) -> bool:
        """Whether joining the identity on either side leaves the initial state unchanged, by its codec bytes.

        True also if user code raises or a state cannot be encoded: the run will report that error with its place.
        """
        from dgs import codec

        try:
            plain = codec.encode(self.init())
            joined = (self.join(self.identity(), self.init()), self.join(self.init(), self.identity()))
            return all(codec.encode(state) == plain for state in joined)
        except (Exception, SystemExit):  # noqa: BLE001 - the error will be raised again where it can be explained
            return True

    @cached_property
    def has_derived_fork(self) -> bool:
        """Whether the fork is derived from `accumulates`: then only one side may hold kinds that do not accumulate."""
        return (
            not self.gives("fork") and type(self).fork_joins is Program.fork_joins and bool(self.accumulating)
        )

    @property
    def is_vectorised(self) -> bool:
        """Whether any of its state types has an `update_batch`."""
        return any(one.update_batch is not None for one in self.states())

    def all_kinds(self) -> dict[str, Kind]:
        """Return all kinds the program names, with their key domains as far as known, sorted by name."""
        names = {str(k) for k in (*self.kinds, *self.accumulates)}
        for rule in self.dependence.rules:
            names |= {str(rule.left), str(rule.right)}
        declared = self._declared_kinds()
        return {name: declared.get(name) or Kind(name, object) for name in sorted(names)}

    def kind_problem(self, name: str) -> str | None:
        """Return the problem with a kind that the program does not declare. None if it declares the kind, or takes any kind."""
        known = {} if isinstance(self.kinds, AnyKind) else self.all_kinds()
        if not known or name in known:
            return None
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}, and its `kinds` may name more"
        return f"program {self.name} has no kind {str(name)!r}{hint}"

    def kind(self, name: str) -> Kind:
        """Return the declaration of a kind; a kind that is not declared may have any keys."""
        return self._declared_kinds().get(name) or Kind(name, object)

    def _declared_kinds(self) -> dict[str, Kind]:
        items = (*self.dependence.kinds.values(), *reversed((*self.kinds, *self.accumulates)))
        return {str(item): item for item in items if isinstance(item, Kind)}  # the first declaration counts

    def _derived_fork(self, state: OwnState, left: TagSet, right: TagSet) -> tuple[OwnState, OwnState]:
        """Give the state to the side with a kind that does not accumulate (else left), and the identity to the other."""
        whole = TagSet.of(*self.accumulating)
        if not right <= whole:
            if not left <= whole:
                problem = (
                    "the derived fork cannot serve two sides with kinds that do not accumulate: give a fork"
                )
                raise ProgramError(program=self.name, problem=problem)
            return self.identity(), state
        return state, self.identity()

    def _finite_tags(self) -> Iterable[Tag]:
        for item in self.kinds:
            if not item.is_finite:
                problem = f"a functional dependence needs finite kinds, and {str(item)!r} is unbounded: use Dependence rules"
                raise ProgramError(program=self.name, problem=problem)
            yield from (map(item, item.domain) if isinstance(item.domain, tuple) else [item()])
        if not self.kinds:
            raise ProgramError(program=self.name, problem="a functional dependence needs `kinds = (...)`")


KEPT = frozenset(
    ["all_kinds", "gives", "kind", "kind_problem"]
    + [name for name, value in vars(Program).items() if isinstance(value, (property, cached_property))]
    + [name for name in vars(Program) if name.startswith("_") and not name.startswith("__")]
)
"""Parts of Program that programs do not override."""

METHODS = frozenset(
    name
    for name, value in vars(Program).items()
    if isinstance(value, FunctionType) and not name.startswith("_")
)


def refuse_taken_names(program: type[Program[Any, Any]]) -> None:
    """Raise ProgramError for a name in a user's class that dgs needs for something else, also if it was assigned later."""
    if program.__module__.partition(".")[0] != "dgs":
        for name, value in vars(program).items():
            if name != "name" or not isinstance(value, (str, property)):  # not the value that the class had
                _refuse_taken(program, name, value)


def _refuse_taken(program: type[Program[Any, Any]], name: str, value: Any) -> None:
    """Raise ProgramError for a name that dgs needs for something else, such as an attribute `states`."""
    if name in KEPT:
        problem = f"`{name}` is a name that dgs keeps for itself"
    elif name in METHODS and not callable(value) and not hasattr(value, "__get__"):
        problem = f"`{name}` is a method of every program, and here a value of type {type(value).__name__}"
    else:
        return
    advice = f"call it otherwise, such as `my_{name.lstrip('_')}`"
    if name == "dependence":
        advice = "which events depend on which is said by `depends = dgs.Dependence(...)`"
    raise ProgramError(program=program.__name__, problem=f"{problem}: {advice}")
