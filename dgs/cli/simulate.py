"""`dgs simulate`: runs the program of a plan file under random plans, delivery orders and faults, in one process, from seeds."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.options import PlanPath, SetValues, Tolerance, given_by_flags
from dgs.cli.reporting import Ending, print_json, say, show, verb

if TYPE_CHECKING:
    from dgs.workers.simulated.campaign import Campaign

PROGRESS_EVERY = 5.0
"""Seconds between two lines of progress."""

# fmt: off
Seeds = Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="How many seeds to run, from 0 on.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Run only this seed.")]
FaultNames = Annotated[str, typer.Option("--faults", metavar="KINDS",
    help="crash, disk, network, user, odd, slow, bounds, exit, sinks, live, clock; all or none.")]
MaxEvents = Annotated[int, typer.Option("--max-events", min=1, metavar="N",
    help="Take only the first N events, in their order.")]
ThisPlan = Annotated[bool, typer.Option("--this-plan",
    help="Use the plan of the file in all runs, not random ones.")]
# fmt: on


@verb
def simulate(
    ending: Ending,
    plan_path: PlanPath,
    *,
    seeds: Seeds = 1000,
    seed: Seed = None,
    faults: FaultNames = "all",
    max_events: MaxEvents = 200,
    this_plan: ThisPlan = False,
    tolerance: Tolerance = None,
    set_values: SetValues = None,
) -> None:
    """Run the program under simulated faults; exit 1 if any run differs from the sequential program.

    Every seed draws plans, the order of messages, crashes, failing disks and networks, slow sinks and stores, user code that
    raises, stops and switches of plan. A seed gives the same run everywhere.
    """
    from dgs.api.preparing import from_file, prepare
    from dgs.api.verifying import case_of
    from dgs.workers.simulated.campaign import SimulationFailed, seeds_of, simulate_seeds
    from dgs.workers.simulated.faults import fault_kinds

    kinds = fault_kinds(faults)
    prepared = prepare(from_file(plan_path, given_by_flags(set_values)), max_events=max_events)
    case = case_of(prepared, keeps_plan=this_plan, tolerance=tolerance)
    replay = _replay(plan_path, faults, max_events, set_values, this_plan=this_plan, tolerance=tolerance)
    try:
        done = simulate_seeds(
            case, seeds_of(seeds, seed), kinds, replay=replay, progress=_progress(prepared.config.name)
        )
    except SimulationFailed as error:
        _tell_failure(error, as_json=ending.as_json)
        raise typer.Exit(1) from None
    if ending.as_json:
        print_json({"failed": None, **_data(done)})
    else:
        show(done)


def _replay(
    plan_path: Any,
    faults: str,
    max_events: int,
    set_values: list[str] | None,
    *,
    this_plan: bool,
    tolerance: float | None,
) -> Callable[[int], str]:
    """Return a function from a seed to the command that repeats its run."""
    given = ["--faults", faults, "--max-events", str(max_events)]
    given += ["--this-plan"] if this_plan else []
    given += ["--tolerance", str(tolerance)] if tolerance is not None else []
    given += [part for value in set_values or [] for part in ("--set", value)]
    return lambda seed: shlex.join(["dgs", "simulate", str(plan_path), "--seed", str(seed), *given])


def _progress(name: str) -> Callable[[Campaign], None]:
    last = time.monotonic()

    def tell(done: Campaign) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_EVERY:
            last = time.monotonic()
            say(f"dgs: {name}: {done.runs:,} runs, {done.steps:,} steps, none wrong so far")

    return tell


def _tell_failure(error: Any, *, as_json: bool) -> None:
    if as_json:
        facts = {
            "seed": error.seed,
            "replay": error.replay,
            "problems": error.problems,
            "smallest": error.smallest,
        }
        print_json({"failed": facts})
    else:
        show(error)


def _data(done: Campaign) -> dict[str, Any]:
    return {
        "runs": done.runs,
        "steps": done.steps,
        "checkpoints": done.commits,
        "refused": done.refused,
        "ends": dict(done.ends),
    }
