"""Generator sources: a Python callable, "file.py:name" relative to the plan file or "package.module:name".

>>> from itertools import count
>>> next(generated(count, {"start": 3}, ref="itertools:count", stream="numbers", program="Sum"))
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dgs.errors import DgsError
from dgs.model.user_code import function_error


def generated(
    function: Callable[..., Any], arguments: Mapping[str, Any], *, ref: str, stream: str, program: str
) -> Iterator[Any]:
    """Yield what the function yields. What it raises becomes a UserCodeError with the user's traceback first."""
    items = 0
    try:
        for item in function(**arguments):
            yield item
            items += 1
    except DgsError:
        raise
    except Exception as error:
        where = f"for stream {stream!r}, after {items} items"
        raise function_error(ref, error, program=program, where=where) from error
