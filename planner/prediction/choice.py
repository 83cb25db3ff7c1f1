"""The choice of the plan with the fastest prediction, with the reason in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dgs.model.program import Program
from dgs.planner.plan import Plan
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import Prediction, Predictor
from dgs.planner.topology import Stream, Topology

LEAST_GAIN = 1.1
"""The least gain over one worker for which several are chosen, since predictions are not exact."""

OVERRATED = 1.2
"""A divisor for plans whose workers wait for each other: on two hosts these were predicted 1.1 to 1.35 times too fast, compared with one worker."""

LEAST_GAIN_ALONE = 1.6
"""The same in one process, where only less merging can bring a gain, which typical costs overrate for slow updates."""

LEAST_SAVED = 0.01
"""The least seconds that several hosts have to save in the whole run beyond the least gain: about so many pass until their first messages have arrived."""

LATE = 0.5
"""The share of events with keys that no sample has, when most keys come late."""

ALIKE = 1.02
"""Plans whose predictions differ by less than this factor are taken for equally fast."""

FEW_KEYS = 8
"""The keys of a stream up to which a sample says nothing about those that may come late. More keys show how the events are divided."""

RARELY = 1e-3
"""The share of events that synchronise up to which a plan of several workers may wait for late keys in place of one worker."""

UNKNOWN = "no rate of its streams is known, so plans cannot be compared: give `rate:`"


def fastest(plans: Sequence[Plan], program: Program, topology: Topology, costs: Costs) -> Plan:
    """Return the plan that is predicted to be the fastest, with the reason. The first is one worker."""
    predictor = Predictor(program, topology, costs)
    predicted = [predictor.predict(plan) for plan in plans]
    one = predicted[0].throughput
    if not any(prediction.throughput for prediction in predicted):
        return replace(plans[0], because=UNKNOWN)
    is_alone = topology.hosts == 1
    gain = LEAST_GAIN_ALONE if is_alone else LEAST_GAIN
    worthy = [
        i
        for i, found in enumerate(predicted)
        if not i or _is_worthy(one, cautious(found) / gain, math.inf if is_alone else topology.events)
    ]
    best = max(worthy, key=lambda i: (cautious(predicted[i]), -len(plans[i])))
    late = with_late_keys(topology)
    if late is not topology and not is_alone:
        later = Predictor(program, late, costs)
        if best or _has_few_keys(topology):
            best = _ready_for_late_keys(best, plans, predicted, later, topology.events)
    other = max(
        (i for i in range(len(plans)) if i and i != best), key=lambda i: predicted[i].throughput, default=0
    )
    against = other if best == 0 else 0
    if is_alone:
        return replace(plans[best], because=_reason_alone(plans, predicted, best, against))
    gained = _saved(one, cautious(predicted[against]), topology.events) if against else 0.0
    return replace(plans[best], because=_reason(plans, predicted, best, against, gained))


def cautious(found: Prediction) -> float:
    """Return the throughput of a plan to compare with that of others: less than predicted if its workers wait for each other."""
    return found.throughput / (OVERRATED if found.is_waiting else 1.0)


def _saved(one: float, other: float, events: float) -> float:
    """Return the seconds by which a run is shorter at the other throughput, infinite if its number of events is not known.

    >>> _saved(1000.0, 2000.0, 1000), _saved(1000.0, 2000.0, math.inf)
    (0.5, inf)
    """
    is_known = one and other and math.isfinite(events)
    return events / one - events / other if is_known else math.inf


def _is_worthy(one: float, other: float, events: float) -> bool:
    """Return whether a run at the other throughput is shorter by LEAST_SAVED at least, or just not longer if its length is not known."""
    return other >= one and _saved(one, other, events) >= LEAST_SAVED


def _reason(
    plans: Sequence[Plan], predicted: Sequence[Prediction], best: int, against: int, gained: float
) -> str:
    """Return the reason. `gained`: the seconds that the other plan would save."""
    clauses = [
        f"{_workers(plans[i])}: {rate(predicted[i].throughput)}" for i in dict.fromkeys((best, against))
    ]
    if 0.0 < gained < LEAST_SAVED:
        return "; ".join(clauses) + f", which saves only {1e3 * gained:.2g} ms"
    return "; ".join(clauses) + (f", where {predicted[against].limit}" if against != best else "")


def _reason_alone(plans: Sequence[Plan], predicted: Sequence[Prediction], best: int, against: int) -> str:
    """Return the reason in one process, where costs are not measured and only ratios mean something."""
    several = best or against
    many, one = predicted[several].throughput, predicted[0].throughput
    times, how = (many / one, "fast") if many >= one or not many else (one / many, "slow")
    figure = f"{float(f'{times:.2g}'):g}"
    ratio = f"{figure} times as {how}" if figure != "1" else "as fast"
    return f"{_workers(plans[several])}: {ratio} as one worker, where {predicted[several].limit}"


def _ready_for_late_keys(
    best: int, plans: Sequence[Plan], predicted: Sequence[Prediction], late: Predictor, events: float
) -> int:
    """Return which of the plans that are as fast as the best one is the fastest once most keys are new. `events`: those of the run.

    A single worker, whose prediction is the surest, is replaced only by a plan in which hardly any event synchronises, and only where few
    keys are known. The plan must be worthy as any other.
    """
    least = predicted[best].throughput / ALIKE
    alike = [
        i
        for i, one in enumerate(predicted)
        if one.throughput >= least and (len(plans[best]) > 1 or one.synchronised <= RARELY)
    ]
    then = {i: late.predict(plans[i]).throughput for i in dict.fromkeys((best, *alike))}
    other = max(then, key=then.__getitem__)
    return other if _is_worthy(then[best], then[other] / LEAST_GAIN, events) else best


def _has_few_keys(topology: Topology) -> bool:
    """Return whether few keys are known of the busiest stream whose keys may come late."""
    late = [one for one in topology.streams if one is not _with_late_keys(one)]
    return len(max(late, key=lambda one: sum(one.rates.values())).rates) <= FEW_KEYS


def with_late_keys(topology: Topology) -> Topology:
    """Return the topology in which keys that the sample lacks have the share LATE of their streams.

    >>> from dgs.model.tag_sets import TagSet
    >>> from dgs.model.tags import kind
    >>> from dgs.planner.topology import Stream
    >>> VIEW, END = kind("view", key=str), kind("end")
    >>> views = Stream("views", TagSet.of(VIEW), {VIEW("home"): 99.0}, other_rate=1.0)
    >>> with_late_keys(Topology([views, Stream("ends", TagSet.of(END), {END(): 1.0})])).streams[0].rates
    {view('home'): 50.0}
    """
    streams = [_with_late_keys(stream) for stream in topology.streams]
    return topology if streams == list(topology.streams) else replace(topology, streams=streams)


def _with_late_keys(stream: Stream) -> Stream:
    known = sum(stream.rates.values())
    total = known + stream.other_rate
    if stream.tags.is_finite or not known or not stream.other_rate or stream.other_rate >= LATE * total:
        return stream
    rates = {tag: (1 - LATE) * total / known * rate for tag, rate in stream.rates.items()}
    return replace(stream, rates=rates, other_rate=LATE * total)


def _workers(plan: Plan) -> str:
    return "one worker" if len(plan) == 1 else f"{len(plan)} workers"


def rate(events: float) -> str:
    """Return events per second as text.

    >>> rate(1_900_000.0), rate(5600.0), rate(3.0)
    ('1.9 M events/s', '5.6 k events/s', '3 events/s')
    """
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if events >= size:
            return f"{events / size:.3g}{unit} events/s"
    return f"{events:.3g} events/s"
