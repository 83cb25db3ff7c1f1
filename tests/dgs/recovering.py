"""A project with slow runs that can be stopped, killed and moved, and their expected outputs."""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dgs.api.known_runs import KnownRun
from dgs.job.run_directory import RunDirectory
from tests.dgs.projects import sums_plan, sums_program, write_files

PROGRAM = sums_program(
    on_value="""\
dawdle(self.pause, event.ts)
emit(["value", event.payload])
return state + event.payload""",
    total='["sum", state]',
    argument=("pause", 0),
    imports='''\
import time
from pathlib import Path

SLOW = Path(__file__).with_name("slow")
WAITING = Path(__file__).with_name("waiting")


def dawdle(pause, ts):
    """Take a moment for each value; from a certain time on, wait until a request is posted, or `slow` has changed."""
    if not pause or not SLOW.exists():
        return
    time.sleep(pause)
    if ts >= stands():
        WAITING.touch()
        patience = time.monotonic() + 240
        while ts >= stands() and time.monotonic() < patience:
            time.sleep(pause)
            if any(request.suffix != ".draft" for request in SLOW.parent.glob("**/control/request-*")):
                SLOW.write_text(SLOW.read_text().partition(" ")[2])
        WAITING.unlink(missing_ok=True)


def stands():
    try:
        return float(SLOW.read_text().partition(" ")[0] or "inf")
    except FileNotFoundError:
        return float("inf")


''',
)
PLAN = (
    sums_plan(payload="amount", arguments=", args: {pause: 0.005}")
    + """\
    split: 2
optimizer: {max_leaves: 2, name: greedy}
runtime: {kind: local, batch_rows: 4, stop_timeout: 60s}
sinks: [{jsonl: {path: out}}]
"""
)
THERE = Path("there")
"""A run directory in the project."""
CHECKPOINT = "checkpoint: {every: 50ms, dir: saved}\n"
COUNT, WINDOW = 200, 10
QUICK = "--set program.args.pause=0"
EARLY = 30
"""A time early in a run: the rest takes more than a second, and a run looks for requests every 0.2 s."""


def write_project(
    folder: Path, *, count: int = COUNT, plan: str = PLAN, waits_at: Sequence[int] = ()
) -> None:
    """Write program, plan file and data. Runs take a moment for each value, until `hasten`, and wait as in `let_wait`."""
    write_files(folder, {"program.py": PROGRAM, "plan.yaml": plan})
    let_wait(folder, *waits_at)
    write_data(folder, count)


def let_wait(folder: Path, *times: int) -> None:
    """Let runs wait at a time of values until a request is posted, and then at the next value."""
    draft = folder / "slow.draft"
    draft.write_text(" ".join(map(str, times)))
    draft.replace(folder / "slow")


def has_requests(run_dir: Path) -> bool:
    """Return whether a posted request is still open."""
    return any(request.suffix != ".draft" for request in run_dir.glob("control/request-*"))


def is_waiting(folder: Path) -> bool:
    """Return whether a run waits for a request."""
    return (folder / "waiting").exists()


def hasten(folder: Path) -> None:
    """Let runs continue at full speed."""
    (folder / "slow").unlink()


def write_data(folder: Path, count: int) -> None:
    """Write `count` values of each stream. A larger count appends to the files."""
    barriers = range(WINDOW, count, WINDOW)
    (folder / "barriers.csv").write_text("ts\n" + "".join(f"{ts}\n" for ts in barriers))
    for name, factor in (("left", 1), ("right", 1000)):
        rows = "".join(f"{ts},{ts * factor}\n" for ts in range(count))
        (folder / f"{name}.csv").write_text(f"ts,amount\n{rows}")


def expected(count: int = COUNT) -> list[Any]:
    """Return the outputs of the program, sorted: a loop over all events in their order."""
    barriers = [(ts, 0, None) for ts in range(WINDOW, count, WINDOW)]
    left, right = ([(ts, rank, ts * factor) for ts in range(count)] for rank, factor in ((1, 1), (2, 1000)))
    total, found = 0, []
    for _, rank, amount in heapq.merge(barriers, left, right):
        if rank:
            total += amount
            found.append(["value", amount])
        else:
            found.append(["sum", total])
            total = 0
    return sorted(found)


def committed(folder: Path) -> list[Any]:
    """Return all outputs under final names, sorted."""
    lines = (line for path in folder.glob("part-*.jsonl") for line in path.read_text().splitlines())
    return sorted(map(json.loads, lines))


@contextmanager
def meanwhile(
    run_dir: Path, act: Callable[[], object], *, once: Callable[[], bool] | None = None
) -> Iterator[list[object]]:
    """Call a function in another thread once a run waits for it; yield a list that gets its result or exception.

    `once`: a condition to wait for instead.
    """
    told: list[object] = []
    folder = run_dir.absolute().parent if ".dgs" not in run_dir.parts else Path.cwd()
    has_come = once or partial(is_waiting, folder)

    def wait_and_act() -> None:
        try:
            wait_until(lambda: KnownRun(RunDirectory(run_dir)).is_listening and has_come())
            told.append(act())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            told.append(error)
        finally:
            if (folder / "slow").exists():
                let_wait(folder)  # a signal is not a file in a directory

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield told
    finally:
        thread.join()


def wait_until(condition: Callable[[], bool], *, longest: float = 120) -> None:
    """Wait until a condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + longest
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
