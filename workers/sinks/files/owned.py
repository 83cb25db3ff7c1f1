"""Our own files in a directory of outputs: files that are being written, and the list of finished ones, `.dgs-outputs`.

A file is listed, durably, before it gets its final name. Only listed files are ever replaced or removed. A file that is not listed, or that
has changed since, is foreign: a run refuses to write beside it, because readers would take both for one table.

>>> import tempfile
>>> place = Place(Path(tempfile.mkdtemp()), "jsonl")
>>> _ = (place.directory / "part-0.jsonl").write_text("mine"), (place.directory / "part-1.jsonl").write_text("yours")
>>> list_outputs([StagedFile("", str(place.directory / "part-0.jsonl"), size=4, digest="", rows=1)])
>>> [path.name for path in owned(place)], [path.name for path in foreign(place)]
(['part-0.jsonl'], ['part-1.jsonl'])

A file is named `....partial` until it is published. Its host holds a lock on it, which tells it from the leftovers of dead runs. In a run
without checkpoints the lock is held until the file has its final name, so two runs cannot write to one directory.

>>> folder = Path(tempfile.mkdtemp())
>>> part = PartFile(folder / "part-0.jsonl", folder / "part-0.jsonl.partial")
>>> with part.writing() as file:
...     _ = file.write(b"new")
>>> staged = part.stage(rows=1, with_digest=True)
>>> staged.size, staged.rows, staged.digest[:12], sorted(path.name for path in folder.iterdir())
(3, 1, '9bae9d5e4321', ['part-0.jsonl.partial'])
>>> is_abandoned(folder / "part-0.jsonl.partial"), part.release(), is_abandoned(folder / "part-0.jsonl.partial")
(False, None, True)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from dgs.errors import CheckpointError, InvalidError, OutputUnwritableError
from dgs.job import private_files
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks.files.places import Place
from dgs.workers.storage.disk import refusing, replace_with, sync_directory, sync_file
from dgs.workers.storage.locks import take, take_at_once

Opener: TypeAlias = Callable[[str, int], int]
"""The function that opens a file with its mode; None: the process's own way."""

BUFFER_BYTES = 1 << 20
DIGEST_BYTES = 32

ANOTHER_RUN = "another run is writing to it"
"""The problem with an output file that is locked."""


class PartFile:
    """A file being written. Write to it inside `writing`, then `stage` or `discard` it, and finally `release` it.

    Raises OutputUnwritableError if the file cannot be written or another run is writing to it.
    """

    def __init__(self, final: Path, partial: Path, opener: Opener | None = None) -> None:
        self._final, self._partial = final, partial
        with refusing(final.parent):
            self.file = _locked(partial, opener)
            self.file.truncate(0)

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """Yield the file, open at its end. Raises OutputUnwritableError if writing fails."""
        with refusing(self._partial.parent):
            yield self.file

    def stage(self, *, rows: int, with_digest: bool) -> StagedFile:
        """Make the file and its name durable. `with_digest`: read the file back for its digest."""
        with refusing(self._partial):
            sync_file(self.file)
            sync_directory(self._partial.parent)
            size = self.file.tell()
            digest = digest_of(self._partial) if with_digest else ""
        return StagedFile(str(self._partial.absolute()), str(self._final.absolute()), size, digest, rows)

    def discard(self) -> None:
        """Remove the file, which has no outputs."""
        with refusing(self._partial):
            self._partial.unlink(missing_ok=True)
            self.file.close()

    def release(self) -> None:
        """Close the file and leave it as it is."""
        with refusing(self._partial):
            self.file.close()


@contextmanager
def locked(path: Path, *, of: Path) -> Iterator[None]:
    """Hold a lock file inside this context, and remove it at the end. Raises OutputUnwritableError, which names the locked path `of`."""
    with refusing(path.parent):
        file = _locked(path, private_files.opener, of=of)
    try:
        yield
    finally:
        with refusing(path), file:
            if _is_at(file, path):
                path.unlink()


def digest_of(path: Path) -> str:
    """Return the BLAKE2b-256 of a file."""
    with open(path, "rb", opener=private_files.opener) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()


def is_abandoned(partial: Path) -> bool:
    """Return whether no host writes this file. If none does, remove it: it is a leftover of a dead run."""
    try:
        with open(partial, "r+b", opener=private_files.opener) as file:
            if not take_at_once(file.fileno()):
                return False
            partial.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    return True


def _locked(partial: Path, opener: Opener | None, *, of: Path | None = None) -> IO[bytes]:
    """Open a file and hold its lock. The previous holder may have removed or renamed the file, so check and try again."""
    while True:
        with suppress(FileNotFoundError):
            private_files.check_file(partial)
        file = open(partial, "ab", buffering=BUFFER_BYTES, opener=opener)  # noqa: SIM115 - Path.open takes no opener
        if not take(file.fileno()):
            file.close()
            raise OutputUnwritableError(path=of or partial, problem=ANOTHER_RUN)
        if _is_at(file, partial):
            return file
        file.close()


def _is_at(file: IO[bytes], path: Path) -> bool:
    return path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))


LIST = ".dgs-outputs"
"""The name of the list, which has one JSON object per line. Spark and Arrow ignore files whose names begin with a dot."""

SHOWN = 3
"""An error gives at most this many names."""


class OccupiedOutputError(InvalidError):
    """A directory of outputs holds files that no run of ours wrote."""

    code = "DGS312"
    template = "the directory of outputs {path} holds files that dgs did not write, or that were changed since: {names}"
    fix = "Name another directory in the sink's `path`, or move these files away"


class OutputsThereError(InvalidError):
    """A sink with `mode: error` finds outputs."""

    code = "DGS314"
    template = "{where} holds outputs already, and the sink has `mode: error`: {names}"
    fix = "Name another place in the sink's `path`, or another `mode`"


class OthersOutputsError(InvalidError):
    """A sink finds outputs of another job, and no `mode` says what to do with them."""

    code = "DGS315"
    template = "{where} holds outputs of another job, {job}: {names}"
    fix = "Name another place in the sink's `path`; or write `mode: replace-own` to replace them, `mode: append` to keep them"


class OutputsChangedError(CheckpointError):
    """The outputs that a run has committed have changed."""

    code = "DGS612"
    template = "{where} does not hold the outputs that this run has committed: {problem}"
    fix = "Restore them from a copy, or start again without the checkpoint (`--fresh`)"


class Listed(NamedTuple):
    """A line of the list. `digest`: empty if only the size is known. `job`: the job that wrote it, relative to the directory."""

    size: int
    digest: str
    job: str | None


def list_outputs(files: Sequence[StagedFile], job: Path | None = None) -> None:
    """Add files of a job to the lists of their directories, durably, before they get their final names. Raises OutputUnwritableError."""
    lines: dict[Path, list[str]] = defaultdict(list)
    for file in files:
        final = Path(file.final)
        whose = None if job is None else seen_from(final.parent, job)
        lines[final.parent].append(_line(final.name, Listed(file.size, file.digest, whose)))
    for directory, new in lines.items():
        add_lines(directory, new)


def add_lines(directory: Path, lines: Sequence[str], *, of: str = LIST) -> None:
    """Add lines to the list of a directory, durably. Raises OutputUnwritableError."""
    path = directory / of
    with refusing(path), open(path, "ab", opener=private_files.opener) as names:
        is_new = not names.tell()
        # Begins with a new line, in case a crash has torn the last one.
        names.write("\n".join(["", *lines]).encode())
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


def check_free(places: Iterable[Place], job: Path | None = None) -> None:
    """Raise an error if a place holds files that a run of a job may not replace; forget listed files that are gone.

    OccupiedOutputError if no run of ours wrote them, OutputsThereError if the mode is `error`, OthersOutputsError if another job wrote them.
    """
    for place in places:
        if place.mode == "append":
            continue
        with refusing(place.directory):
            if names := foreign(place):
                raise OccupiedOutputError(path=place.directory, names=_shown(names))
            if place.mode == "error" and (names := place.finals()):
                raise OutputsThereError(where=place.directory, names=_shown(names))
            if place.mode is None and job is not None:
                _check_own(place, job)
            tidy(place.directory)


def check_kept(places: Iterable[Place], published: Mapping[str, int] | None = None) -> None:
    """Raise OutputsChangedError if files that a run has committed are missing or changed.

    If outputs are appended, files may be missing. `published`: the number of files that the run has committed to each directory, if known.
    """
    wanted = {Path(directory).resolve(): count for directory, count in (published or {}).items()}
    for place in places:
        with refusing(place.directory):
            listed, pattern = _listed(place.directory), f"{place.stem}-*.{place.suffix}"
            gone = [
                name
                for name in listed
                if fnmatchcase(name, pattern) and not (place.directory / name).exists()
            ]
            if gone and place.mode != "append":
                raise OutputsChangedError(where=place.directory, problem=f"{_shown(sorted(gone))} is gone")
            if len(listed) < wanted.get(place.directory.resolve(), 0) and place.mode != "append":
                problem = (
                    f"{wanted[place.directory.resolve()]} files were committed, and {LIST} has {len(listed)}"
                )
                raise OutputsChangedError(where=place.directory, problem=problem)
            if changed := foreign(place):
                problem = f"{_shown(changed)} was changed, or is not in the list {LIST}"
                raise OutputsChangedError(where=place.directory, problem=problem)


def adopt(places: Iterable[Place]) -> None:
    """List the files of a run of version 0.1.0, which had no list."""
    for place in places:
        if not (place.directory / LIST).exists():
            found = [(path, path.stat().st_size, digest_of(path)) for path in place.finals()]
            list_outputs([StagedFile("", str(path), size, digest, 0) for path, size, digest in found])


def tidy(directory: Path) -> None:
    """Forget listed files that are gone, and runs that have left none. Raises OutputUnwritableError."""
    listed = _listed(directory)
    if gone := {name for name in listed if not (directory / name).exists()}:
        kept = [
            _line(name, entry) for name, entries in listed.items() if name not in gone for entry in entries
        ]
        replace_with(directory / LIST, "".join(f"{line}\n" for line in kept).encode())


def seen_from(directory: Path, job: Path) -> str:
    """Return the name of a job for the list in a directory. It is relative, since both may be moved together."""
    return os.path.relpath(job.resolve(), directory.resolve())


def _check_own(place: Place, job: Path) -> None:
    listed, own = _listed(place.directory), seen_from(place.directory, job)
    whose = {path: _job_of(path, listed[path.name]) for path in place.finals()}
    others = [path for path, found in whose.items() if found not in (None, own)]
    if others:
        job = Path(os.path.normpath(place.directory.resolve() / str(whose[others[0]])))
        raise OthersOutputsError(where=place.directory, job=job, names=_shown(others))


def _job_of(path: Path, entries: Sequence[Listed]) -> str | None:
    """Return the job that wrote the current content of a file, None if the list does not have it."""
    size = path.stat().st_size
    return next((entry.job for entry in reversed(entries) if entry.size == size), None)


def _shown(names: Sequence[Path | str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(Path(name).name for name in names[:SHOWN])}{more}"


def _line(name: str, entry: Listed) -> str:
    about = {"file": name, "size": entry.size, "digest": entry.digest}
    return f"{json.dumps(about if entry.job is None else about | {'job': entry.job})}\n"


def _listed(directory: Path) -> dict[str, list[Listed]]:
    """Return the lines of the list by the names of files. Several runs may list the same name."""
    found: dict[str, list[Listed]] = defaultdict(list)
    try:
        text = private_files.read_text(directory / LIST, errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return found
    for line in text.splitlines():
        try:
            about = json.loads(line)
            found[about["file"]].append(Listed(about["size"], about["digest"], about.get("job")))
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
        ):  # a torn line, whose file has no final name yet
            continue
    return found


def _is_as_listed(path: Path, listed: dict[str, list[Listed]]) -> bool:
    """Return whether a file has a listed size, and the listed digest (which files of runs with checkpoints have)."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    digests = {entry.digest for entry in listed.get(path.name, []) if entry.size == size}
    return "" in digests or (bool(digests) and digest_of(path) in digests)
