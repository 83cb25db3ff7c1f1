"""The output and the exit of every verb: messages on stderr, objects and tables on stdout, errors with their exit codes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from dgs.cli.options import AsJson, Debug
from dgs.errors.hidden_values import masked

if TYPE_CHECKING:
    from dgs.api.costing import KnownCosts
    from dgs.api.preparing import Prepared
    from dgs.cli.loudness import Loudness
    from dgs.errors import DgsError
    from dgs.job.run_directory import RunDirectory

INTERRUPTED = 130

LAST_SECONDS = 0.5
"""Seconds that a stopping command waits for the reader of stdout."""


@dataclass
class Ending:
    """The facts for the closing lines of a verb, which the verb fills in as it runs."""

    as_json: bool
    debug: bool
    name: str = ""
    directory: RunDirectory | None = None
    output_dirs: list[Path] = field(default_factory=list)
    tables: list[tuple[Path, str]] = field(default_factory=list)
    saved: Path | None = None
    shows_page: bool = False
    loudness: Loudness | None = None

    def progress(self) -> str:
        """Return the committed progress of the run, in words."""
        if self.directory is None:
            return "nothing is committed"
        from dgs.api.known_runs import KnownRun

        return KnownRun(self.directory).progress

    def committed(self) -> str:
        """Return a phrase with the committed progress, if there is any."""
        progress = self.progress()
        return "" if progress.startswith("nothing") else f"; {progress}"

    def onward(self, *, mended: bool = False) -> str:
        """Return the command that resumes from the commit, or the command to repeat if nothing is committed.

        `mended`: the program must be fixed first.
        """
        if self.directory is None:  # this may be in the middle of an import, so import nothing
            return f"repeat with: {command()}"
        from dgs.api.known_runs import holds_checkpoints, is_unfinished
        from dgs.job.run_directory import ABOUT

        place = self.directory.checkpoints
        resume = resume_command(self.directory.path)
        if holds_checkpoints(place) and (is_unfinished(place) or self.directory.unprinted.exists()):
            onward = f"go on with: {resume}"
            return f"fix the program and {onward} --accept-code-change" if mended else onward
        # A directory with a run, even without a commit, takes no other run.
        is_taken = (self.directory.path / ABOUT).exists()
        is_named = any(word.startswith("--run-dir") for word in sys.argv)
        return f"repeat with: {resume if is_named and is_taken else command()}"

    def kept(self) -> str:
        """Return a phrase on the files that an unfinished run left behind."""
        if self.directory is None:
            return "nothing was written"
        from dgs.workers.storage.locks import holder_of

        there = {path for place in self.output_dirs for path in place.rglob("*.partial")}
        if found := sorted(
            path for path in there if holder_of(path) is None
        ):  # the others are of a run that is alive
            partial = f"outputs so far are kept as {', '.join(map(show_path, found))}"
        elif self.committed():
            partial = "only what is committed was kept"
        elif rows := self._rows():
            partial = f"outputs go into a database at once: {rows}"
        else:
            partial = "no outputs were kept"
        return f"{partial}; the run is in {show_path(self.directory.path)}"

    def _rows(self) -> str:
        """Return a phrase on the rows in the tables that the run replaces."""
        if not self.tables:
            return ""
        from dgs.workers.sinks.sqlite_tables import rows_in

        found = ((path, table, rows_in(path, table)) for path, table in self.tables)
        return ", ".join(
            f"table {table!r} of {show_path(path)} has {rows} rows now" for path, table, rows in found if rows
        )


@contextlib.contextmanager
def reporting(*, as_json: bool, debug: bool) -> Iterator[Ending]:
    """Turn any exception of a verb into its message and exit code."""
    from dgs.errors import DgsError, InternalError, SystemRefusalError

    ending = Ending(as_json, debug)
    try:
        with _only_stopped():
            yield ending
    except InternalError as error:
        raise _bug(error, error, ending) from None
    except DgsError as error:
        raise _failure(error, ending) from None
    except KeyboardInterrupt as error:
        _say_stopped(ending)
        if as_json:
            print_json(
                {"error": {"code": None, "message": "stopped by a signal"}, "run_dir": _run_dir(ending)},
                waits=False,
            )
        raise typer.Exit(exit_code_of(error)) from None
    except BrokenPipeError:
        # Everything is closed. But a thread of Arrow may still read ahead, and C++ aborts if it needs the ending interpreter.
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:  # noqa: BLE001 - whatever is left is a bug, and must say so
        refusal = SystemRefusalError.found_in(error)
        if refusal is not None:
            if debug:
                say(traceback.format_exc().rstrip())
            raise _failure(refusal, ending) from None
        raise _bug(error, InternalError(problem=f"{type(error).__name__}: {error}"), ending) from None


def _say_stopped(ending: Ending) -> None:
    """Print what a stopped verb has left, and again if another signal interrupts that."""
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            say(
                f"dgs: {ending.name or 'dgs'} was stopped; {ending.kept()}{ending.committed()}; {ending.onward()}"
            )
            return


@contextlib.contextmanager
def _only_stopped() -> Iterator[None]:
    """After a signal, treat any error as its effect: a module whose import was interrupted fails later, in its own way."""
    from dgs.workers.runtime.process import check_not_stopped

    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception:
        check_not_stopped()
        raise


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Return a verb for typer: with `--json` and `--debug`, and with its errors reported. Its first parameter is the `Ending`.

    The fields of a parameter that is a dataclass are flags.
    """
    hints = get_type_hints(function, include_extras=True)
    names = list(inspect.signature(function).parameters)[1:]
    groups: dict[str, Any] = {name: hints[name] for name in names if is_dataclass(hints[name])}
    flags: dict[str, inspect.Parameter] = {}
    for name in names:
        owner = groups.get(name, function)
        own, types = inspect.signature(owner).parameters, get_type_hints(owner, include_extras=True)
        for flag in own if name in groups else (name,):
            flags[flag] = own[flag].replace(annotation=types[flag])
    for name, annotation in (("as_json", AsJson), ("debug", Debug)):
        kind = inspect.Parameter.KEYWORD_ONLY
        flags[name] = inspect.Parameter(name, kind, default=False, annotation=annotation)

    @functools.wraps(function)
    def reported(*, as_json: bool, debug: bool, **given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        with reporting(as_json=as_json, debug=debug) as ending:
            function(ending, **given)

    reported.__signature__ = inspect.Signature(list(flags.values()))  # type: ignore[attr-defined]
    reported.__annotations__ = {name: one.annotation for name, one in flags.items()}
    return reported


def say(text: str) -> None:
    """Print a message on stderr, without hidden values."""
    print(masked(text), file=sys.stderr, flush=True)


def show(text: object) -> None:
    """Print a text on stdout, without hidden values. Answers of queries and outputs are printed as they are."""
    print(masked(str(text)))


def print_json(data: dict[str, Any], *, waits: bool = True) -> None:
    """Print an object on stdout, on one line, without hidden values. A script can take the last line, after any lines of a stdout sink.

    `waits`: False after a request to stop. An object that the reader of stdout does not take is then left out, with a message.
    """
    line = masked(json.dumps(data, default=str)) + "\n"
    if waits:
        print(line, end="", flush=True)
        return
    from dgs.workers.sinks.kept_outputs import StdoutSink

    out = StdoutSink()
    out.put([line])
    out.show(within=LAST_SECONDS)
    if out.is_behind:
        say("dgs: the reader of stdout takes nothing, so the object of --json is left out")


def print_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print rows under their heads, with numbers aligned to the right. Control characters in texts of users are shown, not sent.

    >>> print_table(("file", "rows", "problem"), [("one", 7, None), ("another", 12, "damaged")])
    file     rows  problem
    one         7  -
    another    12  damaged
    """
    texts = [head, *(tuple("-" if value is None else printable(str(value)) for value in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [bool(rows) and isinstance(value, int) for value in (rows[0] if rows else head)]
    for line in texts:
        cells = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip())


def printable(text: str) -> str:
    """Return a text with its control characters escaped: names and errors must not command the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def stopped_early(error: KeyboardInterrupt) -> SystemExit:
    """Print that a signal came before a verb had begun, and return the exit."""
    sys.stderr.write(f"dgs was stopped before it had begun; repeat with: {command()}\n")
    return SystemExit(exit_code_of(error))


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """Return the exit code of a process that a signal has stopped."""
    return getattr(stopped, "exit_code", 128 + signal.SIGINT)


def print_usage_error(message: str) -> None:
    """Print the object for a bad command line. Typer prints the message on stderr."""
    from dgs.errors import UsageError
    from dgs.errors.as_data import as_data

    print_json({"error": as_data(UsageError(message=message)), "run_dir": None})


def show_path(path: Path) -> str:
    """Return a path relative to the working directory if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def command() -> str:
    """Return the command that was given, quoted for a shell."""
    return shlex.join(["dgs", *sys.argv[1:]])


def command_elsewhere() -> str:
    """Return the command without `--run-dir`, since that directory has a run now, unless the command resumes that run."""
    words = sys.argv[1:]
    if "--resume" in words:
        return command()
    while "--run-dir" in words:
        place = words.index("--run-dir")
        words = words[:place] + words[place + 2 :]
    return shlex.join(["dgs", *(word for word in words if not word.startswith("--run-dir="))])


def resume_command(run_dir: Path) -> str:
    """Return the command that resumes a run."""
    return shlex.join(["dgs", "resume", show_path(run_dir)])


def _failure(error: DgsError, ending: Ending) -> typer.Exit:
    from dgs.api.reports import error_data
    from dgs.errors import CheckpointBusyError, ConnectorError, UserCodeError

    told = error_data(error)
    if told.get("trace"):
        say(told["trace"])
    say(f"error[{told['code']}]: {told['message'].removeprefix(told['code']).lstrip(': ')}")
    if ending.directory is not None and not isinstance(error, CheckpointBusyError):
        onward = ending.onward(
            mended=isinstance(error, UserCodeError) and not isinstance(error, ConnectorError)
        )
        say(f"dgs: {ending.name} failed; {ending.kept()}{ending.committed()}; {onward}")
    if ending.as_json:
        print_json({"error": told, "run_dir": _run_dir(ending)})
    return typer.Exit(error.exit_code)


def _bug(cause: BaseException, error: DgsError, ending: Ending) -> typer.Exit:
    """Report a bug in dgs: its traceback goes into the run directory, and to stderr with `--debug`."""
    trace = "".join(traceback.format_exception(cause))
    if ending.debug:
        say(trace.rstrip())
    exit_with = _failure(error, ending)
    if ending.directory is not None:
        with contextlib.suppress(Exception):  # the first failure matters more
            say(f"dgs: the traceback is in {show_path(ending.directory.write_traceback(trace))}")
    elif not ending.debug:
        say("dgs: run again with --debug for the traceback")
    return exit_with


def _run_dir(ending: Ending) -> str | None:
    return str(ending.directory.path) if ending.directory is not None else None


def say_warning(prepared: Prepared, costs: KnownCosts | None) -> None:
    """Print on stderr why the costs by which plans are compared are only typical, if they are."""
    if costs is not None and costs.warning is not None:
        say(f"dgs: {prepared.config.name}: {costs.warning}")


def say_why_one_worker(prepared: Prepared) -> None:
    """Print on stderr why the plan has one worker, if it has only one."""
    why = prepared.why_one_worker
    if why is not None:
        say(f"dgs: {prepared.config.name}: the plan has one worker: {why}")
