"""The world of a check: a program, some of its tags, payloads for them, and an equality.

All calls of user code go through the world. An exception becomes a `UserRaised`, which is a counterexample in itself.

>>> from dgs.model.tags import Tag
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit):
...         emit(state)
...         return state + event.payload
>>> world = World(Total(), (Tag("n"),), payloads={})
>>> world.update("state", 3, Event(Tag("n"), "n", 0, 4))
(7, [3])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from dgs.check.scenarios.equality import Equal, same
from dgs.check.scenarios.scenario import Scenario, Side, Sides
from dgs.errors import DgsError
from dgs.errors.raised import RAISED, is_ours, summary, user_trace
from dgs.model.dependence import Dependence
from dgs.model.events import Event
from dgs.model.outputs import emitted_one_by_one
from dgs.model.program import ForkJoin, Program, State, StateType
from dgs.model.tags import Tag


class NotThere(Exception):  # noqa: N818 - an answer, not an error
    """The program cannot run in another process. The text says why."""


class Elsewhere(Protocol):
    """The program in another process."""

    @property
    def here(self) -> World:
        """The same copy of the program in this process."""

    def start(self) -> None:
        """Start the process, if it is not running. Raises NotThere."""

    def reached(self, scenario: Scenario) -> tuple[State, list[list[Any]]]:
        """Return the state that the steps lead to there, and the outputs of each event. Raises NotThere, UserRaised."""

    def close(self) -> None:
        """End the process, if there is one."""


def _nowhere(_program: Program) -> Elsewhere:
    raise NotThere("no other process is wanted")


class UserRaised(Exception):  # noqa: N818 - a finding on its way to the report, not an error of ours
    """An exception of user code, with its function and the user's traceback."""

    def __init__(self, function: str, error: BaseException) -> None:
        super().__init__(function, error)
        self.function = function
        self.error = summary(error)
        self.trace = user_trace(error)


@dataclass(frozen=True)
class World:
    """A program and the material for checking its laws.

    `tags`: a finite sample of its tags. `payloads`: a Hypothesis strategy by kind. `streams`: the streams of a kind (its own name
    if they are unknown). `any_ints`: kinds whose payloads may be large ints. `passes`: possible time steps between two events.
    `start_elsewhere`: makes the program in another process.
    """

    program: Program
    tags: tuple[Tag, ...]
    payloads: Mapping[str, Any]
    streams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states_equal: Equal = same
    outputs_equal: Equal = same
    any_ints: frozenset[str] = frozenset()
    passes: tuple[int, ...] = (1,)
    start_elsewhere: Callable[[Program], Elsewhere] = _nowhere

    @cached_property
    def types(self) -> dict[str, StateType]:
        """The state types by name, the initial one first."""
        return {one.name: one for one in self.program.states()}

    @cached_property
    def root(self) -> StateType:
        """The initial state type."""
        return next(iter(self.types.values()))

    @cached_property
    def forks(self) -> dict[str, ForkJoin]:
        """The fork-join pairs by name."""
        return {one.name: one for one in self.program.fork_joins()}

    @cached_property
    def dependence(self) -> Dependence:
        """The dependence relation."""
        return self.program.dependence

    @cached_property
    def independent(self) -> frozenset[tuple[Tag, Tag]]:
        """All pairs of tags of the sample that are independent, in both orders."""
        asked = {(a, b) for i, a in enumerate(self.tags) for b in self.tags[i:] if not self.dependence(a, b)}
        return frozenset(asked | {(b, a) for a, b in asked})

    @cached_property
    def accumulating(self) -> frozenset[str]:
        """The kinds that the program declares as accumulating."""
        return frozenset(map(str, self.program.accumulates)) if self.has_one_type else frozenset()

    @cached_property
    def has_one_type(self) -> bool:
        """Whether the program has one state type. Only such programs may accumulate."""
        return type(self.program).states is Program.states

    @property
    def looks_at_time(self) -> bool:
        """Whether the program uses timestamps."""
        return len(self.passes) > 1

    @cached_property
    def elsewhere(self) -> Elsewhere:
        """Another process with the program, which starts on first use. Raises NotThere if it cannot start."""
        return self.start_elsewhere(self.program)

    def close(self) -> None:
        """End the other process, if it was started."""
        if "elsewhere" in vars(self):
            self.elsewhere.close()

    def init(self) -> State:
        """Return the initial state."""
        return called("init", self.program.init)

    def identity(self) -> State:
        """Return the identity."""
        return called("identity", self.program.identity)

    def update(self, of: str, state: State, event: Event) -> tuple[State, list[Any]]:
        """Return the state after an event, and its outputs."""
        update, has_columns = self.types[of].update, self.program.emits_columns
        found: tuple[State, list[Any]] = called(
            "update", emitted_one_by_one, update, state, event, has_columns
        )
        return found

    def fork(self, sides: Sides, state: State) -> dict[Side, State]:
        """Return the states of both sides of a fork."""
        found = called("fork", self.forks[sides.fork].fork, state, sides.left, sides.right)
        left, right = called("fork", lambda: found)
        return {"left": left, "right": right}

    def join(self, fork: str, left: State, right: State) -> State:
        """Return the state that two sides join to."""
        return called("join", self.forks[fork].join, left, right)

    def type_of(self, fork: str, side: Side) -> str:
        """Return the name of the state type of a side of a fork."""
        pair = self.forks[fork]
        return pair.left if side == "left" else pair.right


def called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call user code. Its exceptions become UserRaised."""
    try:
        return function(*arguments)
    except DgsError:
        raise
    except RAISED as error:
        if is_ours(error):
            raise
        raise UserRaised(name, error) from error
