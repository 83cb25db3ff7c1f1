"""The measured applications: their programs, their data in memory, and their plans.

Data are columns of int64 made before any timing, and are the same for every contestant: four streams, each with 10,000 events between
two events that synchronise, as in the paper.

>>> window = application("event-window", events=20_000)
>>> [(name, len(stream["ts"])) for name, stream in window.columns.items()][:2]
[('barriers', 2), ('values-0', 20000)]
>>> len(window.prepared(leaves=4).plan.leaves)
4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import dgs
from dgs.api import overrides
from dgs.api.preparing import Prepared, from_program, prepare
from dgs.bench.measuring import Expected
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.planner.plan import Plan, PlanNode
from experiments import workload
from experiments.bench.sequential import expected
from experiments.event_window import program as window_program
from experiments.flights import program as flights_program
from experiments.flights import source as flights_source
from experiments.fraud_detection import program as fraud_program
from experiments.page_view_join import program as view_program

STREAMS = 4
Columns = Mapping[str, Any]
Rows = Iterable[Columns]


@dataclass(frozen=True)
class Application:
    """A program with its data: `streams` in the order that breaks ties, `columns` of the streams that are plain arrays.

    `plans`: plans by number of leaves that replace the optimizer's. `feeds`: items that the runtimes read instead of a stream's
    batches (the same events, with heartbeats).
    """

    name: str
    program: dgs.Program
    streams: Mapping[str, Sequence[EventBatch]]
    columns: Mapping[str, Columns] = field(default_factory=dict)
    plans: Mapping[int, Plan] = field(default_factory=dict)
    feeds: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(len(batch) for stream in self.streams.values() for batch in stream)

    @cached_property
    def expected(self) -> Expected:
        """The outputs of the sequential program."""
        return expected(self.program, list(self.streams.values()))

    def prepared(self, *, leaves: int, settings: Mapping[str, Any] | None = None) -> Prepared:
        """Return the job, planned for `leaves` leaves; one leaf means the sequential program on one worker."""
        optimizer = {"name": "sequential"} if leaves == 1 else {"name": "greedy", "max_leaves": leaves}
        given = overrides(runtime=None, optimizer=optimizer, plan=None, settings=settings)
        request = from_program(self.program, {**self.streams, **self.feeds}, given)
        return prepare(request, plan=self.plans.get(leaves))


def application(name: str, *, events: int, streams: int = STREAMS) -> Application:
    """Return an application with `streams` dense streams of `events` events each (flights: all of the data)."""
    return APPLICATIONS[name](name, events, streams)


def batch(name: str, rank: int, tags: Sequence[dgs.Tag], data: Columns, codes: Any = None) -> EventBatch:
    """Return a stream of columns as one batch."""
    return EventBatch.of(name, rank=rank, tags=tags, ts=data["ts"], codes=codes, payload=data["payload"])


def of_one_key(
    name: str, program: dgs.Program, data: Mapping[str, Columns], tags: Mapping[str, dgs.Tag]
) -> Application:
    """Return an application whose streams have one tag each. `tags`: by the part of a stream's name before "-"."""
    batches = {
        stream: [batch(stream, rank, [tags[stream.partition("-")[0]]], rows)]
        for rank, (stream, rows) in enumerate(data.items())
    }
    return Application(name, program, batches, data)


def _made(
    first: Callable[..., Rows], dense: Callable[..., Rows], events: int, streams: int
) -> dict[str, Columns]:
    """Return the synchronising stream and the dense ones, named after the functions that make them."""
    made = {first.__name__: first(events=events)}
    made |= {f"{dense.__name__}-{i}": dense(stream=i, events=events) for i in range(streams)}
    return {name: _put_together(list(parts)) for name, parts in made.items()}


def _put_together(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _event_window(name: str, events: int, streams: int) -> Application:
    data = _made(workload.barriers, workload.values, events, streams)
    tags = {"barriers": window_program.BARRIER(), "values": window_program.VALUE()}
    return of_one_key(name, window_program.EventWindow(), data, tags)


def _fraud(name: str, events: int, streams: int) -> Application:
    data = _made(workload.rules, workload.transactions, events, streams)
    tags = {"rules": fraud_program.RULE(), "transactions": fraud_program.TRANSACTION()}
    cyclic = fraud_program.CyclicFraudDetection if name == "fraud-cyclic" else fraud_program.FraudDetection
    return of_one_key(name, cyclic(), data, tags)


def _page_view(name: str, events: int, streams: int) -> Application:
    data = _made(workload.updates, workload.views, events, streams)
    batches = {}
    for rank, (stream, rows) in enumerate(data.items()):
        kind = view_program.UPDATE if stream == "updates" else view_program.VIEW
        batches[stream] = [
            batch(stream, rank, [kind(page) for page in view_program.PAGES], rows, rows["page"])
        ]
    program = view_program.PageViewJoin()
    return Application(
        name, program, batches, data, plans={STREAMS: _page_view_plan()} if streams == STREAMS else {}
    )


def _page_view_plan() -> Plan:
    """Return the plan with each page's updates above two leaves, which own two view streams each."""
    pages = []
    for page in view_program.PAGES:
        views = dgs.TagSet.of(view_program.VIEW(page))
        leaves = tuple(
            PlanNode(f"page{page}-{half}", _owned({f"views-{i}": views for i in (half, half + 2)}))
            for half in range(2)
        )
        updates = _owned({"updates": dgs.TagSet.of(view_program.UPDATE(page))})
        pages.append(PlanNode(f"page{page}", updates, children=leaves))
    return Plan(PlanNode("root", _owned({}), children=tuple(pages)))


def _owned(tags: Mapping[str, dgs.TagSet]) -> Any:
    from dgs.model.impl_tags import ImplTagSet

    return ImplTagSet.of(tags)


def _flights(name: str, _events: int, _streams: int) -> Application:
    parts = {
        "weather": (flights_program.UPDATE, flights_source.weather(), ["temp", "wind_speed", "visib"]),
        "flights": (flights_program.VIEW, flights_source.flights(), ["carrier", "flight", "dest"]),
    }
    streams = {}
    for rank, (stream, (kind, tables, payload)) in enumerate(parts.items()):
        tags = [kind(airport) for airport in flights_program.AIRPORTS]
        streams[stream] = [
            EventBatch.of(
                stream,
                rank=rank,
                tags=tags,
                ts=table["ts"].to_numpy(),
                codes=np.searchsorted(flights_program.AIRPORTS, table["origin"].to_numpy().astype(str)),
                payload={column: columns.concat(table[column].chunks) for column in payload},
            )
            for table in tables
        ]
    return Application(name, flights_program.FlightsJoin(), streams)


APPLICATIONS: Mapping[str, Callable[[str, int, int], Application]] = {
    "event-window": _event_window,
    "page-view": _page_view,
    "fraud": _fraud,
    "fraud-cyclic": _fraud,
    "flights": _flights,
}


def available() -> list[str]:
    """Return the names of the applications whose data are available."""
    names = list(APPLICATIONS)
    return names if Path(flights_source.DATA).is_dir() else [name for name in names if name != "flights"]
