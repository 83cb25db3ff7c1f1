"""A clock for times that several processes compare: seconds since 1970, read once at the start and counted on without jumps.

Unlike with `time.time()`, an interval between two of its times is right even if the machine's clock is set meanwhile. Between
processes it is as right as the machine's clock was when they began.

>>> before = now()
>>> 0 <= now() - before < 60
True
"""

from __future__ import annotations

import time

_BEGINNING = time.time() - time.monotonic()


def now() -> float:
    """Return the seconds since 1970-01-01 UTC."""
    return _BEGINNING + time.monotonic()
