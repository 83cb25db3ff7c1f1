"""The local runtime: all workers in this process, one thread, no network."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack

from dgs.errors import StalledError
from dgs.workers.observing.program_lines import ProgramLine, ProgramLines
from dgs.workers.protocol.folding.to_compile import LARGE_RUN, load_compiler
from dgs.workers.runtime import process
from dgs.workers.runtime.control import OverdueStop
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.engine import Engine
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.stall import Watchdog, sentence
from dgs.workers.runtime.supervisor import STOP_GRACE, Ended, Session, supervise
from dgs.workers.sources.rows import SECOND

PROGRESS_EVERY = 0.2
"""Seconds between two looks at the time, for figures and the watchdog."""


READER_SECONDS = 0.01
"""Seconds between two looks whether the reader of stdout takes outputs again."""


def run_local(job: Job, caller: Caller = Caller()) -> JobResult:
    """Run a job in this process and return its result. Raises any DgsError; outputs are then left as `.partial`."""
    return supervise(job, drive, lambda _: 1, caller)


def drive(deployment: Deployment, session: Session) -> Ended:
    """Run one generation in this process."""
    job = deployment.job
    overdue = OverdueStop(session.control.is_to_stop, patience=job.runtime.stop_timeout / SECOND + STOP_GRACE)
    is_kept = session.log.path is not None
    lines = ProgramLines(clock=process.now, is_alone=True, takes_prints=is_kept)
    with ExitStack() as taken:
        taken.enter_context(process.rarer_collections())
        if session.control.can_be_asked:
            taken.enter_context(overdue.watching())
        if is_kept:
            taken.enter_context(lines.logs())
            taken.callback(lambda: _note(session, lines.close()))
        if job.may_compile and LARGE_RUN <= job.events < math.inf:
            load_compiler()
        with overdue.work(), lines.prints():
            engine = Engine(deployment, 0)
        session.story.hosts = engine.story
        return _Drive(engine, deployment, session, overdue, lines).ended()


def _note(session: Session, lines: list[ProgramLine]) -> None:
    session.log.says_program(0, lines, is_elsewhere=False)


class _Drive:
    """The only host of a run at work: it steps, passes on outputs and reports, and shows progress now and then."""

    def __init__(
        self,
        engine: Engine,
        deployment: Deployment,
        session: Session,
        overdue: OverdueStop,
        lines: ProgramLines,
    ) -> None:
        self._engine, self._session, self._overdue, self._lines = engine, session, overdue, lines
        self._checkpoints = session.checkpointing(deployment)
        self._unit = deployment.job.unit
        after = deployment.job.runtime.stall_after / SECOND
        self._watchdog = Watchdog(after=after, now=time.monotonic(), notify=session.caller.notify)
        self._reported = process.now()
        engine.while_blocked(self._wait)

    def ended(self) -> Ended:
        """Work until the generation ends."""
        engine, session, checkpoints = self._engine, self._session, self._checkpoints
        started = self._reported
        request = None
        try:
            while not checkpoints.is_over and request is None:
                request = checkpoints.poll(
                    lambda always: engine.request_snapshot(always=always), engine.counts[1]
                )
                self._step(reads=session.may_read(is_stopping=checkpoints.is_stopping))
            seconds = process.now() - started
            session.replanning.end(lambda: [engine.take_counts()])
        finally:
            _close(engine, session, self._lines, is_over=checkpoints.is_over)
        figures = session.observer.generation(
            [engine.figures()],
            checkpoints.last,
            seconds=seconds,
            started=started,
            waited=self._watchdog.sentences,
        )
        return Ended(None if engine.final is None else engine.final.state, figures, request)

    def _step(self, *, reads: bool) -> None:
        engine, session = self._engine, self._session
        with self._overdue.work(), self._lines.prints():
            is_busy = engine.step(reads=reads, between=self._keep)
        _note(session, self._lines.take())
        if not is_busy:
            if reads and engine.idle_seconds is None and not self._checkpoints.is_stopping:
                raise StalledError(reason=self._standing())
            time.sleep(min(engine.idle_seconds or 0.0, PROGRESS_EVERY) if reads else READER_SECONDS)
        session.caller_outputs.write(engine.take_outputs())
        self._checkpoints.take_reports(engine.take_reports())
        self._report_if_due(reads=reads)

    def _keep(self) -> None:
        """Pass on outputs in the middle of a step, which may make many. Nothing is printed, since prints are taken."""
        if self._engine.has_outputs:
            with self._overdue.rest():
                self._session.caller_outputs.keep(self._engine.take_outputs())
        self._overdue.check()

    def _wait(self) -> None:
        """Show how far the run is while a sink waits in the middle of a step."""
        with self._overdue.rest(), self._lines.echoes():
            self._report_if_due(reads=True)
        self._overdue.check()

    def _report_if_due(self, *, reads: bool) -> None:
        if process.now() - self._reported > PROGRESS_EVERY:
            self._reported = process.now()
            self._report(reads=reads)

    def _report(self, *, reads: bool) -> None:
        """Show how far the run is, and say what it waits for if nothing has moved for long."""
        engine, session = self._engine, self._session
        if (news := engine.figures_if_due()) is not None:
            session.observer.take(news)
        session.observer.show_if_due(is_stopping=self._checkpoints.is_stopping)
        session.replanning.look(lambda: [engine.take_counts()])
        moved = -1 if engine.is_blocked else sum(engine.counts)  # what such a sink still takes is no progress
        if self._watchdog.is_due(moved, now=time.monotonic()):
            self._watchdog.say(
                self._standing() if reads or engine.is_blocked else session.caller_outputs.waiting
            )
            session.story.write()

    def _standing(self) -> str:
        return sentence([self._engine.standing()], unit=self._unit)


def _close(engine: Engine, session: Session, lines: ProgramLines, *, is_over: bool) -> None:
    """Close the engine. If the run is not complete, take the last figures first."""
    try:
        if not is_over:
            session.observer.take(engine.figures())
    finally:
        with lines.prints():
            engine.close(complete=is_over)
