"""The Yahoo streaming benchmark and its extensions as flows: queries I to VI over views, clicks and purchases of ads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dgs.flow import Edge, KeyedUnordered, Table, every, flow, sliding, tumbling
from dgs.monoids import COUNT, MAX, AllOf, FieldOf, MapOf

CASES = Path(__file__).parents[3] / "shared" / "cases" / "flows"
ADS, HOMES = Table.json(CASES / "yahoo_ads.json"), Table.json(CASES / "yahoo_homes.json")
ACTIONS = ("view", "click", "purchase")
KINDS = MapOf(COUNT, key="event", value=None)


@flow(clock=every("1s"))
def enriched(events: Any) -> Edge:
    """Query I: return every event with the campaign of its ad."""
    return events.lookup(ADS, key="ad", into="campaign").each(
        lambda _, e, at: [at, e["user"], e["page"], e["ad"], e["event"], e["campaign"]]
    )


@flow(clock=every("1s"))
def per_ad(events: Any) -> Edge:
    """Query II: return the number of events so far of every ad that had an event in the last second."""
    counts = events.key_by("ad").aggregate(COUNT, over="history", idle="skip")
    return counts.each(lambda ad, number, at: [at, ad, number])


class Summary(KeyedUnordered):
    """The number of events of each kind so far, and the time of the last."""

    monoid = AllOf(kinds=KINDS, last=FieldOf(MAX, "ts"))

    def initial_state(self) -> Any:
        """Return the state without events."""
        return (0, 0, 0, 0)

    def update_state(self, state: Any, found: Any) -> Any:
        """Add the events of a block."""
        counts = (state[i] + found["kinds"].get(kind, 0) for i, kind in enumerate(ACTIONS))
        return (*counts, max(state[3], found["last"] or 0))

    def on_marker(self, state: Any, key: Any, at: Any, emit: Any) -> None:
        """Emit the state at the end of a block."""
        emit(key, [at, key, *state])


@flow(clock=every("1s"))
def per_city(events: Any) -> Edge:
    """Query III: return for every second and city the events of its people so far."""
    cities = events.lookup(HOMES, key="user", into="city").key_by("city")
    return cities.apply(Summary()).each(lambda _, row, __: row)


def views(events: Edge) -> Edge:
    """Return the views of ads, by campaign."""
    return events.filter_by("event", "view").lookup(ADS, key="ad", into="campaign").key_by("campaign")


@flow(clock=every("1s"))
def campaigns(events: Any, *, idle: Any = "all") -> Edge:
    """Query IV: return every second the views of the last ten seconds of each campaign."""
    counts = views(events).aggregate(COUNT, over=sliding("10s"), idle=idle)
    return counts.each(lambda campaign, number, at: [at, campaign, number])


@flow(clock=every("10s"))
def campaigns_tumbling(events: Any) -> Edge:
    """Query V: return every ten seconds the views of each campaign."""
    counts = views(events).aggregate(COUNT, over=tumbling("10s"))
    return counts.each(lambda campaign, number, at: [at, campaign, number])


@flow(clock=every("10s"))
def clusters(events: Any) -> Edge:
    """Query VI: return every ten seconds the people of each city in three clusters, by their actions so far."""
    users = events.lookup(HOMES, key="user", into="city").key_by("user", "city")
    features = users.aggregate(KINDS, over="history", idle="all")
    points = features.pairs(
        lambda who, n: (who[1], (who[0], tuple(float(n.get(kind, 0)) for kind in ACTIONS)))
    )
    return points.block(
        lambda city, people, at: [[at, city, user, cluster] for user, cluster in kmeans(sorted(people))]
    )


def kmeans(points: list[Any], clusters: int = 3, rounds: int = 10) -> list[Any]:
    """Return each name with its cluster. The first distinct points are the seeds; ties go to the first cluster."""
    centres = list(dict.fromkeys(point for _, point in points))[:clusters]

    def nearest(point: Any) -> int:
        distances = (sum((a - b) ** 2 for a, b in zip(point, centre, strict=True)) for centre in centres)
        return min((distance, place) for place, distance in enumerate(distances))[1]

    for _ in range(rounds):
        near = [nearest(point) for _, point in points]
        for cluster in set(near):
            mine = [point for (_, point), which in zip(points, near, strict=True) if which == cluster]
            centres[cluster] = tuple(math.fsum(column) / len(mine) for column in zip(*mine, strict=True))
    return [(name, which) for (name, _), which in zip(points, near, strict=True)]
