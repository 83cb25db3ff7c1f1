"""The application: all verbs, and their common part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dgs.cli.reporting import print_usage_error, stopped_early
from dgs.errors.shortened import shortened

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""click's UsageError, from the copy inside typer or from click itself."""


VERBS = (
    "init",
    "run",
    "resume",
    "stop",
    "replan",
    "top",
    "runs",
    "view",
    "report",
    "checkpoint",
    "compile",
    "plan",
    "predict",
    "query",
    "explain",
    "check",
    "bench",
    "simulate",
    "log",
    "schema",
    "doctor",
)
"""The verbs in the order of `dgs --help`. Each is a function in the module of its name."""

COMMON: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


class _OnDemand(dict[str, Any]):
    """The verbs by name. Their modules are imported on first use, since imports slow down every command."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the click command of a verb."""
        if name not in self:
            return default
        module = import_module(f".{name}", __package__)
        alone = typer.Typer(add_completion=False, **COMMON)
        alone.command(name)(getattr(module, f"{name}_" if name == "compile" else name))
        return typer.main.get_command(alone)


class Verbs(TyperGroup):
    """All verbs. With `--json`, a problem with the command line is also an object on stdout."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _OnDemand((name, None) for name in VERBS)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments before the verb."""
        with _told_as_json(args):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments after the verb, and run it."""
        with _told_as_json(ctx.args):
            return super().invoke(ctx)


@contextmanager
def _told_as_json(arguments: list[str]) -> Iterator[None]:
    as_json = "--json" in arguments  # parsing removes arguments
    try:
        yield
    except USAGE_ERROR as error:
        error.message = shortened(str(error.message))
        if as_json:
            print_usage_error(error.format_message())
        raise
    except KeyboardInterrupt as error:  # otherwise typer ends with 130 after any signal, without a message
        raise stopped_early(error) from None


app = typer.Typer(
    cls=Verbs,
    help="Run stateful stream programs in parallel, with exactly the outputs of the sequential program.",
    epilog="Exit codes: 0 ok, 1 negative result, 2 usage, 3 invalid file or plan, 4 environment, 5 runtime failure, "
    "6 damaged or refused checkpoint or log, 70 bug in dgs, 129/130/143 stopped.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    **COMMON,
)


def _version(asked: bool) -> None:
    if asked:
        from dgs import __version__

        typer.echo(f"dgs {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run stateful stream programs in parallel, with exactly the outputs of the sequential program."""
