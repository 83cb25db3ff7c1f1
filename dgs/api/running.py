"""Running a prepared job: run directory, runtime, comparison with the sequential program, results."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.preparing import Prepared
from dgs.config import FileSink, SinkConfig
from dgs.errors import DgsError
from dgs.run_directory import RunDirectory
from dgs.run_outcome import Run

if TYPE_CHECKING:
    from dgs.config import StreamConfig
    from dgs.events import EventBatch
    from workers.job import Caller, Job, JobResult


def execute(
    prepared: Prepared,
    directory: RunDirectory | None,
    *,
    collect: bool,
    verify: bool = False,
    tolerance: float | None = None,
    caller: Caller | None = None,
) -> Run:
    """Run a prepared job and write its results into its directory, also when it fails. Raises any DgsError."""
    from workers.job import NOBODY
    from workers.runtime import run_job

    started = time.time()
    job = job_of(prepared, directory, collect=collect or verify)
    if directory is not None:
        directory.write_plan(prepared.config, plan_data(prepared), prepared.request.base_dir)
    try:
        result = run_job(job, caller or NOBODY)
        differences = _differences(prepared, result, tolerance, job.log_dir) if verify else None
    except BaseException as error:
        if directory is not None:
            directory.write_results(_failure(prepared, started, error))
        raise
    report = _report(prepared, directory, started, result, differences)
    if directory is not None:
        directory.write_results(report)
    return Run(
        prepared.config.name,
        result.outputs if collect else (),
        state=result.state,
        plan=prepared.plan,
        report=report,
        run_dir=directory.path if directory is not None else None,
        differences=differences or (),
    )


def sinks_of(prepared: Prepared, directory: RunDirectory | None) -> tuple[SinkConfig, ...]:
    """Return the sinks of the plan file; without any, JSON lines in the run directory."""
    if prepared.config.sinks or directory is None:
        return tuple(prepared.config.sinks)
    return (SinkConfig(jsonl=FileSink(path=str(directory.outputs))),)


def job_of(prepared: Prepared, directory: RunDirectory | None, *, collect: bool) -> Job:
    """Return what a runtime is asked to do."""
    from workers.job import Job

    config, request = prepared.config, prepared.request
    return Job(
        program=prepared.program,
        plan=prepared.plan,
        streams=tuple(config.streams),
        base_dir=request.base_dir,
        output_dir=directory.path if directory is not None else Path(tempfile.gettempdir()),
        runtime=config.runtime,
        sinks=sinks_of(prepared, directory),
        program_ref=config.program if request.is_from_file else None,
        unit=config.time.unit,
        memory=request.memory,
        collect=collect,
        until=prepared.until,
        rates={stream.id: stream.rates for stream in prepared.topology.streams},
        checkpoint=config.checkpoint,
        checkpoint_dir=checkpoint_dir(prepared, directory),
        control_dir=None if directory is None else directory.path / "control",
        on_error=config.on_error,
        delivery=config.delivery,
    )


def checkpoint_dir(prepared: Prepared, directory: RunDirectory | None) -> Path | None:
    """Return where checkpoints go: as the plan file says, else into the run directory; None without either."""
    section = prepared.config.checkpoint
    if section is not None and section.dir is not None:
        return prepared.request.base_dir / section.dir
    return None if directory is None else directory.path / "checkpoints"


def _differences(
    prepared: Prepared, result: JobResult, tolerance: float | None, log_dir: Path | None
) -> list[str]:
    """Run the sequential program on the same input; return the first differences, none if the outputs are equal."""
    from dgs import sequential
    from dgs.verify import compare

    streams = [
        batches(prepared, rank, config, log_dir) for rank, config in enumerate(prepared.config.streams)
    ]
    expected = sequential.run(prepared.program, streams)
    got = (value for batch in result.outputs for value in batch.to_list())
    comparison = compare((output.value for output in expected.outputs), got, tolerance=tolerance)
    lines = [] if comparison.is_equal else str(comparison).splitlines()
    if expected.events != result.figures["events_in"]:
        read = result.figures["events_in"]
        lines.append(f"the sequential program read {expected.events:,} events, the run {read:,}")
    return lines


def batches(
    prepared: Prepared, rank: int, config: StreamConfig, log_dir: Path | None = None
) -> Iterator[EventBatch]:
    """Yield all batches of a declared stream, in its order: not dealt to its splits."""
    from dgs.order import END
    from workers.sources import open_source

    request = prepared.request
    source = open_source(
        config.model_copy(update={"split": 1}),
        rank=rank,
        unit=prepared.config.time.unit,
        base_dir=request.base_dir,
        program=prepared.program,
        memory=request.memory,
        batch_rows=prepared.config.runtime.batch_rows,
        until=prepared.until,
        log_dir=log_dir,
    )
    try:
        frontier = None
        while frontier != END:
            reading = source.read()
            frontier = reading.frontier
            yield from reading.batches
    finally:
        source.close()


def plan_data(prepared: Prepared) -> dict[str, Any]:
    """Return the plan as the `plan:` section of a plan file."""
    from planner.plan_data import to_data

    streams = [name for config in prepared.config.streams for name in config.impl_streams]
    return to_data(prepared.plan, prepared.program, streams=streams)


def _about(prepared: Prepared, started: float) -> dict[str, Any]:
    return {
        "name": prepared.config.name,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started)),
        "runtime": prepared.config.runtime.kind,
        "plan": {
            "optimizer": prepared.plan.optimizer,
            "workers": len(prepared.plan),
            "leaves": len(prepared.plan.leaves),
            "depth": prepared.plan.depth,
        },
    }


def _report(
    prepared: Prepared,
    directory: RunDirectory | None,
    started: float,
    result: JobResult,
    differences: list[str] | None,
) -> dict[str, Any]:
    """Return what results.json and `--json` say of a run that ended well."""
    figures = dict(result.figures)
    seconds = figures["seconds"]
    return {
        "status": "done",
        **_about(prepared, started),
        "events_in": figures.pop("events_in"),
        "outputs": figures.pop("outputs"),
        "seconds": figures.pop("seconds"),
        "throughput_eps": result.figures["events_in"] / seconds if seconds > 0 else None,
        "hosts": figures.pop("hosts"),
        "workers": figures.pop("workers"),
        "drops": figures.pop("drops"),
        "verified": None if differences is None else not differences,
        "differences": differences or [],
        "run_dir": str(directory.path) if directory is not None else None,
        **figures,
    }


def _failure(prepared: Prepared, started: float, error: BaseException) -> dict[str, Any]:
    told = error_data(error)
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    return {"status": status, **_about(prepared, started), "error": told, "seconds": time.time() - started}


def error_data(error: BaseException) -> dict[str, Any]:
    """Return an error as data: its code, its sentence and its facts."""
    if not isinstance(error, DgsError):
        return {"code": None, "message": f"{type(error).__name__}: {error}"}
    facts = {name: value for name, value in error.facts.items() if name != "trace"}
    trace = error.facts.get("trace") or ""
    message = str(error).removeprefix(trace).lstrip("\n")
    plain = {
        name: value if isinstance(value, (int, float, str, type(None))) else str(value)
        for name, value in facts.items()
    }
    return {"code": error.code, "message": message, "facts": plain, **({"trace": trace} if trace else {})}
