"""The feed of live pages, one for all open pages: the moments of a run as they come, and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from dgs.view.page import page, shape_of
from dgs.view.panels import chart_pictures, happening_list
from dgs.view.run_reading import RunView
from dgs.view.scenes import Pictures, Scene, changes

LOOK_EVERY = 0.5
"""Seconds between two looks at the figures of the run, which come once a second."""

MOST_OPENED, OPENED_BUDGET = 60, 300_000
"""The moments, and their bytes, in a page when it is opened."""

MOST_BEHIND = 120
"""The most messages that wait for a page that does not take them; then the oldest is dropped."""

Message = tuple[str, dict[str, Any]]


class Feed:
    """The messages of a run to the pages that are open."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        self._listeners: dict[asyncio.Queue[Message], bool] = {}
        self._scene: Scene = {}

    def page(self) -> str:
        """Return the page of the run as it is now."""
        return page(self._view.seen(), is_live=True, most=MOST_OPENED, budget=OPENED_BUDGET).html

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Queue[Message]]:
        """Yield a queue of the messages from now on; the first one has a whole scene."""
        queue: asyncio.Queue[Message] = asyncio.Queue()
        self._listeners[queue] = False
        try:
            yield queue
        finally:
            self._listeners.pop(queue, None)

    async def follow(self) -> None:
        """Look for news of the run and send it to all pages, until cancelled."""
        while True:
            for message in await asyncio.to_thread(self._news):
                self._tell(*message)
            await asyncio.sleep(LOOK_EVERY)

    def close(self) -> None:
        """End all pages, since the server ends."""
        for queue in self._listeners:
            queue.put_nowait(("close", {}))

    def _news(self) -> list[tuple[Message, Message]]:
        """Return new messages, each in two forms: for pages that know the previous scene, and for others."""
        moments = self._view.news()
        needs_first = any(not knows for knows in self._listeners.values())
        if not self._listeners or not (moments or needs_first):
            return []
        seen = self._view.seen()
        if not seen.moments:
            return []
        shape = shape_of(seen)
        pictures = Pictures(seen)
        found = []
        for moment in moments[-3:] or [seen.moments[-1]]:
            scene = pictures.scene(moment)
            about = {"shape": shape, "is_over": self._view.is_over}
            if moment is (moments[-1] if moments else seen.moments[-1]):
                about |= {"charts": chart_pictures(seen), "happenings": happening_list(seen)}
            news = (
                {"at": round(moment.at, 2), "changes": part} for part in (changes(self._scene, scene), scene)
            )
            part, whole = (("moment", {**about, "moment": one}) for one in news)
            found.append((part, whole))
            self._scene = scene
        return found

    def _tell(self, part: Message, whole: Message) -> None:
        for queue, knew in self._listeners.items():
            is_behind = queue.qsize() > MOST_BEHIND
            if is_behind:
                queue.get_nowait()
            queue.put_nowait(part if knew and not is_behind else whole)
            self._listeners[queue] = True
            if whole[1]["is_over"]:
                queue.put_nowait(("end", {}))
