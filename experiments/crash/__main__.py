"""`python -m experiments.crash`: recovery times of a run with 10 MB of state whose hosts are killed at random moments.

`--commits` measures the distances between commits instead, `--checkpoint-cost` the cost of checkpoints. `campaign` compares outputs.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Lines

from experiments.crash import commits, costs
from experiments.crash.jobs import generated
from experiments.crash.killing import HOSTS, Outcome, Victim, finish, kill_hosts, times_told

RATE = 5_000
SECONDS_PER_KILL = 12

Kills = Annotated[int, typer.Option("--kills", min=0, help="Number of hosts to kill.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random moments.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every kill.")]
Cost = Annotated[
    bool, typer.Option("--checkpoint-cost", help="Measure runs with and without checkpoints instead.")
]
Commits = Annotated[bool, typer.Option("--commits", help="Measure how far apart commits are instead.")]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="Repetitions of --checkpoint-cost.")]


def main(
    *,
    kills: Kills = 10,
    seed: Seed = 1,
    json_file: Json = None,
    checkpoint_cost: Cost = False,
    measures_commits: Commits = False,
    repeat: Repeat = 5,
) -> None:
    """Kill, and measure."""
    console = Console()
    if checkpoint_cost:
        costs.report(console, repeat=repeat, json_file=json_file)
        return
    dice = random.Random(seed)
    with _place() as place:
        if measures_commits:
            commits.report(console, place, json_file)
            return
        outcome = _recovery(place, kills, dice)
    console.print(_table(outcome))
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(outcome), indent=1))


@contextmanager
def _place() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="crash-"))
    yield place
    shutil.rmtree(place)  # kept after a failure, for inspection


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


def _table(outcome: Outcome) -> Lines:
    """Return an outcome as a table."""
    lines = Lines(title="killed: 10 MB of state", title_justify="left", show_header=False)
    noticed = [kill.noticed for kill in outcome.kills if kill.noticed is not None]
    recovered = [kill.recovered for kill in outcome.kills if kill.recovered is not None]
    for name, value in (
        ("kills", str(len(outcome.kills))),
        ("restarts", str(outcome.restarts)),
        ("until noticed", times_told(noticed)),
        ("until the next commit", times_told(recovered)),
    ):
        lines.add_row(name, value)
    return lines


if __name__ == "__main__":
    typer.run(main)
