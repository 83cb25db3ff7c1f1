"""The faults of a simulated run and their frequency. Every seed draws its own (swarm testing): often few, sometimes many.

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
from dgs.workers.simulated.disk import DiskFaults

KINDS = ("crash", "disk", "network", "user", "odd", "slow")
"""`odd`: no faults, but legal paths that are rarely taken (buggify): tiny buffers, repeated heartbeats, many snapshots at once."""


class CrashedError(Exception):
    """The process was killed, here."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The amount of each fault. Counts: at most so many in a run; all else: a chance per step, unless said otherwise.

    Crash: `crashes` at `crash_chance`; `zombie_chance` that what crashed goes on unawares; `stops`, clean
    ones at a checkpoint, after which another plan may follow.
    Network: `loss`, `reordering` (both end a generation, a few times), `repetition`, `delay` of an edge, `swizzle` (many edges
    clogged and freed in other orders), `straggling` (a crash leaves frames that arrive later), `muting` (a chance per stream of a
    generation that it says nothing, for a while or until nothing else can move).
    Disk: `disk`; None for one that cannot fail. A full one is full for files of outputs, too. `rot`: a chance per generation that one bit of a file has turned; `disk_crash`: a
    chance per generation that the machine stops at an operation of the disk; `publishing`: that files do not get their names.
    User: `raises`, how often the user's code raises. Odd: `oddity`, for every legal but rare path.
    Slow: `slow_sinks`, a chance per batch of outputs and per staged epoch, and `slow_stores`, per commit, that it takes long.

    `until`: the step at which all faults stop (liveness mode); None: they never do (safety mode).
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
    until: int | None = None

    @classmethod
    def swarm(cls, rnd: random.Random, kinds: tuple[str, ...] = KINDS) -> Faults:
        """Draw the faults of a seed: every kind alike whichever others are wanted."""
        drawn = {what: draw(rnd) for what, draw in _DRAW.items()}
        faults = cls(**drawn["until"]) if kinds else cls()
        for kind in kinds:
            faults = replace(faults, **drawn[kind])
        if faults.disk is not None and faults.disk.read + faults.disk.flip > 0:
            # Two drivers at once are kept apart by a lock, which simulated ones do not have; what tells them apart here is the
            # record, which must then be readable.
            faults = replace(faults, zombie_chance=0.0)
        return faults

    def simpler(self) -> list[Faults]:
        """Return these faults with one of them left out, each in turn."""
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
        raise UsageError(message=f"there are no faults {', '.join(map(repr, unknown))}; there are {known}")
    return KINDS if "all" in names else tuple(kind for kind in KINDS if kind in names)


def _crash(rnd: random.Random) -> dict[str, Any]:
    return {
        "crashes": rnd.choice([0, 1, 1, 2, 3, 6]),
        "crash_chance": rnd.choice([0.002, 0.01, 0.03, 0.1]),
        "zombie_chance": rnd.choice([0.0, 0.5, 1.0]),
        "stops": rnd.choice([0, 0, 1, 2]),
    }


def _network(rnd: random.Random) -> dict[str, Any]:
    return {
        "repetition": rnd.choice([0.0, 0.0, 0.1, 0.4]),
        "loss": rnd.choice([0.0, 0.0, 0.0, 0.02]),
        "reordering": rnd.choice([0.0, 0.0, 0.0, 0.02]),
        "delay": rnd.choice([0.0, 0.0, 0.02, 0.2]),
        "swizzle": rnd.choice([0.0, 0.0, 0.01]),
        "straggling": rnd.choice([0.0, 0.5]),
        "muting": rnd.choice([0.0, 0.0, 0.2, 0.5]),
    }


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
    return {
        "disk": faults,
        "rot": rate(0.3, 0.8),
        "disk_crash": rate(0.3, 0.8),
        "publishing": rate(0.1),
    }


def _user(rnd: random.Random) -> dict[str, Any]:
    return {"raises": rnd.choice([0, 0, 1, 2])}


def _odd(rnd: random.Random) -> dict[str, Any]:
    return {"oddity": rnd.choice([0.0, 0.02, 0.1])}


def _until(rnd: random.Random) -> dict[str, Any]:
    return {"until": rnd.choice([None, None, 0, 20, 60, 150])}


def _slow(rnd: random.Random) -> dict[str, Any]:
    return {"slow_sinks": rnd.choice([0.0, 0.0, 0.1, 0.5]), "slow_stores": rnd.choice([0.0, 0.0, 0.2, 0.7])}


_DRAW: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "crash": _crash,
    "disk": _disk,
    "network": _network,
    "user": _user,
    "odd": _odd,
    "until": _until,
    "slow": _slow,
}
"""In the order in which they are drawn. What is new comes last: the other faults of a seed stay what they were."""
