"""Supervision (R12): a run is a sequence of generations, each a whole tree of workers that starts from the last checkpoint.

A generation ends when all streams have ended, when a host is lost, or for a request to stop or to move to another plan. A runtime
drives one generation; everything else about restarts is here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dgs.errors import DgsError, FrameGapError, WorkerLostError
from dgs.workers.observing.figures import RunFigures
from dgs.workers.observing.run_log import RunLog
from dgs.workers.protocol.story_words import counted
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.recovery.coordinator import ControlRequest, StopRequest
from dgs.workers.recovery.outbox import dealt_otherwise
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime.checkpointing import Checkpointing, Commits
from dgs.workers.runtime.control import Control, OverdueStopError, deferred
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.host_outputs import CallerOutputs
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.observed import RunObserver
from dgs.workers.runtime.replanning import Replanning
from dgs.workers.runtime.run_story import RunStory, in_a_line
from dgs.workers.runtime.store_opening import (
    RunStores,
    check_free_outputs,
    check_outputs,
    check_store,
    claimed_outputs,
    opened_store,
    places_of,
    settle_rows,
    tidy_appended,
    withdraw_rows,
)
from dgs.workers.sinks import is_central, open_sink
from dgs.workers.sinks.custom_sink import Generation
from dgs.workers.sinks.files.places import TRANSACTIONAL
from dgs.workers.sinks.files.publishing import discard_unpublished, remove_earlier
from dgs.workers.sinks.opening import Publisher
from dgs.workers.sources.rows import SECOND

LOSSES = (WorkerLostError, FrameGapError)
"""The errors that end a generation but not the run."""

LONGEST_BACKOFF = 60.0
"""The longest pause before a restart, in seconds."""

LOOK_SECONDS = 0.05
"""Seconds between two looks for a request during a pause between generations."""

LAST_SECONDS, MOST_LAST_SECONDS = 0.5, 2.0
"""Seconds that a stopping run waits for the reader of stdout: since it last took something, and in all."""

STOP_GRACE = 1.0
"""Seconds that a run may take to end after `stop_timeout` before user code is interrupted."""


@dataclass(frozen=True)
class Ended:
    """The end of a generation: the final state, its figures, and the request that ended it, if one did."""

    state: Any
    figures: RunFigures
    request: ControlRequest | None = None


@dataclass
class Session:
    """The part of a run that outlives its generations, with everything that the driver of a generation needs.

    `restarts`: the reasons for restarts since new events were last committed. `restarted`: the number of all restarts.
    """

    job: Job
    caller_outputs: CallerOutputs
    publisher: Publisher
    control: Control
    stop: StopRequest
    stores: RunStores
    caller: Caller
    story: RunStory
    replanning: Replanning
    commits: Commits
    observer: RunObserver
    log: RunLog
    restarts: list[str] = field(default_factory=list)
    restarted: int = 0
    has_begun: bool = False

    def checkpointing(self, deployment: Deployment) -> Checkpointing:
        """Return the checkpoints of a generation."""
        return Checkpointing(
            deployment,
            self.stores,
            self.caller_outputs,
            self.commits,
            control=self.control,
            stop=self.stop,
            says=self.story.says,
        )

    def may_read(self, *, is_stopping: bool) -> bool:
        """Return whether hosts may read input: not while too many outputs wait for the reader of stdout, unless the run is to end."""
        return is_stopping or not self.caller_outputs.is_full

    def may_restart(self, point: ResumePoint) -> bool:
        """Return whether another generation may follow a lost one that began at `point`."""
        lost = 0 if self.commits.figures.events > point.events else len(self.restarts)
        return lost < self.job.runtime.restarts.max and self.caller_outputs.can_discard

    def keep(self) -> None:
        """Go on from the checkpoint of a request, also in a run that has kept no checkpoints so far."""
        if self.stores.move():
            self.job = replace(self.job, resumes=True)


Drive = Callable[[Deployment, Session], Ended]
"""Runs one generation. Raises WorkerLostError or FrameGapError if its hosts are gone; any other DgsError ends the run."""


def supervise(job: Job, drive: Drive, hosts: Callable[[Job], int], caller: Caller) -> JobResult:
    """Run a job over as many generations as it takes. `hosts`: the number of hosts for a job. Raises any DgsError."""
    with ExitStack() as stack:
        log = RunLog(job.run_log, name=job.name, log_format=job.log_format)
        stack.callback(log.close)
        session = _opened(job, replace(caller, notify=_logged(caller.notify, log)), log, stack)
        try:
            result = _generations(session, drive, hosts)
            if session.job.is_kept:
                discard_unpublished(places_of(session.job))
            elif result.stopped_by is None:
                settle_rows(session.job)
            return _printed(session, result)
        except BaseException as error:
            _failed(session, error)
            raise


def _opened(job: Job, caller: Caller, log: RunLog, stack: ExitStack) -> Session:
    """Return what a run needs until its end, which the stack closes. Steps that may refuse come before those that change something."""
    control = Control(job.control_dir)
    if job.checkpoint_dir is not None:
        patience = job.runtime.stop_timeout / SECOND + STOP_GRACE
        stack.enter_context(control.listening(patience=patience))
    publisher = Publisher(job.sinks, job.base_dir, program=job.program.name, job=job.owner)
    stack.callback(publisher.close)
    stack.enter_context(claimed_outputs(job, publisher))
    if not job.resumes:
        check_free_outputs(job)
        withdraw_rows(job)
    # Now, because this may refuse the names of outputs, and outputs of an earlier run are still untouched.
    stack.enter_context(caller.ports.outputs())
    run, store = stack.enter_context(opened_store(job, publisher.publish))
    job = replace(job, run_id=run)
    tidy_appended(job)
    stores = RunStores(job, caller.ports.store(store, job), publisher.publish)
    stack.callback(stores.close)
    commits = Commits()
    return Session(
        job,
        CallerOutputs(job),
        publisher,
        control,
        StopRequest(job.runtime.stop_timeout / SECOND),
        stores,
        caller,
        RunStory(job.story_path, log.info),
        Replanning(job, caller),
        commits,
        RunObserver(job, caller, commits),
        log,
    )


def _failed(session: Session, error: BaseException) -> None:
    """Note why a run fails, and remove the rows that it has not committed."""
    why = in_a_line(error)
    session.observer.end("failed", why=why)
    session.story.says(f"the run fails: {why}")
    session.log.failure(why)
    session.story.write()
    with suppress(DgsError):  # then the next run does it, and this error matters more
        withdraw_rows(session.job, session.job.run_id)
    _end_printing_of_a_failure(session, error)


def _printed(session: Session, result: JobResult) -> JobResult:
    """Print the rest of the outputs, for as long as their reader takes them, or for a moment if the run is to stop; return the result.

    Raises BrokenPipeError, OutputUnwritableError.
    """
    made, by = session.caller_outputs, result.stopped_by
    asked = time.monotonic()

    def is_over(silent: float) -> bool:
        nonlocal by, asked
        request = session.control.pending()
        if by is None and request is not None and request.action == "stop":
            by, asked = request.by, time.monotonic()
        return by is not None and (silent > LAST_SECONDS or time.monotonic() - asked > MOST_LAST_SECONDS)

    made.print_rest(is_over)
    if made.is_behind and result.stopped_by is None:
        result = replace(result, stopped_by=by, stopped_at=session.commits.figures.epoch)
    _end_printing(session)
    return result


def _end_printing(session: Session) -> None:
    session.control.leave_in_peace()
    with deferred(all_of_them=True):  # a signal must not lose outputs that nobody makes again
        if (kept := session.caller_outputs.close()) is not None:
            session.caller.notify(
                f"the reader of stdout has not taken all outputs; the others are in {kept}, and `dgs resume` prints them first"
            )


def _end_printing_of_a_failure(session: Session, error: BaseException) -> None:
    """Print the rest of the outputs of a run that has failed, and keep what its reader does not take."""
    with suppress(DgsError, BrokenPipeError):  # the first error matters more
        if isinstance(error, BrokenPipeError):
            session.caller_outputs.close()
            return
        if isinstance(error, DgsError):
            session.caller_outputs.print_rest(lambda silent: silent > LAST_SECONDS)
        _end_printing(session)


def _logged(notify: Callable[[str], None], log: RunLog) -> Callable[[str], None]:
    """Return the function that logs a notice, too."""

    def both(text: str) -> None:
        log.warning(text, is_notice=True)
        notify(text)

    return both


def _generations(session: Session, drive: Drive, hosts: Callable[[Job], int]) -> JobResult:
    """Drive generations until the run ends: after a loss a new one, after a request to move one under the new plan."""
    job, began, driven = session.job, time.monotonic(), 0
    while True:
        point = _begun(session, job)
        driven += 1
        try:
            deployment = Deployment(job, hosts(job), point)
            session.replanning.begin(deployment)
            session.observer.begin(deployment)
            ended = drive(deployment, session)
        except LOSSES as error:
            session.story.says(f"has lost generation {point.generation}: {in_a_line(error)}")
            session.stop.generation_lost()
            if session.commits.figures.events > point.events:
                session.restarts.clear()
            if not session.control.is_signalled:
                _pause(session, error, point)
                continue
            ended = _given_up(session, f"{error}: the run does not start again, since a signal stops it")
        except OverdueStopError as error:
            ended = _given_up(session, f"{error}; the run ends where it was committed last")
        request, epoch = ended.request, session.stop.end()
        if request is not None and request.action == "replan":
            session.control.take()
            session.caller_outputs.discard()
            session.keep()
            job = session.job = _replanned(session, request.plan or "")
            session.observer.moved(f"{request.by} moves it to another plan", session.replanning.moves)
            continue
        if driven > 1:  # events are counted over all generations, so the time must be, too
            ended = replace(ended, figures=replace(ended.figures, seconds=time.monotonic() - began))
        return _result(session, ended, epoch)


def _begun(session: Session, job: Job) -> ResumePoint:
    """Return the point where a generation begins, after removing uncommitted outputs of earlier generations."""
    point = session.stores.store.begin()
    session.commits.note(epoch=point.epoch)
    session.story.begin(point.generation)
    session.story.says(f"begins generation {point.generation} from epoch {point.epoch}")
    if job.resumes and not session.has_begun:
        check_store(job, point)
        check_outputs(job, point)
    session.has_begun = True
    _clean(job, point)
    session.publisher.begin(Generation(job.run_id, point.generation, point.epoch), point.holds)
    _deliver_dealt_otherwise(job, point)
    return point


def _given_up(session: Session, why: str) -> Ended:
    """Return the end of a run that is to stop and has lost its hosts, for example by the same signal, or is interrupted."""
    session.caller.notify(why)
    session.caller_outputs.discard()
    figures = session.observer.generation([], None, seconds=0.0, started=0.0)
    return Ended(None, replace(figures, events=session.commits.figures.events), session.control.pending())


def _result(session: Session, ended: Ended, epoch: int | None) -> JobResult:
    """Return the result of the run. `epoch`: the one that was committed for the request that ended it."""
    made = session.caller_outputs
    figures = replace(
        ended.figures,
        outputs=session.commits.figures.outputs,
        skipped=made.skipped,
        checkpoints=session.commits.figures,
        restarts=session.restarted,
        moves=tuple(session.replanning.moves),
    )
    by, at = (None, None) if ended.request is None else (ended.request.by, epoch)
    session.observer.end(
        "done" if by is None else "stopped", figures, why="" if by is None else f"stopped by {by}"
    )
    if by is not None and at is None:
        session.story.says("stops without a checkpoint")
        session.story.write()
    else:
        session.story.forget()
    return JobResult(
        ended.state, made.outputs, figures, by, at, made.dead_letters, session.replanning.counted
    )


def _clean(job: Job, point: ResumePoint) -> None:
    """Remove outputs that are not committed. If the run starts from the beginning, remove those of an earlier run, too."""
    if not job.is_kept and point.epoch == 0:
        return  # the hosts do it
    discard_unpublished(places_of(job))
    if point.epoch == 0:
        remove_earlier(places_of(job))


def _deliver_dealt_otherwise(job: Job, point: ResumePoint) -> None:
    """Deliver the outputs in the outbox whose streams have another dealing now, before any newer output (R7).

    Raises OutputUnwritableError if a sink still does not accept them.
    """
    old = [(batch, dealt_otherwise(batch, point.committed, job.splits)) for batch in point.outbox]
    late = [(batch, splits) for batch, splits in old if splits is not None]
    for config in job.sinks if late else ():
        if is_central(config) or config.kind in TRANSACTIONAL:
            continue
        sink = open_sink(
            config,
            output_dir=job.output_dir,
            base_dir=job.base_dir,
            host=0,
            generation=point.generation,
            by_epoch=True,
            run=job.run_id,
            continues=point.epoch > 0,
            splits={declared(batch.stream)[0]: splits for batch, splits in late},
            program=job.program.name,
            job=job.owner,
        )
        for batch, _ in late:
            sink.write(batch, point.epoch)
        sink.stage(point.epoch)
        sink.close()


def _pause(session: Session, error: DgsError, point: ResumePoint) -> None:
    """Wait before the next generation. Raise the error if too many generations in a row committed no new event.

    The first restart comes at once, since most hosts are lost for reasons that do not recur. If that brings no progress, a pause may help,
    longer each time.
    """
    limits, before = session.job.runtime.restarts, len(session.restarts)
    if not session.may_restart(point):
        raise error
    seconds = min(limits.backoff / SECOND * 2 ** (before - 1), LONGEST_BACKOFF) if before else 0.0
    session.restarts.append(str(error))
    session.restarted += 1
    session.observer.lost(str(error))
    session.caller_outputs.discard()
    origin = "from its last checkpoint" if session.commits.figures.epoch else "from the beginning"
    at = f"in {seconds:g} s" if seconds else "now"
    session.caller.notify(f"{error}: the run starts again {origin}, {at}")
    until = time.monotonic() + seconds
    while time.monotonic() < until and session.control.pending() is None:
        time.sleep(LOOK_SECONDS)


def _replanned(session: Session, path: str) -> Job:
    """Return the job under the plan of another plan file. If that is impossible, notify the caller and keep the plan."""
    job = session.job
    try:
        if session.caller.replanned is not None:
            job = session.replanning.moved(session.caller.replanned(job, path), path)
        session.caller.notify(f"the run goes on under another plan, with {counted(len(job.plan), 'worker')}")
    except DgsError as error:
        session.caller.notify(f"{error}: the run keeps its plan")
    return job
