"""`dgs explain`: explains the plan; with `--story`, prints the story of a run that failed."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.options import OptimizerName, PlanFrom, SetValues, given_by_flags
from dgs.cli.plan import Format, Shape, figures, rendered, say_remarks
from dgs.cli.query import QueryFlags
from dgs.cli.reporting import Ending, print_json, show, verb

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.api.preparing import Prepared, Request
    from dgs.observe import WorkerFigures
    from dgs.query.standing.explanation import Explanation

LAST = 50
"""The number of entries of a story to print."""

# fmt: off
Graph = Annotated[bool, typer.Option("--dependence",
    help="Draw the dependence graph instead (mermaid or dot).")]
Types = Annotated[bool, typer.Option("--types",
    help="For a flow: print the type of each edge, and where each step runs.")]
OfQuery = Annotated[bool, typer.Option("--query",
    help="For a query: its algebra, its rules, what is kept and why, and what that costs. PLAN may be a file .sql, .pig or .mrql, or a text.")]
PlanOrNone = Annotated[Path | None, typer.Argument(metavar="PLAN | RUN_DIR",
    help="The plan.yaml of the job, or the directory of a run: its own plan.", show_default=False)]
StoryOf = Annotated[Path | None, typer.Option("--story", metavar="RUN",
    help="Print what happened before this run failed: its directory, or the plan.yaml whose newest run is meant.")]
OfWorker = Annotated[str | None, typer.Option("--worker", metavar="NAME",
    help="For --story: only what concerns this worker of the plan.")]
Last = Annotated[int | None, typer.Option("--last", min=1, metavar="N",
    help=f"For --story: so many entries (default: {LAST}).")]
# fmt: on


@verb
def explain(
    ending: Ending,
    plan_path: PlanOrNone = None,
    *,
    story: StoryOf = None,
    worker: OfWorker = None,
    last: Last = None,
    optimizer: OptimizerName = None,
    plan_from: PlanFrom = None,
    set_values: SetValues = None,
    shape: Shape = None,
    dependence: Graph = False,
    types: Types = False,
    query: OfQuery = False,
    of_query: QueryFlags,
) -> None:
    """Print the plan tree, and why each tag is where it is; with --story, what happened before a run failed."""
    if (plan_path is None) == (story is None):
        raise typer.BadParameter("give a PLAN, or --story RUN")
    if not query and of_query != QueryFlags():
        raise typer.BadParameter("--lang, --from, -p, --require and --exact are for --query")
    if story is None and (worker is not None or last is not None):
        raise typer.BadParameter("--worker and --last are for --story")
    if plan_path is None:
        _print_story(story, worker, last or LAST, as_json=ending.as_json)
        return
    from dgs.api.preparing import from_file
    from dgs.job.run_directory import plan_at

    plan_path = plan_at(of := plan_path)
    if query and plan_path.suffix not in (".yaml", ".yml"):
        _print_query(of_query.asked(str(plan_path)).explained(), as_json=ending.as_json)
        return
    request = from_file(plan_path, given_by_flags(set_values, plan_from, optimizer__name=optimizer))
    if query:
        _print_query(_of_plan(request), as_json=ending.as_json)
    elif types:
        _print_types(request, of, as_json=ending.as_json)
    else:
        shape = Format.JSON if ending.as_json else shape or Format.TEXT
        _print_plan(request, of, shape, dependence=dependence)


def _print_plan(request: Request, of: Path, shape: Format, *, dependence: bool) -> None:
    from dgs.api.preparing import prepare

    prepared = prepare(request)
    say_remarks(prepared)
    show(_dependence(prepared, shape) if dependence else _explained(prepared, shape))
    if shape is Format.TEXT and not dependence:
        _say_what_is_compiled(prepared)
        _say_what_was_compiled(of)


def _say_what_is_compiled(prepared: Prepared) -> None:
    """Print how `update` folds the first events of each stream, if the plan file has `compile:`."""
    runtime = prepared.config.runtime
    if "compile" not in runtime.model_fields_set or runtime.compile == "off":
        return
    from dgs.api.preparing import context_of
    from dgs.compiled.preview import ways
    from dgs.workers.sources.sampling import first_events

    batches = first_events(prepared.config.streams, context_of(prepared.request, prepared.program))
    show("\nHow update folds long batches, by the first events:")
    for way in ways(prepared.program, batches):
        show(f"  {way}")


def _say_what_was_compiled(of: Path) -> None:
    """Print what machine code has folded in a run, or the newest one of a plan file, if that run compiled its `update`."""
    from dgs.observe.figures_of_runs import NoFiguresError, newest

    run = _run_of(of)
    if run is None:
        return
    try:
        workers = newest(run.directory.path).workers
    except NoFiguresError:
        return
    lines = [_compiled_line(name, one) for name, one in workers.items() if one.is_compiled is not None]
    if lines:
        show("\n".join([f"\nHow update folded events in run {run.directory.path.name}:", *lines]))


def _compiled_line(name: str, worker: WorkerFigures) -> str:
    loops = f"loops: {worker.loops_compiled} compiled in {worker.compile_seconds:.1f} s, {worker.loops_cached} from the cache"
    one_by_one = f"{worker.interpreted_events:,} one by one ({worker.deviations:,} deviated)"
    why = f"; interpreted: {worker.why_interpreted}" if worker.why_interpreted else ""
    return f"  {name}: {worker.compiled_events:,} events by machine code, {one_by_one}; {loops}{why}"


def _run_of(of: Path) -> KnownRun | None:
    """Return the run of a run directory, or the newest one of a plan file, if any."""
    from dgs.api.known_runs import newest_of, run_at

    return run_at(of) if of.is_dir() else newest_of(of)


def _print_types(request: Request, of: Path, *, as_json: bool) -> None:
    from dgs.errors import UsageError
    from dgs.job.loading import load_flow

    config = request.settings.config
    if config.flow is None:
        raise UsageError(message="--types is for a plan file with `flow:`")
    lines = load_flow(config.program, request.base_dir).explained(classes=config.flow.classes).splitlines()
    run = _run_of(of)
    tail = None if run is None else run.directory.results().get("tail")
    if tail is not None:
        closing = len(tail.get("all", ()))
        what = f"the busiest of {closing} workers that close blocks" if closing > 1 else "which closes blocks"
        busy = f"was busy for {tail['seconds']:.2g} s, {tail['share']:.0%} of the time"
        lines.append(f"the last run: {tail['worker']}, {what}, {busy}")
    if as_json:
        print_json({"types": lines, **({} if tail is None else {"tail": tail})})
    else:
        show("\n".join(lines))


def _of_plan(request: Request) -> Explanation:
    from dgs.errors import UsageError
    from dgs.job.queries.query_programs import QueryData

    if request.settings.declared.program.query is None:
        raise UsageError(message="--query is for a plan file with `program: {query: ...}`")
    return QueryData(**request.settings.config.program.args).explanation()


def _print_query(explained: Explanation, *, as_json: bool) -> None:
    if as_json:
        print_json(explained.as_data())
    else:
        show(explained)


def _print_story(target: Any, worker: str | None, last: int, *, as_json: bool) -> None:
    from dgs.api.known_runs import run_at
    from dgs.api.reports import story_of
    from dgs.workers.protocol.story_words import as_lines

    run = run_at(target)
    entries = story_of(run, worker=worker)
    shown = entries[-last:]
    if as_json:
        found = {"run_dir": str(run.directory.path), "entries": len(entries)}
        print_json({**found, "story": [asdict(entry) for entry in shown]})
        return
    whose = "" if worker is None else f" that concern {worker}"
    show(f"the last {len(shown)} of {len(entries)} entries{whose} in the story of {run.name}:")
    for line in as_lines(shown, when=_clock):
        show(line)


def _clock(seconds: float) -> str:
    """Return the time of day in the zone of this machine, to the millisecond."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%H:%M:%S.%f}"[:-3]


def _explained(prepared: Prepared, shape: Format) -> str:
    from dgs.planner.drawing.explain import as_explanation
    from dgs.planner.drawing.explain import explain as reasons

    if shape not in (Format.TEXT, Format.JSON):
        return rendered(prepared, shape)
    found = reasons(prepared.plan, prepared.program, prepared.topology)
    if shape is Format.JSON:
        return json.dumps({**figures(prepared), "tags": [_as_data(one) for one in found]}, default=str)
    return f"{rendered(prepared, shape)}\n\n{as_explanation(found)}".rstrip("\n")


def _dependence(prepared: Prepared, shape: Format) -> str:
    from dgs.errors import UsageError
    from dgs.planner.drawing.dependence_graph import dependence_dot, dependence_mermaid

    draw = {Format.TEXT: dependence_mermaid, Format.MERMAID: dependence_mermaid, Format.DOT: dependence_dot}
    if shape not in draw:
        raise UsageError(message=f"--dependence draws mermaid or dot, not {shape.value}")
    return draw[shape](prepared.program, prepared.topology).rstrip("\n")


def _as_data(explanation: Any) -> dict[str, Any]:
    return {
        name: dict(value) if name in ("because", "waits_for") else value
        for name, value in asdict(explanation).items()
    }
