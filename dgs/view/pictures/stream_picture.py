"""The streams in SVG, with their frontiers on one axis of event time. The first row is the one furthest behind.

A bar ends at the frontier, and a mark shows the newest row. A dashed line through all bars shows up to where everything is complete. There
are at most ROWS rows; the rest is summed up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dgs.view.moments import Moment, StreamNow
from dgs.view.pictures.markup import Markup, cut, element, joined
from dgs.view.pictures.texts import clean, count, event_time, plural

ROWS = 7
WIDTH, LEFT, STEP, TOP = 360, 4, 42, 16
_LENGTH = WIDTH - 2 * LEFT


class StreamPicture:
    """The drawing of at most ROWS of `streams` streams. `unit`: of their event times."""

    def __init__(self, streams: int, unit: str) -> None:
        self._rows = min(streams, ROWS)
        self._unit = unit
        self.width = WIDTH
        self.height = TOP + STEP * self._rows + 26

    def drawn(self, values: Mapping[str, str]) -> Markup:
        """Return the drawing, with these values in its slots."""
        floor = TOP + STEP * self._rows
        rows = [self._row(place, values) for place in range(self._rows)]
        line = element(
            "line", x1=values["low@x1"], x2=values["low@x2"], y1=4, y2=floor, class_="low", data_s="low"
        )
        axis = [
            element(
                "text", values["axis.from"], x=LEFT, y=floor + 16, class_="dim small", data_s="axis.from"
            ),
            element(
                "text",
                values["axis.to"],
                x=WIDTH - LEFT,
                y=floor + 16,
                text_anchor="end",
                class_="dim small",
                data_s="axis.to",
            ),
        ]
        return element(
            "svg",
            joined([*rows, line, *axis]),
            viewBox=f"0 0 {WIDTH} {self.height}",
            width=WIDTH,
            height=self.height,
            role="img",
            aria_label="Streams: how far each has come in event time, the one furthest behind first",
            class_="streams",
        )

    def _row(self, place: int, values: Mapping[str, str]) -> Markup:
        top, slot = TOP + STEP * place, f"s{place}"
        parts = [
            element("title", values[f"{slot}.says"], data_s=f"{slot}.says"),
            element("text", values[f"{slot}.name"], x=LEFT, y=top + 6, class_="name", data_s=f"{slot}.name"),
            element(
                "text",
                values[f"{slot}.note"],
                x=WIDTH - LEFT,
                y=top + 6,
                text_anchor="end",
                class_="note small",
                data_s=f"{slot}.note",
            ),
            element("rect", x=LEFT, y=top + 13, width=_LENGTH, height=10, rx=5, class_="track"),
            element(
                "rect",
                x=LEFT,
                y=top + 13,
                width=values[f"{slot}.bar@width"],
                height=10,
                rx=5,
                class_="bar",
                data_s=f"{slot}.bar",
            ),
            element(
                "line",
                x1=values[f"{slot}.newest@x1"],
                x2=values[f"{slot}.newest@x2"],
                y1=top + 9,
                y2=top + 27,
                class_="newest",
                data_s=f"{slot}.newest",
            ),
        ]
        return element("g", joined(parts), class_=values[f"{slot}@class"], data_s=slot)

    def values(self, moment: Moment) -> dict[str, str]:
        """Return the values of a moment for the slots of the drawing."""
        streams = by_frontier(moment.streams)
        low, high = span_of(streams)
        frontiers = [stream.frontier for stream in streams if not stream.has_ended]
        complete = None if None in frontiers else min((f for f in frontiers if f is not None), default=high)
        at = LEFT if complete is None else LEFT + self._along(complete, low, high)
        at = at if frontiers else -LEFT  # outside of the drawing, since no worker waits for a stream
        values = {
            "low@x1": f"{at:.0f}",
            "low@x2": f"{at:.0f}",
            "axis.from": event_time(low, self._unit, with_day=True) if high is not None else "",
            "axis.to": event_time(high, self._unit, with_day=True) if high is not None else "no rows yet",
            "complete": self._complete(complete, has_ended=not frontiers),
            "streams.more": self._more(streams[self._rows :]),
            "streams.left_out": _left_out(moment.streams),
        }
        for place, stream in enumerate(streams[: self._rows]):
            values |= self._row_values(f"s{place}", stream, low, high)
        for place in range(len(streams), self._rows):  # streams that are not known at this moment
            values |= self._row_values(f"s{place}", StreamNow("", None, note=" "), None, None)
            values[f"s{place}@class"] = "stream absent"
        return values

    def _row_values(
        self, slot: str, stream: StreamNow, low: float | None, high: float | None
    ) -> dict[str, str]:
        newest = high if stream.has_ended else stream.frontier if stream.newest is None else stream.newest
        newest_at = f"{LEFT + self._along(newest, low, high):.0f}"
        come_to = (
            "has ended" if stream.has_ended else f"complete up to {event_time(stream.frontier, self._unit)}"
        )
        note = stream.note or ("ended" if stream.has_ended else f"{count(stream.rate)}/s")
        kind = "waited" if stream.is_waited_for else "ended" if stream.has_ended else "flows"
        return {
            f"{slot}@class": f"stream {kind}",
            f"{slot}.name": ("◆ " if stream.is_waited_for else "") + cut(stream.name, 24),
            f"{slot}.note": cut(note, 30),
            f"{slot}.bar@width": f"{max(2.0, self._along(high if stream.has_ended else stream.frontier, low, high)):.0f}",
            f"{slot}.newest@x1": newest_at,
            f"{slot}.newest@x2": newest_at,
            f"{slot}.says": clean(f"{stream.name}: {come_to}, {note}"),
        }

    def _along(self, ts: float | None, low: float | None, high: float | None) -> float:
        if ts is None or low is None or high is None or high <= low:
            return 0.0 if ts is None else float(_LENGTH)
        return _LENGTH * min(1.0, max(0.0, (ts - low) / (high - low)))

    def _complete(self, ts: float | None, *, has_ended: bool) -> str:
        if has_ended:
            return "All streams have ended."
        return (
            "No stream is complete up to any time yet."
            if ts is None
            else f"Everything is complete up to {event_time(ts, self._unit)}."
        )

    def _more(self, rest: Sequence[StreamNow]) -> str:
        if not rest:
            return ""
        least = next((stream.frontier for stream in rest if stream.frontier is not None), None)
        ended = sum(stream.has_ended for stream in rest)
        text = f"{plural(len(rest), 'more stream')}, {count(sum(stream.rate for stream in rest))}/s"
        if ended == len(rest):
            return f"{text}, all ended"
        return text + (f", all past {event_time(least, self._unit)}" if least is not None else "")


def by_frontier(streams: Sequence[StreamNow]) -> list[StreamNow]:
    """Return streams, beginning with those that hold the run back: streams that workers wait for, then by frontier, ended ones last."""
    floor = float("-inf")
    return sorted(
        streams, key=lambda s: (s.has_ended, not s.is_waited_for, floor if s.frontier is None else s.frontier)
    )


def span_of(streams: Sequence[StreamNow]) -> tuple[float | None, float | None]:
    """Return the event times at the ends of the axis: a little below the lowest frontier, and the newest row."""
    known = [ts for s in streams for ts in (s.frontier, s.newest) if ts is not None]
    if not known:
        return None, None
    low, high = min(known), max(known)
    return low - (high - low) * 0.35, high


def _left_out(streams: Sequence[StreamNow]) -> str:
    dropped, letters = sum(s.dropped for s in streams), sum(s.letters for s in streams)
    return f"dropped {dropped:,}, dead letters {letters:,}, waiting to be put in order {sum(s.disorder for s in streams):,}"
