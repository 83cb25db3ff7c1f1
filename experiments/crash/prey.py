"""A run by the command line that is attacked, with all its drivers: each resume is under another plan, runtime or dealing."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from experiments.crash.jobs import in_table, written
from experiments.crash.killing import HOSTS, LOOK_SECONDS, Kill, Watched, recovery
from experiments.crash.processes import hosts_of

STOPS = ("SIGTERM", "SIGINT", "SIGHUP")

ATTACKS = {
    "host": 20,
    "driver": 3,
    "all": 2,
    "commit, host": 6,
    "commit, driver": 2,
    "SIGTERM": 2,
    "SIGINT": 1,
    "SIGHUP": 1,
    "stop, host": 2,
    "stop, driver": 1,
    "replan, host": 4,
    "replan, driver": 1,
}
"""The attacks and their weights. Before a comma: what the run is doing. After it, or alone: what is killed (`all`: the group of processes)."""

EVERY = 0.2
"""Seconds between checkpoints."""

ON_RAY = ("--runtime", "ray", "--hosts", str(HOSTS), "--optimizer")
WAYS = {
    "greedy": (*ON_RAY, "greedy"),
    "random": (*ON_RAY, "random"),
    "greedy, split": (*ON_RAY, "greedy", "--set", "streams.values-0.split=2"),
    "random, splits": (
        *ON_RAY,
        "random",
        "--set",
        "streams.values-0.split=3",
        "--set",
        "streams.values-1.split=2",
    ),
    "local": ("--runtime", "local", "--optimizer", "random"),
}
"""The options of a resume, by name. `local` is taken half as often as each of the others."""

LONGEST_PAUSE = 3.0
LONGEST_STOP = 60.0
LONGEST_REPLAN = 90.0
LONGEST_END = 300.0
BUSY = 6
"""The exit code of a resume while hosts of the last driver still work; it is tried again."""


@dataclass
class Judged:
    """One run. `attacks`, `ways`: attacks and resumes, by name. `wrong`: problems other than wrong outputs. Times are in seconds.

    `leaked`: files with the value of a secret. `apart`: between two commits of a generation. `recovered`: from the kill of a host to the
    next commit, unless the previous recovery had not ended.
    """

    seed: int
    attacks: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    repeated: int = 0
    leaked: int = 0
    wrong: list[str] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)


class Prey(Watched):
    """A run of a plan file, in the directory `run` of a place. `flags`: options of its first driver. `ways`: those of a resume."""

    def __init__(
        self,
        place: Path,
        plan: Path,
        dice: random.Random,
        judged: Judged,
        *,
        flags: Sequence[str] = (),
        ways: Mapping[str, Sequence[str]] = WAYS,
    ) -> None:
        self._flags, self._ways = flags, ways
        self._place, self._plan, self._dice, self._judged = place, plan, dice, judged
        self._run_dir = place / "run"
        super().__init__(self._run_dir / "checkpoints")
        self._kills: list[Kill] = []
        self._may_end_with: set[int] = set()
        self._is_over = False
        self._begin()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, *arguments: str) -> None:
        with (self._place / "log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "dgs", *arguments], stdout=log, stderr=log, start_new_session=True
            )
        self._may_end_with = {0, BUSY}

    def _begin(self) -> None:
        self._has_hosts = True
        shutil.rmtree(self._run_dir, ignore_errors=True)
        self._start("run", str(self._plan), "--run-dir", str(self._run_dir), *self._flags)

    def _watch(self) -> None:
        while not self._is_over:
            self.look()
            time.sleep(LOOK_SECONDS)

    @property
    def is_running(self) -> bool:
        """Whether the driver is running."""
        return self.process.poll() is None

    def compare(self, wanted: Counter[str]) -> None:
        """Count the outputs that are lost and repeated, in the JSON lines and in the table of SQLite."""
        for made in (written(self._place / "out"), in_table(self._place / "out.db")):
            self._judged.lost += (wanted - made).total()
            self._judged.repeated += (made - wanted).total()

    def goes_on(self) -> bool:
        """Return whether the run goes on. If its driver has ended before the run, resume it under another plan, runtime or dealing."""
        if self.is_running:
            return True
        code = self.process.returncode
        if code not in self._may_end_with:
            self._judged.wrong.append(f"exit code {code}")
        if code == 0:
            return False
        if code == BUSY:
            time.sleep(1.0)
        if self._record.exists():
            way = self._dice.choice([name for name in self._ways for _ in range(1 if name == "local" else 2)])
            self._judged.ways[way] += 1
            self._has_hosts = way != "local"
            self._start("resume", str(self._run_dir), *self._ways[way])
        else:
            self._begin()
        return True

    def wait_for_a_moment(self, kind: str) -> None:
        """Wait for one or two changes of the record (before a signal perhaps for none), and then for a random time."""
        self._wait(self._takes_signals)
        for _ in range(self._dice.choice([0, 1, 2] if kind in STOPS else [1, 2])):
            before = len(self.commits)
            self._wait(lambda: len(self.commits) > before)  # noqa: B023 - called at once
        time.sleep(self._dice.choice([0.0, self._dice.uniform(0, 0.3), self._dice.uniform(0, LONGEST_PAUSE)]))

    def _takes_signals(self) -> bool:
        """Return whether the driver has handlers for all signals to stop. Python takes a moment for that."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return False
        caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
        return all(caught >> signal.Signals[name] - 1 & 1 for name in STOPS)

    def _wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LONGEST_STOP
        while self.is_running and not until() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def attack(self, kind: str) -> None:
        """Attack in this way."""
        moment, _, whom = kind.rpartition(", ")
        if kind in STOPS:
            self._stop(kind)
        elif moment == "replan":
            self._replan(whom)
        else:
            if moment == "commit":
                self._wait_for_a_commit(whom)
            elif moment == "stop":
                self.process.send_signal(signal.SIGTERM)
                self._may_end_with.add(128 + signal.SIGTERM)
                time.sleep(self._dice.uniform(0.0, 0.5))
            self._kill(whom, moment)
            if moment == "stop" and self.is_running:
                self._ended()

    def _wait_for_a_commit(self, whom: str) -> None:
        """Wait until the driver requests a checkpoint of the hosts, or writes one, by the names of its files."""
        if whom == "host":
            before = len(self.commits)
            self._wait(lambda: len(self.commits) > before)
            time.sleep(EVERY + self._dice.uniform(0.0, 0.1))
            return
        known = self._files()
        self._wait(lambda: not self._files() <= known)
        time.sleep(self._dice.uniform(0.0, 0.02))

    def _files(self) -> set[str]:
        try:
            return {path.name for path in self._record.parent.iterdir()}
        except FileNotFoundError:
            return set()

    def _replan(self, whom: str) -> None:
        command = [sys.executable, "-m", "dgs", "replan", str(self._run_dir), "--optimizer", "random"]
        moving = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        time.sleep(self._dice.uniform(0.0, LONGEST_PAUSE))
        self._kill(whom, "replan")
        try:
            moving.wait(LONGEST_REPLAN)
        except subprocess.TimeoutExpired:
            self._judged.wrong.append("replan does not end")
            moving.kill()

    def _kill(self, whom: str, moment: str) -> None:
        if whom == "host" and self._has_hosts:
            self._wait(lambda: bool(hosts_of(self.process.pid, HOSTS)))
        hosts = hosts_of(self.process.pid, HOSTS) if whom == "host" else []
        died = "host" if hosts and self.is_running else "all" if whom == "all" else "driver"
        self._judged.attacks[f"{moment}, {died}".removeprefix(", ")] += 1
        self._kills.append(Kill(died, time.time(), self.generation))
        if died == "host":
            with suppress(ProcessLookupError):  # it has already ended
                os.kill(self._dice.choice(hosts), signal.SIGKILL)
            return
        if died == "all":
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self._may_end_with.add(-signal.SIGKILL)

    def _stop(self, name: str) -> None:
        began = time.monotonic()
        self._judged.attacks[name] += 1
        number = signal.Signals[name]
        self.process.send_signal(number)
        self._may_end_with.add(128 + number)
        if not self._ended():
            return
        self._judged.stops.append(time.monotonic() - began)
        said = (self._place / "log").read_text(errors="replace")[-2000:]
        if self.process.returncode and not ("go on with:" in said or "repeat with:" in said):
            self._judged.wrong.append(f"{name}: no command to go on with")

    def _ended(self) -> bool:
        """Return whether the driver ends in time after a request; kill it if not."""
        try:
            self.process.wait(LONGEST_STOP)
        except subprocess.TimeoutExpired:
            self._judged.wrong.append("does not stop")
            self._kill("driver", "hang")
            return False
        return True

    def end(self) -> None:
        """Wait for the end of the run, and note its times."""
        deadline = time.monotonic() + LONGEST_END
        while self.goes_on():
            if time.monotonic() > deadline:
                self._judged.wrong.append("does not end")
                self._kill("all", "hang")
                break
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(max(deadline - time.monotonic(), 0.0))
        self._is_over = True
        self.look()
        self._note_times()

    def _note_times(self) -> None:
        """Note the times between commits, and from a kill to the next commit. The first record of a generation is its begin."""
        begins = {generation: at for at, generation, _ in reversed(self.commits)}
        for (earlier, first, _), (later, second, _) in pairwise(self.commits):
            if first == second and earlier > begins[first]:
                self._judged.apart.append(later - earlier)
        for kill, after in zip(self._kills, [*self._kills[1:], None], strict=False):
            end = float("inf") if after is None else after.at
            if kill.whom == "host" and (seconds := recovery(self.commits, kill, end)) is not None:
                self._judged.recovered.append(seconds)
