"""Compiling an update for a worker: the update, the source of its loops, and the figures of what machine code has folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dgs.model.program import Update
from dgs.workers.protocol.folding.update_loop import ScalarLoop

if TYPE_CHECKING:
    from dgs.compiled.cheaper_way import CheaperWay
    from dgs.compiled.compiled_update import CompiledUpdate
    from dgs.compiled.loop_files import MadeLoops

MOST_LETTERS = 300
"""The most characters of a reason why events are interpreted."""


class ToCompile(NamedTuple):
    """An update that is to be compiled. `is_required`: a refusal is an error. `least`: the number of events to interpret first."""

    update: Update
    is_required: bool
    least: int


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
    """Import what compiles updates, if it is there. It takes up to 0.07 s, for which all workers of a host would wait in the middle of a run."""
    from dgs.compiled.loop_files import is_available

    if is_available():
        import dgs.compiled.cheaper_way
        import dgs.compiled.compiled_beside
        import dgs.compiled.compiled_update
        import dgs.compiled.machine  # noqa: F401


def counts_of(update: CompiledUpdate, loops: MadeLoops, interpreted: int) -> CompiledCounts:
    """Return the figures of a compiled update. `interpreted`: so many events were folded one by one."""
    why = "; ".join(dict.fromkeys(str(refusal) for refusal in update.refusals.values()))
    made = loops.compiled, loops.cached, loops.seconds
    return CompiledCounts(
        update.events > 0, update.events, interpreted, update.deviations, *made, why[:MOST_LETTERS]
    )
