"""A request to stop or to move to another plan, and the run's progress with it: a state machine without a clock.

    NONE -- ask --> ASKED -- snapshot_requested --> REQUESTED -- committed --> COMMITTED -- end --> NONE
                      ^--------- not_saved ------------'
    ASKED, REQUESTED -- the deadline passes --> TIMED_OUT -- committed, late --> COMMITTED
    ASKED, REQUESTED, TIMED_OUT -- generation_lost --> NONE, and the next generation asks again

Events while nothing is asked, such as a periodic checkpoint, change nothing here.

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
    """`stop`: commit and end; `replan`: commit and go on under the plan of the plan file `plan`. `by`: the command or signal."""

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
    """The request to a run, over all its generations. There is one request at a time, until a generation ends for it.

    Law: a request to move ends a generation only at a checkpoint. So does a stop, but after `timeout` seconds it ends the
    generation without one, since the checkpoint can be stuck behind a join that waits for a silent stream.
    """

    def __init__(self, timeout: float = math.inf) -> None:
        self._timeout = timeout
        self._deadline = math.inf
        self._epoch: int | None = None
        self.request: ControlRequest | None = None
        self.stage = Stage.NONE

    @property
    def is_asked(self) -> bool:
        """Whether there is a request, with or without its checkpoint."""
        return self.stage is not Stage.NONE

    def ask(self, request: ControlRequest, *, now: float) -> None:
        """Note the pending request. A known request changes nothing; a new one has its own deadline.

        A checkpoint that was committed for the previous request also counts for the new one.
        """
        if self.is_asked and request == self.request:
            return
        self.request = request
        self._deadline = now + self._timeout if request.action == "stop" else math.inf
        if self.stage is not Stage.COMMITTED:
            self.stage = Stage.ASKED

    def snapshot_requested(self) -> None:
        """Note that the root has been asked for a snapshot."""
        if self.stage is Stage.ASKED:
            self.stage = Stage.REQUESTED

    def not_saved(self) -> None:
        """Note that the epoch is complete but not committed: its state was not worth saving, or the disk failed."""
        if self.stage is Stage.REQUESTED:
            self.stage = Stage.ASKED

    def committed(self, epoch: int) -> None:
        """Note that an epoch is committed. Its snapshot may have been asked for before the request."""
        if self.is_asked:
            self.stage, self._epoch = Stage.COMMITTED, epoch

    def due(self, *, now: float) -> ControlRequest | None:
        """Return the request for which the generation is to end now, None if it goes on."""
        if self.stage in (Stage.ASKED, Stage.REQUESTED) and now > self._deadline:
            self.stage = Stage.TIMED_OUT
        return self.request if self.stage in (Stage.COMMITTED, Stage.TIMED_OUT) else None

    def generation_lost(self) -> None:
        """Note that a generation is lost, with any snapshot under way. A committed checkpoint still counts."""
        if self.stage is not Stage.COMMITTED:
            self.stage = Stage.NONE

    def end(self) -> int | None:
        """Forget the request, since a generation has ended for it. Return the epoch that was committed for it, if any."""
        epoch, self._epoch = self._epoch, None
        self.stage, self.request = Stage.NONE, None
        return epoch
