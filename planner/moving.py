"""The decision to move a run to another plan, from the events that it counts. There is no clock and no planning here.

Counts of the last `after` seconds give rates. A caller compares plans at these rates now and then, and says by how much the best
one is predicted to be faster. A move is due once the prediction has been at least `gain` for `after` seconds, and not within a minute of
the last move.

>>> moving = Moving(after=2.0, gain=1.3)
>>> count = {("clicks", Tag("view")): 500.0}
>>> [moving.counted(now, count) is not None for now in (0.0, 1.0, 2.0)]            # only then there are two seconds to count
[False, False, True]
>>> [moving.compared(now, 1.5) for now in (2.0, 3.0, 4.0, 5.0)]                    # due once, after two seconds
[False, False, True, False]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from dgs.model.tags import Tag

LOOKS = 6
"""Looks at the counts in the time of `after`."""

REST_SECONDS = 60.0
"""The least time from one move to the next."""

LARGEST_SHARE = 0.02
"""The largest share of the time in which plans are compared, since that slows down a run in the same process."""

Counts = Mapping[tuple[str, Tag | None], float]
"""Events by implementation stream and tag; None: the tags of the stream that are not counted separately."""


class SlidingCounts:
    """The events of the last `span` seconds.

    >>> counts = SlidingCounts(2.0)
    >>> for now in (0.0, 1.0, 2.0, 3.0):
    ...     counts.add(now, {("s", None): now})
    >>> counts.seconds, counts.rates()
    (2.0, {('s', None): 2.5})
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self._parts: deque[tuple[float, Counts]] = deque()

    def add(self, now: float, counts: Counts) -> None:
        """Add the events since the last call. Those of the first call are from an unknown time, and left out."""
        self._parts.append((now, counts if self._parts else {}))
        while len(self._parts) > 1 and now - self._parts[1][0] >= self._span:
            self._parts.popleft()

    @property
    def seconds(self) -> float:
        """The time of the counted events: at least `span` once calls cover so much time."""
        return self._parts[-1][0] - self._parts[0][0] if self._parts else 0.0

    def rates(self) -> dict[tuple[str, Tag | None], float]:
        """Return events per second."""
        total: dict[tuple[str, Tag | None], float] = {}
        for _, counts in list(self._parts)[1:]:
            for tag, count in counts.items():
                total[tag] = total.get(tag, 0.0) + count
        return {tag: count / self.seconds for tag, count in total.items()}


class Moving:
    """Decides when a run should move. All times are seconds of any one clock; `after` and `gain` are those of `replan:`."""

    def __init__(self, *, after: float, gain: float) -> None:
        self._after, self._gain = after, gain
        self._every = after / LOOKS
        self._counts = SlidingCounts(after)
        self._next_look = self._next_comparison = 0.0
        self._since: float | None = None  # since when the gain has been large enough
        self._moved: float | None = None
        self._is_said = False

    def begin(self) -> None:
        """Start anew: the plan has changed, or the run goes back to a checkpoint."""
        self._counts = SlidingCounts(self._after)
        self._since, self._is_said = None, False

    def is_due(self, now: float) -> bool:
        """Return whether it is time for `counted`."""
        return now >= self._next_look

    def counted(self, now: float, counts: Counts) -> dict[tuple[str, Tag | None], float] | None:
        """Take the events since the last call. Return rates if plans should be compared at them now."""
        self._next_look = now + self._every
        self._counts.add(now, counts)
        if self._counts.seconds < self._after or now < self._next_comparison:
            return None
        return self._counts.rates() or None

    @property
    def rate(self) -> float | None:
        """Events per second of the last `after`, None if the plan has not been used for so long."""
        return sum(self._counts.rates().values()) if self._counts.seconds >= self._after else None

    def compared(self, now: float, gain: float, *, took: float = 0.0) -> bool:
        """Return whether the run should move to the best plan now, which is predicted to be `gain` times as fast.

        `took`: the seconds of the comparison. After the first comparison with enough gain the next one follows soon, and may decide.
        Returns True once, until the gain has been too small or the plan changes.
        """
        self._next_comparison = now + took / LARGEST_SHARE
        if gain < self._gain:
            self._since, self._is_said = None, False
            return False
        if self._since is None:
            self._since, self._next_comparison = now, min(self._next_comparison, now + self._after)
        is_resting = self._moved is not None and now - self._moved < REST_SECONDS
        if self._is_said or is_resting or now - self._since < self._after:
            return False
        self._moved, self._is_said = now, True
        return True
