"""Opening the sink of a section of `sinks:`; its promise about repeats after a crash, and its collisions with other places.

Sinks collide if one writes where a source reads, or where another sink writes.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> streams = [StreamConfig(id="s", tags={"kind": "n"}, source={"jsonl": {"path": "part-*"}})]
>>> sinks = [SinkConfig.model_validate({"jsonl": {"path": "."}})]
>>> check_no_collisions(targets(sinks, output_dir=folder, base_dir=folder), streams, folder)  # doctest: +ELLIPSIS
Traceback (most recent call last):
dgs.workers.sinks.opening.OutputIsInputError: the sink 'jsonl' writes into ..., where the source of stream 's' reads (part-*)...

The publisher of a run makes committed outputs visible, in the process that started the run.

>>> publisher = Publisher((), Path(), program="Sums")
>>> publisher.publish([])
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from dgs import codec
from dgs.errors import CodecError, InvalidError
from dgs.errors.hidden_values import masked_data, revealed
from dgs.job.loading import load_function
from dgs.job.schema import SinkConfig, StreamConfig
from dgs.model.outputs import OutputBatch, with_event
from dgs.workers.recovery.checkpoint import Holds, StagedFile, StagedOutput, StagedPart, of_sink
from dgs.workers.sinks.contract import CallableSink, HostSink, NoneSink
from dgs.workers.sinks.custom_sink import ConnectedSink, Generation, connected_sink
from dgs.workers.sinks.files import publishing
from dgs.workers.sinks.files.file_sink import csv_sink, jsonl_sink, parquet_sink, spark_sink
from dgs.workers.sinks.files.places import (
    CONNECTED,
    FILE_KINDS,
    LAKE_KINDS,
    PartNames,
    Place,
    dead_letter_place,
    sink_place,
)
from dgs.workers.sinks.formats.identified import IdentifiedOutputs
from dgs.workers.sinks.formats.json_text import plain


def connected_by(config: SinkConfig) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a sink's class, or the kind of a lake, and its arguments.

    >>> connected_by(SinkConfig.model_validate({"delta": {"path": "out", "mode": "append"}}))[0]
    'delta'
    """
    if config.kind == "custom":
        return config.details.ref, config.details.args
    return config.kind, config.details.model_dump(exclude_defaults=True)


def connected(
    ref: str, args: Mapping[str, Any], base_dir: Path, *, program: str, job: Path | None = None
) -> ConnectedSink:
    """Return the sink of a name and arguments. `job`: the job of its outputs. Raises ProgramImportError, MissingPackageError."""
    if ref not in LAKE_KINDS:
        return connected_sink(ref, args, base_dir, program=program)
    from dgs.workers.sinks.lake.lake_sink import kinds_in, lake_sink

    made = lake_sink(ref, args, base_dir, job)
    return ConnectedSink(made, ref=ref, args=args, program=program, parts=kinds_in)


class Publisher:
    """Publishes files, and parts of custom sinks and lake tables, with one object per sink. Raises ProgramImportError if one cannot be made.

    `job`: the job of these outputs, for the lists of files. Outputs that an earlier process has staged are checked before publishing.
    """

    def __init__(
        self, sinks: Iterable[SinkConfig], base_dir: Path, *, program: str, job: Path | None = None
    ) -> None:
        self._base_dir, self._program, self._job = base_dir, program, job
        self._has_begun = False
        self._sinks: dict[bytes, ConnectedSink] = {}
        named = [(name, config) for name, config in named_sinks(sinks) if config.kind in CONNECTED]
        self._own = {name: self._sink(*connected_by(config)) for name, config in named}

    def publish(self, staged: Sequence[StagedOutput]) -> None:
        """Publish staged outputs. Those that are already visible stay so.

        Raises OutputUnwritableError, OutputsChangedError, UserCodeError.
        """
        files = [file for file in staged if isinstance(file, StagedFile)]
        if not self._has_begun:
            publishing.check_staged(files)
        publishing.publish(files, self._job)
        parts: dict[ConnectedSink, list[bytes]] = {}
        for part in staged:
            if isinstance(part, StagedPart):
                parts.setdefault(self._sink(part.sink, part.args), []).append(part.staged)
        for sink, its in parts.items():
            sink.publish(its)

    @property
    def places(self) -> list[tuple[str, str]]:
        """The name of each sink of the job, with a text that identifies its place. Raises UserCodeError."""
        return [(sink.ref, sink.place(self._base_dir)) for sink in self._own.values()]

    def begin(self, generation: Generation, holds: Holds) -> None:
        """Tell the sinks that a generation begins. Raises UserCodeError."""
        self._has_begun = True
        for name, sink in self._own.items():
            sink.begin(replace(generation, held=max(of_sink(holds, name).values(), default=0)))

    def close(self) -> None:
        """Close the sinks in this process. Raises UserCodeError."""
        for sink in self._sinks.values():
            sink.close()

    def _sink(self, ref: str, args: Mapping[str, Any]) -> ConnectedSink:
        """Return the sink with a name and arguments, from the job or from the checkpoint that the run resumes."""
        key = codec.encode((ref, masked_data(args)))
        if key not in self._sinks:
            self._sinks[key] = connected(
                ref, revealed(args), self._base_dir, program=self._program, job=self._job
            )
        return self._sinks[key]


def named_sinks(configs: Iterable[SinkConfig]) -> Iterator[tuple[str, SinkConfig]]:
    """Yield the sinks of a plan file with names: the kind, and a number for the second of a kind.

    >>> kinds = [SinkConfig(stdout=True), SinkConfig(jsonl={"path": "a"}), SinkConfig(jsonl={"path": "b"})]
    >>> [name for name, _ in named_sinks(kinds)]
    ['stdout', 'jsonl', 'jsonl 2']
    """
    seen: Counter[str] = Counter()
    for config in configs:
        seen[config.kind] += 1
        yield config.kind if seen[config.kind] == 1 else f"{config.kind} {seen[config.kind]}", config


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
    bound: int = 256 * 2**20,
    meanwhile: Callable[[], None] = lambda: None,
) -> HostSink:
    """Open a sink of one host. Paths are relative to `base_dir`; file sinks without a path write to `output_dir`.

    `by_epoch`: the run has checkpoints, and files are committed epoch by epoch. Otherwise all hosts must open their sinks before
    any closes one. `run`: the id of the run, which stays the same after a resume, so that databases recognise it. `continues`:
    the run has committed outputs, so its tables must exist. `epoch`: the last committed one. `splits`: the number of splits of
    each declared stream. `program`: its name, for messages. `job`: the owner of the outputs (`Job.owner`).
    `bound`: the bytes of outputs that may wait in the sink. `meanwhile`: called again and again while the sink waits for others.

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
        return SqliteSink(
            base_dir / details.path, details.table, writer, splits=splits, bound=bound, meanwhile=meanwhile
        )
    place = sink_place(config, output_dir=output_dir, base_dir=base_dir, run=run)
    return _file_sink(config, PartNames(place, host, generation, by_epoch))


def put(sink: HostSink, batch: OutputBatch, epoch: int) -> None:
    """Write outputs into a sink. Raises OutputUnwritableError, and CodecError, with the event if the sink writes at once."""
    try:
        sink.write(batch, epoch)
    except CodecError as error:
        raise with_event(error, batch, plain) from error


def _file_sink(config: SinkConfig, names: PartNames) -> HostSink:
    sink, columns = _FILES[config.kind](names), config.details.identity_columns()
    return IdentifiedOutputs(sink, columns) if columns else sink


def is_exactly_once(config: SinkConfig, delivery: Delivery, base_dir: Path = Path()) -> bool:
    """Return whether a sink of a checkpointed run gets each output exactly once, whatever crashes.

    Files are committed with a checkpoint, and databases remember marks. Sinks of the caller hold outputs back until they are committed, if
    `delivery` says so. A function can do none of this. A custom sink can if it publishes. `base_dir`: the start of their relative paths.
    Raises ProgramImportError.
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


FILE_SOURCES = ("csv", "jsonl", "parquet")
LAYOUTS = ("0", "000001-0", "0a1b2c3d-0", "0a1b2c3d-000001-0")
"""The forms of the names of new files after their stem: see `PartNames`."""


LAKE_FILES = ("part-0a1b2c3d-000001-0.g1-0.parquet",)
"""A name like those of a Delta table's data files."""


class OutputIsInputError(InvalidError):
    """A sink would write where a source of the same plan reads."""

    code = "DGS313"
    template = "the sink {kind!r} writes into {path}, where the source of stream {stream!r} reads ({source})"
    fix = "Name another place in the sink's `path`"


class SharedOutputError(InvalidError):
    """Two sinks of a plan write to one place."""

    code = "DGS316"
    template = "two sinks of the plan, {kinds}, write to the same {path}"
    fix = "Leave one out, or name another place in its `path` or `args`"


@dataclass(frozen=True, slots=True)
class Target:
    """A place that a sink writes. `path`: a directory that gets files `names`, or a file if there are no names. `part`: a part of it."""

    kind: str
    path: Path
    names: tuple[str, ...] = ()
    finals: tuple[Path, ...] = ()
    part: str = ""

    @property
    def identity(self) -> tuple[Path, str]:
        """A value that is equal for sinks that would mix their outputs."""
        return self.path.resolve(), self.part

    @property
    def files(self) -> Iterator[Path]:
        """The current and future files, by the resolved names of their directories."""
        if not self.names:
            yield self.path.resolve()
        yield from (self.path.resolve() / name for name in self.names)
        yield from (path.resolve() for path in self.finals)


def targets(
    sinks: Iterable[SinkConfig], *, output_dir: Path, base_dir: Path, dead_letters: bool = False
) -> list[Target]:
    """Return the places of sinks with files or a database, and that of dead letters, if there may be any."""
    found = [_target("dead letters", dead_letter_place(output_dir))] if dead_letters else []
    for sink in sinks:
        if sink.kind == "sqlite":
            found.append(Target("sqlite", base_dir / sink.details.path, part=sink.details.table))
        elif sink.kind in LAKE_KINDS:
            is_delta = sink.kind == "delta"  # its files have names like those of `parquet` and `spark`
            part = "part.parquet" if is_delta else f"iceberg {sink.details.table}"
            found.append(Target(sink.kind, base_dir / sink.details.path, LAKE_FILES, part=part))
        elif sink.kind in FILE_KINDS:
            found.append(_target(sink.kind, sink_place(sink, output_dir=output_dir, base_dir=base_dir)))
    return found


def _target(kind: str, place: Place) -> Target:
    names = tuple(f"{place.stem}-{layout}.{place.suffix}" for layout in LAYOUTS)
    return Target(kind, place.directory, names, tuple(place.finals()), f"{place.stem}.{place.suffix}")


def check_no_collisions(found: Sequence[Target], streams: Iterable[StreamConfig], base_dir: Path) -> None:
    """Raise SharedOutputError if two targets are one place, OutputIsInputError if a stream reads a file of a target."""
    for number, target in enumerate(found):
        for other in found[:number]:
            if target.identity == other.identity:
                kinds = f"{other.kind!r} and {target.kind!r}"
                raise SharedOutputError(kinds=kinds, path=target.path)
    for stream in streams:
        for source in _read_by(stream):
            for target in found:
                if _reads(stream.source.kind, base_dir / source, target):
                    raise OutputIsInputError(
                        kind=target.kind, path=target.path, stream=stream.id, source=source
                    )


def unshared(places: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the names of the job's own sinks with their places. Raises SharedOutputError if two are one place.

    >>> unshared([("a.py:A", "place t"), ("b.py:B", "place u")])
    [('a.py:A', 'place t'), ('b.py:B', 'place u')]
    """
    found: dict[str, str] = {}
    for ref, place in places:
        if place in found:
            raise SharedOutputError(kinds=f"{found[place]!r} and {ref!r}", path=place)
        found[place] = ref
    return [(ref, place) for place, ref in found.items()]


def _read_by(stream: StreamConfig) -> Iterator[str]:
    """Yield the paths that a source reads: those of files, and of its event log."""
    for name in ("path", "log"):
        path = getattr(stream.source.details, name, None)
        if isinstance(path, str):
            yield path.removeprefix("file://")


def _reads(kind: str, source: Path, target: Target) -> bool:
    """Return whether a path or glob names a current or future file of a target, also through links."""
    if kind not in FILE_SOURCES and any(path.is_relative_to(source.resolve()) for path in target.files):
        return True
    if source.resolve() == target.path.resolve():
        return True
    there = [Path(name) for name in glob.glob(str(source), recursive=True)]  # noqa: PTH207 - Path.glob refuses absolute patterns
    identities = {(found.st_dev, found.st_ino) for path in there if (found := path.stat())}
    written = [path for path in target.files if path.exists()]
    if any((found.st_dev, found.st_ino) in identities for path in written if (found := path.stat())):
        return True
    return any(_matches(path, source) for path in target.files)


def _matches(new: Path, source: Path) -> bool:
    """Return whether a glob would find a new file, in a directory that it searches."""
    folder, name = (source, "*") if source.name == "**" else (source.parent, source.name)
    folders = glob.glob(str(folder), recursive=True)  # noqa: PTH207 - as above
    if any(Path(found).resolve() == new.parent for found in folders):
        return fnmatchcase(new.name, name)
    resolved = source.parent.resolve() / source.name
    return new.match(str(resolved)) or ("**" in str(resolved) and fnmatchcase(str(new), str(resolved)))
