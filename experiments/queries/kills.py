"""`python -m experiments.queries.kills`: kill hosts of `three_tables` on Ray, and resume under another plan after some kills.

A run recovers from the kill of a host by itself. After `PER_PLAN` kills its driver is killed, too, and the run is resumed under another
plan. The answers, in JSON lines and in a SQLite table, are compared with those of an undisturbed local run. The exit code is 1 if one is
missing or repeated.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.crash.campaign import table
from experiments.crash.jobs import written
from experiments.crash.prey import ON_RAY, Judged, Prey

PLAN = Path(__file__).parent / "three_tables" / "plan.yaml"
ANSWERS_EVERY = 1_000
PACE = 2_500
"""Line items a second, so a run is long enough for some kills."""

PER_PLAN = 5
"""Kills of hosts under one plan."""

WAYS = {
    "random": (*ON_RAY, "random"),
    "random, split": (*ON_RAY, "random", "--set", "streams.lineitem.split=2"),
}
"""The options of a resume, by name."""


def expected(place: Path) -> Counter[str]:
    """Return the answers of a local run."""
    import dgs

    settings = {
        "streams.answers.source.generator.args": {"every": ANSWERS_EVERY},
        "sinks": [{"jsonl": {"path": str(place / "whole")}}],
    }
    dgs.run(PLAN, run_dir=place / "local", settings=settings, fresh=True)
    return written(place / "whole")


def flags(place: Path) -> list[str]:
    """Return the options of a run that is long enough for some kills, with its sinks in `place`."""
    paces = {"customer": PACE / 40, "orders": PACE / 4, "lineitem": PACE}
    settings = {f"streams.{name}.source.generator.pace": f"{pace}/s" for name, pace in paces.items()}
    settings |= {"sinks": f"[{{jsonl: {{path: {place}/out}}}}, {{sqlite: {{path: {place}/out.db}}}}]"}
    settings |= {
        "checkpoint.every": "200ms",
        "runtime.restarts.max": "1000",
        "runtime.restarts.backoff": "1ms",
    }
    settings["streams.answers.source.generator.args"] = f"{{every: {ANSWERS_EVERY}}}"
    return [
        *ON_RAY,
        "greedy",
        *(one for name, value in settings.items() for one in ("--set", f"{name}={value}")),
    ]


def killed(place: Path, kills: int, seed: int) -> Judged:
    """Kill hosts of run after run until there are enough kills, and judge the answers of each."""
    dice, judged, wanted = random.Random(seed), Judged(seed), expected(place)
    for number in count():
        if judged.attacks["host"] >= kills:
            break
        here = place / f"run-{number}"
        here.mkdir()
        prey = Prey(here, PLAN, dice, judged, flags=flags(here), ways=WAYS)
        while judged.attacks["host"] < kills and prey.goes_on():
            prey.wait_for_a_moment("host")
            prey.attack("host")
            if judged.attacks["host"] % PER_PLAN == 0:
                prey.attack("driver")
        prey.end()
        prey.compare(wanted)
    return judged


def main(
    *,
    kills: Annotated[int, typer.Option("--kills", min=1, help="Number of hosts to kill.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the moments and the plans.")] = 1,
) -> None:
    """Kill, resume, compare."""
    place = Path(tempfile.mkdtemp(prefix="kills-"))
    judged = killed(place, kills, seed)
    Console().print(table([judged]))
    if judged.lost or judged.repeated or judged.wrong:
        raise typer.Exit(1)  # a failed run's directory is kept for inspection
    shutil.rmtree(place)


if __name__ == "__main__":
    typer.run(main)
