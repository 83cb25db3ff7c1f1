"""The command line: one module per verb, with heavy imports inside functions. Read in this order.

- `app`: all verbs. `run`, `resume`: running a plan file. `finishing`: their common part. `show_config`: a flag of run.
- `reporting`: messages and exit codes. `options`: shared flags.
- `stop`, `replan`: for a run that is alive. `checkpoint`, `log`: its files. `schema`, `doctor`: for a plan file, for a machine.
- `plan`, `explain`: plans and stories. `check`, `simulate`, `bench`, `predict`: is a program right, and how fast is it?

Data goes to stdout and messages to stderr. No verb asks the user anything. `dgs.errors` has the exit codes.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A signal has asked the process to end. It stops as after Ctrl-C. `exit_code`: 128 plus the number of the signal.

    After a plain KeyboardInterrupt in `exec`, for example in an import, Python ends by the signal and ignores the exit code.
    """

    def __init__(self, number: int) -> None:
        """Take the number of the signal."""
        super().__init__()
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped for a signal that asks the process to end, inside this context, unless the signal is ignored."""
    known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in known.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def process() -> None:
    """Be the command line, as the whole of a process: run it, call the handlers of `atexit`, and end.

    The interpreter is not taken down. Threads of Arrow that read ahead may need it until the very end, and then C++ aborts.
    """
    code: object = None
    try:
        try:
            main()
        except SystemExit as end:
            code = end.code
        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter would do
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 128 + signal.SIGINT  # as `dgs.cli.reporting` does
    except OSError as error:
        code = code or 4
        sys.stderr.write(f"dgs: the outputs cannot be written: {error}\n")
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def main() -> None:
    """Run the command line and exit. Signals work from the first moment, also while the verbs are imported."""
    try:
        with stopped_by_signals():
            from dgs.cli.app import app

            app(prog_name="dgs")
    except KeyboardInterrupt as error:
        from dgs.cli.reporting import stopped_early

        raise stopped_early(error) from None
