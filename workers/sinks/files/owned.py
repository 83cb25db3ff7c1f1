"""Our own files in a directory of outputs: only files named in its list `.dgs-outputs` are ever replaced or removed.

A file is listed, durably, before it gets its final name. A file that is not listed, or that has changed since, is foreign: a run
refuses to write beside it, because readers would take both for one table.

>>> import tempfile
>>> place = Place(Path(tempfile.mkdtemp()), "jsonl")
>>> _ = (place.directory / "part-0.jsonl").write_text("mine"), (place.directory / "part-1.jsonl").write_text("yours")
>>> list_outputs([StagedFile("", str(place.directory / "part-0.jsonl"), size=4, digest="", rows=1)])
>>> [path.name for path in owned(place)], [path.name for path in foreign(place)]
(['part-0.jsonl'], ['part-1.jsonl'])
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from dgs.errors import InvalidError
from dgs.job.schema import StreamConfig
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks.files.part_file import digest_of
from dgs.workers.sinks.files.places import Place
from dgs.workers.storage.disk import sync_directory, sync_file
from dgs.workers.storage.whole_files import refusing, replace_with

LIST = ".dgs-outputs"
"""The name of the list, which has one JSON object per line. Spark and Arrow ignore files whose names begin with a dot."""

SHOWN = 3
"""An error gives at most this many names."""


class OccupiedOutputError(InvalidError):
    """A directory of outputs holds files that no run of ours wrote."""

    code = "DGS312"
    template = "the directory of outputs {path} holds files that dgs did not write, or that were changed since: {names}"
    fix = "Name another directory in the sink's `path`, or move these files away"


class OutputIsInputError(InvalidError):
    """A sink would write where a source of the same plan reads."""

    code = "DGS313"
    template = "the sink {kind!r} writes into {path}, where the source of stream {stream!r} reads ({source})"
    fix = "Name another directory in the sink's `path`"


def list_outputs(files: Sequence[StagedFile]) -> None:
    """Add files to the lists of their directories, durably, before they get their names. Raises OutputUnwritableError."""
    lines: dict[Path, list[str]] = defaultdict(list)
    for file in files:
        final = Path(file.final)
        about = {"file": final.name, "size": file.size, "digest": file.digest}
        lines[final.parent].append(f"{json.dumps(about)}\n")
    for directory, new in lines.items():
        with refusing(directory / LIST), (directory / LIST).open("ab") as names:
            is_new = not names.tell()
            names.write(
                "\n".join(["", *new]).encode()
            )  # begins a new line, in case a crash has torn the last one
            sync_file(names)
            if is_new:
                sync_directory(directory)


def owned(place: Place) -> list[Path]:
    """Return the files of a place that are listed and unchanged."""
    listed = _listed(place.directory)
    return [path for path in place.finals() if _is_as_listed(path, listed)]


def foreign(place: Place) -> list[Path]:
    """Return the files of a place that are not ours: not listed, or changed since."""
    return sorted(set(place.finals()) - set(owned(place)))


def check_free(places: Iterable[Place]) -> None:
    """Raise OccupiedOutputError if a place holds files that are not ours; forget listed files that are gone."""
    for place in places:
        with refusing(place.directory):
            if names := [path.name for path in foreign(place)]:
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                raise OccupiedOutputError(path=place.directory, names=f"{', '.join(names[:SHOWN])}{more}")
            _tidy(place.directory)


def check_no_inputs(places: Iterable[Place], streams: Iterable[StreamConfig], base_dir: Path) -> None:
    """Raise OutputIsInputError if a stream of the same plan reads, or would read, a file of a place."""
    paths = [(stream, path) for stream in streams if (path := getattr(stream.source.details, "path", None))]
    for place in places:
        for stream, path in paths:
            if _reads(base_dir / path, place):
                raise OutputIsInputError(
                    kind=place.suffix, path=place.directory, stream=stream.id, source=path
                )


def _reads(source: Path, place: Place) -> bool:
    """Return whether a path or glob names the directory of a place, or a file that may be in it."""
    directory, source = place.directory.resolve(), source.parent.resolve() / source.name
    if source == directory or source in {path.resolve() for path in place.finals()}:
        return True
    new = directory / f"{place.stem}-0.{place.suffix}"
    return new.match(str(source)) or ("**" in str(source) and fnmatch(str(new), str(source)))


def _listed(directory: Path) -> dict[str, list[tuple[int, str]]]:
    """Return sizes and digests by name. Several runs may list the same name."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    try:
        text = (directory / LIST).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return found
    for line in text.splitlines():
        try:
            about = json.loads(line)
            found[about["file"]].append((about["size"], about["digest"]))
        except (ValueError, TypeError, KeyError):  # a crash has torn the line; its file has no final name yet
            continue
    return found


def _is_as_listed(path: Path, listed: dict[str, list[tuple[int, str]]]) -> bool:
    """Return whether a file has a listed size, and the listed digest (files of runs with checkpoints have one)."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    digests = {digest for listed_size, digest in listed.get(path.name, []) if listed_size == size}
    return "" in digests or (bool(digests) and digest_of(path) in digests)


def _tidy(directory: Path) -> None:
    listed = _listed(directory)
    if gone := {name for name in listed if not (directory / name).exists()}:
        kept = [
            json.dumps({"file": name, "size": size, "digest": digest})
            for name, entries in listed.items()
            if name not in gone
            for size, digest in entries
        ]
        replace_with(directory / LIST, "".join(f"{line}\n" for line in kept).encode())
