"""From a prepared job to what the simulation runs: its program, the events of its streams, and what may arrive on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dgs.api.preparing import Prepared
from dgs.api.verifying import batches

if TYPE_CHECKING:
    from workers.simulated.case import Case


def case_of(prepared: Prepared, *, keeps_plan: bool = False, tolerance: float | None = None) -> Case:
    """Return the case of a job. `keeps_plan`: all runs have its plan, else random ones. Reads the sources, as far as `until`."""
    from dgs.tagset import union
    from workers.simulated.case import Case
    from workers.simulated.layout import Layout

    declared = prepared.config.streams
    seen = {stream.id: stream.tags for stream in prepared.topology.streams}
    layout = None
    if keeps_plan:
        layout = Layout(prepared.plan, {config.id: len(config.impl_streams) for config in declared})
    return Case(
        prepared.program,
        {config.id: list(batches(prepared, rank, config)) for rank, config in enumerate(declared)},
        {config.id: union(seen[name] for name in config.impl_streams) for config in declared},
        layout,
        tolerance,
    )
