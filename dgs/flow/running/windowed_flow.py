"""The program of a flow whose items emit nothing before a block closes: many windows of items are folded at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgs.flow.batches.columnar import Found
from dgs.flow.batches.kept_parts import Place, Span, State, join_parts
from dgs.flow.running.leaving_out import SkippableFlow
from dgs.model.events import EventBatch, Int64s
from dgs.model.program import EmitBatch
from dgs.monoids.contract import bounds


class WindowedFlow(SkippableFlow):
    """The program of a flow of shape sum whose items emit nothing: many windows of them are folded at once."""

    def update_windows(self, batch: EventBatch, cuts: Int64s) -> list[State]:
        """Return the states of windows of items."""
        starts, stops = bounds(len(batch), cuts)
        direct = self._totals(batch, cuts)
        if direct is not None:
            place, totals = direct
            given = zip(totals, self._spans(batch, starts, stops), (starts < stops).tolist(), strict=True)
            return [
                {"parts": {place: {0: {(): total}}} if is_filled else {}, "tail": None, "span": span}
                for total, span, is_filled in given
            ]
        found = self._windows_in_columns(batch, cuts)
        if found is None:
            return [
                self.update_batch(self.identity(), batch.cut(start, stop), _emits_nothing)
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
        states: list[State] = [
            {"parts": {}, "tail": None, "span": span} for span in self._spans(batch, starts, stops)
        ]
        if self.bags:
            for window in np.flatnonzero(starts < stops).tolist():
                states[window]["taken"] = int(stops[window] - starts[window])
        for place, blocks, is_plain in found.parts:
            closer = self.closers[place[0]]
            for (window, block), parts in blocks:
                of_window = states[window]["parts"]
                if is_plain and place not in of_window:
                    of_window[place] = {block: parts}
                else:
                    join_parts(states[window], place, closer, [(block, parts)], is_plain=is_plain)
        return states

    def _items(self, state: State, batch: EventBatch, emit_batch: EmitBatch) -> State:
        direct = self._totals(batch, np.zeros(0, dtype=np.int64))
        if direct is None:
            return super()._items(state, batch, emit_batch)
        place, (total,) = direct
        for row in (0, -1):
            self._into_span(state, int(batch.ts[row]))
        join_parts(state, place, self.closers[place[0]], [(0, {(): total})], is_plain=True)
        return state

    def _totals(self, batch: EventBatch, cuts: Int64s) -> tuple[Place, list[Any]] | None:
        """Return the node that keeps the items of a batch unchanged, and its state of each window; None if there is none."""
        return self._columnar.totals(batch, cuts) if self._columnar and not self.bags else None

    def _spans(self, batch: EventBatch, starts: Int64s, stops: Int64s) -> list[Span | None]:
        """Return the span of each window, None for those without items."""
        if not self._has_spans:
            return [None] * len(starts)
        places = [batch.ts.take(rows, mode="clip") for rows in (starts, stops - 1)]
        if not self._has_marks:
            places = [(ts - self._origin) // self._period if self._period else ts * 0 for ts in places]
        spans = zip(*(place.tolist() for place in places), strict=True)
        if (starts < stops).all():
            return list(spans)
        return [
            span if is_filled else None
            for span, is_filled in zip(spans, (starts < stops).tolist(), strict=True)
        ]

    def _windows_in_columns(self, batch: EventBatch, cuts: Int64s) -> Found | None:
        """Return the states of windows of a batch; None if not all steps run in columns."""
        if self._columnar is None or not len(batch) or not self._columnar.takes(batch):
            return None
        found = self._columnar.run(batch, cuts)
        return None if found.rest else found


def _emits_nothing(values: Any, rows: Any = None) -> None:
    """Take no outputs: the items emit nothing."""
