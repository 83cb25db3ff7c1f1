"""The check for collisions: sinks of a plan that write where one of its sources reads, or where another of its sinks writes.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> streams = [StreamConfig(id="s", tags={"kind": "n"}, source={"jsonl": {"path": "part-*"}})]
>>> sinks = [SinkConfig.model_validate({"jsonl": {"path": "."}})]
>>> check_no_collisions(targets(sinks, output_dir=folder, base_dir=folder), streams, folder)  # doctest: +ELLIPSIS
Traceback (most recent call last):
dgs.workers.sinks.collisions.OutputIsInputError: the sink 'jsonl' writes into ..., where the source of stream 's' reads (part-*)...
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dgs.errors import InvalidError
from dgs.job.schema import SinkConfig, StreamConfig
from dgs.workers.sinks.files.places import FILE_KINDS, LAKE_KINDS, Place, dead_letter_place, sink_place

FILE_SOURCES = ("csv", "jsonl", "parquet")
LAYOUTS = ("0", "000001-0", "0a1b2c3d-0", "0a1b2c3d-000001-0")
"""The forms of the names of new files after their stem: see `PartNames`."""


LAKE_FILES = ("part-0a1b2c3d-000001-0.g1-0.parquet",)
"""A name as those of the data files of a Delta table."""


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
    """A place that a sink writes. `path`: a directory that gets files `names`, or without names a file. `part`: a part of it."""

    kind: str
    path: Path
    names: tuple[str, ...] = ()
    finals: tuple[Path, ...] = ()
    part: str = ""

    @property
    def identity(self) -> tuple[Path, str]:
        """A value that is equal for two sinks that would mix their outputs."""
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
            is_delta = sink.kind == "delta"  # its files are named as those of `parquet` and `spark`
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
