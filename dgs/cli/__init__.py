"""The command line: one module per verb, with heavy imports inside functions. Read in this order.

- `app`: all verbs. `run`, `resume`: running a plan file. `finishing`: their common part. `show_config`: a flag of run.
- `reporting`: messages and exit codes. `options`: shared flags.
- `stop`, `replan`: for a run that is alive. `checkpoint`, `log`: its files. `schema`, `doctor`: for a plan file, for a machine.
- `plan`, `explain`: plans and stories. `check`, `simulate`, `bench`, `predict`: whether a program is right, and how fast it is.

Data goes to stdout and messages to stderr. No verb asks the user anything. `dgs.errors` has the exit codes.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from dgs.workers.runtime.process import stopped_by_signals

READER_SECONDS = 0.5
"""Seconds that a message waits for the reader of stderr."""


class Messages:
    """The stream of messages, stderr: if it cannot be written, or its reader takes nothing, a message is lost, and the command goes on.

    A run also writes its messages to its log.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._patience = READER_SECONDS

    def write(self, text: str) -> int:
        """Write as much as the reader takes."""
        with suppress(OSError, ValueError):
            if self._is_taken():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what waits, if the reader takes it."""
        with suppress(OSError, ValueError):
            if self._is_taken():
                self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self._stream, name)

    def _is_taken(self) -> bool:
        """Return whether a write does not block. After one vain wait there is no further wait until the reader goes on."""
        file = self._stream.fileno()
        mode = os.fstat(file).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return True
        is_taken = bool(select.select([], [file], [], self._patience)[1])
        self._patience = READER_SECONDS if is_taken else 0.0
        return is_taken


def open_streams() -> None:
    """Replace closed standard streams by a file, so that no file of ours gets their descriptors.

    Writing to a closed stdout stays an error; messages are lost without stderr.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = cast("Any", Messages(stderr))


def exit_of_user_code(end: Callable[[int], Any]) -> Callable[[int], Any]:
    """Replace `os._exit` in a command: user code that calls it has failed, as with `sys.exit`. Children of this process are not affected.

    Another thread cannot raise in the main thread, so it ends the process, but not with exit code 0.
    """
    owner = os.getpid()

    def exit_(code: int = 0) -> None:
        if os.getpid() != owner:
            end(code)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(code)
        sys.stderr.write(f"dgs: a thread of the program has ended the process by os._exit({code})\n")
        end(code or 1)

    return exit_


def process() -> None:
    """Run the command line as a whole process: run it, call the handlers of `atexit`, and end.

    The interpreter is not finalized: threads of Arrow that read ahead may need it, and C++ would abort. A profiler saves its profile before.
    """
    code: object = None
    open_streams()
    end = os._exit
    os._exit = cast("Any", exit_of_user_code(end))
    try:
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter would do
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 128 + signal.SIGINT  # as `dgs.cli.reporting` does
    except OSError as error:
        if not code:
            code = 4
            sys.stderr.write(f"dgs: the outputs cannot be written: {error}\n")
    sys.stderr.flush()
    code = code if isinstance(code, int) else int(code is not None)
    if _is_watched():
        atexit.register(_end, end, code)
        raise SystemExit(code)
    end(code)


def _is_watched() -> bool:
    """Return whether a profiler, a tracer or a debugger runs this process: it saves what it has found after us."""
    tools = getattr(sys, "monitoring", None)  # from Python 3.12 on
    has_tool = tools is not None and any(map(tools.get_tool, (tools.DEBUGGER_ID, tools.PROFILER_ID)))
    return has_tool or sys.getprofile() is not None or sys.gettrace() is not None


def _end(end: Callable[[int], Any], code: int) -> None:
    """End the process when the interpreter begins to end: a profiler has then saved its profile."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            if stream is not None:  # a profiler drops a stdout that nobody reads
                stream.flush()
    end(code)


def main() -> None:
    """Run the command line and exit. Signals work from the first moment, also while the verbs are imported."""
    try:
        with stopped_by_signals():
            from dgs.cli.app import app

            app(prog_name="dgs")
    except KeyboardInterrupt as error:
        from dgs.cli.reporting import stopped_early

        raise stopped_early(error) from None
