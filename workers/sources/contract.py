"""The contract between sources and runtimes: something to read batches of events from, with how far it has come.

>>> Reading((), END).frontier == END        # nothing more will come
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey

__all__ = ["END", "EventSource", "Reading"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one `read`: batches of the implementation streams of the source, each in order, and its frontier.

    Every event below `frontier` has been read, on all implementation streams of the source; END when it has ended.
    Law: the events of later readings are at or above the frontier of earlier ones, which never goes back.
    """

    batches: tuple[EventBatch, ...]
    frontier: OrderKey


class EventSource(Protocol):
    """A declared input stream, opened: batches of events, whatever they are made of.

    `stream` is its declared id. Sources that users write give rows: see `dgs.workers.sources.custom_source`.
    """

    stream: str

    @property
    def drops(self) -> int:
        """The number of events that `on_disorder: drop` has left out so far."""

    @property
    def wait(self) -> float:
        """Seconds until there may be something to read: 0 now, always 0 for what is there (files, memory).

        A live source that cannot know says how soon to ask again.
        """

    @property
    def description(self) -> Mapping[str, Any]:
        """The identity of the source and how far it has been read, as plain data for a checkpoint.

        It has `rows`, the raw rows read, and `end`: the key behind its last event once it has ended, else None.
        """

    def resume(self, before: Mapping[str, Any]) -> None:
        """Check, before the first read, that the source is still what `before` says it was. Raises SourceChangedError."""

    def skip_to(self, base: OrderKey) -> None:
        """Say, before the first read, that events below `base` are not needed. They may come nevertheless."""

    def read(self) -> Reading:
        """Read on. Not to be called again after a frontier of END. Raises RunError for rows that are no events.

        Never blocks: a live source that is read too early brings no events and its old frontier.
        """

    def close(self) -> None:
        """Release files. May be called at any time, also twice."""
