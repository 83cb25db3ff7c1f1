"""`dgs plan`: make a plan and print it, save it, or compare the optimizers."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.options import (
    MaxLeaves,
    OptimizerName,
    PlanFrom,
    PlanPath,
    Rates,
    SetValues,
    given_by_flags,
)
from dgs.cli.reporting import (
    Ending,
    print_json,
    say,
    say_warning,
    say_why_one_worker,
    show,
    show_path,
    verb,
)

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared


class Format(StrEnum):
    """The formats of a printed plan."""

    TEXT = "text"
    YAML = "yaml"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    JSON = "json"


MARK = "# The plan of"
"""The beginning of a saved plan."""

BY = "dgs plan --save"

# fmt: off
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="For --optimizer random.")]
Shape = Annotated[Format | None, typer.Option("--format", help="How to print it.", show_default="text")]
Save = Annotated[Path | None, typer.Option("--save", metavar="FILE",
    help="Write it as a `plan:` section for `dgs run --plan FILE`.")]
Compare = Annotated[bool, typer.Option("--compare",
    help="Print a table of what each optimizer makes, and the plan of --plan, and how fast they would be.")]
ShowCosts = Annotated[bool, typer.Option("--costs",
    help="Print what the job costs, tried on its first events.")]
# fmt: on


@verb
def plan(
    ending: Ending,
    plan_path: PlanPath,
    *,
    optimizer: OptimizerName = None,
    seed: Seed = None,
    max_leaves: MaxLeaves = None,
    plan_from: PlanFrom = None,
    set_values: SetValues = None,
    shape: Shape = None,
    save: Save = None,
    rates: Rates = None,
    compare: Compare = False,
    costs: ShowCosts = False,
) -> None:
    """Make (or check) the synchronization plan of a plan file, and print it."""
    _refuse_mixed(compare=compare, costs=costs, save=save, shape=shape, as_json=ending.as_json)
    from dgs.api.preparing import from_file, prepare
    from dgs.named_files import check_writable

    if save is not None:
        check_writable(save, BY, mark=MARK)
    options = {"optimizer__seed": seed, "optimizer__max_leaves": max_leaves}
    given = given_by_flags(set_values, plan_from, optimizer__name=optimizer, **options)
    prepared = prepare(from_file(plan_path, given))
    if rates is not None:
        prepared = _at_rates(prepared, rates)
    say_remarks(prepared)
    if compare:
        _print_comparison(prepared, as_json=ending.as_json)
        return
    if costs:
        _print_costs(prepared, as_json=ending.as_json)
        return
    if save is not None:
        _save(prepared, save)
    if save is None or shape not in (None, Format.TEXT) or ending.as_json:
        show(rendered(prepared, Format.JSON if ending.as_json else shape or Format.TEXT))
    if prepared.plan.because is not None and len(prepared.plan) > 1:
        say(f"dgs: {prepared.plan.because}")


def _refuse_mixed(
    *, compare: bool, costs: bool, save: Path | None, shape: Format | None, as_json: bool
) -> None:
    """Raise BadParameter for two formats, and for flags of a plan that is printed or saved with one that prints a table instead."""
    if compare and costs:
        raise typer.BadParameter("give --compare or --costs, not both")
    if as_json and shape not in (None, Format.JSON):
        raise typer.BadParameter(f"give --json or --format {shape}, not both")
    of_plan = [flag for flag, value in (("--save", save), ("--format", shape)) if value is not None]
    if of_plan and (compare or costs):
        other = "--compare" if compare else "--costs"
        raise typer.BadParameter(f"{other} prints a table and no plan: leave out {' and '.join(of_plan)}")


def _at_rates(prepared: Prepared, rates: str) -> Prepared:
    """Return the job with the plan for other rates, unless it is written by hand."""
    from dgs.api.predicting import at_given_rates
    from dgs.api.preparing import replanned

    there = at_given_rates(prepared, rates)
    costs = None if there.costs is None else there.costs.costs
    return replanned(there, costs=costs) if there.is_made else there


def say_remarks(prepared: Prepared) -> None:
    """Print on stderr which names in the program are probably misspelt, and why the plan has one worker."""
    from dgs.model.declarations import near_misses

    for line in near_misses(prepared.program):
        say(f"dgs: {prepared.config.name}: {line}")
    say_why_one_worker(prepared)
    say_warning(prepared, prepared.costs)


def rendered(prepared: Prepared, shape: Format) -> str:
    """Return the plan in a format, without a final newline."""
    from dgs.planner.drawing import text

    if shape in (Format.YAML, Format.JSON):
        data = {"plan": prepared.plan_data}
        if shape is Format.JSON:
            return json.dumps({**data, **figures(prepared)}, default=str)
        from dgs.job.document import dump

        return dump(data).rstrip("\n")
    drawn: str = getattr(text, f"as_{shape.value}")(prepared.plan)
    return drawn.rstrip("\n")


def figures(prepared: Prepared) -> dict[str, Any]:
    """Return the size of a plan, and the share of the events that its leaves process."""
    from dgs.planner.topology import node_rates, totals

    plan = prepared.plan
    rates = totals(node_rates(plan, prepared.topology.streams))
    whole = sum(rates.values())
    at_leaves = sum(rates[node.id] for node in plan.leaves)
    return {
        "optimizer": plan.optimizer or "by hand",
        "because": plan.because,
        "workers": len(plan),
        "leaves": len(plan.leaves),
        "depth": plan.depth,
        "leaf_share": at_leaves / whole if whole else None,
        "one_worker": prepared.why_one_worker,
    }


def _save(prepared: Prepared, path: Path) -> None:
    from dgs.named_files import write_named
    from dgs.workers.protocol.story_words import counted

    made = prepared.plan.optimizer
    head = f"{MARK} {prepared.config.name}{f', made by {made}' if made else ''}. Run it with `dgs run --plan FILE`.\n"
    write_named(path, head + rendered(prepared, Format.YAML) + "\n", BY, mark=MARK)
    say(f"dgs: plan with {counted(len(prepared.plan), 'worker')} saved in {show_path(path)}")


def _print_comparison(prepared: Prepared, *, as_json: bool) -> None:
    from dgs.api.predicting import costs_of, predicted
    from dgs.api.preparing import replanned
    from dgs.planner.optimizers.by_name import OPTIMIZERS
    from dgs.planner.prediction.choice import rate

    costs = costs_of(prepared).costs
    plans = [replanned(prepared, name=name, costs=costs) for name in OPTIMIZERS if name != "exhaustive"]
    if not prepared.is_made or prepared.plan.optimizer == "exhaustive":
        plans.append(prepared)
    rows = [{**figures(one), "throughput": predicted(one, costs).throughput} for one in plans]
    if as_json:
        print_json({"optimizers": rows})
        return
    print(f"{'optimizer':<12} {'workers':>8} {'leaves':>7} {'depth':>6}  events at leaves  predicted")
    for row in rows:
        share = "-" if row["leaf_share"] is None else f"{row['leaf_share']:.1%}"
        print(
            f"{row['optimizer']:<12} {row['workers']:>8} {row['leaves']:>7} {row['depth']:>6}  {share:<16}  {rate(row['throughput'])}"
        )


def _print_costs(prepared: Prepared, *, as_json: bool) -> None:
    from dgs.api.predicting import costs_of

    known = costs_of(prepared)
    costs = known.costs
    if as_json:
        print_json({"costs": costs.as_data(), "origin": known.origin, "problem": known.problem})
        return
    print(f"costs, {known.origin}")
    if known is not prepared.costs:
        say_warning(prepared, known)
    single = {name: cost for name, cost in costs.as_data().items() if isinstance(cost, float)}
    kinds = {f"update of {kind}": cost for kind, cost in costs.kinds.items()}
    columns = {f"update_batch of {kind}": cost for kind, cost in costs.column_kinds.items()}
    columns |= {f"call of it for {kind}": cost for kind, cost in costs.column_calls.items()}
    compiled = {f"compiled update of {kind}": cost for kind, cost in costs.compiled_kinds.items()}
    read = {f"read from {stream}": cost for stream, cost in costs.sources.items()}
    sent = {f"send from {stream}": cost for stream, cost in costs.carried.items()}
    for name, cost in {**single, **kinds, **columns, **compiled, **read, **sent}.items():
        is_size = name == "state_bytes"
        print(f"{name:<24} {cost:>10,.0f} B" if is_size else f"{name:<24} {cost * 1e6:>10,.3f} us")
