"""Generator sources: a Python callable, "file.py:name" relative to the plan file or "package.module:name".

>>> from itertools import count
>>> next(generated(count, {"start": 3}, ref="itertools:count", stream="numbers", program="Sum"))
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dgs.model.user_code import calling


def generated(
    function: Callable[..., Any], arguments: Mapping[str, Any], *, ref: str, stream: str, program: str
) -> Iterator[Any]:
    """Yield the items of the function. Its exceptions become a UserCodeError, with the user's traceback first."""
    items = 0
    with calling(ref, program=program, where=lambda: f"for stream {stream!r}, after {items} items"):
        for item in function(**arguments):
            yield item
            items += 1
