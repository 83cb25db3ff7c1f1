"""Page-view join: every view of a page, joined with the latest metadata of that page (Section 4.1).

Pages are independent of each other. Views of one page commute, so they may run in parallel; an update of a page must
follow all earlier views of it and precede all later ones. Outputs are records, so that many of them are columns.

>>> from dgs import Event
>>> program, outputs = PageViewJoin(), []
>>> state = program.init()
>>> for tag, payload in [(VIEW(0), 41), (UPDATE(0), 7), (VIEW(0), 42)]:
...     state = program.update(state, Event(tag, "clicks", 0, payload), outputs.append)
>>> outputs[0], outputs[2]
({'page': 0, 'visitor': 41, 'info': None}, {'page': 0, 'visitor': 42, 'info': 7})
>>> outputs[1]
{'page': 0, 'replaced': None}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dgs
from dgs.keyed import KeyedState
from dgs.vectorised import by_kind, by_tag, one_by_one

PAGES = (0, 1)
"""The hot pages: as in the paper, all views are of two pages."""

UPDATE = dgs.kind("update", key=PAGES)
VIEW = dgs.kind("view", key=PAGES)

State = dict[int, int]
"""The latest metadata of each page that has been updated."""


class PageViewJoin(KeyedState):
    """Emits `{page, visitor, info}` for every view, and `{page, replaced}`, the old metadata, for every update."""

    changes = (UPDATE,)
    reads = (VIEW,)

    def update(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Join a view with the metadata of its page, or replace the metadata."""
        page = event.tag.key
        if event.tag.kind == VIEW:
            emit({"page": page, "visitor": event.payload, "info": state.get(page)})
        else:
            emit({"page": page, "replaced": state.get(page)})
            state[page] = event.payload
        return state

    def update_batch(self, state: State, batch: dgs.EventBatch, emit_batch: Callable[..., None]) -> State:
        """Join all views between two updates at once: the metadata of a page is a constant for them."""
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == VIEW:
                values = [{"page": tag.key, "info": state.get(tag.key)} for tag in run.tags]
                known = by_tag(run, values, as_codes=True)
                emit({"page": known["page"], "visitor": run.payload, "info": known["info"]})
            else:
                state = one_by_one(self.update, state, run, emit)
        return state
