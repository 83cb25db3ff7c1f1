"""Running programs from Python: everything the command line does.

>>> from dgs import Program
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit):
...         emit(state + event.payload)
...         return state + event.payload
>>> finished = run(Total, streams={"early": [("n", 1, 10)], "late": [("n", 1, 5), ("n", 2, 1)]}, verify=True)
>>> finished.outputs, finished.state, finished.verified
([10, 15, 16], 16, True)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import UsageError
from dgs.program import Program
from dgs.run_outcome import Run

if TYPE_CHECKING:
    from dgs.settings import Given
    from planner.plan import Plan

__all__ = ["Run", "run"]


def run(
    job: str | os.PathLike[str] | Program | type[Program],
    *,
    streams: Mapping[str, Iterable[Any]] | None = None,
    runtime: str | Mapping[str, Any] | None = None,
    optimizer: str | Mapping[str, Any] | None = None,
    plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    max_events: int | None = None,
    verify: bool = False,
    tolerance: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
) -> Run:
    """Run a plan file, or a program over streams from Python; return its outputs, report, plan and final state.

    `streams`: items by stream: `(tag, ts, payload)`, Event, Heartbeat or EventBatch; the order of the streams breaks ties.
    With a plan file, the data of its `memory` sources. `runtime`, `optimizer`: a name, or a section of the plan file.
    `plan`: a plan to use instead of making one. `settings`: other values by path, such as {"runtime.linger": "10ms"}.
    `max_events`: take only the first so many, in the total order. `verify`: compare with the sequential program
    (`tolerance` for floats). `run_dir`: where to write the run directory; a plan file's is `.dgs/runs/<id>` beside it, and a
    program over streams from Python leaves none unless asked.

    Raises any DgsError.
    """
    from dgs.api import preparing, running
    from dgs.run_directory import RunDirectory

    given = overrides(runtime=runtime, optimizer=optimizer, plan=plan, settings=settings)
    if isinstance(job, (str, os.PathLike)):
        request = preparing.from_file(job, given, memory=streams)
    else:
        if streams is None:
            raise UsageError(message="dgs.run(program) needs streams={...}")
        request = preparing.from_program(job() if isinstance(job, type) else job, streams, given)
    tree = plan if plan is not None and not isinstance(plan, (str, os.PathLike, Mapping)) else None
    prepared = preparing.prepare(request, plan=tree, max_events=max_events)
    directory = None
    if run_dir is not None:
        directory = RunDirectory.create(Path(run_dir))
    elif request.is_from_file:
        directory = RunDirectory.beside(request.base_dir)
    return running.execute(prepared, directory, collect=True, verify=verify, tolerance=tolerance)


def overrides(
    *,
    runtime: str | Mapping[str, Any] | None,
    optimizer: str | Mapping[str, Any] | None,
    plan: Any,
    settings: Mapping[str, Any] | None,
) -> dict[str, Given]:
    """Return the values given from Python by their paths in the plan file."""
    from dgs.plan_file import read_plan_section
    from dgs.settings import Given

    given = {path: Given(value, f"settings[{path!r}]") for path, value in (settings or {}).items()}
    for name, short, section in (("runtime", "kind", runtime), ("optimizer", "name", optimizer)):
        fields = {short: section} if isinstance(section, str) else section or {}
        given |= {f"{name}.{key}": Given(value, f"{name}=") for key, value in fields.items()}
    if isinstance(plan, (str, os.PathLike)):
        given["plan"] = Given(read_plan_section(plan), f"plan={os.fspath(plan)!r}")
    elif isinstance(plan, Mapping):
        given["plan"] = Given(dict(plan), "plan=")
    return given
