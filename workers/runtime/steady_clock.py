"""A clock for what is compared over processes: seconds since 1970 as they were when the process began, counted on without jumps.

An interval between two of its times is right however the machine's clock is set meanwhile, which `time.time()` does not promise.
Between processes it is as right as the machine's clock was when they began.

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
