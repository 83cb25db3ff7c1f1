"""Publishing: staged files get their final names, and files of dead and earlier runs are removed.

A directory of outputs never holds files of two runs under final names, unless outputs are appended. Without checkpoints, each host
notes the files of an earlier run when it opens a sink, and removes them at its end (`EarlierRun`). In a checkpointed run the driver
does this: hosts may be killed and replaced, and a leftover host must not publish. The driver always has the lock that keeps other
runs out (`claim`).

Runs with `mode: append` share a directory, and each cleans up only behind itself. One that is killed and never resumed leaves its
`.partial` files. So every run notes in the directory's list where its checkpoints are. A later run, which has the lock of the directory,
checks whether the run of a file still needs it. Files of runs that the list does not know stay (`discard_leftovers`).

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> file = StagedFile(str(folder / "part-000001-0.g1.jsonl.partial"), str(folder / "part-000001-0.jsonl"), 3, "", 1)
>>> Path(file.path).write_text("new")
3
>>> publish([file]), publish([file]), sorted(path.name for path in folder.iterdir())
(None, None, ['.dgs-outputs', 'part-000001-0.jsonl'])
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from dgs.errors import OutputUnwritableError
from dgs.job import private_files
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks.files.owned import (
    LIST,
    OutputsChangedError,
    add_lines,
    digest_of,
    is_abandoned,
    list_outputs,
    locked,
    owned,
    tidy,
)
from dgs.workers.sinks.files.places import PARTIAL, RUN_LETTERS, Place
from dgs.workers.storage.disk import refusing, sync_directory

LOCK = ".dgs-lock"
"""The file in a directory of outputs whose lock a run holds."""

Identity = tuple[int, int]


def check_staged(files: Iterable[StagedFile]) -> None:
    """Raise OutputsChangedError if a file that a dead process has staged has changed, under either of its names."""
    for file in files:
        path, final = Path(file.path), Path(file.final)
        with refusing(final):
            found = path if _size(path) == file.size else final
            if _size(found) != file.size or file.digest not in ("", digest_of(found)):
                raise OutputsChangedError(where=final.parent, problem=f"{found.name} is gone or damaged")


def with_digest(file: StagedFile) -> StagedFile:
    """Return a staged file with the digest of its content, under either of its names."""
    path = Path(file.path) if _size(Path(file.path)) == file.size else Path(file.final)
    with refusing(path):
        return replace(file, digest=file.digest or digest_of(path))


def publish(files: Sequence[StagedFile], job: Path | None = None) -> None:
    """Rename staged files of a job to their final names, durably. Files that are already renamed are left alone.

    Raises OutputUnwritableError with the file if one has neither name.
    """
    list_outputs(files, job)
    for file in files:
        path, final = Path(file.path), Path(file.final)
        with refusing(final):
            if _size(path) == file.size:  # but not an empty file that `claim` made
                path.replace(final)
            elif _size(final) != file.size:
                raise OutputUnwritableError(path=path, problem="this staged file of outputs is missing")
    for directory in sorted({Path(file.final).parent for file in files}):
        with refusing(directory):
            sync_directory(directory)


def discard_unpublished(places: Iterable[Place]) -> None:
    """Remove the `.partial` files that no living host writes, also staged ones. Call this only when no commit is under way."""
    for place in places:
        with refusing(place.directory):
            for path in place.partials():
                is_abandoned(path)


def remove_earlier(places: Iterable[Place]) -> None:
    """Remove the files that earlier runs left under final names.

    A checkpointed run that starts from the beginning calls this before its first commit. Afterwards its files of epoch 1 could not be told
    from those of another run.
    """
    for place in places:
        with refusing(place.directory):
            for path in owned(place):
                path.unlink(missing_ok=True)
            tidy(place.directory)


@contextmanager
def claim(places: Iterable[Place]) -> Iterator[None]:
    """Keep other runs out of the directories of places. Places of different formats share a list, so they share a lock.

    Raises OutputUnwritableError if another run writes there, or a directory cannot be made or written.
    """
    with ExitStack() as held:
        for directory, place in {place.directory.resolve(): place for place in places}.items():
            with refusing(directory):
                place.make()
            held.enter_context(locked(directory / LOCK, of=directory))
        yield


class EarlierRun:
    """The files of an earlier run, noted when a host of a new run begins."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._files = {path: _identity(path) for path in owned(place)}

    def remove(self) -> None:
        """Remove the files that no host of the new run writes or has replaced, and leftovers of dead runs."""
        with refusing(self._place.directory):
            for path, identity in self._files.items():
                if is_abandoned(self._place.partial_of(path)) and _identity(path) == identity:
                    path.unlink(missing_ok=True)
        discard_unpublished([self._place])


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


IsNeeded = Callable[[Path, str], bool]
"""Returns whether a run whose checkpoints are in a directory needs its file of this name."""


def note_run(directory: Path, run: str, checkpoints: Path) -> None:
    """Note in the list of a directory, durably and once, where the checkpoints of a run are. Raises OutputUnwritableError."""
    if run[:RUN_LETTERS] not in _runs(directory):
        where = os.path.relpath(checkpoints.resolve(), directory.resolve())
        add_lines(directory, [json.dumps({"run": run[:RUN_LETTERS], "checkpoints": where})])


def discard_leftovers(place: Place, is_needed: IsNeeded) -> None:
    """Remove the files without final names in a place whose runs do not need them. Raises OutputUnwritableError."""
    name_of = re.compile(
        rf"{place.mark}{place.stem}-([0-9a-f]{{{RUN_LETTERS}}})-.*\.{place.suffix}{re.escape(PARTIAL)}"
    )
    with refusing(place.directory):
        runs = _runs(place.directory)
        for path in place.partials():
            found = name_of.fullmatch(path.name)
            checkpoints = None if found is None else runs.get(found[1])
            if checkpoints is not None and not is_needed(checkpoints, path.name):
                is_abandoned(path)


def _runs(directory: Path) -> dict[str, Path]:
    """Return the places of the checkpoints of the runs in the list."""
    found: dict[str, Path] = {}
    try:
        lines = private_files.read_text(directory / LIST, errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return found
    for line in lines:
        try:
            about = json.loads(line)
            found[about["run"]] = Path(os.path.normpath(directory.resolve() / about["checkpoints"]))
        except (ValueError, TypeError, KeyError):  # the line of a file, or a torn one
            continue
    return found
