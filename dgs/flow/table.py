"""Tables: fixed data that a flow looks keys up in. A table is read once in a process; its digest is part of the flow's identity.

>>> campaigns = Table({"ad1": "c1", "ad2": "c1"})
>>> campaigns["ad1"], "ad9" in campaigns, len(campaigns), len(campaigns.digest)
('c1', False, 2, 16)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any


class Table(Mapping[Any, Any]):
    """A mapping that does not change."""

    def __init__(self, rows: Mapping[Any, Any], *, name: str = "table") -> None:
        self._rows = dict(rows)
        self.name = name

    @classmethod
    def json(cls, path: str | Path) -> Table:
        """Return the table of a JSON file that holds one object."""
        return cls(json.loads(Path(path).read_text(encoding="utf-8")), name=Path(path).name)

    @cached_property
    def digest(self) -> str:
        """BLAKE2b of the rows, 16 hexadecimal characters."""
        from dgs import codec

        return hashlib.blake2b(codec.encode(self._rows), digest_size=8).hexdigest()

    def __getitem__(self, key: Any) -> Any:
        return self._rows[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows)"
