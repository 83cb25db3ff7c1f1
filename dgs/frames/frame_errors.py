"""Errors in data frames that are given as streams, found at the call that gives them."""

from __future__ import annotations

from dgs.errors import InvalidError


class FrameError(InvalidError):
    """Something was given as a frame that is none, or cannot be read as one."""

    code = "DGS570"
    template = "{problem}"
    fix = "{advice}"


class FrameColumnError(InvalidError):
    """A frame does not have a column that `dgs.stream` names."""

    code = "DGS571"
    template = "`{argument}` is {column!r}, which is no column of the frame{hint}; its columns are {columns}"
    fix = "{advice}"


class FrameKindError(InvalidError):
    """`dgs.stream` leaves open which tags the rows of a frame have, or names tags that the program does not have."""

    code = "DGS572"
    template = "stream {stream!r}: {problem}"
    fix = "{advice}"


class MixedTimesError(InvalidError):
    """One stream has times of the calendar and another has bare numbers, so their order would mean nothing."""

    code = "DGS573"
    template = "stream {calendar!r} has times of the calendar, and stream {bare!r} has bare numbers ({column!r}) as times"
    fix = 'Say what the numbers count since 1970: dgs.stream(..., unit="s"), or "ms", "us", "ns"'
