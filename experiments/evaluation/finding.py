"""A finding: the rows of one figure or table of the evaluation, with notes. It is written as JSON, as a table and as SVG.

>>> found = Finding("table9", "An example", ["hosts", "eps"], [{"hosts": 1, "eps": 2e6, "is_measured": True}], ["It is made up."])
>>> print(found.as_table())
An example
<BLANKLINE>
| hosts | eps |
|---|---|
| 1 | 2,000,000 |
<BLANKLINE>
- It is made up.
<BLANKLINE>
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgs.planner.drawing.chart import Line, as_svg

MANY = 1000


@dataclass(frozen=True)
class Finding:
    """The result of one command. `columns`: the fields of the rows that the table shows; JSON has all.

    `notes`: where it differs from the paper, and why. `lines`, `axes`: the drawing, and the arguments of `as_svg`.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    lines: Sequence[Line] = ()
    axes: Mapping[str, Any] | None = None

    def as_table(self) -> str:
        """Return title, table and notes as Markdown."""
        head = [f"| {' | '.join(self.columns)} |", "|" + "---|" * len(self.columns)]
        rows = [f"| {' | '.join(_cell(row.get(name)) for name in self.columns)} |" for row in self.rows]
        return "\n".join([self.title, "", *head, *rows, "", *(f"- {note}" for note in self.notes), ""])

    def write(self, directory: Path, about: Mapping[str, Any]) -> list[Path]:
        """Write NAME.json, NAME.md and, if there is a drawing, NAME.svg; return their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        data = {**about, "name": self.name, "title": self.title, "rows": self.rows, "notes": self.notes}
        texts = {"json": json.dumps(data, indent=1, default=str) + "\n", "md": self.as_table()}
        if self.axes is not None:
            texts["svg"] = as_svg(self.lines, title=self.title, **self.axes)
        paths = [directory / f"{self.name}.{ending}" for ending in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if abs(value) >= MANY or value == int(value) else f"{value:.3g}"
    return "-" if value is None else str(value)
