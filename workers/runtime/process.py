"""The clock and the memory of a process: a clock that does not jump, and memory that stays with the process.

The clock is for times that several processes compare. Unlike with `time.time()`, an interval between two of its times is right even
if the machine's clock is set meanwhile. Between processes it is as right as the machine's clock was when they began.

By default, the allocator of glibc returns every large array to the system when it is freed. A page that comes back is zeroed and
mapped again. That takes 3 us, which is longer than computing on the page.

>>> before = now()
>>> 0 <= now() - before < 60
True
"""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import suppress

_BEGINNING = time.time() - time.monotonic()

KEPT_BYTES = 256 << 20
"""The bytes of freed memory to keep at the end of the heap."""

HEAP_BYTES = 32 << 20
"""Arrays up to this size come from the heap. An older glibc refuses a value over 32 MiB, and then keeps its limit of 128 KiB."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def now() -> float:
    """Return the seconds since 1970-01-01 UTC, read once at the start and counted on without jumps."""
    return _BEGINNING + time.monotonic()


def keep_freed_memory() -> None:
    """Set the allocator of this process to keep freed memory. Without glibc, nothing happens.

    Call this in our own processes only, hosts and the command line, and not in a process that imports dgs.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            allocator = ctypes.CDLL(None).mallopt
            allocator(_M_TRIM_THRESHOLD, KEPT_BYTES)
            allocator(_M_MMAP_THRESHOLD, HEAP_BYTES)
