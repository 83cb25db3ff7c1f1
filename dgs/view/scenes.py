"""Scenes: the values of a moment for the slots of the page, as texts by the names of the slots.

`NAME` is the text of a slot, `NAME@ATTRIBUTE` one of its attributes. A page gets the first scene as a whole, and then only changes.

>>> changes({"a": "1", "b": "2"}, {"a": "1", "b": "3"})
{'b': '3'}
"""

from __future__ import annotations

from collections.abc import Mapping

from dgs.view.moments import Moment, Seen
from dgs.view.pictures.charts import place_of
from dgs.view.pictures.plan_picture import PlanPicture
from dgs.view.pictures.stream_picture import StreamPicture, by_frontier
from dgs.view.pictures.texts import clean, count, plural, seconds, share, size
from dgs.view.sentences import ENDED

Scene = dict[str, str]

MOST_SINKS = 8


class Pictures:
    """The drawings of a run and the scenes of its moments."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.plans = [PlanPicture(plan) for plan in seen.plans]
        most = max((len(moment.streams) for moment in seen.moments), default=0)
        self.streams = StreamPicture(most, seen.unit)

    def scene(self, moment: Moment) -> Scene:
        """Return the texts and attributes of the page at a moment, by slot."""
        found = {
            "plan": str(moment.plan),
            "cursor@x1": f"{place_of(moment.at, self.seen):.0f}",
            "cursor@x2": f"{place_of(moment.at, self.seen):.0f}",
        }
        found |= _head(moment) | _sinks(moment) | self.streams.values(moment)
        return found | self.plans[moment.plan].values(moment)


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Scene:
    """Return the values of a scene that differ from those of the previous scene."""
    return {slot: value for slot, value in after.items() if before.get(slot) != value}


def _head(moment: Moment) -> Scene:
    behind = next((stream.name for stream in by_frontier(moment.streams) if not stream.has_ended), "")
    held_by = moment.cause or behind
    busiest = max((now.busy for now in moment.workers), default=0.0)
    kind = "waiting" if moment.cause and moment.status == "running" else moment.status
    behind_clock = "" if moment.lag is None else f"{seconds(moment.lag)} behind the clock"
    return {
        "status": clean(kind),
        "status@class": f"status {clean(kind).split(' ')[0]}",
        "sentence": clean(moment.sentence, 600),
        "more": clean(moment.more, 600),
        "says@class": f"says {clean(kind).split(' ')[0]}",
        "rate": f"{count(moment.rate)}/s",
        "events": f"{moment.events:,} in all{', mean rate' if kind in ENDED else ''}",
        "clock": seconds(moment.at),
        "done": clean(", ".join(filter(None, (moment.progress, behind_clock)))),
        "by": clean(held_by or "-", 40),
        "by.note": "is waited for" if moment.cause else "is furthest behind" if held_by else "",
        "by@class": "value waiting" if moment.cause else "value",
        "sync": seconds(moment.synchronisation_ms / 1000) if moment.synchronisation_ms else "-",
        "sync.note": f"busiest worker {share(busiest)}",
        "held": count(moment.held),
        "held.note": f"{size(moment.held_bytes)} in buffers",
        "commit": clean(moment.checkpoint) or "none yet",
        "epoch": ""
        if moment.epoch is None
        else f"epoch {moment.epoch}, {plural(moment.restarts, 'restart')}",
        "between": clean(moment.between_hosts),
        "size": f"{plural(len(moment.workers), 'worker')} on {plural(moment.hosts, 'host')} · "
        if moment.hosts
        else "",
    }


def _sinks(moment: Moment) -> Scene:
    found = {"outputs": f"{plural(moment.outputs, 'output')} in all"}
    for place in range(MOST_SINKS):
        found |= dict.fromkeys((f"k{place}.name", f"k{place}.outputs", f"k{place}.note"), "")
    for place, sink in enumerate(moment.sinks[:MOST_SINKS]):
        found[f"k{place}.name"] = clean(sink.name, 60)
        found[f"k{place}.outputs"] = plural(sink.outputs, "output")
        found[f"k{place}.note"] = ", ".join(
            part
            for part in (
                size(sink.bytes) if sink.bytes else "",
                f"committed to epoch {sink.epoch}" if sink.epoch else "",
            )
            if part
        )
    rest = moment.sinks[MOST_SINKS:]
    found["sinks.more"] = (
        f"{plural(len(rest), 'more sink')}, {sum(sink.outputs for sink in rest):,} outputs" if rest else ""
    )
    return found
