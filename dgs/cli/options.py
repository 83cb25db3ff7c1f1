"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dgs.job.settings import Given


class LogFormatName(StrEnum):
    """The formats of log lines."""

    TEXT = "text"
    JSON = "json"


def named(*endings: str) -> Callable[[Path | None], Path | None]:
    """Return the check of an option for a file to write: its name ends as files of its format do, so nobody's plan or data is overwritten."""

    def checked(path: Path | None) -> Path | None:
        if path is not None and path.suffix.lower() not in endings:
            raise typer.BadParameter(f"{path}: name a file that ends in {' or '.join(endings)}")
        return path

    return checked


def _plan_at(path: Path | None) -> Path | None:
    from dgs.job.run_directory import plan_at

    return None if path is None else plan_at(path)


# fmt: off
PlanPath = Annotated[Path, typer.Argument(metavar="PLAN | RUN_DIR", callback=_plan_at,
    help="The plan.yaml of the job, or the directory of a run: its own plan.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", envvar="DGS_DEBUG", help="Print tracebacks of bugs in dgs.")]
OptimizerName = Annotated[str | None, typer.Option("--optimizer", metavar="NAME",
    help="Make a plan with auto, cost, greedy, exhaustive, random or sequential.")]
PlanFrom = Annotated[Path | None, typer.Option("--plan", metavar="FILE | RUN_DIR", callback=_plan_at,
    help="Use the plan in this file, or of this run, instead of making one.")]
Rates = Annotated[str | None, typer.Option("--rates", metavar="RUN_DIR|FILE|TAG=RATE,...",
    help="Rates in place of sampled ones: those of an earlier run, which also says what events cost; or of kinds or tags, such as 'view=5k/s,view(7)=2k/s', or a YAML file of them.")]
SetValues = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE",
    help="Set a value of plan.yaml, such as streams.clicks.rate=3/s. Repeatable.")]
RuntimeName = Annotated[str | None, typer.Option("--runtime", metavar="KIND",
    help="Run on ray (host processes), local (this process) or spark.")]
Compile = Annotated[str | None, typer.Option("--compile", metavar="MODE",
    help="Whether `update` is compiled: auto, require or off.")]
Hosts = Annotated[int | None, typer.Option("--hosts", min=1, help="How many host processes (Ray).")]
Tolerance = Annotated[float | None, typer.Option("--tolerance", min=0, metavar="X",
    help="Floats may differ by this, relatively.")]
VerifyTolerance = Annotated[float | None, typer.Option("--tolerance", min=0, metavar="X",
    help="For --verify: floats may differ by this, relatively.")]
MaxLeaves = Annotated[int | None, typer.Option("--max-leaves", min=1, metavar="N",
    help="For the optimizer: at most this many leaves.")]
SaveState = Annotated[Path | None, typer.Option("--save-state", metavar="FILE",
    help="Write the final state there: JSON if the name ends with .json, else for dgs.read_state.")]
AcceptDuplicates = Annotated[bool, typer.Option("--accept-duplicates",
    help="Go on although the record of committed outputs is lost: some may then be there twice.")]
AcceptCodeChange = Annotated[bool, typer.Option("--accept-code-change",
    help="Go on although the program's code has changed since: its old state must suit the new code.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, show_default=False,
    help="Print log lines too; -vv all of them.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet",
    help="Print no progress and no notices, only errors and the closing line.")]
LogFormat = Annotated[LogFormatName, typer.Option("--log-format", metavar="text|json",
    help="Log lines, on stderr and in run.log, as text or JSON.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, metavar="S",
    help="Wait for the run at most so many seconds.")]
# fmt: on


def given_by_flags(
    set_values: list[str] | None, plan_from: Path | None = None, **flags: object
) -> dict[str, Given]:
    """Return the values given by flags, by their paths in the plan file. `runtime__kind` stands for `runtime.kind`.

    A flag for a value takes precedence over `--set`. Raises UsageError, PlanFileError.
    """
    from dgs.job.document import read_plan_section
    from dgs.job.settings import Given, set_flag

    given = dict(map(set_flag, set_values or []))
    for name, value in flags.items():
        if value is not None:
            section, _, key = name.partition("__")
            by = f"--{section}" if key in ("kind", "name") else f"--{key.replace('_', '-')}"
            given[f"{section}.{key}"] = Given(value, by)
    if plan_from is not None:
        given["plan"] = Given(read_plan_section(plan_from), f"--plan {plan_from}")
    return given
