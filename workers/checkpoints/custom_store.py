"""Stores of checkpoints that users write: the user's store has the states, the directory of the run has the record.

A commit puts the state and the names of staged files into the user's store, then commits the epoch in the directory. If the run
ends between the two, the store is ahead: `begin` then completes that commit. So a commit is still atomic, and outputs are delivered once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from dgs import codec
from dgs.errors import CheckpointRefusedError, CodecError, ConnectorError
from dgs.job.loading import load_connector
from dgs.job.schema_runtime import CustomStore
from dgs.model.identity import Migrate
from dgs.model.program import Program
from dgs.model.user_code import calling, shown
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.saved import located, relative
from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore, ResumePoint, resume_point
from dgs.workers.recovery.positions import Positions

ROLE = "store"
STUB = ("store", "epoch")
LARGEST_STUB = 65536
"""The most bytes of a store's name and an epoch."""

LOST = "Restore the store, or begin anew with `--fresh`"
ALONE = "Take `custom` out of `checkpoint:`, or begin anew with `--fresh`"
OTHERS = (
    "Empty it, give it `args` of its own, or give its class a method `for_run(run)`, which keeps runs apart"
)


class ConnectedStore:
    """A CheckpointStore over a user's store and the directory of the run, whose record is the truth. `run`: the run's id.

    In the user's store a state is codec bytes of the run's id, the program's version, the state and the staged files. The directory has
    `{"store": ref, "epoch": epoch}` in its place.
    """

    def __init__(
        self,
        store: CheckpointStore,
        directory: DirectoryStore,
        *,
        ref: str,
        run: str,
        program: Program,
        base: Path,
        migrate: Migrate | None = None,
    ) -> None:
        self._store, self._directory = store, directory
        self._ref, self._run, self._program, self._base, self._migrate = ref, run, program, base, migrate
        if hasattr(type(store), "for_run"):
            self._call("for_run", lambda: store.for_run(run))  # type: ignore[attr-defined]

    def begin(self) -> ResumePoint:
        """Begin a generation in both stores. Raises CheckpointRefusedError if the user's store lacks the state, or has that of another run."""
        point = self._directory.begin()
        found = self._call("begin", self._store.begin)
        if not isinstance(found, ResumePoint):
            self._broken(f"returned {type(found).__name__}, not a ResumePoint")
        ours = kept_elsewhere(point.state)
        if point.state is not None and ours is None:
            self._refuse("the run has kept its states in its directory so far", ALONE)
        wanted = 0 if ours is None else ours["epoch"]
        if found.state is None:
            if wanted:
                self._refuse(f"it is empty, but epoch {wanted} of this run is committed", LOST)
            return point
        run, version, state, files = self._unpacked(found)
        if run != self._run:
            self._refuse(f"it has epoch {found.epoch} of another run", LOST if wanted else OTHERS)
        if self._migrate is not None and version != self._program.version:
            state = codec.encode(self._migrate(codec.decode(state), version), keeps_order=True)
        if found.epoch > point.epoch:
            ahead = self._checkpoint(found, located(files, self._base))
            self._directory.commit(ahead)
            made = resume_point(point.generation, ahead, ahead)
            return replace(made, state=state, published=point.published, holds=point.holds)
        if found.epoch < wanted:
            self._refuse(f"its newest epoch is {found.epoch}, but epoch {wanted} is committed", LOST)
        # a commit that failed in the directory may have left a newer state, whose outputs are committed by now
        return replace(
            point, state=state, positions=found.positions, sources=found.sources, events=found.events
        )

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit an epoch: first its state to the user's store, if it has one, then the rest to the directory."""
        if checkpoint.state is None:
            self._directory.commit(checkpoint)
            return
        files = list(relative(checkpoint.files, self._base))
        packed = codec.encode([self._run, self._program.version, checkpoint.state, files], keeps_order=True)
        self._call("commit", self._store.commit, replace(checkpoint, state=packed, files=()))
        self._directory.commit(replace(checkpoint, state=self._stub(checkpoint.epoch)))

    def close(self) -> None:
        """Let other runs open both stores."""
        try:
            self._call("close", self._store.close)
        finally:
            self._directory.close()

    def _unpacked(self, found: ResumePoint) -> tuple[str, int, bytes, Any]:
        """Return the parts of the state that `commit` got. Raises ConnectorError if `begin` returned anything else."""
        kinds = {"epoch": int, "positions": Positions, "committed": Positions, "sources": Mapping}
        for name, kind in kinds.items():
            if not isinstance(given := getattr(found, name), kind):
                self._broken(f"returned a ResumePoint whose `{name}` is {shown(given)}")
        try:
            run, version, state, files = codec.decode(found.state or b"")
        except (CodecError, TypeError, ValueError):
            self._broken(f"returned the state {shown(found.state)}, which `commit` did not get")
        return run, version, state, files

    def _checkpoint(self, found: ResumePoint, files: Any) -> Checkpoint:
        """Return the checkpoint in the user's store, in the form that the directory commits."""
        return Checkpoint(
            found.epoch,
            self._stub(found.epoch),
            found.positions,
            files,
            found.outbox,
            found.sources,
            found.events,
            found.is_final,
        )

    def _stub(self, epoch: int) -> bytes:
        return codec.encode(dict(zip(STUB, (self._ref, epoch), strict=True)))

    def _call(self, method: str, function: Callable[..., Any], *args: Any) -> Any:
        with calling(f"{self._ref}.{method}", program=self._program.name, where=lambda: "as a store"):
            return function(*args)

    def _broken(self, problem: str) -> NoReturn:
        raise ConnectorError(role=ROLE, ref=self._ref, problem=f"`begin` {problem}")

    def _refuse(self, problem: str, advice: str) -> NoReturn:
        raise CheckpointRefusedError(path=self._ref, problem=problem, advice=advice)


def kept_elsewhere(state: bytes | None) -> dict[str, Any] | None:
    """Return the reference that replaces a state kept in a user's store: the store's name and the epoch. None if it is a state.

    >>> kept_elsewhere(codec.encode({"store": "states.py:States", "epoch": 3})), kept_elsewhere(codec.encode(5))
    ({'epoch': 3, 'store': 'states.py:States'}, None)
    >>> kept_elsewhere(codec.encode({"store": "Bergen", "epoch": 3}))   # a state, since a store has a file and a class
    """
    if state is None or len(state) > LARGEST_STUB:
        return None
    with suppress(CodecError):
        found = codec.decode(state)
        if isinstance(found, dict) and found.keys() == set(STUB) and ":" in str(found["store"]):
            return found
    return None


def load_store(config: CustomStore, base_dir: Path) -> CheckpointStore:
    """Return the store named in `checkpoint: {custom: ...}`. Raises ProgramImportError."""
    made: CheckpointStore = load_connector(
        config.ref, config.args, base_dir, role=ROLE, protocol=CheckpointStore
    )
    return made
