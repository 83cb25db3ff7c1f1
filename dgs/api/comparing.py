"""Rates that a run has counted, to compare its plan with the best one while it runs, and to plan by its report afterwards."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.costing import KnownCosts, typical_costs
from dgs.api.preparing import Prepared, costs_on
from dgs.errors import InvalidError, UsageError
from dgs.job.document import read_plan_section
from dgs.job.run_directory import PLAN, RESULTS, read_object
from dgs.model.events import declared_stream
from dgs.model.tags import Tag
from dgs.planner.given_rates import ContradictoryRatesError, UnknownRateError
from dgs.planner.moving import Counts
from dgs.planner.optimizers.by_name import make_plan
from dgs.planner.plan_data import from_data
from dgs.planner.prediction.choice import cautious
from dgs.planner.prediction.model import Predictor
from dgs.workers.runtime import process
from dgs.workers.runtime.job import Comparison

if TYPE_CHECKING:
    from dgs.planner.plan import Plan
    from dgs.planner.prediction.costs import Costs
    from dgs.planner.topology import Stream, Topology

READ_ONCE = frozenset(["socket", "custom", "spark"])
"""Kinds of sources that only one reader may have open: nothing is tried on their events during a run."""

UNSEEN = 0.01
"""The share of events with new keys if any key may come: their tags should not go to the root as if they were rare."""


LEAST_EVENTS = 10_000
"""The least events of a run from which costs are taken: in shorter runs starting dominates."""

ROUNDING = 0.01
"""The relative difference allowed between a stream's events and the sum over its tags, since counts are rounded."""


def compared(prepared: Prepared, costs: Costs, home: Mapping[str, int], rates: Counts) -> Comparison:
    """Return the plan that the optimizer `cost` makes at the rates, compared with the run's. `home`: the hosts of its workers now."""
    topology = at_rates(prepared.topology, rates)
    best = make_plan(prepared.config, prepared.program, topology, costs=costs, name="cost")
    predictor = Predictor(prepared.program, topology, costs)
    current, other = predictor.predict(prepared.plan, home), predictor.predict(best)
    return Comparison(best, cautious(current), cautious(other))


def costs_while_running(prepared: Prepared) -> Costs:
    """Return the costs of the job: those with which its plan was made, else those of a trial beside the run, or typical ones."""
    if prepared.costs is not None:
        return prepared.costs.costs
    if any(stream.source.kind in READ_ONCE for stream in prepared.config.streams):
        return typical_costs(prepared.program).costs
    return costs_on(prepared.topology, prepared.request, prepared.program).costs


def at_rates(topology: Topology, rates: Counts) -> Topology:
    """Return a topology whose streams have these rates.

    >>> from dgs.model.tag_sets import TagSet
    >>> from dgs.model.tags import Tag
    >>> from dgs.planner.topology import Stream, Topology
    >>> seen = at_rates(Topology([Stream("s", TagSet.everything())]), {("s", Tag("a")): 99.0, ("s", None): 1.0})
    >>> seen.streams[0].rates, seen.streams[0].other_rate
    ({a: 99.0}, 2.0)
    """
    single: dict[str, dict[Tag, float]] = {stream.id: {} for stream in topology.streams}
    others = dict.fromkeys(single, 0.0)
    for (stream, tag), rate in rates.items():
        if tag is None:
            others[stream] += rate
        else:
            single[stream][tag] = rate
    for one in topology.streams:
        if not one.tags.is_finite:
            others[one.id] += UNSEEN * (sum(single[one.id].values()) + others[one.id])
    return replace(
        topology,
        streams=[replace(one, rates=single[one.id], other_rate=others[one.id]) for one in topology.streams],
    )


class PastRun:
    """The report of an earlier run of a job: the rates of its tags, and the costs of its events. Raises UsageError if the file is no such report."""

    def __init__(self, place: Path) -> None:
        self._place = place / RESULTS if place.is_dir() else place
        self._report = read_object(self._place)
        streams = self._report.get("streams")
        is_report = isinstance(streams, dict) and all(
            isinstance(one, dict) and _is_count(one.get("events")) for one in streams.values()
        )
        if not is_report or not streams or not _is_count(self._report.get("seconds")):
            why = "is no report of a run that has counted its events: name the directory of one that is done, or its results.json"
            raise UsageError(message=f"--rates {self._place} {why}")
        self._streams: dict[str, dict[str, Any]] = streams

    def topology(self, prepared: Prepared) -> Topology:
        """Return the streams of a job at the rates of the run. Raises UsageError, UnknownRateError, ContradictoryRatesError."""
        self._refuse_foreign(prepared)
        splits = Counter(declared_stream(stream.id) for stream in prepared.topology.streams)
        counts: dict[tuple[str, Tag | None], float] = {}
        for stream in prepared.topology.streams:
            name = declared_stream(stream.id)
            divisor = splits[name] * (self._report["seconds"] or 1.0)
            for tag, events in self._counted(stream, self._streams[name]):
                counts[stream.id, tag] = events / divisor
        return at_rates(prepared.topology, counts)

    def costs(self, prepared: Prepared, tried: KnownCosts) -> KnownCosts:
        """Return the costs of a trial, corrected by the seconds of the run.

        Runs of another machine correct nothing, which is said. Short runs correct nothing, nor do runs that moved or began again, whose
        workers count only the events since then, or runs with a plan that this job cannot have.
        """
        here, there = process.this_machine(), self._report.get("machine")
        if there not in (here, None):
            origin = f"{tried.origin}; {self._place} corrects none, since its run was on another machine, {there}, and this is {here}"
            return replace(tried, origin=origin)
        with suppress(InvalidError, KeyError, TypeError, AttributeError, ZeroDivisionError):
            workers, sinks = self._report["per_worker"].values(), self._report["sinks"].values()
            read, taken = (sum(one["events"] for one in some) for some in (self._streams.values(), workers))
            if read < LEAST_EVENTS or abs(read - taken) > ROUNDING * read:
                return tried
            updates = sum(one["update_seconds"] - one["compile_seconds"] for one in workers)
            updates += sum(one["seconds"] for one in sinks)
            joins = sum(one["fork_seconds"] + one["join_seconds"] for one in workers)
            topology = replace(self.topology(prepared), hosts=self._report["hosts"])
            seconds = self._report["seconds"]
            predictor = Predictor(prepared.program, topology, tried.costs)
            costs = predictor.corrected(self._plan(prepared), updates / seconds, joins / seconds)
            return KnownCosts(costs, f"{tried.origin}, corrected by {self._place}", tried.problem)
        return tried

    def _plan(self, prepared: Prepared) -> Plan:
        """Return the plan of the run, for the streams of this job."""
        data = read_plan_section(self._place.with_name(PLAN))
        return from_data(data, prepared.program, prepared.topology.impl_tags())

    def _refuse_foreign(self, prepared: Prepared) -> None:
        """Refuse the report of another program, or one that lacks a stream."""
        program, here = self._report.get("program"), prepared.program.name
        if program != here:
            raise UsageError(
                message=f"--rates {self._place}: its run is of the program {program}, and this job's is {here}: name a run of this job"
            )
        for stream in prepared.topology.streams:
            name = declared_stream(stream.id)
            if name not in self._streams:
                known = ", ".join(self._streams)
                raise UsageError(
                    message=f"--rates {self._place}: its run had no stream {name}, only {known}: name a run with all streams of this job"
                )

    def _counted(self, stream: Stream, of: Mapping[str, Any]) -> Iterator[tuple[Tag | None, float]]:
        """Yield the number of events of each tag of a stream, in the proportions of the sample if the run has not counted by tag."""
        events, tags = float(of["events"]), of.get("tags")
        if not isinstance(tags, dict):
            total = sum(stream.rates.values()) + stream.other_rate
            yield from ((tag, events * rate / total if total else 0.0) for tag, rate in stream.rates.items())
            yield None, events * stream.other_rate / total if total else events
            return
        counted = [*tags.values(), of.get("others", 0)]
        if not all(map(_is_count, counted)) or abs(sum(counted) - events) > ROUNDING * (events + 1):
            problem = f"{self._place} counts {events:,.0f} events of {declared_stream(stream.id)}, and those of its tags are not as many"
            raise ContradictoryRatesError(problem=problem)
        known, others = {repr(tag): tag for tag in stream.rates}, float(of.get("others", 0))
        for text, count in tags.items():
            tag = known.get(text) or _tag(text)
            if tag is None and not stream.tags.keys(text.partition("(")[0]).is_finite:
                others += count  # the text of its key cannot be read
            elif tag is None or tag not in stream.tags:
                example = ", ".join(kind for kind, _ in stream.tags.kinds)
                raise UnknownRateError(tag=text, nearest=f" ({self._place})", example=example)
            else:
                yield tag, float(count)
        yield None, others


def _tag(text: str) -> Tag | None:
    """Return the tag with a `repr`, None if there is none.

    >>> _tag("view('a')"), _tag("stop"), _tag("view(")
    (view('a'), stop, None)
    """
    kind, bracket, key = text.partition("(")
    if not bracket:
        return Tag(kind)
    with suppress(ValueError, SyntaxError, InvalidError):
        return Tag(kind, ast.literal_eval(f"({key}"))
    return None


def _is_count(number: object) -> bool:
    return type(number) in (int, float) and 0 <= number < math.inf  # type: ignore[operator]
