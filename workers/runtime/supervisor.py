"""Supervision (R12): a run is as many generations as it takes, each a whole tree that starts from the last checkpoint.

A generation ends because all streams have ended, because a host is lost, or because of a request to stop or to move to another
plan. Runtimes say how one generation is driven; everything else about restarts is here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dgs.errors import DgsError, FrameGapError, WorkerLostError
from dgs.workers.checkpoints import CheckpointStore, ResumePoint
from dgs.workers.checkpoints.memory_store import MemoryStore
from dgs.workers.recovery.outbox import dealt_otherwise
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime.caller_outputs import CallerOutputs
from dgs.workers.runtime.checkpointing import CheckpointFigures, Checkpointing
from dgs.workers.runtime.control import Control, ControlRequest
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.store_opening import open_directory, remember, run_id
from dgs.workers.sinks import is_central, open_sink
from dgs.workers.sinks.files.places import FILE_KINDS, Place, output_places
from dgs.workers.sinks.files.publishing import claim, discard_unpublished, publish, remove_earlier
from dgs.workers.sources.live.waiting import SECOND

LOSSES = (WorkerLostError, FrameGapError)
"""The errors that end a generation and not the run."""

LONGEST_BACKOFF = 60.0
"""Seconds."""

LOOK_SECONDS = 0.05
"""Seconds between two looks for a request during a pause between generations."""

STOP_GRACE = 1.0
"""Seconds that a run may take to end after `stop_timeout` before user code is interrupted."""


@dataclass(frozen=True)
class Ended:
    """How a generation ended: the final state and the figures of its hosts, or the request that ended it."""

    state: Any
    figures: dict[str, Any]
    request: ControlRequest | None = None


@dataclass
class Session:
    """What outlives the generations of a run, and what a driver of one needs.

    `restarts`: why, since something was last committed that was new; `restarted`: how often in all.
    """

    job: Job
    caller_outputs: CallerOutputs
    control: Control
    store: CheckpointStore
    caller: Caller
    claims: ExitStack
    figures: CheckpointFigures = field(default_factory=CheckpointFigures)
    restarts: list[str] = field(default_factory=list)
    restarted: int = 0
    _stopping: CheckpointStore | None = None

    def checkpointing(self, deployment: Deployment) -> Checkpointing:
        """Return the checkpoints of a generation."""
        return Checkpointing(
            deployment, self.store, self.caller_outputs, self.figures, self.control, durable=self.durable
        )

    def durable(self) -> CheckpointStore | None:
        """Return a store that outlives the run, for its state when it stops or moves; None if it has no place for one.

        Where the checkpoints are durable anyway it is None, too.
        """
        if self.job.is_kept or self.job.checkpoint_dir is None:
            return None
        if self._stopping is None:
            remember(self.job.checkpoint_dir, self.job.run_id)
            self._stopping = open_directory(self.job, publish)
            self._stopping.begin()
            remove_earlier(_places(self.job))
        return self._stopping

    def keep(self) -> None:
        """Go on from the store that outlives the run, if something was committed there: from now on it is the store."""
        if self._stopping is None or self.job.is_kept:
            return
        self.store.close()
        self.store, self._stopping = self._stopping, None
        self.job = replace(self.job, resumes=True)
        self.claims.enter_context(claim(_places(self.job)))

    def close(self) -> None:
        """Let go of the stores."""
        self.store.close()
        if self._stopping is not None:
            self._stopping.close()


Drive = Callable[[Deployment, Session], Ended]
"""Runs one generation. Raises WorkerLostError or FrameGapError if its hosts are gone; any other DgsError ends the run."""


def supervise(job: Job, drive: Drive, hosts: Callable[[Job], int], caller: Caller) -> JobResult:
    """Run a job over as many generations as it takes. `hosts`: how many a job gets. Raises any DgsError."""
    control = Control(job.control_dir)
    with ExitStack() as stack:
        if job.checkpoint_dir is not None:
            patience = job.runtime.stop_timeout / SECOND + STOP_GRACE
            stack.enter_context(control.listening(patience=patience))
        # First, since it refuses names: before the outputs of an earlier run are touched.
        stack.enter_context(caller.ports.outputs())
        store = stack.enter_context(_opened(job))
        job = replace(job, run_id=run_id(job))
        store = caller.ports.store(store, job)
        session = Session(job, CallerOutputs(job), control, store, caller, stack)
        stack.callback(session.close)
        complete = False
        try:
            result = _generations(session, drive, hosts)
            complete = result.stopped_by is None
            if session.job.is_kept:
                discard_unpublished(_places(job))
        finally:
            session.caller_outputs.close(complete=complete)
        return result


@contextmanager
def _opened(job: Job) -> Iterator[CheckpointStore]:
    """Open the store of a run; where it is a directory, keep other runs out of the outputs, too."""
    if not job.is_kept:
        yield MemoryStore(publish)  # its hosts keep other runs out
        return
    with claim(_places(job)):
        if job.checkpoint_dir is None:
            yield MemoryStore(publish)
            return
        with closing(open_directory(job, publish)) as store:
            store.hold()  # before anything is written there
            yield store


def _places(job: Job) -> tuple[Place, ...]:
    return output_places(
        job.sinks,
        output_dir=job.output_dir,
        base_dir=job.base_dir,
        dead_letters=job.dead_letter_dir is not None,
    )


def _generations(session: Session, drive: Drive, hosts: Callable[[Job], int]) -> JobResult:
    job, control = session.job, session.control
    while True:
        point = session.store.begin()
        session.figures.epoch = point.epoch
        _clean(job, point)
        _deliver_dealt_otherwise(job, point)
        try:
            ended = drive(Deployment(job, hosts(job), point), session)
        except LOSSES as error:
            if session.figures.events > point.events:
                session.restarts.clear()
            _pause(session, error)
            continue
        request, epoch = ended.request, control.take()
        if request is not None and request.action == "replan":
            session.caller_outputs.discard()
            session.keep()
            job = session.job = _replanned(session, request.plan or "")
            continue
        done = session.figures
        made = session.caller_outputs
        figures = {**ended.figures, "outputs": done.outputs, "skipped": made.skipped}
        figures["checkpoints"] = asdict(done)
        figures["restarts"] = session.restarted
        by = None if request is None else request.by
        return JobResult(ended.state, made.outputs, figures, by, epoch, made.dead_letters)


def _clean(job: Job, point: ResumePoint) -> None:
    """Remove what is not committed, and, where a run begins afresh, what an earlier one left under final names."""
    if not job.is_kept and point.epoch == 0:
        return  # hosts do it themselves
    discard_unpublished(_places(job))
    if point.epoch == 0:
        remove_earlier(_places(job))


def _deliver_dealt_otherwise(job: Job, point: ResumePoint) -> None:
    """Hand sinks what they had not accepted of streams that are dealt otherwise from now on, before anything newer (R7).

    Raises OutputUnwritableError if they still do not accept it.
    """
    old = [(batch, dealt_otherwise(batch, point.committed, job.splits)) for batch in point.outbox]
    late = [(batch, splits) for batch, splits in old if splits is not None]
    for config in job.sinks if late else ():
        if is_central(config) or config.kind in FILE_KINDS:
            continue
        sink = open_sink(
            config,
            output_dir=job.output_dir,
            base_dir=job.base_dir,
            host=0,
            generation=point.generation,
            by_epoch=True,
            run=job.run_id,
            splits={declared(batch.stream)[0]: splits for batch, splits in late},
            program=job.program.name,
        )
        for batch, _ in late:
            sink.write(batch, point.epoch)
        sink.stage(point.epoch)
        sink.close()


def _pause(session: Session, error: DgsError) -> None:
    """Wait before the next generation; raise the error if too many in a row committed no event that was not committed before.

    The first begins at once: most hosts are lost for reasons of their own. Where the next one gets no further, a pause may help,
    longer each time.
    """
    limits, before = session.job.runtime.restarts, len(session.restarts)
    if before >= limits.max or not session.caller_outputs.can_discard:
        raise error
    seconds = min(limits.backoff / SECOND * 2 ** (before - 1), LONGEST_BACKOFF) if before else 0.0
    session.restarts.append(str(error))
    session.restarted += 1
    session.caller_outputs.discard()
    origin = "from its last checkpoint" if session.figures.epoch else "from the beginning"
    at = f"in {seconds:g} s" if seconds else "now"
    session.caller.notify(f"{error}: the run starts again {origin}, {at}")
    until = time.monotonic() + seconds
    while time.monotonic() < until and session.control.pending() is None:
        time.sleep(LOOK_SECONDS)


def _replanned(session: Session, path: str) -> Job:
    """Return the job under the plan of another plan file; under its own, with a word, if that cannot be."""
    job = session.job
    try:
        if session.caller.replanned is not None:
            job = session.caller.replanned(job, path)
    except DgsError as error:
        session.caller.notify(f"{error}: the run keeps its plan")
    else:
        session.caller.notify(f"the run goes on under another plan, of {len(job.plan)} workers")
    return job
