"""Costs: the seconds that events, synchronisations and messages take on one machine, with one program.

>>> costs = Costs(kinds={"value": 2e-6})
>>> costs.event("value"), costs.event("barrier") == Costs().event("barrier")
(2e-06, True)
>>> Costs(synchronisation=-1.0)
Traceback (most recent call last):
dgs.errors.UsageError: the cost `synchronisation` is -1.0 s: a cost is a number of seconds, at least 0
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dgs.errors import UsageError

NOT_OF_A_CORE = ("state_bytes", "hop")
"""What is no time of a core."""

OF_EVENTS = ("kinds", "column_kinds", "column_calls", "compiled_kinds")
"""The costs of one event, by kind."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one core; `hop` is seconds of waiting. The defaults were measured once, on a busy server of two cores.

    `kinds`: one `update`, by kind; `update`: the same for all other kinds, the median of those. `column_kinds`, `columns`: one event in
    `update_batch`, by kind and for all others; None for a program without it. `stretch`: the extra cost of each stretch of events of
    one lane; `call`: of each call of `update_batch`, in our code; `column_calls`: of such a call in the user's code, by kind.
    `compiled_kinds`: one event in a compiled `update`, by kind; none if it is interpreted; `compiled_call`: each call of it, and
    `compiled_state`: what a call of many events takes more, since it translates the parts of the state that its events use.
    `merge`: the cost per event if lanes alternate so often that they are merged. `read`: reading and ordering an event that is in memory;
    `sources`: reading an event of a file, a generator or rows from Python, by stream; `carried`: encoding it for another host, copying it to new memory, and decoding it. `split`: taking an event out of a batch that is
    divided among several workers. `piece`: releasing the events of one lane between two requests that take the state.

    `fork`, `join`: the user's functions on a typical state; `state_bytes`: its size; `encoding`: encoding and decoding it to cross hosts.
    `synchronisation`: asking one child for its state and returning it; `window`: a partial state of a child that accumulates, of one lane.
    `message`: sending and receiving a frame between two hosts; `byte`: each byte of it; `hop`: its time in transit.
    """

    kinds: Mapping[str, float] = field(default_factory=dict)
    update: float = 0.25e-6
    column_kinds: Mapping[str, float] = field(default_factory=dict)
    columns: float | None = None
    column_calls: Mapping[str, float] = field(default_factory=dict)
    compiled_kinds: Mapping[str, float] = field(default_factory=dict)
    compiled_call: float = 30e-6
    compiled_state: float = 0.0
    stretch: float = 2.5e-6
    call: float = 12e-6
    merge: float = 0.15e-6
    read: float = 1.1e-9
    sources: Mapping[str, float] = field(default_factory=dict)
    carried: Mapping[str, float] = field(default_factory=dict)
    split: float = 8e-9
    piece: float = 45e-6
    fork: float = 0.3e-6
    join: float = 0.3e-6
    state_bytes: float = 100.0
    encoding: float = 0.0
    synchronisation: float = 25e-6
    window: float = 15e-6
    message: float = 60e-6
    byte: float = 1e-9
    hop: float = 140e-6

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            for number in value.values() if isinstance(value, Mapping) else [value]:
                if not (_is_cost(number) or (number is None and one.name == "columns")):
                    message = (
                        f"the cost `{one.name}` is {number} s: a cost is a number of seconds, at least 0"
                    )
                    raise UsageError(message=message)

    @classmethod
    def from_data(cls, data: Any) -> Costs:
        """Return the costs that `as_data` has written. Raises UsageError for any other data."""
        known = TYPICAL.as_data()
        is_whole = isinstance(data, dict) and data.keys() == known.keys()
        if not is_whole or any(
            isinstance(data[name], dict) != isinstance(known[name], dict) for name in known
        ):
            raise UsageError(message="costs are a number for each cost, and one for each kind of event")
        return cls(**data)

    def as_data(self) -> dict[str, Any]:
        """Return all costs by name, as plain data."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}

    def least(self, other: Costs) -> Costs:
        """Return the lesser of each cost.

        >>> one, other = Costs(kinds={"a": 1.0, "b": 2.0}, fork=3.0), Costs(kinds={"a": 2.0, "b": 1.0}, join=0.0)
        >>> one.least(other).kinds, one.least(other).fork, one.least(other).join
        ({'a': 1.0, 'b': 1.0}, 3e-07, 0.0)
        """
        return Costs(
            **{one.name: _least(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        )

    def on_another_core(self, factor: float) -> Costs:
        """Return the costs on a core that takes `factor` times as long.

        >>> slow = Costs(kinds={"a": 1.0}, byte=2.0).on_another_core(1.5)
        >>> slow.kinds, slow.columns, slow.byte, slow.hop == TYPICAL.hop
        ({'a': 1.5}, None, 3.0, True)
        """
        costs = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in NOT_OF_A_CORE}
        return replace(self, **{name: _times(factor, value) for name, value in costs.items()})

    def scaled(self, *, events: float, joins: float) -> Costs:
        """Return the costs with those of events, and of forks and joins, multiplied.

        >>> Costs(kinds={"a": 1.0}, fork=2.0).scaled(events=3.0, joins=0.5).kinds, Costs(fork=2.0).scaled(events=3.0, joins=0.5).fork
        ({'a': 3.0}, 1.0)
        """
        found: dict[str, Any] = {"update": self.update * events}
        found |= {name: {k: c * events for k, c in getattr(self, name).items()} for name in OF_EVENTS}
        columns = None if self.columns is None else self.columns * events
        return replace(self, **found, columns=columns, fork=self.fork * joins, join=self.join * joins)

    def event(self, kind: str) -> float:
        """Return the seconds of one `update`."""
        return self.kinds.get(kind, self.update)

    def column(self, kind: str) -> float | None:
        """Return the seconds of one event in `update_batch`."""
        return self.column_kinds.get(kind, self.columns)

    @property
    def state(self) -> float:
        """The seconds for a state to cross hosts, without its message."""
        return self.state_bytes * self.byte + self.encoding

    def source(self, stream: str) -> float:
        """Return the seconds of reading an event of an implementation stream from its source, 0 if events are in memory.

        >>> Costs(sources={"views": 1e-6}).source("views/3"), Costs(sources={"views": 1e-6}).source("updates")
        (1e-06, 0.0)
        """
        return self.sources.get(_source_of(self.sources, stream), 0.0)

    def source_of(self, stream: str) -> str:
        """Return the source of an implementation stream: it is a stream of its own, or a split of one that is declared.

        >>> [Costs(sources={"views": 1e-6, "a/b": 1e-6}).source_of(name) for name in ("views/3", "a/b", "updates")]
        ['views', 'a/b', 'updates']
        """
        return _source_of(self.sources, stream)

    def carrying(self, stream: str) -> float:
        """Return the seconds in which an event of an implementation stream gets to another host, those of copying a number if they are not known.

        >>> Costs(carried={"views": 1e-6}).carrying("views/3")
        1e-06
        """
        return self.carried.get(_source_of(self.carried, stream), COPIES * EVENT_BYTES * self.byte)

    def column_call(self, kind: str) -> float:
        """Return the seconds of a call of `update_batch`, however few events there are."""
        return self.call + self.column_calls.get(kind, 0.0)

    def compiled(self, kind: str) -> float | None:
        """Return the seconds of one event in a compiled `update`, None if that is refused: then its cost is that of interpreting it.

        >>> costs = Costs(kinds={"a": 4e-7, "b": 4e-7}, compiled_kinds={"a": 5e-9, "b": 4e-7})
        >>> costs.compiled("a"), costs.compiled("b")
        (5e-09, None)

        A kind without a cost has the median of the others.

        >>> Costs(compiled_kinds={"a": 5e-9, "b": 6e-9, "c": 4e-7}).compiled("d")
        6e-09
        """
        known = sorted(self.compiled_kinds.values()) or [math.inf]
        found = self.compiled_kinds.get(kind, known[len(known) // 2])
        return found if found != self.event(kind) and found < math.inf else None

    @property
    def is_interpreted(self) -> bool:
        """Whether a trial has found of every kind that compiling `update` is refused, or does not pay.

        >>> Costs(compiled_kinds={"a": 1.0}).is_interpreted, Costs().is_interpreted
        (True, False)
        """
        return bool(self.compiled_kinds) and all(
            cost >= self.event(kind) for kind, cost in self.compiled_kinds.items()
        )


def _source_of(costs: Mapping[str, float], stream: str) -> str:
    return stream if stream in costs else stream.rpartition("/")[0] or stream


def _least(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping):
        return {**other, **{kind: min(cost, other.get(kind, cost)) for kind, cost in one.items()}}
    return one if other is None else other if one is None else min(one, other)


def _times(factor: float, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {kind: factor * cost for kind, cost in value.items()}
    return None if value is None else factor * value


def _is_cost(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < math.inf


TYPICAL = Costs()
"""The costs that are used without measurements."""

INTERPRETED_FIRST = 8192.0
"""The events that a worker interprets before it may use machine code (`workers/protocol/folding`)."""

LOADING, IMPORTING, LARGE_RUN = 0.01, 0.2, 250_000.0
"""The seconds of interpreting that are worth loading machine code: where the compiler was imported before the run, as in hosts and for a run of
so many events, and where it was not.

Importing takes 0.03 to 0.06 s only. But with less than it is worth, a faster machine, whose events are worth less, would be predicted to be slower.
"""

FIRST_EVENTS, NEW_BYTES = 4e6, 2.0
"""The first events of a host, which is a new process, and the bytes of new memory that each takes. Later ones find memory that was used before.

Measured with three programs in columns: 0.5 M and 2 M events took 3 to 4 ms more than in a process that had run before, and 8 M 8 to 16 ms.
"""

TYPICAL_COLUMNS = 3e-9
"""One event in a typical `update_batch`."""

COLD = 3.0
"""How many times as long our code for a synchronisation takes after long other work, since the caches of the core then hold other code and data."""

COLD_CHILDREN = 2
"""How many children a worker asks with cold caches. The code is in the caches for the rest."""

COOLING, COOLING_ALONE = 1.5e-3, 8e-3
"""The seconds of other work between two synchronisations after which 63 % of that is reached: in a host that also waits for others, and in one process.

Measured: a fixed piece of Python code took 30 us at once, 40 after 0.5 ms, 70 after 2 ms and 150 to 180 after 8 ms or more of other work; after
a wait for another process 150 already after 2 ms.
"""

SWITCH = 0.2
"""The cost of going on with another lane in a compiled `update`, as a part of `merge`.

Measured on two to eight lanes that alternate at random: 14 to 18 ns for each change of lane, beside 76 ns for `merge`.
"""

EVENT_BYTES = 28.0
"""The bytes of an event on its way to another host: its time, its row number, the place of its tag and a number as payload."""

COPIES = 2
"""How often an event on its way to another host is in new memory: once where it is sent, and once where it is taken."""

LEAST_REST = 0.1
"""The least part of a run's seconds of updates that counts as folding and not as requests to children."""

CORRECTIONS = 3
"""How often the costs of events are scaled to a run's seconds of updates, of which merging and reading events are a part that stays as it is."""
