"""Notices that a run has stood still, and says so once per interval. Clock outside.

>>> said = []
>>> dog = Watchdog(after=10.0, now=0.0, notify=said.append)
>>> dog.is_due(5, now=9.0), dog.is_due(5, now=19.5), dog.is_due(5, now=20.0), dog.is_due(6, now=30.0)
(False, True, False, False)
>>> dog.say("worker w0 waits")
>>> said, dog.sentences
(['still waiting: worker w0 waits'], ['worker w0 waits'])
"""

from __future__ import annotations

from collections.abc import Callable


class Watchdog:
    """Watches a number that grows as a run moves, such as events read and outputs made. `after`: seconds; 0: never says anything.

    `notify` tells whoever started the run. `sentences` are what was said so far, for the report.
    """

    def __init__(self, *, after: float, now: float, notify: Callable[[str], None]) -> None:
        self._after = after
        self._moved: int | None = None
        self._since = now
        self._notify = notify
        self.sentences: list[str] = []

    def is_due(self, moved: int, *, now: float) -> bool:
        """Whether nothing has moved for so long since the last move, or since this was last true."""
        if moved != self._moved:
            self._moved, self._since = moved, now
            return False
        if not self._after or now - self._since < self._after:
            return False
        self._since = now
        return True

    def say(self, sentence: str) -> None:
        """Tell it, and keep it."""
        self.sentences.append(sentence)
        self._notify(f"still waiting: {sentence}")
