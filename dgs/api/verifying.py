"""The sequential program over the input of a run: compared with the run's outputs, and the oracle of the simulation.

A resumed run has written its outputs in several processes, so the committed files are read back. A value that a file cannot hold
unchanged, such as a tuple in JSON, is compared in the form that the file holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dgs.errors import UsageError
from dgs.job import private_files

if TYPE_CHECKING:
    from pathlib import Path

    from dgs.api.preparing import Launch, Prepared
    from dgs.job.schema import SinkConfig, StreamConfig
    from dgs.model.events import EventBatch
    from dgs.workers.runtime.job import JobResult
    from dgs.workers.simulated.case import Case

READABLE = ("jsonl", "parquet")
"""The kinds of sinks whose files can be read back."""


def differences(launch: Launch, result: JobResult) -> list[str]:
    """Run the sequential program; return its first differences to the collected outputs."""
    got = (value for batch in result.outputs for value in batch.to_list())
    expected, lines = _expected(launch, result, (letter.identity for letter in result.dead_letters))
    return [*compared(expected, got, launch.options.tolerance), *lines]


def check_readable(sinks: Sequence[SinkConfig]) -> None:
    """Raise UsageError unless the committed outputs of these sinks can be read back."""
    for sink in sinks:
        problem = None
        if sink.kind not in READABLE:
            problem = "cannot be read"
        elif sink.details.mode == "append":
            problem = "also holds outputs of other runs"
        elif sink.details.identity:
            problem = "has columns beside the outputs (`identity`)"
        if problem is not None:
            message = (
                f"--verify of a resumed run reads the committed outputs back, from {' or '.join(READABLE)} files: "
                f"the sink {sink.kind!r} {problem}"
            )
            raise UsageError(message=message)


def check_answers(prepared: Prepared) -> None:
    """Raise UsageError if the program is a query whose answers, each over all rows so far, come at ticks: which come depends on the machine.

    Answers by window are the same at any ticks.
    """
    from dgs.job.queries.query_programs import REF

    every = [one.source.details.every for one in prepared.config.streams if one.source.kind == "ticks"]
    is_query = prepared.config.program.ref == REF and not getattr(prepared.program, "at", None)
    if is_query and any(one is not None for one in every):
        message = (
            "--verify: the query is answered at multiples of `every`, and which of them come depends on the machine: "
            "write `answer: end` or `answer: {rows: N}` for a run that is compared"
        )
        raise UsageError(message=message)


def file_differences(launch: Launch, result: JobResult) -> list[str]:
    """Run the sequential program; return its first differences to the committed files."""
    from dgs.workers.sinks.files.places import sink_place

    job, tolerance = launch.job, launch.options.tolerance
    expected, lines = _expected(launch, result, _skipped_in(job.dead_letter_dir))
    for sink in job.sinks:
        files = sink_place(sink, output_dir=job.output_dir, base_dir=job.base_dir).finals()
        if sink.kind == "jsonl":
            lines = [*compared(_as_json(expected), _lines(files), tolerance), *lines]
        else:  # a column has one type, so 1 may have become 1.0
            lines = [*compared(_as_rows(expected), _rows(files), tolerance or 0.0), *lines]
    return lines


def batches(
    prepared: Prepared, rank: int, config: StreamConfig, log_dir: Path | None = None
) -> Iterator[EventBatch]:
    """Yield all batches of a declared stream in its order, not dealt to splits."""
    from dgs.api.preparing import context_of
    from dgs.model.order import END
    from dgs.workers.sources import open_source

    if config.source.kind == "ticks":
        yield from _ticks(prepared, rank, config, log_dir)
        return
    source = open_source(
        config.model_copy(update={"split": 1}),
        context_of(prepared.request, prepared.program, log_dir),
        rank=rank,
        batch_rows=prepared.config.runtime.batch_rows,
        until=prepared.until,
    )
    try:
        frontier = None
        while frontier != END:
            reading = source.read()
            frontier = reading.frontier
            yield from reading.batches
    finally:
        source.close()


def _ticks(prepared: Prepared, rank: int, config: StreamConfig, log_dir: Path | None) -> Iterator[EventBatch]:
    """Yield the last tick; with `start:` all ticks up to the greatest ts of the other streams, which are read to find it."""
    from dgs.api.preparing import context_of
    from dgs.model.order import MIN_TS
    from dgs.workers.sources.ticks import open_ticks

    latest = MIN_TS
    if config.source.details.start is not None:
        others = ((i, other) for i, other in enumerate(prepared.config.streams) if i != rank)
        read = (batch for i, other in others for batch in batches(prepared, i, other, log_dir))
        latest = max((int(batch.ts[-1]) for batch in read if len(batch)), default=latest)
    context = context_of(prepared.request, prepared.program, log_dir)
    ticks = open_ticks(config, context, rank=rank, follows=False, latest=latest)
    while ticks.wait == 0:
        yield from ticks.read().batches


def _expected(
    launch: Launch, result: JobResult, skipped: Iterable[tuple[str, int, int]]
) -> tuple[list[Any], list[str]]:
    """Return the outputs of the sequential program, and lines on the events that it read or skipped and the run did not."""
    from dgs.semantics import sequential
    from dgs.semantics.comparison import compare

    prepared, job = launch.prepared, launch.job
    configs = enumerate(prepared.config.streams)
    done = sequential.run(
        prepared.program,
        [batches(prepared, rank, config, job.log_dir) for rank, config in configs],
        on_error=job.on_error,
    )
    read = result.figures.events
    lines = []
    has_ticks = any(config.source.kind == "ticks" for config in prepared.config.streams)
    if done.events != read and not has_ticks:  # the number of ticks is not part of the input
        lines.append(f"the sequential program read {done.events:,} events, the run {read:,}")
    comparison = compare((letter.identity for letter in done.skipped), skipped)
    if not comparison.is_equal:
        lines.append("the run skipped other events (stream, ts, row) than the sequential program:")
        lines += [f"  {line}" for line in comparison.differences()]
    return [output.value for output in done.outputs], lines


def _skipped_in(directory: Path | None) -> Iterator[tuple[str, int, int]]:
    """Yield the events of the dead letters of a run, as (stream, ts, row)."""
    from dgs.workers.sinks.files.places import dead_letter_place

    if directory is not None:
        for letter in _lines(dead_letter_place(directory).finals()):
            yield letter["stream"], letter["ts"], letter["seq"]


def compared(expected: Iterable[Any], got: Iterable[Any], tolerance: float | None) -> list[str]:
    """Return the first differences between outputs and the expected ones as multisets, one per line."""
    from dgs.semantics.comparison import compare

    comparison = compare(expected, got, tolerance=tolerance)
    return [] if comparison.is_equal else str(comparison).splitlines()


def _as_json(values: Iterable[Any]) -> Iterator[Any]:
    from dgs.workers.sinks.formats.json_text import as_json

    return (json.loads(as_json(value)) for value in values)


def _lines(files: Iterable[Path]) -> Iterator[Any]:
    for path in files:
        with open(path, encoding="utf-8", opener=private_files.opener) as file:
            yield from map(json.loads, file)


def _as_rows(values: Iterable[Any]) -> Iterator[Any]:
    from dgs.workers.sinks.formats.arrow_tables import table_of

    return map(_without_nulls, table_of(list(values)).to_pylist())


def _rows(files: Iterable[Path]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    for path in files:
        yield from map(_without_nulls, pq.read_table(path).to_pylist())


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a table without nulls: a null may stand for a field that the record does not have."""
    return {name: value for name, value in row.items() if value is not None}


def case_of(prepared: Prepared, *, keeps_plan: bool = False, tolerance: float | None = None) -> Case:
    """Return the case of a job; reads its sources up to `until`. `keeps_plan`: all runs have its plan, else random ones."""
    from dgs.api.preparing import context_of
    from dgs.model.tag_sets import union
    from dgs.workers.simulated.case import Case
    from dgs.workers.simulated.layout import Layout
    from dgs.workers.sources.ticks import some_ticks

    declared = prepared.config.streams
    seen = {stream.id: stream.tags for stream in prepared.topology.streams}
    layout = None
    if keeps_plan:
        layout = Layout(prepared.plan, {config.id: len(config.impl_streams) for config in declared})
    streams = {config.id: list(batches(prepared, rank, config)) for rank, config in enumerate(declared)}
    for rank, config in enumerate(declared):
        if config.source.kind == "ticks":
            context = context_of(prepared.request, prepared.program)
            others = [batch for name, some in streams.items() if name != config.id for batch in some]
            streams[config.id] = [some_ticks(config, context, rank=rank, streams=others)]
    return Case(
        prepared.program,
        streams,
        {config.id: union(seen[name] for name in config.impl_streams) for config in declared},
        layout,
        tolerance,
    )
