"""A project with custom connectors. Its runs must give the outputs of `tests.dgs.recovering`.

>>> "custom" in PLAN
True
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.dgs import recovering
from tests.dgs.projects import write_files

CONNECTORS = '''\
"""Tables of ts and amount, read seven rows at a time; sinks that write lines of JSON. `reads.txt` says where objects began to read."""
import csv
import json
import sqlite3
from pathlib import Path

from dgs import codec
from dgs.connectors import FencedError, Sink, Source, ids, resume_point

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


class Folder(Sink):
    """A file for each epoch and host, with a name of its own once it is committed."""

    def __init__(self, name):
        self.folder, self.lines = HERE / name, {}

    def begin(self, generation):
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*" if generation.epoch == 0 else "*.draft"):
            path.unlink()

    def open(self, generation, host):
        self.name = f"{generation.number}-{host}"

    def write(self, batch, epoch):
        self.lines.setdefault(epoch, []).extend(map(json.dumps, batch.to_list()))

    def stage(self, epoch):
        lines = self.lines.pop(epoch, [])
        if not lines:
            return None
        name = f"{epoch:06}-{self.name}"
        (self.folder / f"{name}.draft").write_text("".join(line + "\\n" for line in lines))
        return name

    def publish(self, staged):
        for name in staged:
            if (self.folder / f"{name}.draft").exists():
                (self.folder / f"{name}.draft").rename(self.folder / f"{name}.jsonl")


class Rows(Sink):
    """A table whose rows are there at once, each once: the id of an output is its key."""

    def __init__(self, name):
        self.path = HERE / name

    def begin(self, generation):
        with sqlite3.connect(self.path) as db:
            db.execute("CREATE TABLE IF NOT EXISTS outputs (stream, seq, idx, value, PRIMARY KEY (stream, seq, idx))")
            if generation.epoch == 0:
                db.execute("DELETE FROM outputs")

    def write(self, batch, epoch):
        rows = [(*one, json.dumps(value)) for one, value in zip(ids(batch), batch.to_list(), strict=True)]
        with sqlite3.connect(self.path, timeout=60) as db:
            db.executemany("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", rows)

    def stage(self, epoch):
        return None


class States:
    """A folder for each run with two files: the number of the last generation, and the last checkpoint."""

    def __init__(self, name):
        self.folder = HERE / name

    def for_run(self, run):
        self.folder /= run
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, name):
        path = self.folder / name
        return codec.decode(path.read_bytes()) if path.exists() else None

    def write(self, name, value):
        draft = self.folder / f"{name}.draft"
        draft.write_bytes(codec.encode(value))
        draft.replace(self.folder / name)

    def begin(self):
        self.generation = (self.read("generation") or 0) + 1
        self.write("generation", self.generation)
        return resume_point(self.generation, *[self.read("newest")] * 2)

    def commit(self, checkpoint):
        newest = self.read("generation")
        if newest != self.generation:
            raise FencedError(path=self.folder, generation=self.generation, newest=newest)
        self.write("newest", checkpoint)

    def close(self):
        pass
'''


def plan(text: str = recovering.PLAN) -> str:
    """Return a plan file with all its sources read by `Table`."""
    return re.sub(
        r"\{csv: \{path: (\w+)\.csv\}\}", r'{custom: {ref: "connectors.py:Table", args: {name: \1}}}', text
    )


PLAN = plan()
SINKS = """\
sinks:
  - custom: {ref: "connectors.py:Folder", args: {name: folder}}
  - custom: {ref: "connectors.py:Rows", args: {name: rows.db}}
  - jsonl: {path: out}
"""
"""In place of the last line of `PLAN`."""


STORE = 'checkpoint: {every: 50ms, dir: saved, custom: {ref: "connectors.py:States", args: {name: states}}}\n'
"""In place of `recovering.CHECKPOINT`: states are in a store of the user's."""


def with_sinks(text: str = PLAN) -> str:
    """Return a plan file with custom sinks beside its own."""
    return text.replace("sinks: [{jsonl: {path: out}}]\n", SINKS)


def in_folder(folder: Path) -> list[Any]:
    """Return what `Folder` has published, sorted, as `recovering.committed` does."""
    lines = [
        line for path in sorted((folder / "folder").glob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    return sorted(map(json.loads, lines))


def in_rows(folder: Path) -> list[Any]:
    """Return what is in the table of `Rows`, sorted."""
    with closing(sqlite3.connect(folder / "rows.db")) as db:
        return sorted(json.loads(value) for (value,) in db.execute("SELECT value FROM outputs"))


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
