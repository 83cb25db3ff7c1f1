"""A request to stop or to move to another plan: how far the run is with it. A state machine; times are given.

    NONE -- ask --> ASKED -- snapshot_requested --> REQUESTED -- committed --> COMMITTED -- end --> NONE
                      ^--------- not_saved ------------'
    ASKED, REQUESTED -- the deadline passes --> TIMED_OUT -- committed, late --> COMMITTED
    ASKED, REQUESTED, TIMED_OUT -- generation_lost --> NONE, and it is asked again in the next generation

What happens while nothing is asked, such as a checkpoint whose time has come, changes nothing here.

>>> stop = StopRequest(timeout=10.0)
>>> stop.ask(ControlRequest("stop"), now=0.0)
>>> stop.snapshot_requested()
>>> stop.due(now=9.0) is None
True
>>> stop.committed(7)
>>> stop.due(now=9.5), stop.stage
(ControlRequest(action='stop', by='dgs stop', plan=None), <Stage.COMMITTED: 'committed'>)
>>> stop.end(), stop.stage
(7, <Stage.NONE: 'nothing is asked'>)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Literal


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """`stop`: commit and end; `replan`: commit and go on under the plan of the plan file `plan`. `by`: who asks."""

    action: Literal["stop", "replan"]
    by: str = "dgs stop"
    plan: str | None = None


class Stage(Enum):
    """The phases of a request."""

    NONE = "nothing is asked"
    ASKED = "asked"
    REQUESTED = "a snapshot is requested"
    COMMITTED = "committed"
    TIMED_OUT = "timed out"


class StopRequest:
    """The request to a run, over all its generations: one request at a time, until a generation ends for it.

    Law: a request to move ends a generation only at a checkpoint. A stop does so too, or ends it without one after `timeout`
    seconds, since the checkpoint can be stuck behind a join that waits for a mute stream.
    """

    def __init__(self, timeout: float = math.inf) -> None:
        self._timeout = timeout
        self._deadline = math.inf
        self._epoch: int | None = None
        self.request: ControlRequest | None = None
        self.stage = Stage.NONE

    @property
    def is_asked(self) -> bool:
        """Whether the run is to come to a checkpoint, or has, for a request."""
        return self.stage is not Stage.NONE

    def ask(self, request: ControlRequest, *, now: float) -> None:
        """Note the request that is pending. Of one that is known already nothing changes; a new one has time of its own.

        A checkpoint that was committed for the request before is good for the new one, too.
        """
        if self.is_asked and request == self.request:
            return
        self.request = request
        self._deadline = now + self._timeout if request.action == "stop" else math.inf
        if self.stage is not Stage.COMMITTED:
            self.stage = Stage.ASKED

    def snapshot_requested(self) -> None:
        """Note that the root is asked for a snapshot."""
        if self.stage is Stage.ASKED:
            self.stage = Stage.REQUESTED

    def not_saved(self) -> None:
        """Note that the epoch is complete and not committed: its state was not worth saving, or the disk failed."""
        if self.stage is Stage.REQUESTED:
            self.stage = Stage.ASKED

    def committed(self, epoch: int) -> None:
        """Note that an epoch is committed, also one whose snapshot was under way before the request."""
        if self.is_asked:
            self.stage, self._epoch = Stage.COMMITTED, epoch

    def due(self, *, now: float) -> ControlRequest | None:
        """Return the request for which the generation is to end now, None if it goes on."""
        if self.stage in (Stage.ASKED, Stage.REQUESTED) and now > self._deadline:
            self.stage = Stage.TIMED_OUT
        return self.request if self.stage in (Stage.COMMITTED, Stage.TIMED_OUT) else None

    def generation_lost(self) -> None:
        """Note that a generation is gone, and with it a snapshot on its way. What is committed stays so."""
        if self.stage is not Stage.COMMITTED:
            self.stage = Stage.NONE

    def end(self) -> int | None:
        """Forget the request: a generation has ended for it. Return the epoch that was committed for it, None if none was."""
        epoch, self._epoch = self._epoch, None
        self.stage, self.request = Stage.NONE, None
        return epoch
