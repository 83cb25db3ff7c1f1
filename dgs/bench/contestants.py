"""The engines that a prepared job is measured on: the sequential program in a plain loop, and the runtimes.

`dgs bench` uses them for a plan file, and experiments/bench for the applications.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.preparing import Launch, Options, Prepared
from dgs.bench.measuring import Contestant, Expected, Measured
from dgs.errors import DgsError
from dgs.errors.raised import RAISED, is_ours
from dgs.job.schema import ProgramConfig
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.outputs import ColumnEmit
from dgs.model.program import Program
from dgs.model.user_code import user_error
from dgs.semantics.sequential import without_batches

if TYPE_CHECKING:
    from dgs.model.events import Event, EventBatch
    from dgs.workers.runtime.job import Job

FEW = 10
"""Timed runs collect outputs only if there is at most one per this many events, since collecting takes time, and beyond `buffer_bytes` a disk."""


def merged(streams: Iterable[list[Event]]) -> list[Event]:
    """Return the events of streams, given in the order of their ranks, in the total order.

    Sorting by time is enough, since the sort is stable. It merges sorted runs faster than any merge written in Python.
    """
    return sorted(chain.from_iterable(streams), key=attrgetter("ts"))


def folded(program: Program, events: Iterable[Event]) -> list[Any]:
    """Return the outputs of the sequential program over events in their total order, with a plain loop.

    Raises UserCodeError if `init` or `update` raises.
    """
    outputs: Any = ColumnEmit() if program.emits_columns else []
    emit = outputs if program.emits_columns else outputs.append
    update, event = program.states()[0].update, None
    try:
        state = program.init()
        for event in events:
            state = update(state, event, emit)
    except DgsError:
        raise
    except RAISED as error:
        if is_ours(error):
            raise
        raise user_error(program, "init" if event is None else "update", error, event=event) from error
    return columns.to_list(outputs.joined()) if program.emits_columns else outputs


def sequential_loop(prepared: Prepared) -> Measured:
    """Read the streams of a job, merge them, and call `update` on every event, as a program without a runtime would."""
    started = time.perf_counter()
    streams = [list(chain.from_iterable(b.events() for b in stream)) for stream in _streams(prepared)]
    events = merged(streams)
    outputs = folded(prepared.program, events)
    return Measured(len(events), time.perf_counter() - started, [outputs])


def expected(prepared: Prepared, *, tolerance: float | None = None) -> Expected:
    """Return the outputs of the sequential program, with an explanation of differences from them."""
    from dgs.api.verifying import compared

    done = sequential_loop(prepared)
    outputs = done.outputs or [[]]

    def explain(found: Sequence[Column]) -> list[str]:
        values = chain.from_iterable(map(columns.to_list, found))
        return compared(outputs[0], values, tolerance)

    return replace(Expected.of(outputs, done.events), explain=explain)


def contestants(
    prepared: Prepared, app: str, *, engines: Sequence[str], hosts: Sequence[int], expects: Expected
) -> Iterator[Contestant]:
    """Yield a job's contestants: the loop, and each runtime with and without the vectorised methods of the program.

    `engines`: some of loop, local and ray. `hosts`: how many host processes to try on Ray.
    """
    if "loop" in engines:
        yield Contestant(app, "loop", "scalar", expected=expects, run=lambda: sequential_loop(prepared))
    modes = ("scalar", "vectorised") if prepared.program.is_vectorised else ("scalar",)
    places = [("local", 1)] if "local" in engines else []
    places += [("ray", count) for count in hosts] if "ray" in engines else []
    for engine, count in places:
        for mode in modes:
            yield runtime(prepared, app, engine=engine, hosts=count, mode=mode, expects=expects)


def runtime(
    prepared: Prepared,
    app: str,
    *,
    engine: str,
    hosts: int,
    mode: str,
    expects: Expected,
    collects: bool = True,
) -> Contestant:
    """Return the contestant for a job on one of the runtimes. `collects`: timed runs also collect their outputs if these are few."""
    from dgs.api.running import run_job

    job = measured_job(prepared, engine=engine, hosts=hosts, mode=mode)

    def run(*, collect: bool) -> Measured:
        result = run_job(replace(job, collect=collect))
        found = [batch.values for batch in result.outputs] if collect else None
        done = result.figures
        more = {
            "first_output_seconds": done.first_output_seconds,
            "starved_reads": done.starved_reads,
            "cpu_seconds": {number: host.cpu_seconds for number, host in done.hosts.items()},
            "busy_seconds": {name: (one.host, one.busy_seconds) for name, one in done.workers.items()},
        }
        return Measured(done.events, done.seconds, found, done.outputs, more)

    keeps = collects and expects.fingerprint.count * FEW <= expects.events
    check = None if keeps else (lambda: run(collect=True))
    leaves = len(prepared.plan.leaves)
    return Contestant(
        app, engine, mode, leaves, hosts, expected=expects, run=lambda: run(collect=keeps), check=check
    )


def measured_job(prepared: Prepared, *, engine: str, hosts: int, mode: str) -> Job:
    """Return the job of a contestant: the prepared one without sinks."""
    job = Launch(prepared, options=Options(collect=True)).job
    runtime_section = job.runtime.model_copy(update={"kind": engine, "hosts": hosts})
    job = replace(job, sinks=(), runtime=runtime_section)
    if mode == "vectorised":
        return job
    ref = None if job.program_ref is None else _scalar_ref(job.program_ref, job.base_dir)
    return replace(job, program=without_batches(job.program), program_ref=ref)


def _scalar_ref(config: ProgramConfig, base_dir: Path) -> ProgramConfig:
    args: Mapping[str, Any] = {"ref": config.ref, "base_dir": str(base_dir), "args": config.args}
    return ProgramConfig(ref="dgs.job.loading:load_scalar", args=dict(args))


def _streams(prepared: Prepared) -> list[Iterator[EventBatch]]:
    from dgs.api.verifying import batches

    return [batches(prepared, rank, config) for rank, config in enumerate(prepared.config.streams)]
