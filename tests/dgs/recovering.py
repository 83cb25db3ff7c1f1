"""A project whose runs take a moment, so that they can be stopped, killed and moved; and what they must give in the end."""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dgs.api.runs import KnownRun
from dgs.run_directory import RunDirectory
from tests.dgs.projects import sums_plan, sums_program, write_files

PROGRAM = sums_program(
    on_value="""\
time.sleep(self.pause if SLOW.exists() else 0)
emit(["value", event.payload])
return state + event.payload""",
    total='["sum", state]',
    argument=("pause", 0),
    imports="import time\nfrom pathlib import Path\n\nSLOW = Path(__file__).with_name('slow')\n",
)
PLAN = (
    sums_plan(payload="amount", arguments=", args: {pause: 0.005}")
    + """\
    split: 2
optimizer: {max_leaves: 2}
runtime: {kind: local, batch_rows: 4}
sinks: [{jsonl: {path: out}}]
"""
)
THERE = Path("there")
"""A run directory in the project."""
CHECKPOINT = "checkpoint: {every: 50ms, dir: saved}\n"
COUNT, WINDOW = 200, 10
QUICK = "--set program.args.pause=0"


def write_project(folder: Path, *, count: int = COUNT, plan: str = PLAN) -> None:
    """Write program, plan file and data. Runs are slow enough to be met half-way, until `hasten`."""
    write_files(folder, {"program.py": PROGRAM, "plan.yaml": plan, "slow": ""})
    write_data(folder, count)


def hasten(folder: Path) -> None:
    """Let runs go on as fast as they can."""
    (folder / "slow").unlink()


def write_data(folder: Path, count: int) -> None:
    """Write `count` values of each stream; more than before: the files have grown."""
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
    run_dir: Path, act: Callable[[], object], *, after: float = 0.1, once: Callable[[], bool] = lambda: True
) -> Iterator[list[object]]:
    """Do something in another thread once a run is writing outputs; gives the list that what it returned, or raised, is put into.

    `once`: and once this is so. `after`: seconds later.
    """
    told: list[object] = []
    plan_dir = run_dir.absolute().parent if ".dgs" not in run_dir.parts else Path.cwd()

    def writes() -> bool:
        return not (plan_dir / "plan.yaml").exists() or any((plan_dir / "out").glob("*.partial"))

    def wait_and_act() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (
            KnownRun(RunDirectory(run_dir)).is_listening and writes() and once()
        ):
            time.sleep(0.01)
        time.sleep(after)
        try:
            told.append(act())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            told.append(error)

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield told
    finally:
        thread.join()
