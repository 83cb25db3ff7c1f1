"""Errors of dgs as bytes, from a task to the driver without pickle: the name of the class and its facts.

>>> from dgs.errors import OutOfOrderError
>>> error = error_of(error_row(OutOfOrderError(stream="a", row=7, ts=1, previous=2)))
>>> type(error).__name__, error.row
('OutOfOrderError', 7)
"""

from __future__ import annotations

from typing import Any

from dgs import codec
from dgs.errors import CodecError, DgsError, InternalError


def error_row(error: DgsError) -> bytes:
    """Return an error as bytes; facts that the codec cannot encode become text."""
    return codec.encode(
        [type(error).__qualname__, {name: _plain(fact) for name, fact in error.facts.items()}]
    )


def error_of(data: bytes) -> DgsError:
    """Return the error encoded in bytes."""
    name, facts = codec.decode(data)
    found = _classes(DgsError).get(name)
    if found is None:
        return InternalError(problem=f"a task ended with {name}: {facts}")
    return found(**facts)


def _plain(fact: Any) -> Any:
    try:
        codec.encode(fact)
    except CodecError:
        return str(fact)
    return fact


def _classes(base: type[DgsError]) -> dict[str, type[DgsError]]:
    found = {base.__qualname__: base}
    for below in base.__subclasses__():
        found |= _classes(below)
    return found
