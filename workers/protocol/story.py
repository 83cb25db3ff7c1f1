"""A story: notes of what a host received and did lately, to be read after a failure. There are no notes of single events.

Synchronising is on the hot path, so a note is cheap: a few numbers, and one note for a round of requests, of answers or of
parts of a state. A note keeps no state and no batch alive. `story_words` turns notes into sentences.

>>> story = Story(0)
>>> story.tick(2.5)
>>> for child in ("w1", "w2"):
...     story.takes("w0", JoinAnswer(child, 14, ["a large state"], {}))
>>> [note[1:] for note in story.log]
[(2.5, ['w1', 'w2'], ('answers', 'w0', 14, 1))]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import (
    EpochClosed,
    Events,
    ForkedState,
    Frame,
    Frontiers,
    JoinAnswer,
    JoinRequest,
    Message,
    Prepare,
    Prepared,
    Skipped,
    Snapshot,
)

MOST_NOTES = 1_000
"""The last notes of a host that are kept."""

MOST_MESSAGES = 5
"""A note names at most this many messages of a frame."""

Brief = tuple[Any, ...]
"""An entry of the story: the name of a method of `story_words._Words`, and its arguments, which are numbers and names."""

Note = tuple["Story", float, Sequence[str], Brief]
"""The host, the time, the workers that acted (none: the host itself), and what happened."""

Log = deque[Note]

Span = tuple[int, int, int]
"""The number of events, and the times of the first and the last."""


class Story:
    """Takes notes of one host of a generation, or of the driver (`host` None). `log`: a log to share with other stories."""

    def __init__(
        self, host: int | None, lanes: Lanes | None = None, *, generation: int = 0, log: Log | None = None
    ) -> None:
        self.host, self.lanes, self.generation = host, lanes, generation
        self._now = 0.0
        self.log: Log = deque(maxlen=MOST_NOTES) if log is None else log
        self._round: Any = None  # the subject of the last note, if the next message may belong to it
        self._number = 0
        self._names: list[str] = []

    def tick(self, now: float) -> None:
        """Set the time of the notes that follow: seconds since 1970, or steps of a simulation."""
        self._now, self._round = now, None

    def _note(self, workers: Sequence[str], brief: Brief) -> None:
        self._round = None
        self.log.append((self, self._now, workers, brief))

    def says(self, text: str, worker: str | None = None) -> None:
        """Note something in words, with the worker it concerns, if any."""
        self._note((), ("says", text, worker))

    def reads(self, source: str, rows: int, frontier: OrderKey) -> None:
        """Note how many rows of a source were read, and its frontier."""
        self._note((), ("reads", source, rows, frontier))

    def receives(self, frame: Frame) -> None:
        """Note a frame of another host."""
        self._note((), ("receives", frame.sender, frame.sequence, len(frame.messages)))

    def sends(self, host: int, frame: Frame) -> None:
        """Note a frame for another host."""
        messages = frame.messages
        some = [(target, _brief(message)) for target, message in messages[:MOST_MESSAGES]]
        self._note((), ("sends", host, frame.sequence, len(messages), some))

    def takes(self, worker: str, message: Message) -> None:
        """Note a message that a worker takes. Frontiers are not noted here: `reads` notes those of sources."""
        kind = message.__class__
        if kind is Frontiers:
            return
        if isinstance(message, JoinAnswer):
            if worker != self._round or message.number != self._number:
                self._number = message.number
                brief = ("answers", worker, message.number, len(message.states))
                self._begin_round(worker, message.child, brief)
            else:
                self._names.append(message.child)
            return
        about = kind if kind is ForkedState else message
        if about is not self._round:
            self._begin_round(about, worker, _brief(message))
        else:
            self._names.append(worker)

    def _begin_round(self, about: Any, name: str, brief: Brief) -> None:
        self._round, self._names = about, [name]
        self.log.append((self, self._now, self._names, brief))

    def gives(self, worker: str, effect: OutputBatch | Skipped | EpochClosed | Snapshot) -> None:
        """Note an effect that a worker gives its host."""
        if isinstance(effect, OutputBatch):
            brief: Brief = ("outputs", effect.stream, _span(effect.ts))
        elif isinstance(effect, Skipped):
            brief = ("skips", effect.event.stream, _span(effect.event.ts))
        else:
            brief = ("shows" if isinstance(effect, Snapshot) else "closes", effect.epoch)
        self._round = None
        self.log.append((self, self._now, (worker,), brief))


def _brief(message: Message) -> Brief:
    """Return the note of a message, in numbers and names."""
    if isinstance(message, Events):
        return "events", message.lane, _span(message.batch.ts)
    if isinstance(message, JoinRequest):
        span = None if message.keys is None else _span(message.keys.ts)
        return "requests", message.number, message.lane, span, message.epoch
    if isinstance(message, ForkedState):
        return ("parts",)
    if isinstance(message, JoinAnswer):
        return "answers", message.child, message.number, len(message.states)
    if isinstance(message, Prepare | Prepared):
        said = () if isinstance(message, Prepare) else (message.child,)
        return "prepared" if said else "wishes", *said, message.lane, message.key.ts
    return "frontiers", len(message.by_lane)


def _span(times: Any) -> Span:
    count = len(times)
    return (count, times.item(0), times.item(-1)) if count else (0, 0, 0)
