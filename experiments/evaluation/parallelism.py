"""Parallelism by keys alone (Figure 4), and with synchronisation: by hand in other engines, by a plan here (Figure 6).

Other engines parallelise over keys, and windows over any events. Here that is a plan with a leaf per key, or one worker for fraud
detection, whose rules change the state of all keys. For the planner's own plan Flink needs semaphores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dgs import TagSet
from dgs.api.predicting import costs_of
from dgs.model.impl_tags import ImplTagSet
from dgs.planner.drawing.chart import Line
from dgs.planner.plan import Plan, PlanNode
from experiments.bench.applications import application
from experiments.evaluation.finding import Finding
from experiments.evaluation.published import NODES, PAPER, RECORDED, RECORDED_IN
from experiments.evaluation.scaling import APPS, NODES_TRIED, Size, on_nodes, scalar_job
from experiments.page_view_join.program import PAGES, UPDATE, VIEW

BY_KEYS, BY_PLAN = "dgs, by keys alone", "dgs, synchronisation plan"
PREDICTED, PUBLISHED = "predicted", "Table 1 of the paper"
NOT_WINDOWS = ("page-view", "fraud")
"""The applications that Flink parallelises only by hand."""


def figure4(size: Size) -> Finding:
    """Return the throughput of automatic parallelism: predicted for plans by keys, recorded and published for other engines."""
    rows = [*_recorded(manual=False), *_published(manual=False), *_predicted(APPS, [BY_KEYS], size)]
    return _finding("figure4", "Automatic parallelism (Figure 4)", rows, _notes4(rows))


def figure6(size: Size) -> Finding:
    """Return the throughput with synchronisation where keys do not suffice: by hand in other engines, by a plan here."""
    rows = [*_recorded(manual=True), *_published(manual=True)]
    rows += _predicted(NOT_WINDOWS, [BY_KEYS, BY_PLAN], size)
    return _finding("figure6", "Synchronisation by hand and by plan (Figure 6)", rows, _notes6(rows))


def by_keys(streams: int) -> Plan:
    """Return the plan of the page-view join with a leaf for each page, which has all its views and updates."""
    leaves = []
    for page in PAGES:
        views = {f"views-{number}": TagSet.of(VIEW(page)) for number in range(streams)}
        owned = ImplTagSet.of({"updates": TagSet.of(UPDATE(page)), **views})
        leaves.append(PlanNode(f"page{page}", owned))
    return Plan(PlanNode("root", ImplTagSet.of({}), children=tuple(leaves)))


def _predicted(apps: Sequence[str], systems: Sequence[str], size: Size) -> Iterator[dict[str, Any]]:
    """Yield rows for each application and system, with costs that are tried once per application."""
    for name in apps:
        app = application(name, events=size.events, streams=size.streams)
        planned = scalar_job(app)
        costs = costs_of(planned).costs
        for system in systems:
            found = on_nodes(name, planned, NODES_TRIED, costs)
            if system == BY_KEYS and name == "page-view":
                found = on_nodes(name, scalar_job(app, plan=by_keys(size.streams)), NODES_TRIED, costs)
            if system == BY_KEYS and name == "fraud":  # one worker, and nothing to do for others
                found = [{**found[0], "nodes": nodes} for nodes in NODES_TRIED]
            one = found[0]["eps"]
            for row in found:
                yield {**row, "system": system, "scaling": row["eps"] / one, "source": PREDICTED}


def _recorded(*, manual: bool) -> Iterator[dict[str, Any]]:
    for one in RECORDED:
        rate = one.manual if manual else one.automatic
        if rate is not None:
            row = {"app": one.app, "system": one.engine, "nodes": 1, "eps": rate * 1e6}
            yield {**row, "is_measured": True, "source": "recorded"}


def _published(*, manual: bool) -> Iterator[dict[str, Any]]:
    for one in PAPER:
        if ("manual" in one.system) == manual and one.system != "Flumina":
            row = {"app": one.app, "system": one.system, "nodes": NODES, "scaling": one.scaling}
            yield {**row, "is_measured": True, "source": PUBLISHED}


def _finding(name: str, title: str, rows: Sequence[Mapping[str, Any]], notes: Iterator[str]) -> Finding:
    lines = []
    for colour, (app, system) in enumerate(
        dict.fromkeys((row["app"], row["system"]) for row in rows if row["source"] == PREDICTED)
    ):
        points = [
            (row["nodes"], row["scaling"])
            for row in rows
            if (row["app"], row["system"], row["source"]) == (app, system, PREDICTED)
        ]
        lines.append(Line(f"{app}: {system}, predicted", points, is_measured=False, colour=colour))
    lines += [
        Line(f"{row['app']}: {row['system']}, paper", [(row["nodes"], row["scaling"])])
        for row in rows
        if row["source"] == PUBLISHED
    ]
    columns = ["app", "system", "nodes", "is_measured", "eps", "scaling", "source"]
    axes = {"x": "nodes", "y": "throughput / throughput on one node"}
    return Finding(
        name,
        title,
        columns,
        rows,
        [*notes, f"Rates of other engines are recorded, none is measured here: {RECORDED_IN}"],
        lines,
        axes,
    )


def _at(rows: Sequence[Mapping[str, Any]], app: str, system: str) -> float:
    found = (
        r for r in rows if (r["app"], r["system"], r["nodes"], r["source"]) == (app, system, NODES, PREDICTED)
    )
    return float(next(found)["scaling"])


def _notes4(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for app in APPS:
        theirs = {
            row["system"]: row["scaling"] for row in rows if row["app"] == app and row["source"] == PUBLISHED
        }
        said = ", ".join(f"{system} {scaling:g} x" for system, scaling in theirs.items())
        yield f"{app} on {NODES} nodes: {_at(rows, app, BY_KEYS):.1f} x predicted by keys alone; in the paper {said}"


def _notes6(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for app in NOT_WINDOWS:
        keys, plan = (_at(rows, app, system) for system in (BY_KEYS, BY_PLAN))
        yield (
            f"{app} on {NODES} nodes: {plan:.1f} x predicted with a plan, {keys:.1f} x by keys alone; "
            "the paper has 9 x for Flink with semaphores, which breaks all three principles"
        )
