"""Where the rows of a source come from: what it was, for checkpoints, and whether it can begin behind its first rows.

>>> origin = Origin(lambda: {"kind": "generator", "ref": "itertools:count"})
>>> origin.describe()["kind"], origin.skip_to is None, origin.refused()
('generator', True, 0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _none() -> int:
    return 0


@dataclass(frozen=True)
class Origin:
    """`describe` gives plain data that the codec carries; it changes as reading goes on.

    `skip_to`: says, before the first read, that rows with smaller raw numbers are not needed; None where all must be read.
    `refused`: how many lines were no rows and have been left out.
    """

    describe: Callable[[], dict[str, Any]]
    skip_to: Callable[[int], None] | None = None
    refused: Callable[[], int] = _none
