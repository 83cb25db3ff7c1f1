"""Frames in shared memory: only a descriptor goes through the socket, not the bytes.

The file in memory is sealed, so no process can change or shorten it while the receiver reads it.

>>> with in_memory(b"abc") as descriptor:
...     sent = array("i", [os.dup(descriptor)])          # as a socket would
>>> bytes(from_memory([(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent.tobytes())], 3))
b'abc'
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dgs.errors import CodecError

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


@contextmanager
def in_memory(body: bytes) -> Iterator[int]:
    """Yield a descriptor of a file in memory with these bytes. The file lives as long as a process has or maps it."""
    descriptor = os.memfd_create("frame", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        left = memoryview(body)
        while left:
            left = left[os.write(descriptor, left) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        yield descriptor
    finally:
        os.close(descriptor)


def from_memory(ancillary: Iterable[tuple[int, int, bytes]], size: int) -> memoryview:
    """Return the bytes of the file whose descriptor came with a record. Raises CodecError unless there are `size` of them."""
    descriptors = array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    try:
        if len(descriptors) != 1 or not _holds(descriptors[0], size):
            raise CodecError(problem=f"a record between hosts comes without a sealed file of {size} bytes")
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_POPULATE", 0)
        return memoryview(mmap.mmap(descriptors[0], size, flags=flags, prot=mmap.PROT_READ))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _holds(descriptor: int, size: int) -> bool:
    """Return whether the descriptor is of a sealed file of `size` bytes, which must be more than 0."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:  # not a file in memory
        return False
    return seals & SEALS == SEALS and os.fstat(descriptor).st_size == size > 0
