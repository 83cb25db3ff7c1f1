"""Kills of hosts of a run at random moments, with recovery times from the record of its checkpoints.

A kill is *noticed* when the caller gets a notice. The run has *recovered* at the first commit of a generation that began after the kill. If
the next kill comes earlier, there is no such time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dgs.workers.checkpoints.directory import CheckpointDirectory
from experiments.crash.driver import STORY
from experiments.crash.processes import hosts_of

HOSTS = 2
LOOK_SECONDS = 0.01
LONGEST_RUN = 300.0
"""Seconds after which an unfinished run is a failure."""


@dataclass
class Kill:
    """A kill, in seconds since 1970. `whom`: host, driver or all. `noticed`, `recovered`: seconds after it, None if never seen."""

    whom: str
    at: float
    generation: int
    noticed: float | None = None
    recovered: float | None = None


@dataclass
class Outcome:
    """The outcome of a run: its kills, restarts and seconds."""

    kills: list[Kill] = field(default_factory=list)
    restarts: int = 0
    seconds: float = 0.0


class Watched:
    """A run whose commits are noted as its record shows them: the time, generation and epoch of each."""

    def __init__(self, checkpoints: Path) -> None:
        self._record = checkpoints / "record-a.dgs"
        self._seen = 0
        self.commits: list[tuple[float, int, int]] = []

    @property
    def generation(self) -> int:
        """The newest generation that has begun."""
        return self.commits[-1][1] if self.commits else 0

    def look(self) -> None:
        """Note a change of the record."""
        try:
            changed = self._record.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed != self._seen:
            self._seen = changed
            found = CheckpointDirectory(self._record.parent).committed()
            if found is not None:
                self.commits.append((changed / 1e9, found.generation, found.checkpoint.epoch))


class Victim(Watched):
    """A run of a plan file in a directory."""

    def __init__(self, plan: Path, directory: Path) -> None:
        super().__init__(directory / "checkpoints")
        self._directory = directory
        directory.mkdir(parents=True)
        command = [sys.executable, "-m", "experiments.crash.driver", str(plan), str(directory)]
        with (directory / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603

    @property
    def is_running(self) -> bool:
        """Whether the driver is running."""
        return self.process.poll() is None

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Watch the record for some seconds, at most until `until()` holds or the driver has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.is_running and not until():
            self.look()
            time.sleep(LOOK_SECONDS)

    def story(self) -> list[dict[str, Any]]:
        """Return the lines of the driver's log."""
        try:
            return [json.loads(line) for line in (self._directory / STORY).read_text().splitlines()]
        except FileNotFoundError:
            return []

    def has_committed(self, generation: int) -> bool:
        """Whether a later generation than this one has committed an epoch."""
        begun: set[int] = set()
        for _, number, _ in self.commits:
            if number > generation and number in begun:
                return True
            begun.add(number)
        return False


def kill_hosts(
    victim: Victim, kills: int, dice: random.Random, *, longest: float, waits: bool = False
) -> Outcome:
    """Kill random hosts, `kills` in all, or until the run ends. `waits`: each kill waits for the recovery from the previous one."""
    outcome = Outcome()
    while len(outcome.kills) < kills and victim.is_running:
        if waits and outcome.kills:
            before = outcome.kills[-1].generation
            victim.watch(LONGEST_RUN, lambda: victim.has_committed(before))  # noqa: B023
        elif waits:
            victim.watch(LONGEST_RUN, lambda: victim.has_committed(0))
        victim.watch(dice.uniform(0.1, longest))
        hosts = hosts_of(victim.process.pid, HOSTS)
        if hosts and victim.is_running:
            victim.look()
            outcome.kills.append(Kill("host", time.time(), victim.generation))
            os.kill(dice.choice(hosts), signal.SIGKILL)
    return outcome


def finish(victim: Victim, outcome: Outcome) -> Outcome:
    """Wait for the end of a run, and add to each kill the times until the notice and until the recovery."""
    victim.watch(LONGEST_RUN)
    if victim.process.poll() != 0:
        victim.process.kill()
        raise SystemExit(
            f"the run failed or took too long: exit code {victim.process.wait()}, see driver.log"
        )
    victim.look()
    story = victim.story()
    told = [one["time"] for one in story if "told" in one]
    outcome.restarts += len(told)
    outcome.seconds += sum(one["figures"]["seconds"] for one in story if "figures" in one)
    for kill, later in zip(outcome.kills, [*outcome.kills[1:], None], strict=True):
        end = later.at if later is not None else float("inf")
        kill.noticed = next((time - kill.at for time in told if kill.at <= time < end), None)
        kill.recovered = recovery(victim.commits, kill, end)
    return outcome


def recovery(commits: Sequence[tuple[float, int, int]], kill: Kill, end: float) -> float | None:
    """Return the seconds until a later generation committed an epoch: its second record, because the first marks its begin."""
    begun: set[int] = set()
    for at, generation, _ in commits:
        if generation > kill.generation and kill.at <= at < end:
            if generation in begun:
                return at - kill.at
            begun.add(generation)
    return None


def times_told(seconds: Sequence[float]) -> str:
    """Return times as a text."""
    if not seconds:
        return "never"
    ordered = sorted(seconds)
    at = {p: ordered[min(len(ordered) - 1, int(p / 100 * len(ordered)))] for p in (50, 95)}
    return f"p50 {at[50]:.2f} s, p95 {at[95]:.2f} s, most {ordered[-1]:.2f} s, of {len(ordered)}"
