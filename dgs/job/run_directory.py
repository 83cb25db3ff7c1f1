"""The directory of a run: the resolved plan.yaml, results.json, outputs, checkpoints, and the story or traceback of a failure.

`run.json` has facts about the run: its plan file, its start, its progress, and the place of its checkpoints.

>>> import tempfile
>>> directory = RunDirectory.create(Path(tempfile.mkdtemp()) / "run")
>>> directory.note(name="sums", status="running")
>>> directory.note(status="done")
>>> directory.write_results({"events_in": 3})
>>> directory.about(), directory.results()
({'name': 'sums', 'status': 'done'}, {'events_in': 3})
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import CorruptFileError, OutputUnwritableError
from dgs.errors.hidden_values import masked
from dgs.job import private_files
from dgs.job.references import relocated, relocated_references, with_references

if TYPE_CHECKING:
    from dgs.job.settings import Settings

ABOUT, LOCK, OUTPUTS, PLAN, RESULTS = private_files.RUN, "lock", "outputs", "plan.yaml", "results.json"
PLANS, STORY, UNPRINTED = "plans.ndjson", "story.jsonl", "unprinted.jsonl"

CLAIM = "process "
"""The beginning of a lock's content."""

DIGEST = "digest"
"""The key in run.json of the digest of all others."""

NOTED = (
    "name",
    "plan_file",
    "plan_digest",
    "base_dir",
    "max_events",
    "started",
    "checkpoints",
    "plan_is_made",
    "status",
    "process",
)
"""The keys in run.json."""

KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "plan_file": (str, type(None)),
    "base_dir": (str,),
    "started": (float, int),
    "checkpoints": (str,),
    "status": (str,),
}
"""The types of the facts in run.json that other code relies on."""

RESULTS_OF = {
    "status": (str,),
    "events_in": (int,),
    "outputs": (int,),
    "restarts": (int,),
    "seconds": (float, int),
    "throughput_eps": (float, int),
    "verified": (bool,),
    "error": (dict, str),
}
"""The same for results.json."""

LATEST, LARGEST = 253_402_300_799, 1 << 64
"""The latest time, the end of the year 9999 in seconds since 1970; and an upper bound on all other numbers."""

SEAL = (
    "# Written by dgs for its run, and read when that goes on. Without this line it may be changed. Digest: "
)
"""The beginning of the resolved plan.yaml, before its digest."""


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run. All methods raise OutputUnwritableError if it cannot be written."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make the directory. It may exist if it has no files that a run would overwrite."""
        directory = cls(path)
        directory.check_unused()
        if foreign := directory._foreign():
            problem = f"it holds files that no run has written: {', '.join(foreign)}"
            raise OutputUnwritableError(path=path, problem=problem)
        directory.make()
        return directory

    def make(self) -> None:
        """Make the directory, and keep others out of it, as the plan file's `umask` says. Raises ForeignDirectoryError."""
        try:
            private_files.make_directory(self.path)
        except OSError as error:
            raise OutputUnwritableError(path=self.path, problem=error.strerror or str(error)) from None

    def check_unused(self) -> None:
        """Raise OutputUnwritableError if a run has begun here."""
        if any((self.path / name).exists() for name in (ABOUT, RESULTS, OUTPUTS)):
            raise OutputUnwritableError(path=self.path, problem="it holds the results of an earlier run")

    @classmethod
    def beside(cls, base_dir: Path) -> RunDirectory:
        """Make a new directory `.dgs/runs/<id>` beside a plan file. Ids sort by time."""
        return cls.create(runs_beside(base_dir) / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")

    @property
    def outputs(self) -> Path:
        """The directory of outputs if the plan file names no sinks."""
        return self.path / OUTPUTS

    @property
    def plan_file(self) -> Path:
        """The resolved plan.yaml."""
        return self.path / PLAN

    @property
    def control(self) -> Path:
        """The directory of requests to the running job and its answers."""
        return self.path / "control"

    @property
    def checkpoints(self) -> Path:
        """The directory of its checkpoints: inside it, unless the plan file names another one."""
        return self.path.joinpath(str(self.about().get("checkpoints", "checkpoints"))).resolve()

    @property
    def base_dir(self) -> Path:
        """The directory in which relative paths of its plan file start."""
        return self.path.joinpath(str(self.about().get("base_dir", "."))).resolve()

    @property
    def of(self) -> Path | None:
        """The plan file of the run, None if there is none."""
        noted = self.about().get("plan_file")
        return None if noted is None else self.path.joinpath(noted).resolve()

    def about(self) -> dict[str, Any]:
        """Return the content of run.json, empty if it cannot be read or is not that of a run."""
        found = {name: fact for name, fact in read_object(self.path / ABOUT).items() if name != DIGEST}
        is_of_a_run = all(
            _is_sane(name, found[name], kinds) for name, kinds in KINDS.items() if name in found
        )
        return found if is_of_a_run else {}

    @property
    def is_whole(self) -> bool:
        """Whether run.json is as a run wrote it."""
        about = read_object(self.path / ABOUT)
        known = {name: fact for name, fact in about.items() if name != DIGEST}
        is_old = DIGEST not in about and about.keys() <= set(NOTED)  # version 0.1.0 wrote no digest
        return bool(self.about()) and (is_old or about.get(DIGEST) == _digest(known))

    @property
    def is_taken_over(self) -> bool:
        """Whether another process has gone on with the run of this one, as it can if somebody deletes the lock of a live run."""
        about = self.about()
        by, status = about.get("process"), about.get("status")
        return by != os.getpid() if by is not None else status not in (None, "running", "killed")

    def note(self, **facts: Any) -> None:
        """Add facts to run.json."""
        known = json.loads(json.dumps({**self.about(), **facts}, default=str))
        self._write(ABOUT, json.dumps({**known, DIGEST: _digest(known)}, indent=2) + "\n")

    def check_whole(self) -> None:
        """Raise CorruptFileError if run.json or the resolved plan.yaml has changed since the run wrote it.

        To change the plan.yaml on purpose, a user removes its first line.
        """
        if not self.is_whole:
            raise CorruptFileError(path=self.path / ABOUT, problem="it has changed since the run wrote it")
        try:
            first, _, rest = private_files.read_text(self.plan_file).partition("\n")
        except (OSError, ValueError) as error:
            raise CorruptFileError(path=self.plan_file, problem=str(error)) from error
        if first.startswith(SEAL) and first != SEAL + _digest(rest):
            problem = (
                "it was changed since the run has written it; remove its first line to go on with the change"
            )
            raise CorruptFileError(path=self.plan_file, problem=problem)

    def results(self) -> dict[str, Any]:
        """Return the content of results.json, empty if the run has not ended. Values that no run writes are left out."""
        found = read_object(self.path / RESULTS)
        return {
            name: fact
            for name, fact in found.items()
            if fact is None or name not in RESULTS_OF or _is_sane(name, fact, RESULTS_OF[name])
        }

    @property
    def story(self) -> Path:
        """The file for the story of a failed run."""
        return self.path / STORY

    @property
    def unprinted(self) -> Path:
        """The file for outputs that the reader of stdout has not taken."""
        return self.path / UNPRINTED

    def forget_results(self) -> None:
        """Remove results.json and the story of a failure, since the run goes on."""
        (self.path / RESULTS).unlink(missing_ok=True)
        self.story.unlink(missing_ok=True)

    def write_plan(self, settings: Settings, plan: Mapping[str, Any], base_dir: Path) -> None:
        """Write the resolved plan.yaml with the plan that is run: running it again does the same.

        What came from environment variables is written as it was in the file, and read anew when the run is resumed.
        """
        from dgs.job.document import dump

        found = settings.declared.model_dump(exclude_none=True)
        data = relocated(found, base_dir, self.path)
        references = relocated_references(settings.references, found, data, base_dir, self.path)
        text = dump({**with_references(data, references), "plan": plan})
        self._write(PLAN, f"{SEAL}{_digest(text)}\n{text}")
        self._keep_plan(plan)

    def plans(self) -> list[dict[str, Any]]:
        """Return the plans that the run has had, the newest last."""
        try:
            lines = private_files.read_text(self.path / PLANS, errors="replace").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            with suppress(ValueError, RecursionError):  # torn because the process was killed, or damaged
                found.append(json.loads(line))
        return [plan for plan in found if isinstance(plan, dict)]

    def _keep_plan(self, plan: Mapping[str, Any]) -> None:
        """Add a plan to those that the run has had, which its page shows; a failure does not end the run."""
        known = self.plans()
        plain = json.loads(json.dumps(plan, default=str))
        if not known or known[-1] != plain:
            with suppress(OSError):
                private_files.write(
                    self.path / PLANS, "".join(json.dumps(one) + "\n" for one in [*known, plain])
                )

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the resolved plan.yaml and the content of run.json, for `take_back`."""
        return private_files.read_text(self.plan_file), self.about()

    def take_back(self, settings: tuple[str, dict[str, Any]]) -> None:
        """Write an earlier plan.yaml and run.json back, since the change was refused."""
        plan, about = settings
        self._write(PLAN, plan)
        self._write(ABOUT, json.dumps({**about, DIGEST: _digest(about)}, indent=2) + "\n")

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Write results.json."""
        self._write(RESULTS, json.dumps(results, indent=2, default=str) + "\n")

    def write_traceback(self, text: str) -> Path:
        """Write the traceback of a bug; return its path."""
        self._write("traceback.txt", masked(text))
        return self.path / "traceback.txt"

    def _foreign(self) -> list[str]:
        """Return files with names that a run uses, unless they are from a run that was killed before it had begun."""
        try:
            claim = private_files.read_text(self.path / LOCK, errors="replace")
        except OSError:
            claim = ""
        if claim.startswith(CLAIM):
            return []
        names = [name for name in (PLAN, "checkpoints", "control", "logs") if (self.path / name).exists()]
        return [*names, LOCK] if claim else names

    def _write(self, name: str, text: str) -> None:
        target = self.path / name
        try:
            private_files.write(target, text)
        except OSError as error:
            raise OutputUnwritableError(path=target, problem=error.strerror or str(error)) from None


def runs_beside(base_dir: Path) -> Path:
    """Return the directory for the runs of plan files in `base_dir`. A run's own directory has no such directory inside."""
    inside_another = base_dir.parent.name == "runs" and base_dir.parent.parent.name == ".dgs"
    return base_dir.parent if inside_another else base_dir / ".dgs" / "runs"


def plan_at(path: Path) -> Path:
    """Return the resolved plan.yaml of a run directory; any other path as it is. Raises CorruptFileError if that is a pipe."""
    if not (path / ABOUT).is_file():
        return path
    with suppress(FileNotFoundError):
        try:
            private_files.check_file(path / PLAN)
        except OSError as error:
            raise CorruptFileError(path=path / PLAN, problem=str(error.strerror)) from None
    return path / PLAN


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is none."""
    try:
        found = json.loads(private_files.read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_sane(name: str, fact: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether a run may have written a fact in a file: its type fits, and it is no absurd number."""
    most = LATEST if name == "started" else LARGEST
    return type(fact) in kinds and (not isinstance(fact, (int, float)) or 0 <= fact <= most)


def _digest(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
