"""Clean stops of a simulated run: somebody wishes that it stops, or moves to another plan, and it does at its next checkpoint."""

from __future__ import annotations

import random

from workers.simulated.generation import Generation

STOP_CHANCE = 0.02
"""Of a wish, per step."""


class Stops:
    """How many are left, and what the present generation waits for."""

    def __init__(self, rnd: random.Random, count: int) -> None:
        self._random, self._left = rnd, count
        self._wished_at: int | None = None

    def forget_wish(self) -> None:
        """Note that another generation begins."""
        self._wished_at = None

    def forget_all(self) -> None:
        """Let no stop follow."""
        self._left = 0

    def has_stopped(self, generation: Generation) -> bool:
        """Let somebody wish for a stop, perhaps; return whether the generation has come to one, at a checkpoint."""
        if not self._left:
            return False
        driver = generation.driver
        if self._wished_at is None:
            if self._random.random() < STOP_CHANCE:
                self._wished_at = driver.commits
                generation.request_snapshot()
            return False
        if driver.commits == self._wished_at or driver.final is not None:
            return False
        self._left -= 1
        return True
