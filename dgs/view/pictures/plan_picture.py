"""The plan as a tree in SVG. Its slots are filled with the values of a moment: `wN` is worker N, `eN` the edge above it.

The width of an edge shows the events a second that go through it. Colour, a sign and words show whether a worker works, waits or is held
back. A dashed line leads from a waiting worker to the name of the stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dgs.view.moments import Moment, Placed, WorkerNow
from dgs.view.pictures.markup import Markup, cut, element, joined
from dgs.view.pictures.plan_layout import CARD_HEIGHT, LARGE, NARROW, SIDE, Box, Layout, layout
from dgs.view.pictures.texts import clean, count, plural, seconds, share

SIGNS = {"working": "▶", "waiting": "◆", "held": "■", "idle": "○"}
WORDS = {"working": "works", "waiting": "waits", "held": "is held back", "idle": "has nothing to do"}
_WIDEST_EDGE = 13.0
PILL, TOP_OF_PILL, RAIL = 300, 8, 8
"""Pixels: the width of the name of the stream that workers wait for, the space above it, and the space left of the line to it."""


class PlanPicture:
    """The drawing of one plan."""

    def __init__(self, workers: Sequence[Placed]) -> None:
        self._workers = workers
        self.layout: Layout = layout(workers)
        self._boxes = {box.worker: box for box in (*self.layout.cards, *self.layout.tiles)}
        self._letters = int((self.layout.cards[0].width - 20) / 6.8)
        self.width = max(self.layout.width, PILL + 40.0)

    def drawn(self, values: Mapping[str, str]) -> Markup:
        """Return the drawing, with these values in its slots."""
        tiles = {box.worker for box in self.layout.tiles}
        edges = [
            self._edge(box, values)
            for box in self.layout.cards
            if self._workers[box.worker].parent is not None
        ]
        edges += [self._trunk(worker, values) for worker in self.layout.folded]
        cards = [self._card(box, values) for box in self.layout.cards]
        small = [self._tile(box, values) for box in self.layout.tiles]
        label = f"Plan: a tree of {plural(len(self._workers), 'worker')}"
        label += f", {len(tiles)} of them folded into sums" if tiles else ""
        return element(
            "svg",
            joined([*edges, self._pill(values), *cards, *small]),
            viewBox=f"0 0 {self.width:.0f} {self.layout.height:.0f}",
            width=self.width,
            height=self.layout.height,
            role="group",
            aria_label=label,
            class_="plan",
        )

    def values(self, moment: Moment) -> dict[str, str]:
        """Return the values of a moment for the slots of the drawing."""
        flow = self._flow(moment)
        most = max(flow, default=0.0) or 1.0
        chain = set(moment.chain)
        values: dict[str, str] = {}
        for place, (worker, now) in enumerate(zip(self._workers, moment.workers, strict=True)):
            values |= self._worker_values(place, worker, now)
            if place in self._boxes and worker.parent is not None:
                is_on_chain = worker.name in chain and self._workers[worker.parent].name in chain
                values[f"e{place}@class"] = "edge chain" if is_on_chain else f"edge {now.state}"
                values[f"e{place}@stroke-width"] = _edge_width(flow[place], most)
        for card, folded in self.layout.folded.items():
            values[f"t{card}@stroke-width"] = _edge_width(
                sum(moment.workers[one].rate for one in folded), most
            )
            states = {moment.workers[one].state for one in folded}
            values[f"t{card}@class"] = f"edge {states.pop()}" if len(states) == 1 else "edge"
            values[f"sum{card}"], values[f"rest{card}"] = _sum_of([moment.workers[one] for one in folded])
        return values | self._pill_values(moment)

    def _flow(self, moment: Moment) -> list[float]:
        """Return the events a second of each worker's subtree."""
        flow = [now.rate for now in moment.workers]
        for place in reversed(range(len(flow))):
            parent = self._workers[place].parent
            if parent is not None:
                flow[parent] += flow[place]
        return flow

    def _worker_values(self, place: int, worker: Placed, now: WorkerNow) -> dict[str, str]:
        rate = f"{count(now.rate)}/s"
        busy = f"{share(now.busy)} busy"
        held = f"{count(now.held)} held"
        wait = f"waits for {now.waits_for}, {seconds(now.waited)}" if now.is_stuck else ""
        says = wait or f"{WORDS[now.state]}{', ' + held if now.held else ''}"
        note = wait if now.state == "waiting" else held if now.state == "held" else busy
        if len(note) > self._letters and wait:
            note = f"waits {seconds(now.waited)}"
        return {
            f"w{place}@class": f"worker {now.state}",
            f"w{place}.rate": rate,
            f"w{place}.sign": SIGNS[now.state],
            f"w{place}.note": cut(note, self._letters),
            f"w{place}.says": clean(f"{worker.name} {says}, {rate}"),
            f"w{place}.busy": share(now.busy),
            f"w{place}.blocked": share(now.blocked),
            f"w{place}.host": clean(now.host, 40),
            f"w{place}.held": count(now.held),
            f"w{place}.syncs": f"{count(now.synchronisations)}/s",
            f"w{place}.state": clean(wait or WORDS[now.state]),
        }

    def _pill_values(self, moment: Moment) -> dict[str, str]:
        """Return the name of the stream that workers wait for, and the lines to it from the waiting cards."""
        blamed = moment.cause
        waiting = [
            self._boxes[place]
            for place, now in enumerate(moment.workers)
            if now.waits_for_stream and now.waits_for == blamed and place in self._boxes
        ]
        if not waiting:
            return {"pill@class": "pill none", "pill.text": "", "pill.line@d": "M0 0"}
        cards = [box for box in waiting if box.height == CARD_HEIGHT] or waiting[:1]
        ends = [(box.x - box.width / 2, box.y + box.height / 2) for box in cards]
        lowest = max(y for _, y in ends)
        lines = "".join(f"M{x:.0f} {y:.0f}H{RAIL}" for x, y in ends)
        line = f"{lines}M{RAIL} {lowest:.0f}V{TOP_OF_PILL + 12}H{SIDE}"
        return {"pill@class": "pill", "pill.text": "◀ " + cut(f"stream {blamed}", 40), "pill.line@d": line}

    def _pill(self, values: Mapping[str, str]) -> Markup:
        parts = [
            element("path", d=values["pill.line@d"], data_s="pill.line", class_="points"),
            element("rect", x=SIDE, y=TOP_OF_PILL, width=PILL - SIDE, height=24, rx=12),
            element("text", values["pill.text"], x=SIDE + 12, y=TOP_OF_PILL + 16, data_s="pill.text"),
        ]
        return element("g", joined(parts), class_=values["pill@class"], data_s="pill")

    def _edge(self, box: Box, values: Mapping[str, str]) -> Markup:
        parent = self._boxes[self._workers[box.worker].parent or 0]
        x, y, top = parent.x, parent.y + parent.height, box.y
        middle = (y + top) / 2
        path = f"M{x:.0f} {y:.0f}C{x:.0f} {middle:.0f} {box.x:.0f} {middle:.0f} {box.x:.0f} {top:.0f}"
        slot = f"e{box.worker}"
        width, kind = values[f"{slot}@stroke-width"], values[f"{slot}@class"]
        return element("path", d=path, class_=kind, stroke_width=width, data_s=slot)

    def _trunk(self, worker: int, values: Mapping[str, str]) -> Markup:
        box = self._boxes[worker]
        y = box.y + box.height
        line = element(
            "path",
            d=f"M{box.x:.0f} {y:.0f}v12",
            class_=values[f"t{worker}@class"],
            stroke_width=values[f"t{worker}@stroke-width"],
            data_s=f"t{worker}",
        )
        lines = [(f"sum{worker}", 25), (f"rest{worker}", 39)]
        texts = [
            element(
                "text",
                values[slot],
                x=box.x,
                y=y + down,
                text_anchor="middle",
                class_="dim small",
                data_s=slot,
            )
            for slot, down in lines
        ]
        return joined([line, *texts])

    def _card(self, box: Box, values: Mapping[str, str]) -> Markup:
        worker, slot = self._workers[box.worker], f"w{box.worker}"
        left, right, y = box.x - box.width / 2, box.x + box.width / 2, box.y
        name = cut(worker.name, 11 if box.width > NARROW + 40 else 4)
        parts = [
            element("title", values[f"{slot}.says"], data_s=f"{slot}.says"),
            element("rect", x=left, y=y, width=box.width, height=box.height, rx=8, class_="card"),
            element("rect", x=left, y=y, width=6, height=box.height, rx=3, class_="bar"),
            _slot(f"{slot}.sign", values, (left + 14, y + 19), "sign"),
            element("text", name, x=left + 30, y=y + 19, class_="name"),
            _slot(f"{slot}.rate", values, (right - 8, y + 19), "rate", "end"),
            element(
                "text",
                cut(worker.tags or "forks and joins", self._letters),
                x=left + 14,
                y=y + 36,
                class_="dim small",
            ),
            _slot(f"{slot}.note", values, (left + 14, y + 52), "note small"),
        ]
        return self._clickable(box, parts, values)

    def _tile(self, box: Box, values: Mapping[str, str]) -> Markup:
        slot, left, y = f"w{box.worker}", box.x - box.width / 2, box.y
        parts = [
            element("title", values[f"{slot}.says"], data_s=f"{slot}.says"),
            element("rect", x=left, y=y, width=box.width, height=box.height, rx=4, class_="tile"),
        ]
        if (box.width, box.height) == LARGE:
            name = cut(self._workers[box.worker].name, 7)
            parts += [
                _slot(f"{slot}.sign", values, (left + 6, y + 15), "sign"),
                element("text", name, x=left + 20, y=y + 15, class_="name"),
                _slot(f"{slot}.rate", values, (left + 6, y + 31), "rate small"),
            ]
        else:
            parts.append(_slot(f"{slot}.sign", values, (box.x, y + 13), "sign", "middle"))
        return self._clickable(box, parts, values)

    def _clickable(self, box: Box, parts: list[Markup], values: Mapping[str, str]) -> Markup:
        slot = f"w{box.worker}"
        kind = values[f"{slot}@class"]
        return element(
            "g", joined(parts), class_=kind, data_s=slot, data_w=str(box.worker), role="button", tabindex="-1"
        )


def _slot(
    slot: str, values: Mapping[str, str], at: tuple[float, float], kind: str, anchor: str = "start"
) -> Markup:
    """Return a text that a scene changes."""
    return element("text", values[slot], x=at[0], y=at[1], class_=kind, text_anchor=anchor, data_s=slot)


def _edge_width(rate: float, most: float) -> str:
    """Return the width of an edge in pixels: its visible area grows with the events a second."""
    return f"{1.2 + _WIDEST_EDGE * math.sqrt(max(rate, 0.0) / most):.1f}"


def _sum_of(workers: list[WorkerNow]) -> tuple[str, str]:
    """Return the sum of folded workers in words, as two short lines."""
    stuck, rate = sum(now.is_stuck for now in workers), sum(now.rate for now in workers)
    held = f"{count(sum(now.held for now in workers))} held"
    if stuck == len(workers):
        return f"{stuck} below, {stuck} stuck", held
    rest = f"{stuck} stuck, {held}" if stuck else f"{share(max(now.busy for now in workers))} busy at most"
    return f"{len(workers)} below, {count(rate)}/s", rest
