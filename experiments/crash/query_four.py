"""`python -m experiments.crash.query_four`: checks that Query IV of Yahoo writes its 980 rows into a SQLite table, each once, under kills and moves.

Hosts on Ray are killed at random moments. Another run moves to another plan, stops, and resumes under a third plan with another number of
hosts. Spark runs the query as one batch. The exit code is 1 if a row is missing or comes twice.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from dgs.job.document import dump
from experiments.crash.jobs import in_table
from experiments.crash.killing import HOSTS, Victim, finish, kill_hosts

CASES = Path(__file__).parents[3] / "shared" / "cases" / "flows"

SLOW = """\
import time
from dgs.flow import every, flow, sliding
from dgs.monoids import COUNT
from experiments.yahoo.ads import views

def waits(_, event):
    time.sleep({pause})
    return True

@flow(clock=every("1s"))
def campaigns(events):
    counts = views(events.filter(waits)).aggregate(COUNT, over=sliding("10s"), idle="all")
    return counts.each(lambda campaign, n, at: [at, campaign, n])
"""
PAUSE = 0.004
"""Seconds that each of the 3,000 events takes, so the run is long enough for kills."""

PER_RUN = 5
"""Kills of hosts in one run."""

LONGEST = 2.0
"""Seconds from a commit to the next kill, at most."""

LONGEST_COMMAND = 300


def plan(directory: Path, runtime: str, *, pause: float = PAUSE) -> Path:
    """Write the plan of a slow run with frequent commits, whose rows go to a SQLite table."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "slow.py").write_text(SLOW.format(pause=pause))
    source = {"csv": {"path": str(CASES / "yahoo_events.csv")}}
    settings: dict[str, Any] = {
        "kind": runtime,
        "batch_rows": 50,
        "restarts": {"max": 1000, "backoff": "1ms"},
    }
    if runtime == "ray":
        settings["hosts"] = HOSTS
    data = {
        "version": 1,
        "name": "slow",
        "time": {"unit": "ms"},
        "flow": {"ref": "slow.py:campaigns"},
        "streams": [{"id": "events", "source": source, "split": 2}],
        "runtime": settings,
        "optimizer": {"name": "greedy"},
        "checkpoint": {"every": "200ms"},
        "sinks": [{"sqlite": {"path": "out.db"}}],
    }
    path = directory / "plan.yaml"
    path.write_text(dump(data))
    return path


def rows() -> Counter[str]:
    """Return the rows of the case."""
    text = (CASES / "yahoo_4_all.expected.jsonl").read_text()
    return Counter(json.dumps(json.loads(line)) for line in text.splitlines())


def killed(directory: Path, kills: int, seed: int) -> int:
    """Run on Ray and kill hosts at random moments; return how many were killed before the end."""
    victim = Victim(plan(directory, "ray"), directory / "run")
    try:
        outcome = finish(victim, kill_hosts(victim, kills, random.Random(seed), longest=LONGEST, waits=True))
    finally:
        victim.process.kill()
    return len(outcome.kills)


def moved(directory: Path, runtime: str) -> int:
    """Run with one worker, move to several, stop, and resume under a third plan on the other runtime; return the rows at the stop."""
    path, run = plan(directory, runtime), directory / "run"
    command = [*DGS, "run", str(path), "--run-dir", str(run), "--optimizer", "sequential"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait_for_commit(run, process)
        _dgs("replan", str(run), "--optimizer", "greedy")
        _wait_for_commit(run, process)
        _dgs("stop", str(run))
        process.wait(LONGEST_COMMAND)
    finally:
        process.kill()
        process.wait()
    before = in_table(directory / "out.db").total()
    other = ("ray", "--hosts", str(HOSTS)) if runtime == "local" else ("local",)
    split = ("--optimizer", "random", "--set", "streams.events.split=3")
    _dgs("resume", str(run), "--runtime", *other, *split)
    return before


def on_spark(directory: Path) -> None:
    """Run as one batch on Spark. Nothing is killed, so events take no time."""
    _dgs("run", str(plan(directory, "spark", pause=0)), "--run-dir", str(directory / "run"))


MOVES = {"local": "two hosts of Ray", "ray": "one process"}
"""The runtimes of a run that moves, and of its resume."""

DGS = (sys.executable, "-m", "dgs")


def _dgs(*arguments: str) -> None:
    done = subprocess.run(  # noqa: S603
        [*DGS, *arguments], capture_output=True, text=True, timeout=LONGEST_COMMAND, check=False
    )
    if done.returncode:
        raise SystemExit(f"dgs {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")


def _wait_for_commit(run: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the run has committed again."""
    record = run / "checkpoints" / "record-a.dgs"
    before = record.stat().st_mtime_ns if record.exists() else 0
    until = time.monotonic() + LONGEST_COMMAND
    while not record.exists() or record.stat().st_mtime_ns == before:
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the run ended, or did not commit: exit code {process.returncode}")
        time.sleep(0.02)


def main(
    *,
    kills: Annotated[int, typer.Option("--kills", min=0, help="Number of hosts to kill.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random moments.")] = 1,
    moves: Annotated[
        bool, typer.Option("--moves/--no-moves", help="Move, stop and resume runs, too.")
    ] = True,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Run on Spark, too.")] = True,
) -> None:
    """Run Query IV in all these ways; exit with 1 if the rows of any of them differ from the case."""
    place, wanted, done, is_wrong = Path(tempfile.mkdtemp(prefix="query-four-")), rows(), 0, False

    def compare(name: str, what: str) -> None:
        nonlocal is_wrong
        found = in_table(place / name / "out.db")
        missing, more = (wanted - found).total(), (found - wanted).total()
        is_wrong = is_wrong or bool(missing or more)
        print(f"{name:<12} {found.total():>6} {missing:>8} {more:>15}  {what}", flush=True)

    print(f"{'run':<12} {'rows':>6} {'missing':>8} {'twice or wrong':>15}  what happened")
    while done < kills:
        count = killed(place / f"kills-{seed}", min(PER_RUN, kills - done), seed)
        compare(f"kills-{seed}", f"{count} hosts killed")
        done, seed = done + count, seed + 1
    for runtime, other in MOVES.items() if moves else ():
        before = moved(place / f"moved-{runtime}", runtime)
        compare(f"moved-{runtime}", f"moved in flight, stopped with {before} rows, resumed on {other}")
    if spark:
        on_spark(place / "spark")
        compare("spark", "one batch on Spark")
    if is_wrong:
        raise typer.Exit(1)
    shutil.rmtree(place)  # kept for inspection otherwise


if __name__ == "__main__":
    typer.run(main)
