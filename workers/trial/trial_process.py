"""The trial of a program in a separate process, which the program may block, kill or fill with garbage: the planner then knows why.

The process is a fresh interpreter in a session of its own, without our terminal and our files. It is killed, with all that it has
started, as soon as it has answered or its time is over. Question and answer are bytes; the length of the answer comes first.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dgs import codec
from dgs.errors import CodecError, UsageError
from dgs.errors.hidden_values import masked
from dgs.errors.raised import RAISED
from dgs.job.loading import load_program
from dgs.job.schema import ProgramConfig
from dgs.model.columns import load_pandas
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.planner.prediction.costs import Costs
from dgs.workers.trial.stopwatch import possible_pace
from dgs.workers.trial.trial import Trial, sentence_of, trial

LONGEST = 8.0
"""Seconds for the answer to come, imports included."""

LAST_SECONDS = 60
"""Seconds after which the system ends the process, in case its parent has ended."""

SHARE_OF_MEMORY = 0.5
"""The share of the machine's memory that the process may take."""

INSIDE = "DGS_TRIAL"
"""The variable that is set in the process, so that a module that runs a job on import does not start processes without end."""

MOST_BYTES = 1 << 20
"""The longest answer that is read."""

SIZE = 8
"""The bytes of the length of an answer."""


Subject = tuple[Program, list[EventBatch], Sequence[str]]
"""A program, its first events, and the kinds of its job's sinks."""


@dataclass(frozen=True, slots=True)
class Question:
    """A program and its first events, for the process. `module`: the module that runs there and reads the content.

    `subject`: the part of the content that costs depend on, and not the place of the program's file.
    """

    module: str
    content: bytes
    subject: bytes


def question_of(
    config: ProgramConfig, base_dir: Path, batches: Sequence[EventBatch], sinks: Sequence[str]
) -> Question:
    """Return the question about a program that a plan file names. Raises CodecError if its events cannot be sent."""
    subject = codec.encode([config.ref, dict(config.args), codec.encode(list(batches)), list(sinks)])
    return Question(__name__, codec.encode([str(base_dir), subject]), subject)


def tried(question: Question) -> Trial:
    """Return the trial that the process answers, or one with the problem."""
    if INSIDE in os.environ:
        return Trial(problem="a trial starts no other")
    try:
        with tempfile.TemporaryFile() as asking:
            asking.write(question.content)
            asking.seek(0)
            process = _started(question.module, asking)
    except (OSError, ValueError) as error:  # a NUL in the module path is no error of the system
        problem = getattr(error, "strerror", None) or str(error)
        return Trial(problem=f"no process could be started for it: {problem}")
    try:
        answer = _answer_of(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            # not read to the end: a process in another session may still hold the pipe open
            process.stdout.close()
        process.wait()
    return answer


def _started(module: str, asking: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process with our module path, and with -P, so that the working directory does not hide installed modules."""
    path = os.pathsep.join(one for one in sys.path if isinstance(one, str))
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", module],
        stdin=asking,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, INSIDE: "1", "PYTHONPATH": path},
        start_new_session=True,
    )


def _answer_of(process: subprocess.Popen[bytes]) -> Trial:
    found = _read(process)
    if found is None:
        return Trial(problem=f"it took more than {LONGEST:g} s")
    if not found:
        return Trial(problem=_end_of(process))
    return understood(found)


def understood(answer: bytes) -> Trial:
    """Return the trial of an answer, which may be garbage."""
    try:
        costs, problem, pace = codec.decode(answer)
        problem = None if problem is None else masked(str(problem))
        return Trial(Costs.from_data(costs), problem, possible_pace(pace))
    except (CodecError, UsageError, TypeError, ValueError):
        return Trial(problem="its process answered with garbage")


def _read(process: subprocess.Popen[bytes]) -> bytes | None:
    """Return the answer; nothing if the process ended without one, None if there is none in time."""
    pipe: Any = process.stdout
    deadline, found = time.monotonic() + LONGEST, b""
    while len(found) < SIZE or len(found) < SIZE + int.from_bytes(found[:SIZE], "big"):
        left = deadline - time.monotonic()
        if left <= 0 or not _is_ready(pipe, left):
            return None
        part = os.read(pipe.fileno(), MOST_BYTES)
        if not part or len(found) > MOST_BYTES:
            return found and b"garbage"
        found += part
    return found[SIZE:]


def _is_ready(pipe: IO[bytes], seconds: float) -> bool:
    """Wait until something can be read, or nothing more will come. By `poll`, since `select` refuses descriptors from 1,024 on."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _end_of(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        return "its process closed its files"
    return f"its process exited with {code}" if code >= 0 else f"signal {-code} ended its process"


def _load(question: bytes) -> Subject:
    base_dir, subject = codec.decode(question)
    ref, arguments, events, sinks = codec.decode(subject)
    program = load_program(ProgramConfig(ref=ref, args=arguments), Path(base_dir))
    return program, codec.decode(events), sinks  # now that the user's types are registered


def answer(load: Callable[[bytes], Subject]) -> None:
    """Answer the question on the standard input. User code's prints are dropped, and its standard input is empty."""
    _limit_resources()
    loading = load_pandas()
    with os.fdopen(os.dup(0), "rb") as source:
        question = source.read()
    to = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    try:
        subject = load(question)
        loading.join()
        found = trial(*subject)
    except RAISED as error:
        found = Trial(problem=sentence_of(error))
    said = codec.encode([found.costs.as_data(), found.problem, found.pace])
    with os.fdopen(to, "wb") as answering:
        answering.write(len(said).to_bytes(SIZE, "big") + said)


def _limit_resources() -> None:
    memory = int(SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limits = {resource.RLIMIT_DATA: memory, resource.RLIMIT_CPU: LAST_SECONDS, resource.RLIMIT_CORE: 0}
    for limit, most in limits.items():
        with suppress(OSError, ValueError):  # a stricter limit is already in force
            resource.setrlimit(limit, (most, most))
    signal.alarm(LAST_SECONDS)


if __name__ == "__main__":
    answer(_load)
