"""A run that was killed half-way is resumed after damage to one of its files.

`python -m tests.workers.damaging --cases 400 --job split` flips bits in many cases of one of `JOBS`; `test_damaged_runs.py` does so in a few of each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

import dgs
from dgs.errors import DgsError, NoSuchRunError
from dgs.errors.raised import Interruption
from dgs.workers.event_log import LogWriter

PROGRAM = """\
import os
import time

import dgs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Sums(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def init(self):
        return 0

    def update(self, state, event, emit):
        time.sleep(float(os.environ.get("SECONDS", 0)))
        if event.ts == int(os.environ.get("KILLED_AT", -1)):
            os._exit(9)
        if event.tag.kind == VALUE:
            if event.payload < 0:
                raise ValueError("negative")
            return state + event.payload
        emit({"at": event.ts, "sum": state})
        return 0

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right
"""
GENERATOR = """

def rows(last):
    for start in range(0, last, 7):
        times = list(range(start, min(start + 7, last)))
        yield {"ts": times, "amount": [-1 if ts % 17 == 3 else ts for ts in times]}
"""
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums"}
streams:
  - id: barriers
    tags: {kind: barrier}
    source: {csv: {path: barriers.csv}}
  - id: listed
    tags: {kind: value}
    source: {jsonl: {path: listed.jsonl}}
    payload: amount
  - id: logged
    tags: {kind: value}
    source: {log: {path: log}}
    payload: amount
runtime: {kind: local, batch_rows: 5}
optimizer: {max_leaves: 1}
checkpoint: {every: 1ms}
on_error: skip
sinks: [{jsonl: {path: out/jsonl}}, {csv: {path: out/csv}}, {parquet: {path: out/parquet}}, {sqlite: {path: out.db}}]
"""
SPLIT = PLAN.replace("    payload: amount\n", "    payload: amount\n    split: 2\n").replace(
    "max_leaves: 1", "name: greedy"
)
GENERATED = '{generator: {ref: "program.py:rows", args: {last: 120}}}'
LISTED = "{jsonl: {path: listed.jsonl}}"
JOBS = {
    "plain": PLAN,
    "generator": PLAN.replace(LISTED, GENERATED),
    "split": SPLIT,
    "split-generator": SPLIT.replace(LISTED, GENERATED),
    "socket": PLAN.replace(LISTED, "{socket: {port: PORT, log: socket-log}}"),
}
"""The plans of jobs that can be damaged: files and a log; a generator; several workers for split streams; a socket with its log."""

KILL_AT_COMMIT = """\
import os, sys
import dgs
from dgs.workers.sinks.files import publishing

published, left = publishing.publish, int(sys.argv[1])

def publish(files, job=None):
    global left
    left -= bool(files)
    if left < 0:
        os._exit(9)
    published(files, job)

publishing.publish = publish
dgs.run("plan.yaml", run_dir="run")
"""
LAST, WINDOW = 120, 10
INPUTS = ("program.py", "plan.yaml", "barriers.csv", "listed.jsonl")


def write_project(folder: Path, job: str = "plain") -> None:
    """Write program, plan and data: two streams of values, some negative, and barriers."""
    (folder / "program.py").write_text(PROGRAM + GENERATOR)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    (folder / "plan.yaml").write_text(JOBS[job].replace("PORT", str(port)))
    (folder / "barriers.csv").write_text("ts\n" + "".join(f"{ts}\n" for ts in range(WINDOW, LAST, WINDOW)))
    rows = [{"ts": ts, "amount": amount_of(ts)} for ts in range(LAST)]
    (folder / "listed.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    log = LogWriter(folder / "log", "logged", "test")
    for batch, start in enumerate(range(0, LAST, 15)):
        times = list(range(start, start + 15))
        log.append(batch, {"ts": times, "amount": [1000 * ts for ts in times]})
    log.close()


def amount_of(ts: int) -> int:
    """Return the amount of a time: every seventeenth is negative."""
    return -1 if ts % 17 == 3 else ts


def expected() -> tuple[list[tuple[int, int]], int]:
    """Return the outputs, and how many events are skipped: a loop over all events in their order."""
    total, found, skipped = 0, [], 0
    for ts in range(LAST):
        if ts and ts % WINDOW == 0:
            found.append((ts, total))
            total = 0
        total += 1000 * ts
        if amount_of(ts) < 0:
            skipped += 1
        else:
            total += amount_of(ts)
    return found, skipped


def found_in(folder: Path) -> dict[str, object]:
    """Return the content of each sink, and the number of dead letters."""
    out = folder / "out"
    rows = {
        "jsonl": [
            json.loads(line) for path in out.glob("jsonl/part-*") for line in path.read_text().splitlines()
        ],
        "csv": [row for path in out.glob("csv/part-*.csv") for row in pyarrow.csv.read_csv(path).to_pylist()],
        "parquet": [
            row
            for path in out.glob("parquet/part-*.parquet")
            for row in pyarrow.parquet.read_table(path).to_pylist()
        ],
    }
    with closing(sqlite3.connect(folder / "out.db")) as db:
        rows["sqlite"] = [json.loads(value) for (value,) in db.execute("SELECT value FROM outputs")]
    letters = [
        line for path in folder.glob("run/dead-letter-*.jsonl") for line in path.read_text().splitlines()
    ]
    return {name: sorted((row["at"], row["sum"]) for row in found) for name, found in rows.items()} | {
        "letters": sum(json.loads(letter)["payload"] == -1 for letter in letters)
    }


def right() -> dict[str, object]:
    """Return the expected content of each sink."""
    outputs, skipped = expected()
    return dict.fromkeys(("jsonl", "csv", "parquet", "sqlite"), outputs) | {"letters": skipped}


def killed_in_an_epoch(folder: Path, at: int, *, goes_on: bool = False) -> None:
    """Run the project until the process is killed at an event of this time."""
    call = "resume('run')" if goes_on else "run('plan.yaml', run_dir='run')"
    _killed(folder, ["-c", f"import dgs; dgs.{call}"], {"KILLED_AT": str(at)})


def killed_in_a_commit(folder: Path, commits: int) -> None:
    """Run the project until the process is killed after `commits` published commits, when the next one is recorded."""
    _killed(folder, ["-c", KILL_AT_COMMIT, str(commits)], {"SECONDS": "0.005"})  # time for so many commits


def killed_projects(space: Path, job: str = "plain") -> list[Path]:
    """Return two projects: the run of one was killed within an epoch, that of the other between the record of a commit and the renaming
    of its files."""
    projects = [space / "in-an-epoch", space / "in-a-commit"]
    for project in projects:
        project.mkdir()
        write_project(project, job)
    killed_in_an_epoch(projects[0], at=71)
    killed_in_a_commit(projects[1], commits=5)
    return projects


def _killed(folder: Path, command: list[str], environ: dict[str, str]) -> None:
    running = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    _send(folder, running)
    _, said = running.communicate()
    if running.returncode != 9:
        raise RuntimeError(said)


def _send(folder: Path, running: subprocess.Popen[str]) -> None:
    """Send all rows to the socket of a job, if it has one and they were not sent before, and end its stream."""
    port = re.search(r"port: (\d+)", (folder / "plan.yaml").read_text())
    if port is None or (folder / "socket-log").exists():
        return
    while running.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(port[1]))) as client:
            client.sendall((folder / "listed.jsonl").read_bytes() + b'{"kind": "end"}\n')
            return
        time.sleep(0.05)


@dataclass(frozen=True)
class Damage:
    """One fault. `how`: the kind of damage. `at`: the bit that is flipped, or how many bytes are left."""

    file: str
    how: str
    at: int = 0

    def do(self, folder: Path) -> None:
        """Damage the file."""
        path = folder / self.file
        if self.how == "deleted" and path.is_dir():
            shutil.rmtree(path)
        elif self.how == "deleted":
            path.unlink()
        elif self.how == "piped":
            path.unlink()
            os.mkfifo(path)
        elif self.how == "cut":
            with path.open("r+b") as file:
                file.truncate(self.at)
        else:
            data = bytearray(path.read_bytes())
            data[self.at // 8] ^= 1 << self.at % 8
            path.write_bytes(data)


def files_of(folder: Path) -> list[str]:
    """Return all files that a run has written, and the event log."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(name for path in paths if (name := str(path.relative_to(folder))) not in INPUTS)


def flips(folder: Path, seed: int) -> Iterator[Damage]:
    """Yield flips of one bit, each at a random place of a random file."""
    choose = random.Random(seed)
    files = [name for name in files_of(folder) if (folder / name).stat().st_size]
    while True:
        name = choose.choice(files)
        yield Damage(name, "flipped", choose.randrange(8 * (folder / name).stat().st_size))


def losses(folder: Path) -> Iterator[Damage]:
    """Yield for each file the faults that it is missing, empty, or cut off."""
    for name in files_of(folder):
        yield Damage(name, "deleted")
        if size := (folder / name).stat().st_size:
            yield from (Damage(name, "cut", at) for at in sorted({0, size // 2, size - 1}))


def outcome(project: Path, damage: Damage, *, seconds: int = 20) -> str:
    """Damage a copy of a project and resume its run; return `harmless`, `refused ...`, or the problem."""
    with tempfile.TemporaryDirectory() as space:
        folder = Path(space) / "project"
        shutil.copytree(project, folder)
        damage.do(folder)
        try:
            with limited(seconds):
                dgs.resume(folder / "run")
        except DgsError as error:
            if error.exit_code in (3, 6) or isinstance(error, NoSuchRunError):
                return f"refused: {type(error).__name__}"
            return f"WRONG: exit {error.exit_code}, {type(error).__name__}: {error}"
        except Late:
            return "WAITS"
        except BaseException as error:  # noqa: BLE001 - a traceback is what must not be
            return f"WRONG: {type(error).__name__}: {error}"
        try:
            found = found_in(folder)
        except Exception as error:  # noqa: BLE001 - of whichever reader of a format
            return f"WRONG: outputs cannot be read: {type(error).__name__}: {error}"
        wrong = [name for name, rows in right().items() if found[name] != rows]
        return f"WRONG: {', '.join(wrong)}" if wrong else "harmless"


class Late(Interruption):
    """A run takes too long."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise Late if the block takes longer."""

    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    """Flip bits, or lose files, and print the outcome of each."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--cases", type=int, default=400)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--losses", action="store_true")
    arguments.add_argument("--job", choices=JOBS, default="plain")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as space:
        told: Counter[str] = Counter()
        for number, project in enumerate(killed_projects(Path(space), given.job)):
            random_ones = islice(flips(project, given.seed + number), given.cases // 2)
            for fault in losses(project) if given.losses else random_ones:
                said = outcome(project, fault)
                told[said.partition(":")[0]] += 1
                if said.startswith(("WRONG", "WAITS")):
                    print(number, fault, said, flush=True)  # noqa: T201 - run by hand
        print(dict(told))  # noqa: T201


if __name__ == "__main__":
    main()
