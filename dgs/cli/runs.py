"""`dgs runs`: lists runs, shows one, and removes old ones.

A run is one of `.dgs/runs/*` beside a plan file. Nothing else is looked at or removed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.reporting import Ending, print_json, print_table, printable, say, show_path, verb

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun

NANO = 10**9


class Action(StrEnum):
    """The actions on runs."""

    LS = "ls"
    SHOW = "show"
    PRUNE = "prune"


# fmt: off
What = Annotated[Action, typer.Argument(
    help="ls: list the runs. show: what one run did. prune: remove old runs, their outputs and checkpoints in the run directory.",
    show_default=False)]
Target = Annotated[str | None, typer.Argument(metavar="DIR | RUN | PLAN",
    help="For ls and prune the directory of the plan files (default: here); for show the run, its directory or the plan.yaml (default: the newest run here).",
    show_default=False)]
Status = Annotated[list[str] | None, typer.Option("--status", metavar="STATUS",
    help="Only runs that are so, such as failed. Repeatable.")]
Since = Annotated[str | None, typer.Option("--since", metavar="AGE",
    help="For ls: only runs that began in the last 2h, 7d...")]
Keep = Annotated[int | None, typer.Option("--keep", min=0, metavar="N",
    help="For prune: keep the newest N runs of each plan file.")]
OlderThan = Annotated[str | None, typer.Option("--older-than", metavar="AGE",
    help="For prune: only runs that began longer ago, such as 14d.")]
Unfinished = Annotated[bool, typer.Option("--unfinished",
    help="For prune: also runs that could still be gone on with.")]
Yes = Annotated[bool, typer.Option("--yes",
    help="For prune: remove. Without it, prune only says what it would remove.")]
# fmt: on


@verb
def runs(
    ending: Ending,
    action: What,
    target: Target = None,
    *,
    status: Status = None,
    since: Since = None,
    keep: Keep = None,
    older_than: OlderThan = None,
    unfinished: Unfinished = False,
    yes: Yes = False,
) -> None:
    """List runs, show one, or remove old ones."""
    from dgs.api.known_runs import run_named, runs_in

    if action is Action.SHOW:
        _show(run_named(target, Path.cwd()), as_json=ending.as_json)
        return
    place = _directory(target)
    found = [Listed.of(run) for run in runs_in(place)]
    if action is Action.LS:
        _list(list(_chosen(found, status, began_after=_moment(since))), as_json=ending.as_json)
        return
    if keep is None and older_than is None:
        raise typer.BadParameter("prune needs --keep N or --older-than AGE, or both")
    chosen = _chosen(found, status, began_before=_moment(older_than))
    old = {one.id for one in (found if keep is None else _beyond(found, keep))}
    _prune(
        [one for one in chosen if one.id in old],
        found,
        unfinished=unfinished,
        yes=yes,
        as_json=ending.as_json,
    )


@dataclass(frozen=True)
class Listed:
    """A run in a listing. `seconds` and counts: from its results, or from its figures if it has none."""

    run: KnownRun
    id: str
    plan: str
    status: str
    began: float
    seconds: float | None
    events: int | None
    outputs: int | None
    restarts: int | None
    verified: bool | None

    @classmethod
    def of(cls, run: KnownRun) -> Listed:
        """Return what is known of a run."""
        known = _last_figures(run) | run.directory.results()
        plan = run.directory.of
        return cls(
            run,
            run.directory.path.name,
            run.name if plan is None else show_path(plan),
            run.status,
            float(run.about.get("started", 0.0)),
            *(known.get(name) for name in ("seconds", "events_in", "outputs", "restarts", "verified")),
        )

    def as_data(self) -> dict[str, Any]:
        """Return the run as data."""
        facts = {name: value for name, value in vars(self).items() if name != "run"}
        return {**facts, "run_dir": str(self.run.directory.path)}


def _last_figures(run: KnownRun) -> dict[str, Any]:
    from dgs.errors import DgsError
    from dgs.observe import newest

    try:
        return newest(run.directory.path).reached
    except DgsError:
        return {}


def _directory(target: str | None) -> Path:
    from dgs.errors import NoSuchRunError

    place = Path.cwd() if target is None else Path(target)
    if place.is_file():
        return place.resolve().parent
    if not place.is_dir():
        raise NoSuchRunError(
            problem=f"there is no directory {target}", advice="Name a directory with plan files"
        )
    return place


def _moment(age: str | None) -> float | None:
    """Return the time `age` ago, in seconds since 1970."""
    from dgs.job.units import parse_duration
    from dgs.workers.runtime import process

    if age is None:
        return None
    try:
        return process.now() - parse_duration(age) / NANO
    except ValueError as error:
        raise typer.BadParameter(f"{age!r} is no length of time, such as 90m, 12h or 14d") from error


def _chosen(
    found: Iterable[Listed],
    status: Sequence[str] | None,
    *,
    began_after: float | None = None,
    began_before: float | None = None,
) -> Iterator[Listed]:
    for one in found:
        is_meant = not status or one.status in status
        is_new_enough = began_after is None or one.began >= began_after
        is_old_enough = began_before is None or one.began < began_before
        if is_meant and is_new_enough and is_old_enough:
            yield one


def _beyond(found: Iterable[Listed], keep: int) -> Iterator[Listed]:
    """Yield the runs of each plan file that are not among its newest. `found`: the newest first."""
    seen: dict[str, int] = {}
    for one in found:
        seen[one.plan] = seen.get(one.plan, 0) + 1
        if seen[one.plan] > keep:
            yield one


def _list(found: Sequence[Listed], *, as_json: bool) -> None:
    if as_json:
        print_json({"runs": [one.as_data() for one in found]})
        return
    if not found:
        say("dgs: no runs")
        return
    head = ("run", "plan", "status", "began", "seconds", "events", "outputs", "restarts", "verified")
    print_table(head, [_row(one) for one in found])


def _row(one: Listed) -> tuple[Any, ...]:
    seconds = None if one.seconds is None else f"{one.seconds:.1f}"
    verified = None if one.verified is None else "yes" if one.verified else "no"
    counts = (None if count is None else f"{count:,}" for count in (one.events, one.outputs, one.restarts))
    return (one.id, one.plan, one.status, _when(one.began), seconds, *counts, verified)


def _when(began: float) -> str | None:
    """Return a time in words, None if it is not known."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began)) if began else None


def _show(run: KnownRun, *, as_json: bool) -> None:
    """Print what a run did: its results, or its figures if it has no results."""
    from dgs.workers.observing.progress_line import duration

    one = Listed.of(run)
    results = run.directory.results()
    error = results.get("error")
    if as_json:
        print_json({**one.as_data(), "progress": run.progress, "results": results or None})
        return
    print(printable(f"{one.id}: {run.name}, {one.status}"))
    took = None if one.seconds is None else duration(one.seconds)
    facts = [
        ("plan file", one.plan),
        ("began", _when(one.began)),
        ("took", took),
        ("events", None if one.events is None else f"{one.events:,}"),
        ("outputs", None if one.outputs is None else f"{one.outputs:,}"),
        ("committed", run.progress),
        ("restarts", one.restarts),
        ("verified", one.verified),
        ("error", error.get("message") if isinstance(error, dict) else error),
        ("directory", show_path(run.directory.path)),
    ]
    for name, fact in facts:
        if fact is not None:
            print(f"  {name:<10} " + "\n".join(map(printable, str(fact).split("\n"))))


def _prune(
    chosen: Sequence[Listed], found: Sequence[Listed], *, unfinished: bool, yes: bool, as_json: bool
) -> None:
    """Remove runs, or say which would be removed. `found`: all runs there, the newest first."""
    told: list[dict[str, Any]] = []
    for one in chosen:
        kept = _reason_to_keep(one, found, unfinished=unfinished)
        size = sum(path.lstat().st_size for path in one.run.directory.path.rglob("*") if not path.is_dir())
        if kept is None and yes:
            kept = _remove(one)
        told.append({"id": one.id, "bytes": size, "kept": kept})
        if not as_json:
            _say_pruned(one.id, size, kept, yes=yes)
    gone = [one for one in told if one["kept"] is None]
    total = sum(one["bytes"] for one in gone)
    if as_json:
        print_json({"removed": yes, "runs": told, "bytes": total})
    elif yes:
        say(f"dgs: removed {len(gone)} runs, {_megabytes(total)}")
    else:
        say(f"dgs: would remove {len(gone)} runs, {_megabytes(total)}; nothing is removed without --yes")


def _say_pruned(name: str, size: int, kept: str | None, *, yes: bool) -> None:
    does = "removed" if yes else "would remove"
    print(f"keeps {name}: {kept}" if kept else f"{does} {name}, {_megabytes(size)}")


def _reason_to_keep(one: Listed, found: Sequence[Listed], *, unfinished: bool) -> str | None:
    """Return why a run is kept, None if it may be removed."""
    if one.run.is_alive:
        return "it is running"
    if next(other.id for other in found if other.plan == one.plan) == one.id:
        return "it is the newest of its plan file"
    if not unfinished and _could_go_on(one.run):
        return "it could be gone on with (--unfinished removes it, too)"
    if one.run.directory.path.is_symlink():
        return "it is a link"
    if not one.run.directory.is_whole:
        return "its run.json is not as a run wrote it"
    return _strange(one.run.directory.path)


def _strange(directory: Path) -> str | None:
    """Return why a directory may not be removed, None if runs have made all files in it."""
    from dgs.api.known_runs import strangers

    try:
        found = strangers(directory)
    except OSError as error:
        return error.strerror or str(error)
    return f"it holds what no run made: {', '.join(found[:3])}" if found else None


def _could_go_on(run: KnownRun) -> bool:
    from dgs.api.known_runs import is_unfinished

    return is_unfinished(run.directory.checkpoints) or run.directory.unprinted.exists()


def _remove(one: Listed) -> str | None:
    """Remove the directory of a run under its lock. Return why that failed, None if it did not."""
    from dgs.api.known_runs import held
    from dgs.errors import DgsError

    try:
        with held(one.run.directory.path):
            shutil.rmtree(one.run.directory.path)
    except DgsError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
