"""Run directories with figures of synthetic runs, as a run leaves them."""

import json

from dgs.workers.observing.figure_lines import FiguresFile
from tests.dgs.view.drawn_runs import BEGAN, figures_of, tree


def leave(place, plan=None, *, seconds=60, status="done", name="payments", results=None, **how):
    """Write a run directory with `seconds` of figures; return the directory. `how`: as in `figures_of`."""
    directory = place / ".dgs" / "runs" / f"20261123-{name[:8]}"
    directory.mkdir(parents=True)
    plan = plan or tree(6)
    about = {"name": name, "started": BEGAN, "status": status, "plan_file": None, "base_dir": "../../.."}
    (directory / "run.json").write_text(json.dumps(about))
    (directory / "plans.ndjson").write_text(json.dumps(_node(plan, 0)) + "\n")
    if results is not None:
        (directory / "results.json").write_text(json.dumps(results))
    file = FiguresFile(directory, warn=print)
    for second in range(1, seconds):
        is_last = second == seconds - 1
        file.add(figures_of(plan, second, phase=status if is_last and status == "done" else "running", **how))
    return directory


def _node(plan, place):
    worker = plan[place]
    kind, _, stream = worker.tags.partition(" from ")
    tags = {stream: [kind]} if stream else {}
    children = [_node(plan, child) for child, one in enumerate(plan) if one.parent == place]
    return {"id": worker.name, "tags": tags, "children": children}
