"""The application: all verbs, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from dgs.cli.bench import bench
from dgs.cli.doctor import doctor
from dgs.cli.explain import explain
from dgs.cli.plan import plan
from dgs.cli.run import run
from dgs.cli.schema import schema

app = typer.Typer(
    help="Run stateful stream programs in parallel, with exactly the outputs of the sequential program.",
    epilog="Exit codes: 0 ok, 1 negative result, 2 usage, 3 invalid file or plan, 4 environment, 5 runtime failure, "
    "70 bug in dgs, 130/143 stopped.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for verb in (run, plan, explain, bench, schema, doctor):
    app.command()(verb)


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
