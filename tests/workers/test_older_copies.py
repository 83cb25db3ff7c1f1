"""An older copy in the place of a sink is whole and consistent, and a run that goes on from it would lose outputs: it is refused."""

import json
import shutil
import sqlite3
from contextlib import closing

import deltalake
import pytest
from pyiceberg.catalog import load_catalog

import dgs
from dgs.errors import CheckpointError
from tests.workers.damaging import found_in, killed_in_an_epoch, right, write_project

SINK = """\
import json
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

from dgs.connectors import OutputsChangedError, Sink


class Table(Sink):
    def __init__(self):
        self.path, self.values = Path(__file__).with_name("own.db"), {}

    def begin(self, generation):
        with self.database() as db:
            db.execute("CREATE TABLE IF NOT EXISTS parts (epoch, part PRIMARY KEY, content, is_visible)")
            found = db.execute("SELECT coalesce(max(epoch), 0) FROM parts WHERE is_visible").fetchone()[0]
            if found < generation.held:
                raise OutputsChangedError(where=self.path, problem=f"epoch {found}, not {generation.held}")
            db.execute("DELETE FROM parts WHERE NOT is_visible")

    def open(self, generation, host):
        self.name = f"{generation.number}-{host}"

    def write(self, batch, epoch):
        self.values.setdefault(epoch, []).extend(batch.to_list())

    def stage(self, epoch):
        if epoch not in self.values:
            return None
        part, content = f"{self.name}-{epoch}", json.dumps(self.values.pop(epoch))
        with self.database() as db:
            db.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, 0)", [epoch, part, content])
        return part

    def publish(self, staged):
        with self.database() as db:
            db.executemany("UPDATE parts SET is_visible = 1 WHERE part = ?", [(part,) for part in staged])

    @contextmanager
    def database(self):
        with closing(sqlite3.connect(self.path)) as db, db:
            yield db
"""
MORE = """\
{delta: {path: out/delta}}, {delta: {path: out/kinds, by: kind}}, {iceberg: {path: out/iceberg}},
  {custom: {ref: "sink.py:Table"}}, {sqlite: {path: more.db, mode: append}}]"""
PLACES = {
    "out/jsonl": "jsonl",
    "out/csv": "csv",
    "out/parquet": "parquet",
    "out.db": "sqlite",
    "more.db": "appended",
    "out/delta": "delta",
    "out/kinds": "kinds",
    "out/kinds/barrier": "kinds",
    "out/iceberg": "iceberg",
    "own.db": "custom",
}


def held(folder):
    """Return what each sink holds."""
    with closing(sqlite3.connect(folder / "own.db")) as db:
        parts = db.execute("SELECT content FROM parts WHERE is_visible").fetchall()
    with closing(sqlite3.connect(folder / "more.db")) as db:
        appended = db.execute("SELECT value FROM outputs").fetchall()
    catalog = load_catalog("dgs", type="sql", uri=f"sqlite:///{folder}/out/iceberg/catalog.db")
    more = {
        "custom": [row for (content,) in parts for row in json.loads(content)],
        "appended": [json.loads(value) for (value,) in appended],
        "delta": deltalake.DeltaTable(folder / "out/delta").to_pyarrow_table().to_pylist(),
        "kinds": deltalake.DeltaTable(folder / "out/kinds/barrier").to_pyarrow_table().to_pylist(),
        "iceberg": catalog.load_table("default.outputs").scan().to_arrow().to_pylist(),
    }
    return found_in(folder) | {
        name: sorted((row["at"], row["sum"]) for row in rows) for name, rows in more.items()
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A run that was killed twice, and a copy of it between: `older`."""
    folder = tmp_path_factory.mktemp("project") / "project"
    folder.mkdir()
    write_project(folder)
    (folder / "sink.py").write_text(SINK)
    plan = folder / "plan.yaml"
    plan.write_text(plan.read_text().replace("}]\n", "}, " + MORE + "\n"))
    killed_in_an_epoch(folder, at=51)
    shutil.copytree(folder, folder.with_name("older"))
    killed_in_an_epoch(folder, at=91, goes_on=True)
    return folder


def replaced(folder, name, older):
    for path in (folder / name, folder / f"{name}-wal", folder / f"{name}-shm"):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        then = older / path.relative_to(folder)
        if then.exists():
            (shutil.copytree if then.is_dir() else shutil.copy2)(then, path)


@pytest.mark.parametrize("name", PLACES)
def test_resume_refuses_an_older_copy_of_a_sink(project, name):
    """The same directory for all, since the metadata of Iceberg names it: what was there comes back."""
    newer = project.with_name("newer")
    if not newer.exists():
        shutil.copytree(project, newer)
    replaced(project, name, project.with_name("older"))
    with pytest.raises(CheckpointError) as refused:
        dgs.resume(project / "run")
    assert refused.value.exit_code == 6
    shutil.rmtree(project)
    shutil.copytree(newer, project)


def test_resume_finds_all_in_the_sinks_as_they_were(project):
    dgs.resume(project / "run")
    outputs = right()
    assert held(project) == outputs | dict.fromkeys(
        ("custom", "appended", "delta", "kinds", "iceberg"), outputs["jsonl"]
    )
