"""Synthetic runs for the page: figures of 3, 20 or 200 workers that work, wait for a silent stream, or were restarted."""

import math

from dgs.observe import (
    CheckpointFigures,
    Generation,
    PairFigures,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)
from dgs.view.moments import Placed

BEGAN, FIRST = 1_790_000_000.0, 1_373_966_880_000


def tree(workers):
    """Return a plan: a root, inner workers below it, and leaves below these."""
    if workers <= 4:
        return (
            Placed("w0", None, tags="barrier from barriers"),
            *(Placed(f"w{i}", 0, tags=f"value from values/{i - 1}") for i in range(1, workers)),
        )
    inner = 3 if workers <= 20 else 6
    plan = [Placed("w0", None, tags="rule from rules")]
    plan += [Placed(f"w{i + 1}", 0, tags=f"model({i}) from models") for i in range(inner)]
    plan += [
        Placed(f"w{i}", 1 + i % inner, tags=f"payment({i}) from payments/{i}")
        for i in range(inner + 1, workers)
    ]
    return tuple(plan)


def figures_of(
    plan, second, *, mute_since=None, mute="rules", restart=None, streams=3, phase="running", hosts=4
):
    """Return the figures of a second of a run under a plan. `mute`: a stream that is silent since `mute_since`."""
    now = BEGAN + second
    waits = mute_since is not None and second > mute_since
    worked = min(second, mute_since) if waits else second
    began = restart if restart is not None and second >= restart else 0
    work = max(0, worked - began)
    leaf = set(range(len(plan))) - {worker.parent for worker in plan}
    made = {}
    for i, worker in enumerate(plan):
        rate = (9000 + 37 * (i % 11)) if i in leaf else 40
        wait = None
        if waits:
            wait = (
                Wait("stream", mute, FIRST + 1000 * int(worked) + 500, BEGAN + mute_since)
                if i == 0
                else Wait("parent", plan[worker.parent].name, None, BEGAN + mute_since + 0.2)
            )
        made[worker.name] = WorkerFigures(
            host=i % hosts,
            events=int(rate * work + (0 if waits else 500 * math.sin(second))),
            synchronisations=int(12 * work),
            update_seconds=work * (0.71 if i in leaf else 0.05) * (0.6 + 0.4 * ((i * 7) % 10) / 10),
            fork_seconds=work * 0.002,
            join_seconds=work * 0.004,
            waits_for=wait,
            held_events=int((second - mute_since) * rate) if waits else 40,
            held_bytes=int((second - mute_since) * rate * 30) if waits else 1200,
        )
    names = [mute, *(f"payments/{i}" for i in range(streams - 1))]
    found = {
        name: StreamFigures(
            rows=int(9000 * work),
            events=int(9000 * work),
            frontier=int(FIRST + 1000 * (worked if i == 0 else second - 0.02 * i)),
            newest=int(FIRST + 1000 * (worked if i == 0 else second)),
            heard=BEGAN + (worked if i == 0 else second),
            lag_seconds=(second - worked) + 0.4 if i == 0 else 0.3,
            share=None,
        )
        for i, name in enumerate(names)
    }
    ended = "host 2 was lost: its process ended (signal 9)"
    generations = (
        Generation(1, BEGAN, why=ended if began else ""),
        *((Generation(2, BEGAN + began),) if began else ()),
    )
    return RunFigures(
        t=now,
        name="payments",
        unit="ms",
        phase=phase,
        began=BEGAN,
        generation=2 if began else 1,
        events=int(9000 * len(leaf) * worked),
        outputs=int(300 * worked),
        seconds=float(second),
        restarts=1 if began else 0,
        workers=made,
        streams=found,
        sinks={
            "out (parquet)": SinkFigures(int(300 * worked), int(9000 * worked), 0.1, int(worked // 5)),
            "alerts.db (sqlite)": SinkFigures(int(worked), 0, 0.1, int(worked // 5)),
        },
        pairs={"0>1": PairFigures(int(70 * worked), int(4e5 * worked))},
        checkpoints=CheckpointFigures(
            committed=int(worked // 5),
            epoch=int(worked // 5),
            last_seconds=0.02 + 0.01 * math.sin(second),
            state_bytes=630_000,
            at=BEGAN + 5 * (worked // 5),
        ),
        generations=generations,
    )
