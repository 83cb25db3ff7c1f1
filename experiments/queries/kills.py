"""`python -m experiments.queries.kills`: kill hosts of `three_tables` on Ray, and go on under another plan after some of them.

A run goes on by itself after the kill of a host. After `PER_PLAN` of them its driver is killed, too, and it is resumed under another plan.

The answers, in JSON lines and in a SQLite table, are compared with those of a local run that nothing disturbs: the exit code is 1 if one
is missing or there twice.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from experiments.crash.jobs import in_table, written
from experiments.crash.killing import HOSTS, LOOK_SECONDS
from experiments.crash.processes import family, hosts_of, is_any_alive

PLAN = Path(__file__).parent / "three_tables" / "plan.yaml"
ANSWERS_EVERY = 1_000
PACE = 2_500
"""Line items a second, so that a run lasts for some kills."""

PER_PLAN = 5
"""Kills of hosts under one plan."""

LONGEST_PAUSE = 2.0
LONGEST_WAIT = 120.0


@dataclass
class Judged:
    """The kills of hosts, the changes of plans, and the answers that were lost or repeated."""

    kills: int = 0
    plans: int = 0
    lost: int = 0
    repeated: int = 0


class Run:
    """A run of the three tables in a directory, over all its drivers. `kills`: how many there are to be."""

    def __init__(self, place: Path, dice: random.Random) -> None:
        self._place, self._dice = place, dice
        self._record = place / "run" / "checkpoints" / "record-a.dgs"
        place.mkdir(parents=True)
        sinks = f"[{{jsonl: {{path: {place}/out}}}}, {{sqlite: {{path: {place}/out.db}}}}]"
        paces = {"customer": PACE / 40, "orders": PACE / 4, "lineitem": PACE}
        settings = {f"streams.{name}.source.generator.pace": f"{pace}/s" for name, pace in paces.items()}
        settings |= {"sinks": sinks, "checkpoint.every": "200ms"}
        settings |= {"runtime.restarts.max": 1000, "runtime.restarts.backoff": "1ms"}
        settings["streams.answers.source.generator.args"] = f"{{every: {ANSWERS_EVERY}}}"
        flags = [one for name, value in settings.items() for one in ("--set", f"{name}={value}")]
        ray = ("--runtime", "ray", "--hosts", str(HOSTS), "--optimizer", "greedy")
        self._start("run", str(PLAN), "--run-dir", str(place / "run"), *ray, *flags)

    def _start(self, *arguments: str) -> None:
        with (self._place / "log").open("ab") as log:
            command = [sys.executable, "-m", "dgs", *arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603

    def kill_host(self) -> bool:
        """Kill a host at a moment behind the next commit. False if the run has ended before."""
        if not self._wait_until(lambda: bool(hosts_of(self._process.pid, HOSTS))):
            return False
        before = self._changed()
        if not self._wait_until(lambda: self._changed() != before):
            return False
        time.sleep(self._dice.uniform(0, LONGEST_PAUSE))
        hosts = hosts_of(self._process.pid, HOSTS)
        if not hosts or self._process.poll() is not None:
            return False
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self._dice.choice(hosts), signal.SIGKILL)
        return True

    def _wait_until(self, holds: Callable[[], bool]) -> bool:
        """Wait until something holds. False if the run ends before."""
        deadline = time.monotonic() + LONGEST_WAIT
        while self._process.poll() is None and time.monotonic() < deadline:
            if holds():
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def _changed(self) -> int:
        return self._record.stat().st_mtime_ns if self._record.exists() else 0

    def move(self) -> None:
        """Kill the driver, and resume under another plan when all its hosts are gone."""
        others = family(self._process.pid)
        self._process.kill()
        self._process.wait()
        deadline = time.monotonic() + LONGEST_WAIT
        while is_any_alive(others) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        seed = self._dice.randrange(1000)
        plan = (
            "--optimizer",
            "random",
            "--set",
            f"optimizer.seed={seed}",
            "--set",
            "streams.lineitem.split=2",
        )
        self._start("resume", str(self._place / "run"), *plan)

    def end(self) -> None:
        """Wait for the end. Raises SystemExit if the run fails or does not end."""
        try:
            code = self._process.wait(LONGEST_WAIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code:
            raise SystemExit(f"the run ended with {code}: see {self._place}/log")


def expected(place: Path) -> Counter[str]:
    """Return the answers of a local run."""
    import dgs

    settings = {
        "streams.answers.source.generator.args": {"every": ANSWERS_EVERY},
        "sinks": [{"jsonl": {"path": str(place / "whole")}}],
    }
    dgs.run(PLAN, run_dir=place / "local", settings=settings, fresh=True)
    return written(place / "whole")


def killed(place: Path, kills: int, seed: int) -> Judged:
    """Kill hosts of run after run until there are enough kills, and judge the answers of each."""
    dice, judged, wanted = random.Random(seed), Judged(), expected(place)
    for number in count():
        if judged.kills == kills:
            break
        here = place / f"run-{number}"
        run = Run(here, dice)
        while judged.kills < kills and run.kill_host():
            judged.kills += 1
            if judged.kills % PER_PLAN == 0 or judged.kills == kills:
                judged.plans += 1
                run.move()
        run.end()
        for found in (written(here / "out"), in_table(here / "out.db")):
            judged.lost += (wanted - found).total()
            judged.repeated += (found - wanted).total()
    return judged


def main(
    *,
    kills: Annotated[int, typer.Option("--kills", min=1, help="Number of hosts to kill.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the moments and the plans.")] = 1,
) -> None:
    """Kill, resume, compare."""
    place = Path(tempfile.mkdtemp(prefix="kills-"))
    judged = killed(place, kills, seed)
    print(judged)
    if judged.lost or judged.repeated:
        raise typer.Exit(1)  # its directory is kept, for inspection
    shutil.rmtree(place)


if __name__ == "__main__":
    typer.run(main)
