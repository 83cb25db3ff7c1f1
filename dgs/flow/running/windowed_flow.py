"""The program of a flow whose items emit nothing before a block closes: many windows of items are folded at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgs.flow.batches.columnar import Found
from dgs.flow.batches.kept_parts import State, join_parts
from dgs.flow.running.leaving_out import SkippableFlow
from dgs.model.events import EventBatch, Int64s
from dgs.monoids.contract import bounds


class WindowedFlow(SkippableFlow):
    """The program of a flow of shape sum whose items emit nothing: many windows of them are folded at once."""

    def update_windows(self, batch: EventBatch, cuts: Int64s) -> list[State]:
        """Return the states of windows of items."""
        starts, stops = bounds(len(batch), cuts)
        found = self._windows_in_columns(batch, cuts)
        if found is None:
            return [
                self.update_batch(self.identity(), batch.cut(start, stop), _emits_nothing)
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
        states = [self.identity() for _ in range(len(starts))]
        filled = np.flatnonzero(starts < stops)
        places = (batch.ts[at[filled]] for at in (starts, stops - 1))
        if not self._has_marks:
            places = ((ts - self._origin) // self._period if self._period else ts * 0 for ts in places)
        for window, *span in zip(filled.tolist(), *(place.tolist() for place in places), strict=True):
            states[window]["span"] = tuple(span)
            if self.bags:
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

    def _windows_in_columns(self, batch: EventBatch, cuts: Int64s) -> Found | None:
        """Return what windows of a batch come to; None if not all of it runs in columns."""
        if self._columnar is None or not len(batch) or not self._columnar.takes(batch):
            return None
        found = self._columnar.run(batch, cuts)
        return None if found.rest else found


def _emits_nothing(values: Any, rows: Any = None) -> None:
    """Take the outputs of items that emit nothing."""
