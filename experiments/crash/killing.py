"""Kills hosts and drivers of a run at random moments, and measures what the record of its checkpoints shows.

A kill is *noticed* when the caller is told. The run has *recovered* at the first commit of a generation that began after the kill;
where it was killed again before, there is no such time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dgs.workers.checkpoints.directory import CheckpointDirectory
from experiments.crash.driver import STORY
from experiments.crash.processes import family, hosts_of, is_any_alive

HOSTS = 2
LOOK_SECONDS = 0.01
GONE_SECONDS = 20.0
LONGEST_RUN = 300.0
"""Seconds after which a run that makes no end is a failure."""


@dataclass
class Kill:
    """A kill, in seconds since 1970. `whom`: host or driver. `noticed`, `recovered`: seconds after it, None if never seen.

    Of a driver, `noticed` is when the last process that it had started was gone.
    """

    whom: str
    at: float
    generation: int
    noticed: float | None = None
    recovered: float | None = None


@dataclass
class Outcome:
    """What became of one run: its kills, and the outputs that are missing and that are there too often."""

    kills: list[Kill] = field(default_factory=list)
    restarts: int = 0
    seconds: float = 0.0
    lost: int = 0
    repeated: int = 0

    def plus(self, other: Outcome) -> Outcome:
        """Return both together."""
        return Outcome(
            self.kills + other.kills,
            self.restarts + other.restarts,
            self.seconds + other.seconds,
            self.lost + other.lost,
            self.repeated + other.repeated,
        )

    def compare(self, wanted: Counter[str], found: Counter[str]) -> None:
        """Note how what was found differs from what was wanted."""
        self.lost += (wanted - found).total()
        self.repeated += (found - wanted).total()


class Victim:
    """A run of a plan file in a directory, and the record of its commits as it changes."""

    def __init__(self, plan: Path, directory: Path) -> None:
        self._plan, self._directory = plan, directory
        self._record = directory / "checkpoints" / "record-a.dgs"
        self._seen = 0
        self.commits: list[tuple[float, int, int]] = []
        directory.mkdir(parents=True)
        self._start()

    def _start(self, *flags: str) -> None:
        command = [sys.executable, "-m", "experiments.crash.driver", str(self._plan), str(self._directory)]
        with (self._directory / "driver.log").open("ab") as log:
            self.process = subprocess.Popen([*command, *flags], stdout=log, stderr=log)  # noqa: S603

    def resume(self) -> None:
        """Start another driver that goes on."""
        self._start("--resume")

    @property
    def is_running(self) -> bool:
        """Whether the driver is."""
        return self.process.poll() is None

    @property
    def generation(self) -> int:
        """The newest generation that has begun."""
        return self.commits[-1][1] if self.commits else 0

    def look(self) -> None:
        """Note a change of the record: when it was written, its generation and epoch."""
        try:
            changed = self._record.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed != self._seen:
            self._seen = changed
            found = CheckpointDirectory(self._record.parent).committed()
            if found is not None:
                self.commits.append((changed / 1e9, found.generation, found.checkpoint.epoch))

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Look for a while, or until something is so, or the driver has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.is_running and not until():
            self.look()
            time.sleep(LOOK_SECONDS)

    def story(self) -> list[dict[str, Any]]:
        """Return what the drivers told."""
        try:
            return [json.loads(line) for line in (self._directory / STORY).read_text().splitlines()]
        except FileNotFoundError:
            return []

    def has_committed(self, generation: int) -> bool:
        """Whether something was committed by a generation after this one."""
        begun: set[int] = set()
        for _, number, _ in self.commits:
            if number > generation and number in begun:
                return True
            begun.add(number)
        return False


def kill_hosts(
    victim: Victim, kills: int, dice: random.Random, *, longest: float, waits: bool = False
) -> Outcome:
    """Kill random hosts until there were so many kills or the run ends. `waits`: until it has recovered from the one before."""
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
            outcome.kills.append(_killed(dice.choice(hosts), "host", victim))
    return outcome


def kill_driver(victim: Victim, dice: random.Random, *, longest: float) -> Kill | None:
    """Kill the driver at a random moment, once its first generation has begun, and start another one at once."""
    before = len(victim.commits)
    victim.watch(LONGEST_RUN, lambda: len(victim.commits) > before)
    victim.watch(dice.uniform(0.0, longest))
    if not victim.is_running:
        return None
    others = family(victim.process.pid)
    kill = _killed(victim.process.pid, "driver", victim)
    victim.process.wait()
    victim.resume()
    victim.watch(GONE_SECONDS, lambda: not is_any_alive(others))
    kill.noticed = None if is_any_alive(others) else time.time() - kill.at
    return kill


def _killed(process: int, whom: str, victim: Victim) -> Kill:
    victim.look()
    kill = Kill(whom, time.time(), victim.generation)
    os.kill(process, signal.SIGKILL)
    return kill


def finish(victim: Victim, outcome: Outcome) -> Outcome:
    """Let a run come to its end, and find out when each kill was noticed, and when the run had recovered from it."""
    victim.watch(LONGEST_RUN)
    if victim.process.poll() != 0:
        victim.process.kill()
        raise SystemExit(f"the run did not come to its end: {victim.process.wait()}, see driver.log")
    victim.look()
    story = victim.story()
    told = [one["time"] for one in story if "told" in one]
    outcome.restarts += len(told)
    outcome.seconds += sum(one["figures"]["seconds"] for one in story if "figures" in one)
    for kill, later in zip(outcome.kills, [*outcome.kills[1:], None], strict=True):
        end = later.at if later is not None else float("inf")
        if kill.whom == "host":
            kill.noticed = _first(told, kill.at, end)
        kill.recovered = recovery(victim.commits, kill, end)
    return outcome


def _first(times: Sequence[float], after: float, end: float) -> float | None:
    return next((time - after for time in times if after <= time < end), None)


def recovery(commits: Sequence[tuple[float, int, int]], kill: Kill, end: float) -> float | None:
    """Return when the first epoch of a later generation was committed: its second record, as the first says that it begins."""
    begun: set[int] = set()
    for at, generation, _ in commits:
        if generation > kill.generation and kill.at <= at < end:
            if generation in begun:
                return at - kill.at
            begun.add(generation)
    return None
