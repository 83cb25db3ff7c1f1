"""Opening the sink of a section of `sinks:`, and what it promises about repeats after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from dgs.job.loading import load_function
from dgs.job.schema import SinkConfig
from dgs.workers.sinks.contract import CallableSink, HostSink, NoneSink
from dgs.workers.sinks.custom_sink import Generation, connected_sink
from dgs.workers.sinks.files.places import CONNECTED, PartNames, sink_place
from dgs.workers.sinks.files.table_sinks import csv_sink, jsonl_sink, parquet_sink, spark_sink
from dgs.workers.sinks.formats.identified import IdentifiedOutputs
from dgs.workers.sinks.publisher import connected, connected_by

CENTRAL = ("memory", "stdout")
"""Kinds of sinks in the caller's process instead of the hosts."""

Delivery = Literal["exactly_once", "at_least_once"]

_FILES: dict[str, Callable[[PartNames], HostSink]] = {
    "jsonl": jsonl_sink,
    "csv": csv_sink,
    "parquet": parquet_sink,
    "spark": spark_sink,
}


def is_central(config: SinkConfig) -> bool:
    """Return whether the sink must be in the caller's process instead of the hosts."""
    return config.kind in CENTRAL


def open_sink(
    config: SinkConfig,
    *,
    output_dir: Path,
    base_dir: Path,
    host: int,
    generation: int = 1,
    by_epoch: bool = False,
    run: str = "",
    continues: bool = False,
    epoch: int = 0,
    splits: Mapping[str, int] | None = None,
    program: str = "",
    job: Path | None = None,
) -> HostSink:
    """Open a sink of one host. Paths are relative to `base_dir`; file sinks without a path write to `output_dir`.

    `by_epoch`: the run has checkpoints, and files are committed epoch by epoch. Otherwise all hosts must open their sinks before
    any closes one. `run`: the id of the run, which stays the same after a resume, so that databases recognise it. `continues`:
    the run has committed outputs, so its tables must exist. `epoch`: the last committed one. `splits`: the number of splits of
    each declared stream. `program`: its name, for messages. `job`: whose outputs these are (`Job.owner`).

    Raises OutputUnwritableError, FencedError if a newer generation of the run writes there, ProgramImportError for a missing
    function.
    """
    details = config.details
    if config.kind == "none":
        return NoneSink()
    if config.kind == "callable":
        function = load_function(details.ref, base_dir)
        return CallableSink(function, details.args, ref=details.ref, program=program)
    if config.kind in CONNECTED:
        committed = connected(*connected_by(config), base_dir, program=program, job=job)
        committed.open(Generation(run, generation, epoch), host)
        return committed
    if config.kind == "sqlite":
        from dgs.workers.sinks.sqlite_sink import SqliteSink
        from dgs.workers.sinks.sqlite_tables import Writer

        appends = details.mode == "append"
        writer = Writer(run, generation, continues, appends=appends, job=job, may_go_on=by_epoch)
        return SqliteSink(base_dir / details.path, details.table, writer, splits=splits)
    place = sink_place(config, output_dir=output_dir, base_dir=base_dir, run=run)
    return _file_sink(config, PartNames(place, host, generation, by_epoch))


def _file_sink(config: SinkConfig, names: PartNames) -> HostSink:
    sink, columns = _FILES[config.kind](names), config.details.identity_columns()
    return IdentifiedOutputs(sink, columns) if columns else sink


def is_exactly_once(config: SinkConfig, delivery: Delivery, base_dir: Path = Path()) -> bool:
    """Return whether a sink of a checkpointed run gets each output exactly once, whatever crashes.

    Files are committed with a checkpoint, and databases remember marks. Sinks of the caller hold outputs back until they are
    committed, if `delivery` says so. A function cannot do any of this. Custom sinks can if they publish. `base_dir`: the start
    of their relative paths. Raises ProgramImportError.
    """
    if config.kind in CENTRAL:
        return delivery == "exactly_once"
    if config.kind == "custom":
        return connected_sink(config.details.ref, config.details.args, base_dir, program="").publishes
    return config.kind != "callable"


def deliveries(sinks: Sequence[SinkConfig], delivery: Delivery, base_dir: Path = Path()) -> str | None:
    """Return a sentence on the sinks that give less than `delivery: exactly_once`, None if there are none.

    >>> sinks = [SinkConfig.model_validate({"callable": {"ref": "send.py:post"}}), SinkConfig.model_validate("stdout")]
    >>> print(deliveries(sinks, "exactly_once"))
    after a crash, sink `callable: send.py:post` may see outputs again (at least once, with the same ids); the others see each exactly once
    >>> deliveries(sinks[1:], "exactly_once") is None
    True
    """
    if delivery == "at_least_once":
        return None
    weak = [config for config in sinks if not is_exactly_once(config, delivery, base_dir)]
    if not weak:
        return None
    named = ", ".join(f"`{config.kind}: {config.details.ref}`" for config in weak)
    rest = "" if len(weak) == len(sinks) else "; the others see each exactly once"
    return (
        f"after a crash, sink{'s' if len(weak) > 1 else ''} {named} may see outputs again"
        f" (at least once, with the same ids){rest}"
    )
