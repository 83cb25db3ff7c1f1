"""Compiling an update for a worker: whether it pays, the source of its loops, and the figures of what machine code has folded."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, NamedTuple

from dgs.model.program import Update
from dgs.workers.protocol.bounds import Clock, no_time
from dgs.workers.protocol.folding.update_loop import ScalarLoop

if TYPE_CHECKING:
    from dgs.compiled.cheaper_way import CheaperWay
    from dgs.compiled.compiled_update import CompiledUpdate
    from dgs.compiled.loop_files import MadeLoops

MOST_LETTERS = 300
"""The most characters of a reason why events are interpreted."""
LOADING, IMPORTING = 0.01, 0.2
"""The seconds of interpreting that are worth loading machine code, and worth importing the compiler first.

Loading takes about as long, importing 0.03 to 0.06 s, which is lost if the update is refused, or the loop is not in the cache yet.
"""
LARGE_RUN = 250_000
"""A process with so many events ahead loads the compiler before it begins. Most updates would be interpreted for longer than importing is worth."""
COMPILER = "dgs.compiled.machine"
"""The last module of the compiler that is imported."""


class ToCompile(NamedTuple):
    """An update that is to be compiled. `is_required`: a refusal is an error. `expected`: the events of its worker, infinite if their number is not known.

    `clock`: seconds; without one nothing is compiled unless it must be.
    """

    update: Update
    is_required: bool
    expected: float = math.inf
    clock: Clock = no_time

    def pays(self, loop: ScalarLoop, in_batches: int) -> bool:
        """Return whether loading machine code takes less time than interpreting the events to come, judged by those that were timed.

        As large a share of them is interpreted as before: `in_batches` events were not. If their number is not known, twice as
        many may come as have come.
        """
        seen = loop.events + in_batches
        left, share = self.expected - seen, loop.events / seen
        to_come = left * share * loop.seconds / loop.timed if 0 <= left < math.inf else 2 * loop.seconds
        return to_come > (LOADING if COMPILER in sys.modules else IMPORTING)


class CompiledCounts(NamedTuple):
    """Figures of a worker whose update is to be compiled, by the names that they have in `WorkerFigures`."""

    is_compiled: bool
    compiled_events: int
    interpreted_events: int
    deviations: int
    loops_compiled: int
    loops_cached: int
    compile_seconds: float
    why_interpreted: str


def compiled_update(
    compiled: ToCompile, loop: ScalarLoop
) -> tuple[CompiledUpdate, MadeLoops, CheaperWay | None, CheaperWay | None] | None:
    """Return a compiled update, its loops, and the choosers between ways to fold (releases, joined states), if there is a choice.

    None without llvmlite.
    """
    from dgs.compiled.loop_files import MadeLoops, is_available, machine_code

    if not (compiled.is_required or is_available()):
        return None
    from dgs.compiled.compiled_beside import loop_or_none
    from dgs.compiled.compiled_update import CompiledUpdate

    loops = MadeLoops(machine_code if compiled.is_required else loop_or_none)
    update = CompiledUpdate(
        compiled.update, loop.fold_batch, is_required=compiled.is_required, translate=loops
    )
    return update, loops, cheaper_way(compiled), cheaper_way(None)


def cheaper_way(compiled: ToCompile | None) -> CheaperWay | None:
    """Return a chooser between ways to fold, None if there is no choice. It may begin to measure before there is a compiled update."""
    from dgs.compiled.cheaper_way import CheaperWay

    return None if compiled is not None and compiled.is_required else CheaperWay()


def load_compiler() -> None:
    """Import what compiles updates, if it is there. It takes up to 0.1 s, for which all workers of a host would wait in the middle of a run."""
    from dgs.compiled.loop_files import get_ready, is_available

    if is_available():
        import dgs.compiled.cheaper_way
        import dgs.compiled.compiled_beside
        import dgs.compiled.compiled_update  # noqa: F401

        get_ready()


def counts_of(update: CompiledUpdate, loops: MadeLoops, interpreted: int) -> CompiledCounts:
    """Return the figures of a compiled update. `interpreted`: so many events were folded one by one."""
    why = "; ".join(dict.fromkeys(str(refusal) for refusal in update.refusals.values()))
    made = loops.compiled, loops.cached, loops.seconds
    return CompiledCounts(
        update.events > 0, update.events, interpreted, update.deviations, *made, why[:MOST_LETTERS]
    )
