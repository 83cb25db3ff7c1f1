"""The frame of every file that we write and read again: a torn, damaged or misplaced file is never taken for a whole one.

Layout, little-endian: magic `DGS1`, version u16, kind u16, length of the header u32, length of the payload u64, header (codec
bytes: the file's name, and the writer's header), payload, BLAKE2b-256 of everything before it, magic `1SGD`. In every version
the file begins with magic and version and ends with digest and magic, to tell a damaged file from a newer one.

Law: `unpack(kind, name, pack(kind, name, header, payload)) == (header, payload)`; for any other bytes, name or kind it raises.
Nothing is decoded before the digest has been checked.

>>> data = pack(STATE, "state-7.dgs", {"epoch": 7}, b"abc")
>>> unpack(STATE, "state-7.dgs", data)
({'epoch': 7}, b'abc')
>>> unpack(STATE, "state-7.dgs", data[:-1])
Traceback (most recent call last):
dgs.errors.CorruptFileError: state-7.dgs is damaged: it is cut off, or was never written to its end
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import PurePath
from typing import Any

from dgs import codec
from dgs.errors import CodecError, CorruptFileError, IncompatibleCheckpointError

VERSION = 1
"""The version written. Readers accept it and, once there is one, the previous version."""

READABLE = (VERSION,)

STATE, RECORD, EVENTS = 1, 2, 3
"""Kinds of files: the state of a checkpoint, the record of what is committed, a segment of an event log."""

MAGIC, TRAILER = b"DGS1", b"1SGD"
_START = struct.Struct("<4sHHIQ")
_DIGEST_BYTES = 32
_END = _DIGEST_BYTES + len(TRAILER)


def pack(kind: int, name: str, header: Any, payload: bytes | memoryview = b"") -> bytes:
    """Return the bytes of a file. `name`: its name in its directory. `header`: any value that the codec carries."""
    head = codec.encode([name, header], keeps_order=True)
    parts = (_START.pack(MAGIC, VERSION, kind, len(head), len(payload)), head, payload)
    return b"".join((*parts, _digest(*parts), TRAILER))


def unpack(kind: int, path: str | PurePath, data: bytes) -> tuple[Any, bytes]:
    """Return header and payload of a file that was read from `path`, whose last part is its name.

    Raises CorruptFileError with the file and the problem, IncompatibleCheckpointError if the file is whole but of a version
    that cannot be read here.
    """
    view = memoryview(data)
    _check_digest(path, view)
    _, version, found_kind, head_length, payload_length = _START.unpack_from(view)
    if version not in READABLE:
        advice = "Read it with the version of dgs that wrote it"
        raise IncompatibleCheckpointError(
            path=path, what="format", found=version, expected=VERSION, advice=advice
        )
    if _START.size + head_length + payload_length + _END != len(view):
        raise CorruptFileError(path=path, problem="the lengths in it do not add up to its size")
    if found_kind != kind:
        raise CorruptFileError(path=path, problem=f"it is a file of kind {found_kind}, not of kind {kind}")
    header = _header(path, view[_START.size : _START.size + head_length])
    return header, bytes(view[_START.size + head_length : -_END])


def digest_of(data: bytes) -> str:
    """Return the digest at the end of a whole file, hexadecimal. It identifies the file."""
    return data[-_END : -len(TRAILER)].hex()


def _check_digest(path: str | PurePath, view: memoryview) -> None:
    if len(view) < _START.size + _END or view[-len(TRAILER) :] != TRAILER:
        problem = "it is cut off, or was never written to its end"
    elif view[: len(MAGIC)] != MAGIC:
        problem = "it does not begin like a file of dgs"
    elif _digest(view[:-_END]) != view[-_END : -len(TRAILER)]:
        problem = "its content does not match its digest"
    else:
        return
    raise CorruptFileError(path=path, problem=problem)


def _header(path: str | PurePath, view: memoryview) -> Any:
    try:
        name, header = codec.decode(view)
    except (CodecError, TypeError, ValueError) as error:
        raise CorruptFileError(path=path, problem=f"its header cannot be read: {error}") from error
    if name != PurePath(path).name:
        raise CorruptFileError(
            path=path, problem=f"it was written as {name}, and has been renamed or misplaced"
        )
    return header


def _digest(*parts: bytes | memoryview) -> bytes:
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        found.update(part)
    return found.digest()
