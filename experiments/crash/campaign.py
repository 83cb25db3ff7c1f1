"""`python -m experiments.crash.campaign`: attack runs until a time is over, and judge each by the sequential program at its end.

An attack kills a host, the driver, or all processes of a run, or sends SIGTERM; it may come right after a commit, or while the run stops
or moves to another plan. A run that has ended so goes on under another plan, runtime or dealing. Every run adds a line to a file, so
pieces of a campaign add up: `--seed` chooses the moments.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from experiments.crash.jobs import expected, in_table, ledger, written
from experiments.crash.killing import HOSTS, LOOK_SECONDS
from experiments.crash.processes import hosts_of

ATTACKS = {"host": 12, "driver": 3, "all": 2, "stop": 2, "stop, driver": 1, "replan, host": 2}
"""The attacks, by weight. After a comma: the process that is killed while the run stops or moves."""

ON_RAY = ("--runtime", "ray", "--hosts", str(HOSTS), "--optimizer")
WAYS = (
    (*ON_RAY, "greedy"),
    (*ON_RAY, "random"),
    (*ON_RAY, "greedy", "--set", "streams.values-0.split=2"),
    (*ON_RAY, "random", "--set", "streams.values-0.split=3", "--set", "streams.values-1.split=2"),
    ("--runtime", "local", "--optimizer", "random"),
)
"""The options of a resume."""

LONGEST_PAUSE = 3.0
LONGEST_STOP = 60.0
LONGEST_END = 300.0
STOPPED = 128 + signal.SIGTERM
BUSY = 6
"""The exit code of a resume that finds hosts of the last driver at work; it is tried again."""


@dataclass
class Judged:
    """One run: its attacks by kind, the lost and the repeated outputs, and what else was wrong."""

    seed: int
    attacks: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    repeated: int = 0
    wrong: list[str] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)


class Prey:
    """A run by the command line, in a directory, over all its drivers."""

    def __init__(self, place: Path, plan: Path, dice: random.Random, judged: Judged) -> None:
        self._place, self._dice, self._judged = place, dice, judged
        self._run_dir = place / "run"
        self._record = self._run_dir / "checkpoints" / "record-a.dgs"
        self._start("run", str(plan), "--run-dir", str(self._run_dir))

    def _start(self, *arguments: str) -> None:
        with (self._place / "log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "dgs", *arguments], stdout=log, stderr=log, start_new_session=True
            )

    def resume(self) -> None:
        """Go on in another way, or from the beginning if the run had not begun."""
        if self._record.exists():
            self._start("resume", str(self._run_dir), *self._dice.choice(WAYS))
        else:
            shutil.rmtree(self._run_dir, ignore_errors=True)
            self._start("run", str(self._place / "input" / "plan.yaml"), "--run-dir", str(self._run_dir))

    @property
    def is_running(self) -> bool:
        """Whether the driver is running."""
        return self.process.poll() is None

    def wait_for_a_moment(self) -> None:
        """Wait for a commit, and then no time or some."""
        before = self._changed()
        deadline = time.monotonic() + LONGEST_STOP
        while self.is_running and self._changed() == before and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        time.sleep(self._dice.choice([0.0, self._dice.uniform(0, 0.3), self._dice.uniform(0, LONGEST_PAUSE)]))

    def _changed(self) -> int:
        try:
            return self._record.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def attack(self, kind: str) -> None:
        """Attack; let the run go on if its driver has ended."""
        first, _, then = kind.partition(", ")
        attacks = self._judged.attacks
        attacks[kind] = attacks.get(kind, 0) + 1
        if first == "replan":
            command = [sys.executable, "-m", "dgs", "replan", str(self._run_dir), "--optimizer", "random"]
            moving = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
            time.sleep(self._dice.uniform(0.0, LONGEST_PAUSE))
            self._kill(then)
            moving.wait()
        elif first == "stop":
            self._stop(then)
        else:
            self._kill(first)
        if not self.is_running and self.process.returncode != 0:
            self.resume()

    def _kill(self, whom: str) -> None:
        hosts = hosts_of(self.process.pid, HOSTS) if whom == "host" else []
        if hosts:
            _kill(self._dice.choice(hosts))
            return
        if whom == "all":
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def _stop(self, then: str) -> None:
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        if then:
            time.sleep(self._dice.uniform(0.0, 0.5))
            self._kill(then)
            return
        try:
            code = self.process.wait(LONGEST_STOP)
        except subprocess.TimeoutExpired:
            self._judged.wrong.append("does not stop")
            self._kill("driver")
            return
        self._judged.stops.append(time.monotonic() - began)
        said = (self._place / "log").read_text(errors="replace")[-2000:]
        if code not in (0, STOPPED) or (code and not ("go on with:" in said or "repeat with:" in said)):
            self._judged.wrong.append(f"SIGTERM: exit code {code}")

    def end(self) -> None:
        """Wait for the end, of which there is one."""
        deadline = time.monotonic() + LONGEST_END
        while time.monotonic() < deadline:
            try:
                code = self.process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                break
            if code == 0:
                return
            if code != BUSY:
                self._judged.wrong.append(f"exit code {code}")
                return
            time.sleep(1.0)
            self.resume()
        self._judged.wrong.append("does not end")
        self._kill("all")


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself
        os.kill(process, signal.SIGKILL)


def judged(place: Path, seed: int, *, attacks: int, events: int) -> Judged:
    """Attack one run and compare its outputs."""
    dice = random.Random(seed)
    plan = ledger(place / "input", events=events, hosts=HOSTS)
    found = Judged(seed)
    prey = Prey(place, plan, dice, found)
    for kind in dice.choices(list(ATTACKS), list(ATTACKS.values()), k=attacks):
        prey.wait_for_a_moment()
        if prey.is_running:
            prey.attack(kind)
        elif prey.process.returncode == BUSY:
            prey.resume()
        else:
            break
    prey.end()
    wanted = expected(plan)
    for made in (written(place / "out"), in_table(place / "out.db")):
        found.lost += (wanted - made).total()
        found.repeated += (made - wanted).total()
    return found


def main(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="No run begins after so many minutes.")] = 8.0,
    attacks: Annotated[int, typer.Option("--attacks", help="Attacks on one run, at most.")] = 12,
    events: Annotated[int, typer.Option("--events", help="Values in each of four streams.")] = 6_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first run.")] = 1,
    file: Annotated[Path, typer.Option("--json", help="Gets a line for each run.")] = Path("campaign.jsonl"),
) -> None:
    """Attack run after run; exit with 1 if one of them was wrong."""
    deadline, is_wrong = time.monotonic() + 60 * minutes, False
    while time.monotonic() < deadline:
        place = Path(tempfile.mkdtemp(prefix="campaign-"))
        found = judged(place, seed, attacks=attacks, events=events)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(found)) + "\n")
        if found.lost or found.repeated or found.wrong:
            is_wrong = True  # its directory is kept, for inspection
        else:
            shutil.rmtree(place)
        seed += 1
    if is_wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
