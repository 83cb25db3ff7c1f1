"""The faults of a simulated run and their amounts. Every seed draws its own (swarm testing): often few, sometimes many.

>>> import random
>>> Faults.swarm(random.Random(7)) == Faults.swarm(random.Random(7))
True
>>> Faults.swarm(random.Random(7), fault_kinds("disk")).crashes, fault_kinds("none")
(0, ())
>>> [name for name in fault_kinds("crash,network")]
['crash', 'network']
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from dgs.errors import UsageError
from dgs.workers.protocol.bounds import BOUNDS, Bounds
from dgs.workers.simulated.disk import DiskFaults

KINDS = ("crash", "disk", "network", "user", "odd", "slow", "bounds", "exit", "sinks", "live", "clock")
"""`odd`: no faults, but legal paths that are rarely taken (buggify): tiny buffers, repeated heartbeats, many snapshots at once.
`bounds`: neither; the numbers by which the protocol chooses between ways that give the same outputs are small."""


class CrashedError(Exception):
    """The process is killed here."""


class HostKilledError(CrashedError):
    """A host is killed in the middle of a step, so it cannot go on as a zombie."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The amount of each fault. Integers are maxima per run; others are a chance per step, unless the text says otherwise.

    Crash: `crashes` at `crash_chance`; `zombie_chance`: that a crashed generation goes on without noticing; `stops`: clean stops
    at a checkpoint, after which another plan may follow.
    Network: `loss`, `reordering` (both end a generation, a few times), `repetition`, `delay` of an edge, `swizzle` (many edges
    clogged, and freed in any order), `straggling` (a crash leaves frames that arrive later), `muting` (a chance per stream of a
    generation that the stream is silent, for a while or until nothing else can move).
    Disk: `disk`, None if it cannot fail. A full disk has no space for files of outputs either. `rot`, `disk_crash`: chances per
    generation that one bit of a file has turned, and that the machine stops at an operation of the disk. `publishing`: that files
    do not get their names. User: `raises`, that the user's code raises. Odd: `oddity`, for every legal but rare path.
    Slow: `slow_sinks`, a chance per batch of outputs and per staged epoch; `slow_stores`, a chance per commit.
    Bounds: `bounds`, those of workers and hosts; `snapshots`: that a checkpoint is asked for.
    Exit: `exits`, that the user's code raises SystemExit or KeyboardInterrupt; `poison`: the share of events at which it always does,
    in a run with `on_error: skip`, in which it raises nothing else.
    Sinks: `other_sinks`, a chance per process that the run is resumed with another sink than its own, or that its sink has lost its table.
    Live: `live`, the chance of each stream that its rows arrive over time, out of order and with heartbeats. Clock: `jumps`, that the wall
    clock jumps, which decides when heartbeats of live streams come.

    `until`: the step at which all faults stop (liveness mode), None if they never do (safety mode).
    """

    crashes: int = 0
    crash_chance: float = 0.0
    zombie_chance: float = 0.0
    stops: int = 0
    repetition: float = 0.0
    loss: float = 0.0
    reordering: float = 0.0
    delay: float = 0.0
    swizzle: float = 0.0
    straggling: float = 0.0
    muting: float = 0.0
    disk: DiskFaults | None = None
    rot: float = 0.0
    disk_crash: float = 0.0
    publishing: float = 0.0
    raises: int = 0
    oddity: float = 0.0
    slow_sinks: float = 0.0
    slow_stores: float = 0.0
    bounds: Bounds = BOUNDS
    snapshots: float = 0.02
    exits: int = 0
    poison: float = 0.0
    other_sinks: float = 0.0
    live: float = 0.0
    jumps: float = 0.0
    until: int | None = None

    @classmethod
    def swarm(cls, rnd: random.Random, kinds: tuple[str, ...] = KINDS) -> Faults:
        """Draw the faults of a seed. The faults of one kind do not depend on which other kinds are wanted."""
        drawn = {what: draw(rnd) for what, draw in _DRAW.items()}
        faults = cls(**drawn["until"]) if kinds else cls()
        for kind in kinds:
            faults = replace(faults, **drawn[kind])
        if faults.disk is not None and faults.disk.read + faults.disk.flip > 0:
            # A lock keeps two real drivers apart. Simulated drivers have no lock: the record keeps them apart, so it must be readable.
            faults = replace(faults, zombie_chance=0.0)
        if faults.jumps and "live" not in kinds:
            faults = replace(faults, live=1.0)
        return faults

    def simpler(self) -> list[Faults]:
        """Return variants of these faults, each with another one left out."""
        nothing = Faults()
        names = [field.name for field in fields(self) if field.name != "until"]
        return [
            replace(self, **{name: getattr(nothing, name)})
            for name in names
            if getattr(self, name) != getattr(nothing, name)
        ]

    def __str__(self) -> str:
        nothing = Faults()
        told = ((field.name, getattr(self, field.name)) for field in fields(self))
        return (
            ", ".join(f"{name}={value}" for name, value in told if value != getattr(nothing, name)) or "none"
        )


NO_FAULTS = Faults()


def fault_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of faults named in a text: some of KINDS with commas between, `all` or `none`. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*KINDS, "all", "none")]
    if unknown or not names:
        known = ", ".join((*KINDS, "all", "none"))
        raise UsageError(message=f"unknown faults: {', '.join(map(repr, unknown))}; there are {known}")
    return KINDS if "all" in names else tuple(kind for kind in KINDS if kind in names)


Draw = Callable[[random.Random], dict[str, Any]]


def _one_of(**choices: tuple[Any, ...]) -> Draw:
    return lambda rnd: {name: rnd.choice(some) for name, some in choices.items()}


def _disk(rnd: random.Random) -> dict[str, Any]:
    def rate(*some: float) -> float:
        return rnd.choice([0.0, 0.0, *some])

    faults = DiskFaults(
        full=rate(0.02, 0.2),
        torn=rate(0.05),
        flip=rate(0.01, 0.03),
        read=rate(0.02),
        fsync=rate(0.05),
        rename=rate(0.05),
        sync_directory=rate(0.05),
        unlink=rate(0.2),
    )
    return {"disk": faults, "rot": rate(0.3, 0.8), "disk_crash": rate(0.3, 0.8), "publishing": rate(0.1)}


def _bounds(rnd: random.Random) -> dict[str, Any]:
    return {"bounds": small_bounds(rnd), "snapshots": rnd.choice([0.02, 0.02, 0.1, 0.3])}


_DRAW: dict[str, Draw] = {
    "crash": _one_of(
        crashes=(0, 1, 1, 2, 3, 6),
        crash_chance=(0.002, 0.01, 0.03, 0.1),
        zombie_chance=(0.0, 0.5, 1.0),
        stops=(0, 0, 1, 2),
    ),
    "disk": _disk,
    "network": _one_of(
        repetition=(0.0, 0.0, 0.1, 0.4),
        loss=(0.0, 0.0, 0.0, 0.02),
        reordering=(0.0, 0.0, 0.0, 0.02),
        delay=(0.0, 0.0, 0.02, 0.2),
        swizzle=(0.0, 0.0, 0.01),
        straggling=(0.0, 0.5),
        muting=(0.0, 0.0, 0.2, 0.5),
    ),
    "user": _one_of(raises=(0, 0, 1, 2)),
    "odd": _one_of(oddity=(0.0, 0.02, 0.1)),
    "until": _one_of(until=(None, None, 0, 20, 60, 150)),
    "slow": _one_of(slow_sinks=(0.0, 0.0, 0.1, 0.5), slow_stores=(0.0, 0.0, 0.2, 0.7)),
    "bounds": _bounds,
    "exit": _one_of(exits=(0, 0, 1, 2), poison=(0.0, 0.0, 0.0, 0.1, 0.4)),
    "sinks": _one_of(other_sinks=(0.0, 0.0, 0.2, 0.6)),
    "live": _one_of(live=(0.0, 0.0, 0.0, 0.5, 1.0)),
    "clock": _one_of(jumps=(0.0, 0.01, 0.1)),
}
"""In the order of drawing. New ones come last, so that the other faults of a seed do not change."""


def small_bounds(rnd: random.Random) -> Bounds:
    """Draw the bounds of a seed: each is either the default or so small that a few events reach it."""
    return Bounds(**{name: rnd.choice([getattr(BOUNDS, name), *small]) for name, small in _SMALL.items()})


_SMALL = {
    "first_in_flight": (1, 2, 4, 1000),
    "least_in_flight": (1, 2, 3),
    "growth": (1, 2),
    "seconds_in_flight": (0.5, 1000.0),
    "most_requests": (1, 2),
    "most_windows": (1, 2),
    "least_piece": (1, 2),
    "seconds_at_once": (0.0, 0.5, 1000.0),
    "few_events": (0, 1, 3),
    "events_at_once": (1, 2, 3),
    "dense": (0, 1, 100),
    "short_stretch": (0, 1, 100),
    "singly": (1, 2, 4),
    "most_told_apart": (0, 2),
    "few_lanes": (0, 1),
    "most_remembered": (0, 1),
    "piece_growth": (1, 2),
    "short_loop": (0, 1, 100),
}
"""The bounds that are drawn instead: `dense`, `short_stretch` and `short_loop` choose between two ways, so they have values beyond all sizes, too."""
