"""The known runs of a plan file: their directories, whether one is alive, and its committed progress.

A run is found by its directory: `.dgs/runs/*` beside the plan file, which `run.json` names. Only the newest run of a plan file
counts: older ones were given up when it began.

>>> import tempfile
>>> list(runs_in(Path(tempfile.mkdtemp())))
[]
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import CheckpointBusyError, CorruptFileError, DgsError, NoSuchRunError, OutputUnwritableError
from dgs.errors.nearest import did_you_mean
from dgs.job.run_directory import ABOUT, CLAIM, LOCK, RunDirectory, runs_beside

if TYPE_CHECKING:
    from dgs.workers.checkpoints.saved import Committed
from fnmatch import fnmatchcase

REFUSED = "refused"
"""The status, in `run.json`, of a run that could not begin because of another."""


KILLED = "killed"
"""The status of a run that has no process although its `run.json` says that it is running. The first who finds that notes it there."""


@dataclass(frozen=True)
class KnownRun:
    """A run, known by its directory."""

    directory: RunDirectory

    @cached_property
    def about(self) -> dict[str, Any]:
        """The content of `run.json`."""
        return self.directory.about()

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.about.get("name", self.directory.path.name))

    @property
    def is_done(self) -> bool:
        """Whether it reached the end of its streams and noted it."""
        return bool(self.directory.results().get("status") == "done")

    @property
    def was_refused(self) -> bool:
        """Whether it ended because another run held the places that it writes to."""
        return bool(self.about.get("status") == REFUSED)

    @property
    def holder(self) -> str | None:
        """The process that runs it, if any."""
        from dgs.workers.storage.locks import holder_of

        return holder_of(self.directory.path / LOCK)

    @property
    def is_alive(self) -> bool:
        """Whether a process is running it now."""
        return self.holder is not None

    @property
    def status(self) -> str:
        """Its status: `running`, `done`, `stopped`, `failed`, `interrupted`, `refused`, or `killed` if its process ended without a note.

        The lock of its directory decides, since the number of its process may be in use again.
        """
        if self.is_alive:
            return "running"
        self._note_killed()
        noted = str(self.directory.about().get("status", "unknown"))
        return KILLED if noted == "running" else noted

    def _note_killed(self) -> None:
        """Note in its `run.json` that its process was killed, if that still says that it is running. It stays as it is where it cannot be written."""
        if self.directory.about().get("status") != "running":
            return
        with (
            suppress(DgsError),
            held(self.directory.path),
        ):  # a process that goes on with the run notes its own status
            if self.directory.is_whole and self.directory.about().get("status") == "running":
                self.directory.note(status=KILLED, process=None)

    @property
    def ending(self) -> str:
        """A phrase for a run whose process was killed, beginning with a semicolon; else empty."""
        return "; its process was killed" if self.status == KILLED else ""

    @property
    def is_listening(self) -> bool:
        """Whether a process is running it and checks for requests."""
        about, by = self.directory.about(), self.holder
        return by is not None and by.startswith(f"{CLAIM}{about.get('process')} ")

    def check_not_alive(self) -> None:
        """Raise CheckpointBusyError if a process is running it now."""
        by = self.holder
        if by is not None:
            raise CheckpointBusyError(path=self.directory.path, holder=by)
        self._note_killed()

    def committed(self) -> Committed | None:
        """Return the record of its checkpoints, None if none is valid."""
        return committed_in(self.directory.checkpoints)

    @property
    def progress(self) -> str:
        """Its progress, in words. A run without checkpoints commits everything at its end."""
        if self.status == "done" and not holds_checkpoints(self.directory.checkpoints):
            return "everything is committed"
        return progress_of(self.directory.checkpoints)


def runs_in(base_dir: Path) -> Iterator[KnownRun]:
    """Yield the runs of the plan files in a directory, the newest first."""
    found = [KnownRun(RunDirectory(path.parent)) for path in runs_beside(base_dir).glob(f"*/{ABOUT}")]
    yield from sorted(found, key=lambda run: (run.about.get("started", 0), run.directory.path), reverse=True)


def later_than_all(base_dir: Path, moment: float) -> float:
    """Return `moment`, or a later time if a run beside the plan file began later: clocks may stand still or go back."""
    newest = next(runs_in(base_dir), None)
    return moment if newest is None else max(moment, math.nextafter(newest.about.get("started", 0), math.inf))


def newest_of(plan_file: Path) -> KnownRun | None:
    """Return the run of a plan file that counts, if any: a live one, else the newest.

    A run that was refused because of a live one does not count, since it has changed nothing.
    """
    wanted = plan_file.resolve()
    runs = [run for run in runs_in(wanted.parent) if run.directory.of == wanted and not run.was_refused]
    return next((run for run in runs if run.is_alive), runs[0] if runs else None)


def run_at(target: str | os.PathLike[str]) -> KnownRun:
    """Return the run of a run directory, or the newest one of a plan file. Raises NoSuchRunError, CorruptFileError."""
    path = Path(target)
    if path.is_file():
        run = newest_of(path)
        if run is None:
            raise NoSuchRunError(
                problem=f"there is no run of {path}", advice=f"Start one with `dgs run {path}`"
            )
        return run
    if not (path / ABOUT).is_file():
        problem = f"{path} is not a run directory" if path.exists() else f"there is no {path}"
        raise NoSuchRunError(problem=problem, advice="Name a directory `.dgs/runs/ID`, or a plan.yaml")
    return _written_by_a_run(KnownRun(RunDirectory(path)))


def _written_by_a_run(run: KnownRun) -> KnownRun:
    """Return a run. Raises CorruptFileError if its `run.json` is not that of a run, or cannot be read."""
    if "started" not in run.about:
        problem = "it has changed since the run wrote it, or no run did"
        raise CorruptFileError(path=run.directory.path / ABOUT, problem=problem)
    return run


def run_named(target: str | None, here: Path) -> KnownRun:
    """Return the run with an id, in a directory or of a plan file; for None the newest run of the plan files in `here`.

    Raises NoSuchRunError, which names the nearest run, and CorruptFileError.
    """
    known = list(runs_in(here))
    if target is None:
        if not known:
            raise NoSuchRunError(
                problem=f"there is no run of a plan file in {here}",
                advice="Name a run directory, or a plan.yaml",
            )
        return _written_by_a_run(known[0])
    by_id = {run.directory.path.name: run for run in known}
    if target in by_id:
        return _written_by_a_run(by_id[target])
    if Path(target).exists():
        return run_at(target)
    close = did_you_mean(Path(target).name, by_id)
    newest = f"; the newest is {known[0].directory.path.name}" if known and not close else ""
    raise NoSuchRunError(
        problem=f"there is no run {target!r}{close or newest}",
        advice="Name a run, its directory, or a plan.yaml",
    )


def committed_in(directory: Path) -> Committed | None:
    """Return the record of a directory of checkpoints, None if none is valid."""
    from dgs.workers.checkpoints.directory import CheckpointDirectory

    return CheckpointDirectory(directory).committed()


def holds_checkpoints(directory: Path) -> bool:
    """Return whether a directory has any file of checkpoints, valid or not."""
    from dgs.workers.checkpoints.saved import RECORDS, epoch_of

    if not directory.is_dir():
        return False
    return any(path.name in RECORDS or epoch_of(path.name) is not None for path in directory.iterdir())


def has_committed(directory: Path) -> bool:
    """Return whether anything is committed to a directory of checkpoints. True also if it cannot be read."""
    if not holds_checkpoints(directory):
        return False
    committed = committed_in(directory)
    return committed is None or committed.checkpoint.epoch > 0


def is_unfinished(directory: Path) -> bool:
    """Return whether a directory of checkpoints has a commit before the end. True also if it cannot be read."""
    if not holds_checkpoints(directory):
        return False
    committed = committed_in(directory)
    return committed is None or (committed.checkpoint.epoch > 0 and not committed.checkpoint.is_final)


def progress_of(directory: Path) -> str:
    """Return the progress committed to a directory of checkpoints, in words."""
    if not holds_checkpoints(directory):
        return "nothing is committed"
    committed = committed_in(directory)
    if committed is None:
        return f"the record of what is committed, in {directory}, is damaged"
    last = committed.checkpoint
    if not last.epoch:
        return "nothing is committed"
    end = ", to the end of the streams" if last.is_final else ""
    return f"{last.events:,} event{'' if last.events == 1 else 's'} in epoch {last.epoch} are committed{end}"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep other processes out of the directory of a run, or of checkpoints.

    Raises CheckpointBusyError if one is there, OutputUnwritableError if the lock cannot be written.
    """
    from dgs.workers.storage.locks import BusyError, FileLock

    try:
        lock = FileLock(directory / LOCK)
    except BusyError as error:
        raise CheckpointBusyError(path=directory, holder=error.holder) from None
    except OSError as error:
        raise OutputUnwritableError(path=directory, problem=error.strerror or str(error)) from None
    try:
        yield
    finally:
        lock.release()


MADE = (
    "run.json", "plan.yaml", "plans.ndjson", "results.json", "lock", "story.jsonl", "traceback.txt", "ray.log", "report.html",
    "figures*.ndjson*", "run.log*", "unprinted.jsonl*", "dead-letter*", "*.draft", "*.partial", "control", "logs", "spark",
)  # fmt: skip
"""The names in the directory of a run, beside those of DIRECTORIES. Other programs fill the last three directories."""

DIRECTORIES = {
    "outputs": ("part-*", "_part-*", "dead-letter*", ".dgs-*", "*.partial"),
    "checkpoints": ("state-*.dgs*", "record-*.dgs*", "lock"),
}
"""The names in the other directories that runs make."""


def strangers(directory: Path) -> list[str]:
    """Return the files in the directory of a run that no run has made, relative to it: they belong to somebody. Raises OSError.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> for name in ("outputs", "checkpoints"):
    ...     (place / name).mkdir()
    >>> for name in ("run.json", "outputs/part-0.jsonl", "outputs/thesis.txt", "checkpoints/state-7.dgs"):
    ...     (place / name).touch()
    >>> strangers(place)
    ['outputs/thesis.txt']
    """
    return sorted(str(path.relative_to(directory)) for path in _strangers(directory))


def _strangers(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        inside = DIRECTORIES.get(path.name)
        if inside is None or path.is_symlink() or not path.is_dir():
            if not _is_like(path, (*MADE, *DIRECTORIES)):
                yield path
            continue
        yield from (one for one in path.iterdir() if not _is_like(one, inside))


def _is_like(path: Path, names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path.name, name) for name in names)
