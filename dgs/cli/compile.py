"""`dgs compile`: makes the compiled loops of a job ahead of its runs, such as for an image, and keeps them in the cache.

Each worker of the plan folds its own first events, stream by stream and all merged, as in the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dgs.cli.options import OptimizerName, PlanPath, SetValues, given_by_flags
from dgs.cli.reporting import Ending, print_json, verb

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared
    from dgs.model.events import EventBatch
    from dgs.planner.plan import PlanNode
    from dgs.workers.protocol.lanes import Lane


@verb
def compile_(
    ending: Ending, plan_path: PlanPath, set_values: SetValues = None, optimizer: OptimizerName = None
) -> None:
    """Compile `update` for the first events of each stream, and keep the machine code in the cache of this machine."""
    from dgs.api.preparing import from_file, prepare

    given = given_by_flags(set_values, None, optimizer__name=optimizer)
    found = list(compile_ahead(prepare(from_file(plan_path, given))))
    if ending.as_json:
        print_json({"workers": [asdict(one) for one in found]})
        return
    for one in found:
        print(one)


@dataclass(frozen=True, slots=True)
class CompiledWorker:
    """The loops of a worker: whether it has some, the seconds of compiling, and how many of the loops were in the cache.

    `why_not`: the reason why some or all of its events are interpreted.
    """

    worker: str
    is_compiled: bool
    seconds: float
    loops: int
    cached: int
    why_not: str | None = None

    def __str__(self) -> str:
        made = f"{self.loops} loop{'s' * (self.loops != 1)}, compiled in {self.seconds:.1f} s"
        done = [f"{made} ({self.cached} were in the cache)"] if self.is_compiled else []
        why = [] if self.why_not is None else [f"interpreted: {self.why_not}"]
        return f"{self.worker}: {'; other events are '.join([*done, *why])}"


def compile_ahead(prepared: Prepared) -> Iterator[CompiledWorker]:
    """Compile the loops of each worker that owns streams. Raises MissingPackageError, and what reading the first events raises."""
    from dgs.api.preparing import context_of
    from dgs.compiled.loop_files import is_available
    from dgs.errors import MissingPackageError
    from dgs.workers.protocol.lanes import Lanes
    from dgs.workers.sources.sampling import first_events

    if not is_available():
        raise MissingPackageError(feature="`dgs compile`", package="llvmlite")
    batches = first_events(prepared.config.streams, context_of(prepared.request, prepared.program))
    lanes = Lanes(prepared.plan, prepared.program.dependence)
    for node in prepared.plan.nodes():
        own = {lane.id: found for lane in lanes.of(node.id) if (found := _events_of(lane, batches))}
        if own:
            yield _compiled(prepared, node, own, lanes.ordered(node.id))


def _events_of(lane: Lane, batches: list[EventBatch]) -> list[EventBatch]:
    import numpy as np

    from dgs.model.events import declared_stream

    found = []
    for batch in batches:
        if declared_stream(batch.stream) == declared_stream(lane.stream):
            is_of_lane = np.array([tag in lane.tags for tag in batch.tags])
            codes = np.zeros(len(batch), np.int32) if batch.codes is None else batch.codes
            rows = np.flatnonzero(is_of_lane[codes])
            if len(rows):
                found.append(batch.take(rows))
    return found


def _compiled(
    prepared: Prepared, node: PlanNode, own: dict[int, list[EventBatch]], ordered: dict[int, tuple[int, ...]]
) -> CompiledWorker:
    """Fold the events of each lane of a worker alone, then those of all, so that each loop is made."""
    from dgs.errors import UserCodeError
    from dgs.errors.resources import CompileError
    from dgs.workers.protocol.bounds import BOUNDS
    from dgs.workers.protocol.folding.fold import Folder
    from dgs.workers.protocol.folding.to_compile import ToCompile
    from dgs.workers.protocol.releases import Release

    program = prepared.program
    own_type = next(one for one in program.states() if one.name == node.state_type)
    # programs with `update_batch` leave short stretches to `update`
    state_type = replace(own_type, update_batch=None, update_windows=None)
    bounds = replace(BOUNDS, few_events=0)
    folder = Folder(program, state_type, node.id, bounds, compiled=ToCompile(state_type.update, True))
    releases = [Release((lane,) * len(some), some, ordered) for lane, some in own.items()]
    pairs = [(lane, batch) for lane, some in own.items() for batch in some]
    releases.append(Release(tuple(lane for lane, _ in pairs), [batch for _, batch in pairs], ordered))
    why_not = None
    for release in releases:
        try:
            folder.fold(program.init(), release)
        except CompileError as error:
            why_not = why_not or error.problem
        except UserCodeError as error:
            why_not = why_not or f"the first events cannot be folded alone: {error.error}"
    found = folder.compiled_counts
    if found is None:
        return CompiledWorker(node.id, False, 0.0, 0, 0, why_not)
    loops = found.loops_compiled + found.loops_cached
    return CompiledWorker(
        node.id, found.is_compiled, found.compile_seconds, loops, found.loops_cached, why_not
    )
