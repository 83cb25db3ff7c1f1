"""A project that reads and writes through connectors of its own; its runs must give the outputs of `tests.dgs.recovering`.

>>> "custom" in PLAN
True
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.dgs import recovering
from tests.dgs.projects import write_files

CONNECTORS = '''\
"""Tables of ts and amount, read seven rows at a time. `reads.txt` says where each object began."""
import csv
from pathlib import Path

from dgs.connectors import Source

HERE = Path(__file__).parent


class Table(Source):
    def __init__(self, name, rows=7):
        self.path, self.rows = HERE / f"{name}.csv", rows

    def read(self, after):
        with (HERE / "reads.txt").open("a") as reads:
            reads.write(f"{self.path.stem} {after}\\n")
        with self.path.open() as file:
            lines = list(csv.DictReader(file))
        for start in range(after or 0, len(lines), self.rows):
            part = lines[start : start + self.rows]
            columns = {name: [int(row[name]) for row in part] for name in part[0]}
            yield columns, start + len(part)

    def describe(self):
        return self.path.read_text()[:40]
'''


def plan(text: str = recovering.PLAN) -> str:
    """Return a plan file with all its sources read by `Table`."""
    return re.sub(
        r"\{csv: \{path: (\w+)\.csv\}\}", r'{custom: {ref: "connectors.py:Table", args: {name: \1}}}', text
    )


PLAN = plan()


def write_project(folder: Path, **options) -> None:
    """Write program, plan file, connectors and data: see `recovering.write_project`."""
    recovering.write_project(folder, **{"plan": PLAN, **options})
    write_files(folder, {"connectors.py": CONNECTORS})


def reads(folder: Path) -> list[tuple[str, str]]:
    """Return the start positions of the objects that read a stream, in order, and clear the list."""
    path = folder / "reads.txt"
    lines = path.read_text().splitlines()
    path.unlink()
    return [(stream, after) for stream, _, after in (line.partition(" ") for line in lines)]
