"""Memory that was freed stays with the process, up to a bound, so that the next batch does not have its pages made anew.

The allocator of glibc gives every large array back to the system when it is freed. A page that comes back is zeroed and mapped again, which
takes 3 us: more than what is computed on it.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

KEPT_BYTES = 256 << 20
"""How much freed memory is kept at the end of the heap."""

HEAP_BYTES = 32 << 20
"""Arrays up to this size come from the heap. Older ones of glibc refuse more than 32 MiB, and would stay at 128 KiB then."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Tell the allocator of this process so, where it is that of glibc; elsewhere nothing happens.

    For processes that are ours: hosts, and the command line; not for the process of whoever imports us.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            allocator = ctypes.CDLL(None).mallopt
            allocator(_M_TRIM_THRESHOLD, KEPT_BYTES)
            allocator(_M_MMAP_THRESHOLD, HEAP_BYTES)
