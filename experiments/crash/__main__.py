"""`python -m experiments.crash`: kill hosts and drivers of runs at random; no output may be lost or repeated.

All outputs, in JSON lines and in a SQLite table, are compared with the sequential program's; the exit code is 1 if any differ.
`--recovery` measures recovery times, `--commits` the distances between commits, `--checkpoint-cost` the cost of checkpoints.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Lines

from experiments.crash import commits, costs
from experiments.crash.jobs import expected, generated, in_table, ledger, written
from experiments.crash.killing import HOSTS, Outcome, Victim, finish, kill_driver, kill_hosts, times_told

EVENTS = 6_000
LONGEST = 4.0
"""Seconds between two kills, at most."""

PER_RUN = 10
"""Kills of hosts in one run."""

RATE = 5_000
SECONDS_PER_KILL = 12

Kills = Annotated[int, typer.Option("--kills", min=0, help="Number of hosts to kill, at most ten per run.")]
DriverKills = Annotated[int, typer.Option("--driver-kills", min=0, help="Number of drivers to kill.")]
Events = Annotated[int, typer.Option("--events", min=500, help="Values in each of four streams.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random moments.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every kill.")]
Recovery = Annotated[
    bool, typer.Option("--recovery", help="Kill hosts of a run with 10 MB of state instead.")
]
Cost = Annotated[
    bool, typer.Option("--checkpoint-cost", help="Measure runs with and without checkpoints instead.")
]
Commits = Annotated[bool, typer.Option("--commits", help="Measure how far apart commits are instead.")]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="Repetitions of --checkpoint-cost.")]


def main(
    *,
    kills: Kills = 10,
    driver_kills: DriverKills = 2,
    events: Events = EVENTS,
    seed: Seed = 1,
    json_file: Json = None,
    recovery: Recovery = False,
    checkpoint_cost: Cost = False,
    measures_commits: Commits = False,
    repeat: Repeat = 5,
) -> None:
    """Kill, compare, measure."""
    console = Console()
    if checkpoint_cost:
        costs.report(console, repeat=repeat, json_file=json_file)
        return
    dice = random.Random(seed)
    with _place() as place:
        if measures_commits:
            commits.report(console, place, json_file)
            return
        if recovery:
            outcomes = {"10 MB of state": _recovery(place, kills, dice)}
        else:
            outcomes = dict(crashes(place, kills, driver_kills, events, dice))
    for what, outcome in outcomes.items():
        console.print(table(what, outcome))
    if json_file is not None:
        json_file.write_text(json.dumps({k: asdict(v) for k, v in outcomes.items()}, indent=1))
    if any(outcome.lost or outcome.repeated for outcome in outcomes.values()):
        raise typer.Exit(1)


@contextmanager
def _place() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="crash-"))
    yield place
    shutil.rmtree(place)  # kept after a failure, for inspection


def crashes(
    place: Path, kills: int, driver_kills: int, events: int, dice: random.Random
) -> Iterator[tuple[str, Outcome]]:
    """Kill hosts, then drivers, of runs over files, and yield the outcomes."""
    plan = ledger(place / "input", events=events, hosts=HOSTS)
    wanted = expected(plan)
    if kills:
        yield "hosts", _killed_hosts(place, plan, wanted, kills, dice)
    if driver_kills:
        yield "drivers", _killed_drivers(place, plan, wanted, driver_kills, dice)


def _killed_hosts(place: Path, plan: Path, wanted: Any, kills: int, dice: random.Random) -> Outcome:
    def one_run(victim: Victim, left: int) -> Outcome:
        return kill_hosts(victim, min(left, PER_RUN), dice, longest=LONGEST)

    return _runs(place, plan, wanted, kills, one_run)


def _killed_drivers(place: Path, plan: Path, wanted: Any, kills: int, dice: random.Random) -> Outcome:
    def one_run(victim: Victim, left: int) -> Outcome:
        outcome = Outcome()
        while left > len(outcome.kills) and victim.is_running:
            kill = kill_driver(victim, dice, longest=LONGEST)
            outcome.kills += [] if kill is None else [kill]
        return outcome

    return _runs(place, plan, wanted, kills, one_run)


def _runs(
    place: Path, plan: Path, wanted: Any, kills: int, one_run: Callable[[Victim, int], Outcome]
) -> Outcome:
    """Kill runs until there are enough kills, and compare the outputs of each."""
    total = Outcome()
    while len(total.kills) < kills:
        victim = Victim(plan, place / f"run-{len(list(place.iterdir()))}")
        outcome = finish(victim, one_run(victim, kills - len(total.kills)))
        outcome.compare(wanted, written(place / "out"))
        outcome.compare(wanted, in_table(place / "out.db"))
        total = total.plus(outcome)
    return total


def _recovery(place: Path, kills: int, dice: random.Random) -> Outcome:
    plan = generated(
        place / "input",
        events=RATE * SECONDS_PER_KILL * (kills + 2),
        window=RATE,
        rate=RATE,
        program="Table",
        args={},
        runtime={"kind": "ray", "hosts": HOSTS, "restarts": {"max": 1000, "backoff": "1ms"}},
        optimizer={"name": "greedy", "max_leaves": 3},
        checkpoint={"every": "500ms"},
        sinks=["none"],
    )
    victim = Victim(plan, place / "run")
    outcome = kill_hosts(victim, kills, dice, longest=8.0, waits=True)
    return finish(victim, outcome)


def table(what: str, outcome: Outcome) -> Lines:
    """Return an outcome as a table."""
    lines = Lines(title=f"killed: {what}", title_justify="left", show_header=False)
    noticed = [kill.noticed for kill in outcome.kills if kill.noticed is not None]
    recovered = [kill.recovered for kill in outcome.kills if kill.recovered is not None]
    for name, value in (
        ("kills", str(len(outcome.kills))),
        ("restarts", str(outcome.restarts)),
        ("lost", str(outcome.lost)),
        ("repeated", str(outcome.repeated)),
        ("until noticed", times_told(noticed)),
        ("until the next commit", times_told(recovered)),
    ):
        lines.add_row(name, value)
    return lines


if __name__ == "__main__":
    typer.run(main)
