"""Paths that are read or written without Spark: addresses are none.

>>> local_path("out/2026:01")
'out/2026:01'
>>> local_path("s3a://bucket/out")
Traceback (most recent call last):
ValueError: 's3a://bucket/out' is an address, and a path in the file system is needed, such as that of a mounted directory
>>> local_path("file:/out")
Traceback (most recent call last):
ValueError: 'file:/out' is an address, and a path in the file system is needed: '/out'
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(path: str) -> str:
    """Return a path as it is. Raises ValueError for an address, which would become a directory of that name here."""
    found = _ADDRESS.match(path)
    if found is None:
        return path
    advice = ", such as that of a mounted directory"
    if found[0].lower() == "file:/":
        advice = f": {'/' + path[len(found[0]) :].lstrip('/')!r}"
    raise ValueError(f"{path!r} is an address, and a path in the file system is needed{advice}")
