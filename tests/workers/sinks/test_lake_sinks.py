"""Sinks of Delta and Iceberg: the laws of sinks, the columns, and existing tables."""

import json
import shutil
import sqlite3
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.errors import DgsError, OutputUnwritableError
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.testing import check_sink
from dgs.workers.sinks.custom_sink import Generation
from dgs.workers.sinks.files.owned import locked
from dgs.workers.sinks.files.publishing import LOCK
from dgs.workers.sinks.lake.contract import is_damage, lake_errors
from dgs.workers.sinks.lake.lake_sink import lake_sink

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("deltalake.exceptions")
catalogs = pytest.importorskip("pyiceberg.catalog")

PROGRAM = """
import dgs

class Sums(dgs.Program):
    def init(self): return 0
    def update(self, total, event, emit):
        total += event.payload["n"]
        for number in range(event.payload["outputs"]): emit({**RECORD, "total": total, "number": number})
        return total

RECORD = {}
"""
PLAN = """
version: 1
name: sums
program: {{ref: "program.py:Sums"}}
streams:
  - {{id: a, tags: {{kind: a}}, source: {{memory: a}}}}
  - {{id: b, tags: {{kind: b, key: {{column: n}}}}, source: {{memory: b}}}}
runtime: {{kind: local}}
{checkpoint}
sinks: [{sink}]
"""
EACH_LAKE = pytest.mark.parametrize("kind", ["delta", "iceberg"])


def read(place: Path, kind: str, table: str = "outputs", **version) -> pa.Table:
    """Return the rows of a table, as an independent reader sees them."""
    if kind == "delta":
        return deltalake.DeltaTable(str(place), **version).to_pyarrow_table()
    return iceberg(place, table).scan(**version).to_arrow()


def iceberg(place: Path, table: str = "outputs"):
    uri = f"sqlite:///{place.absolute()}/catalog.db"
    return catalogs.load_catalog("dgs", type="sql", uri=uri).load_table(("default", table))


def events(kind, numbers, outputs=2):
    return [(kind, 10 * n, {"n": n, "outputs": outputs}) for n in numbers]


class Project:
    """A plan file with a program, in a folder of its own."""

    def __init__(self, folder: Path, sink: str, *, checkpoint: str = "", record: str = "{}") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(PROGRAM.replace("RECORD = {}", f"RECORD = {record}"))
        (folder / "plan.yaml").write_text(PLAN.format(sink=sink, checkpoint=checkpoint))

    def run(self, a=range(3), b=range(4), **options):
        streams = {"a": events("a", a), "b": [(("b", p["n"]), ts, p) for _, ts, p in events("b", b)]}
        return dgs.run(self.folder / "plan.yaml", streams=streams, fresh=True, **options)


def sink(kind: str, options: str = "") -> str:
    return f"{{{kind}: {{path: lake{options}}}}}"


@pytest.mark.slow
@EACH_LAKE
def test_lakes_keep_the_laws_of_sinks(tmp_path, kind):
    def make():
        return lake_sink(kind, {"path": "lake"}, tmp_path)

    def values():
        there = (tmp_path / "lake").is_dir()
        rows = read(tmp_path / "lake", kind) if there else pa.table({"value": []})
        return rows["value"].to_pylist() if "value" in rows.column_names else []

    check_sink(make, values, ordered=False)


@EACH_LAKE
def test_rows_are_the_outputs_with_their_ids(tmp_path, kind):
    project = Project(tmp_path, sink(kind))
    run = project.run()
    names = ("ts", "stream", "seq", "kind", "key", "index")
    rows = read(tmp_path / "lake", kind)
    found = zip(*(rows[name].to_pylist() for name in (*names, "total", "number")), strict=True)
    emitted, total = [], 0
    ordered = sorted([(10 * n, 0, "a", n) for n in range(3)] + [(10 * n, 1, "b", n) for n in range(4)])
    for ts, _, stream, n in ordered:
        total += n
        key = str(n) if stream == "b" else None
        emitted += [(ts, stream, n, stream, key, index, total, index) for index in range(2)]
    assert sorted(found, key=repr) == sorted(emitted, key=repr)
    assert len(run.outputs) == len(emitted)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "spark"])
@pytest.mark.parametrize("value", ["a record", "a number"])
def test_files_have_the_ids_of_outputs_on_request(tmp_path, kind, value):
    options = "{path: out, identity: {index: null, stream: null, epoch: null, ts: at}}"
    project = Project(tmp_path, f"{{{kind}: {options}}}", record="{'x': 'text'}")
    if value == "a number":
        program = tmp_path / "program.py"
        program.write_text(
            program.read_text().replace('emit({**RECORD, "total": total, "number": number})', "emit(total)")
        )
    project.run(a=[1, 2], b=[2])
    (file,) = (tmp_path / "out").glob(f"part-*.{'parquet' if kind == 'spark' else kind}")
    if kind == "jsonl":
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    else:
        rows = (pyarrow.csv.read_csv(file) if kind == "csv" else pq.read_table(file)).to_pylist()
    said = [{name: row[name] for name in ("at", "seq", "kind")} for row in rows]
    places = [(10, 0, "a"), (20, 1, "a"), (20, 0, "b")]
    assert said == [{"at": ts, "seq": n, "kind": name} for ts, n, name in places for _ in range(2)]
    assert [str(row["key"] or "") for row in rows] == [""] * 4 + ["2"] * 2
    totals = [row["total" if value == "a record" else "value"] for row in rows]
    assert totals == [1, 1, 3, 3, 5, 5]


@EACH_LAKE
def test_columns_of_the_identity_may_have_other_names_or_be_left_out(tmp_path, kind):
    Project(tmp_path, sink(kind, ", identity: {ts: at, index: null, stream: null}")).run()
    assert read(tmp_path / "lake", kind).column_names == [
        "at",
        "seq",
        "kind",
        "key",
        "epoch",
        "total",
        "number",
    ]


@EACH_LAKE
def test_a_table_for_each_kind(tmp_path, kind):
    project = Project(tmp_path, sink(kind, ", by: kind, identity: [kind]"))
    for repeat in (1, 2):  # the second run replaces the first
        project.run(a=range(3 * repeat))
        for name, rows in (("a", 6 * repeat), ("b", 8)):
            place = tmp_path / "lake" / name if kind == "delta" else tmp_path / "lake"
            assert set(read(place, kind, f"outputs_{name}")["kind"].to_pylist()) == {name}
            assert len(read(place, kind, f"outputs_{name}")) == rows


def by_others(place: Path, kind: str) -> list[dict]:
    """Return the rows as Polars reads them, and check that DuckDB reads as many."""
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    if kind == "delta":
        rows = polars.scan_delta(str(place)).collect()
        found = deltalake.DeltaTable(str(place)).to_pyarrow_dataset()
    else:
        with warnings.catch_warnings(action="ignore"):  # that a plug-in would be quicker
            rows = polars.scan_iceberg(iceberg(place)).collect()
        found = iceberg(place).scan().to_arrow()
    with duckdb.connect() as database:
        database.register("found", found)
        assert database.sql("SELECT count(*) FROM found").fetchall() == [(len(rows),)]
    return rows.to_dicts()


@EACH_LAKE
def test_files_of_a_partitioned_table_have_one_partition_each_and_readers_find_all_rows(tmp_path, kind):
    record = "{'day': None}"
    Project(tmp_path / "whole", sink(kind, ", columns: {day: str}"), record=record).run()
    options = ", columns: {day: str}, partition_by: [kind, key, day]"
    project = Project(tmp_path / "divided", sink(kind, options), record=record)
    for _ in range(2):  # the second run replaces the first
        project.run()
    place = tmp_path / "divided" / "lake"
    rows = read(place, kind).to_pylist()
    wanted = read(tmp_path / "whole" / "lake", kind).to_pylist()
    assert sorted(map(repr, rows)) == sorted(
        repr({name: row.get(name) for name in rows[0]}) for row in wanted
    )
    assert sorted(map(repr, by_others(place, kind))) == sorted(map(repr, rows))
    found = [pq.read_table(path, partitioning=None).to_pylist() for path in place.rglob("part-*.parquet")]
    assert {len({(row["kind"], row["key"]) for row in file}) for file in found} == {1}
    table = lake_sink(kind, {"path": "lake"}, place.parent)._table("")
    assert table.partitions() == ["kind", "key", "day"]


@EACH_LAKE
def test_a_table_with_other_partitions_is_refused_where_rows_are_added(tmp_path, kind):
    Project(tmp_path, sink(kind, ", partition_by: [kind]")).run()
    with pytest.raises(DgsError) as caught:
        Project(tmp_path, sink(kind, ", mode: append")).run()
    assert caught.value.code == "DGS580"
    assert "is partitioned by kind, and the sink says nothing" in str(caught.value)
    Project(tmp_path, sink(kind, ", mode: append, partition_by: [kind]")).run(a=range(1))
    assert len(read(tmp_path / "lake", kind)) == 24
    Project(tmp_path, sink(kind, ", partition_by: [epoch, stream]")).run()
    assert len(read(tmp_path / "lake", kind)) == 14


@EACH_LAKE
def test_a_host_with_many_partitions_has_few_open_files(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("dgs.workers.sinks.lake.data_files.MOST_OPEN", 2)
    monkeypatch.setattr("dgs.workers.sinks.lake.data_files.ROWS_PER_BLOCK", 2)
    keys = [0, 1, 2, 0, 1, 3]
    project = Project(tmp_path, sink(kind, ", partition_by: [key]"))
    streams = {"a": [], "b": [(("b", key), ts, {"n": 1, "outputs": 2}) for ts, key in enumerate(keys)]}
    dgs.run(project.folder / "plan.yaml", streams=streams)
    rows = read(tmp_path / "lake", kind).sort_by([("seq", "ascending"), ("index", "ascending")])
    assert rows["key"].to_pylist() == [str(key) for key in keys for _ in range(2)]
    assert rows["total"].to_pylist() == [total for total in range(1, 7) for _ in range(2)]


@EACH_LAKE
def test_a_new_run_replaces_the_rows_of_the_same_job_or_appends(tmp_path, kind):
    project = Project(tmp_path, sink(kind))
    project.run()
    project.run(a=range(1))
    assert len(read(tmp_path / "lake", kind)) == 10
    Project(tmp_path, sink(kind, ", mode: append"), record="{'more': 'x'}").run(a=range(1))
    rows = read(tmp_path / "lake", kind)
    assert sorted(rows["more"].to_pylist(), key=repr) == ["x"] * 10 + [None] * 10


@EACH_LAKE
def test_a_replaced_table_has_the_columns_of_the_new_run(tmp_path, kind):
    Project(tmp_path, sink(kind), record="{'x': 1}").run()
    Project(tmp_path, sink(kind), record="{'x': 'text'}").run()
    rows = read(tmp_path / "lake", kind)
    assert set(rows["x"].to_pylist()) == {"text"}


@EACH_LAKE
def test_a_table_of_another_writer_is_refused_and_stays(tmp_path, kind):
    Project(tmp_path / "one", sink(kind)).run()
    with pytest.raises(DgsError) as caught:
        Project(tmp_path / "two", f"{{{kind}: {{path: ../one/lake}}}}").run()
    assert caught.value.code == "DGS315"
    assert "one/plan.yaml" in str(caught.value)
    assert len(read(tmp_path / "one" / "lake", kind)) == 14
    with pytest.raises(DgsError) as caught:
        Project(tmp_path / "one", sink(kind, ", mode: error")).run()
    assert caught.value.code == "DGS314"


def test_a_table_that_dgs_did_not_make_is_refused_but_may_get_rows(tmp_path):
    deltalake.write_deltalake(str(tmp_path / "lake"), pa.table({"total": [7]}))
    with pytest.raises(DgsError) as caught:
        Project(tmp_path, sink("delta")).run()
    assert caught.value.code == "DGS312"
    Project(tmp_path, sink("delta", ", mode: append")).run(a=[], b=[1])
    assert sorted(read(tmp_path / "lake", "delta")["total"].to_pylist()) == [1, 1, 7]


@EACH_LAKE
def test_every_version_of_the_table_is_that_of_a_checkpoint(tmp_path, kind):
    sinks = [lake_sink(kind, {"path": "lake"}, tmp_path) for _ in range(2)]
    generation = Generation("0123456789", 1, 0)
    sinks[0].begin(generation)
    sinks[0].open(generation, 0)
    for epoch in (1, 2, 5):
        write(sinks[0], [f"{epoch}"] * epoch, epoch)
        sinks[1].publish([sinks[0].stage(epoch)])
    place = tmp_path / "lake"
    if kind == "delta":
        versions = {
            h.get("dgs_epoch"): {"version": h["version"]} for h in deltalake.DeltaTable(str(place)).history()
        }
    else:
        snapshots = iceberg(place).snapshots()
        versions = {s.summary["dgs_epoch"]: {"snapshot_id": s.snapshot_id} for s in snapshots}
    for epoch, values in (("1", ["1"]), ("2", ["1", "2", "2"]), ("5", ["1", "2", "2", *["5"] * 5])):
        assert sorted(read(place, kind, **versions[epoch])["value"].to_pylist()) == values


def write(sink, values, epoch):
    from dgs.model.outputs import OutputBatch
    from dgs.model.tags import Tag

    n = range(len(values))
    sink.write(
        OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[*n], seq=[*n], index=[0] * len(n), values=values),
        epoch,
    )


def staged_by(folder, kind, generation, *hosts, epoch=1, **config):
    """Let each host write values and stage them; return the results."""
    found = []
    for number, values in enumerate(hosts):
        one = lake_sink(kind, {"path": "lake", **config}, folder)
        one.open(generation, number)
        write(one, values, epoch)
        found.append(one.stage(epoch))
    return found


@EACH_LAKE
@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ([1, 2], [0.5], [0.5, 1.0, 2.0]),
        ([1], ["x"], ["1", "x"]),
        ([True], [(1, 2)], ["[1,2]", "true"]),
        ([{"a": 1}], [{"a": 2, "b": None}], [1, 2]),
    ],
)
def test_hosts_that_find_other_types_write_one_column(tmp_path, kind, one, other, wanted):
    driver = lake_sink(kind, {"path": "lake"}, tmp_path)
    generation = Generation("0123456789", 1, 0)
    driver.begin(generation)
    driver.publish(staged_by(tmp_path, kind, generation, one, other))
    rows = read(tmp_path / "lake", kind)
    column = "a" if "a" in rows.column_names else "value"
    assert sorted(rows[column].to_pylist()) == wanted


@EACH_LAKE
def test_a_value_that_does_not_fit_its_column_is_an_error_before_the_commit(tmp_path, kind):
    driver = lake_sink(kind, {"path": "lake"}, tmp_path)
    generation = Generation("0123456789", 1, 0)
    driver.begin(generation)
    driver.publish(staged_by(tmp_path, kind, generation, [1]))
    driver.publish(staged_by(tmp_path, kind, generation, [2.0], epoch=2))
    with pytest.raises(DgsError) as caught:
        staged_by(tmp_path, kind, generation, [2.5], epoch=3)
    assert caught.value.code == "DGS318"
    assert "columns: {value: str}" in str(caught.value)
    assert sorted(read(tmp_path / "lake", kind)["value"].to_pylist()) == [1, 2]


@EACH_LAKE
def test_declared_columns_have_their_types(tmp_path, kind):
    driver = lake_sink(kind, {"path": "lake", "columns": {"value": "float"}}, tmp_path)
    generation = Generation("0123456789", 1, 0)
    driver.begin(generation)
    driver.publish(staged_by(tmp_path, kind, generation, [1], columns={"value": "float"}))
    assert read(tmp_path / "lake", kind)["value"].to_pylist() == [1.0]


def test_a_record_with_a_column_of_ours_is_refused(tmp_path):
    with pytest.raises(DgsError) as caught:
        Project(tmp_path, sink("delta"), record="{'ts': 1}").run()
    assert caught.value.code == "DGS317"
    assert "identity: {ts: output_ts}" in str(caught.value)
    Project(tmp_path, sink("delta", ", identity: {ts: at}"), record="{'ts': 1}").run()


@EACH_LAKE
@pytest.mark.parametrize("record", ["{'x': 1, 'X': 2}", "{'TS': 1}"])
def test_columns_whose_names_differ_only_in_case_are_refused(tmp_path, kind, record):
    with pytest.raises(DgsError) as caught:
        Project(tmp_path, sink(kind), record=record).run()
    assert caught.value.code == "DGS319"


STOPPING = "checkpoint: {every: 10ms, dir: kept}"


@EACH_LAKE
@pytest.mark.parametrize(
    "damage",
    [
        "removed table",
        "removed file",
        "short file",
        "flipped bit",
        "flipped log",
        "set back",
        "ahead",
        "unreadable",
    ],
)
def test_a_resumed_run_checks_its_table(tmp_path, kind, damage):
    project = Project(tmp_path, sink(kind), checkpoint=STOPPING)
    project.run()
    one = lake_sink(kind, {"path": "lake"}, tmp_path)
    run = _run_of(tmp_path / "lake", kind)
    epoch = one.last_epoch(run)
    one.check_kept(run, epoch)
    file = next((tmp_path / "lake").rglob("part-*.parquet"))
    if damage == "removed table":
        _remove_table(tmp_path / "lake", kind)
    elif damage == "removed file":
        file.unlink()
    elif damage == "short file":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "flipped bit":
        _flip(file, 40)
    elif damage == "flipped log":
        _flip(_newest_log(tmp_path / "lake", kind), -40)
    elif damage == "set back":
        names = file.parent / ".dgs-written"
        names.write_text(names.read_text().replace(f'"epoch": {epoch}', f'"epoch": {epoch + 1}'))
    elif damage == "ahead":
        epoch -= 1
    else:
        _newest_log(tmp_path / "lake", kind).write_text("{")
    with pytest.raises(DgsError) as caught:
        lake_sink(kind, {"path": "lake"}, tmp_path).check_kept(run, epoch)
    assert caught.value.code == "DGS612"


@EACH_LAKE
@pytest.mark.parametrize("by", [{}, {"by": "kind"}])
@pytest.mark.parametrize("damage", ["removed table", "unreadable"])
def test_a_table_that_was_damaged_before_a_commit_is_published_is_refused(tmp_path, kind, by, damage):
    """A resumed run first publishes the commits of an earlier process."""
    one = lake_sink(kind, {"path": "lake", **by}, tmp_path)
    generation = Generation("0" * 32, 1, 0)
    one.begin(generation)
    one.publish(staged_by(tmp_path, kind, generation, [1], **by))
    staged = staged_by(tmp_path, kind, generation, [2], epoch=2, **by)
    place, name = tmp_path / "lake", "outputs_a" if by else "outputs"
    table = place / "a" if by and kind == "delta" else place
    if damage == "removed table":
        _remove_table(table, kind)
    else:
        _newest_log(table, kind, name).write_text("{")
    with pytest.raises(DgsError) as caught:
        lake_sink(kind, {"path": "lake", **by}, tmp_path).publish(staged)
    assert caught.value.code == "DGS612"


@EACH_LAKE
def test_a_new_run_refuses_a_table_that_cannot_be_read(tmp_path, kind):
    Project(tmp_path, sink(kind), checkpoint=STOPPING).run()
    _newest_log(tmp_path / "lake", kind).write_text("{")
    with pytest.raises(DgsError) as caught:
        lake_sink(kind, {"path": "lake"}, tmp_path).check_free()
    assert (caught.value.code, caught.value.exit_code) == ("DGS312", 3)


def locked_database():
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ValueError("bad JSON"), True),
        (FileNotFoundError(2, "No such file or directory"), True),
        (OSError("Couldn't deserialize thrift"), True),
        (OSError("Unable to open file: No such file or directory (os error 2)"), True),
        (OSError("Unable to open file: Permission denied (os error 13)"), False),
        (PermissionError(13, "Permission denied"), False),
        (OSError(28, "No space left on device"), False),
        (ConnectionError("the catalog does not answer"), False),
        (locked_database(), False),
        (deltalake.exceptions.CommitFailedError("another writer"), False),
    ],
    ids=lambda value: value if isinstance(value, bool) else f"{type(value).__name__}: {value}",
)
def test_damage_is_distinguished_from_errors_of_the_system(error, wanted):
    with pytest.raises(OutputUnwritableError) as caught, lake_errors("lake"):
        raise error
    assert is_damage(caught.value) is wanted


def _flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def _newest_log(place: Path, kind: str, table: str = "outputs") -> Path:
    if kind == "delta":
        return max((place / "_delta_log").glob("*.json"))
    return Path(iceberg(place, table).metadata_location.removeprefix("file://"))


@EACH_LAKE
def test_a_file_that_rots_before_its_commit_is_refused(tmp_path, kind):
    one = lake_sink(kind, {"path": "lake"}, tmp_path)
    generation = Generation("0" * 32, 1, 0)
    one.begin(generation)
    one.open(generation, 0)
    one.write(OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5], seq=[0], index=[0], values=[{"n": 1}]), 1)
    staged = one.stage(1)
    _flip(next((tmp_path / "lake").rglob("part-*.parquet")), 40)
    with pytest.raises(DgsError, match="gone or damaged"):
        one.publish([staged])


@pytest.mark.parametrize("way", [shutil.move, shutil.copytree])
def test_an_iceberg_table_in_another_place_than_it_was_made_is_refused(tmp_path, way):
    project = Project(tmp_path, sink("iceberg"), checkpoint=STOPPING)
    project.run()
    way(tmp_path / "lake", tmp_path / "other")
    with pytest.raises(DgsError, match="cannot be moved or copied") as caught:
        lake_sink("iceberg", {"path": "other"}, tmp_path).check_free()
    assert caught.value.code == "DGS612"


def _run_of(place: Path, kind: str) -> str:
    if kind == "delta":
        return deltalake.DeltaTable(str(place)).history()[0]["dgs_run"]
    return iceberg(place).current_snapshot().summary["dgs_run"]


def _remove_table(place: Path, kind: str) -> None:
    if kind == "delta":
        for path in (place / "_delta_log").iterdir():
            path.unlink()
    else:
        with sqlite3.connect(place / "catalog.db") as db:
            db.execute("DELETE FROM iceberg_tables")


SLOW = """
import time
from pathlib import Path

import dgs

class Sums(dgs.Program):
    def init(self): return 0
    def update(self, total, event, emit):
        time.sleep(0.001)  # so that checkpoints are due
        if event.ts == 150:
            Path("begun").touch()
            while Path("waits").exists(): time.sleep(0.01)
            if Path("broken").exists(): raise ValueError
        emit({"total": total + event.payload})
        return total + event.payload
"""
NUMBERS = [("a", ts, ts) for ts in range(300)]
TOTALS = list(accumulate(range(300)))


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Return a function that writes the plan file of a program with many checkpoints, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def write(name, kind, options=""):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "program.py").write_text(SLOW)
        plan = PLAN.format(
            sink=f"{{{kind}: {{path: ../lake{options}}}}}", checkpoint="checkpoint: {every: 20ms, keep: 100}"
        )
        (folder / "plan.yaml").write_text(
            "".join(line for line in plan.splitlines(keepends=True) if "id: b" not in line)
        )
        return folder / "plan.yaml"

    return write


def run_slow(plan, **options):
    settings = {"runtime.batch_rows": 10}
    return dgs.run(plan, streams={"a": NUMBERS}, run_dir=plan.parent / "run", settings=settings, **options)


def versions_of(place, kind):
    """Return the name of the version of each epoch, in order."""
    if kind == "delta":
        known = {
            int(entry.get("dgs_epoch", 0)): entry for entry in deltalake.DeltaTable(str(place)).history()
        }
        found = {epoch: {"version": entry["version"]} for epoch, entry in known.items()}
    else:
        found = {
            int(snapshot.summary["dgs_epoch"]): {"snapshot_id": snapshot.snapshot_id}
            for snapshot in iceberg(place).snapshots()
        }
    return {epoch: found[epoch] for epoch in sorted(found) if epoch}


@pytest.mark.parametrize("options", ["", ", partition_by: [epoch, kind]"])
@EACH_LAKE
def test_the_version_of_each_epoch_has_the_outputs_of_the_events_up_to_it(tmp_path, slow, kind, options):
    run_slow(slow("one", kind, options))
    versions, before = versions_of(tmp_path / "lake", kind), 0
    assert len(versions) > 3
    for epoch, version in versions.items():
        rows = read(tmp_path / "lake", kind, **version).sort_by("seq")
        assert rows["total"].to_pylist() == TOTALS[: len(rows)]
        assert max(rows["epoch"].to_pylist()) == epoch
        assert len(rows) > before
        before = len(rows)
    assert before == len(TOTALS)


def test_a_filter_on_epochs_or_times_passes_over_the_files_of_others(tmp_path, slow):
    run_slow(slow("one", "delta"))
    table = deltalake.DeltaTable(str(tmp_path / "lake"))
    found, files = table.to_pyarrow_dataset(), len(table.file_uris())
    assert files > 3
    for chosen in (
        pc.field("epoch") == 2,
        pc.field("ts") < 20,
        (pc.field("kind") == "none") | (pc.field("seq") > 250),
    ):
        assert len(list(found.get_fragments(chosen))) < files
        assert found.to_table(filter=chosen).sort_by("seq") == found.to_table().filter(chosen).sort_by("seq")


@EACH_LAKE
def test_a_run_resumes_with_a_table_that_another_writer_has_compacted(tmp_path, slow, kind):
    plan = slow("one", kind)
    (tmp_path / "broken").touch()
    with pytest.raises(DgsError, match="ValueError"):
        run_slow(plan)
    (tmp_path / "broken").unlink()
    if kind == "delta":
        table = deltalake.DeltaTable(str(tmp_path / "lake"))
        assert table.optimize.compact()["numFilesRemoved"] > 1
        assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    else:
        iceberg(tmp_path / "lake").overwrite(read(tmp_path / "lake", kind))
    dgs.resume(plan.parent / "run", streams={"a": NUMBERS})
    rows = read(tmp_path / "lake", kind).sort_by("seq")
    assert rows["total"].to_pylist() == TOTALS


@EACH_LAKE
def test_a_second_run_is_refused_while_the_first_writes_to_the_table(tmp_path, slow, kind):
    one, two = slow("one", kind), slow("two", kind, ", mode: append")
    (tmp_path / "waits").touch()
    running = threading.Thread(target=run_slow, args=[one])
    running.start()
    try:
        patience = time.monotonic() + 240
        while not (tmp_path / "begun").exists() and time.monotonic() < patience:
            time.sleep(0.01)
        with pytest.raises(DgsError, match=f"to {kind} {tmp_path / 'lake'}.*: another run is writing to it"):
            run_slow(two)
    finally:
        (tmp_path / "waits").unlink()
        running.join()
    assert sorted(read(tmp_path / "lake", kind)["total"].to_pylist()) == TOTALS


@pytest.mark.parametrize(
    ("first", "second"), [("delta", "parquet"), ("parquet", "delta"), ("spark", "delta")]
)
def test_a_delta_table_and_files_of_parquet_are_not_mixed(tmp_path, first, second):
    Project(tmp_path, sink(first)).run()
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    with pytest.raises(DgsError, match=r"part-.*\.parquet") as caught:
        Project(tmp_path, sink(second)).run()
    assert caught.value.code == "DGS312"
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(DgsError, match="write to the same"):
        Project(tmp_path, f"{sink(first)}, {sink(second)}").run()


def test_a_delta_table_is_not_begun_while_a_run_writes_files_there(tmp_path):
    (tmp_path / "lake").mkdir()
    with (
        locked(tmp_path / "lake" / LOCK, of=tmp_path),
        pytest.raises(DgsError, match="another run is writing"),
    ):
        Project(tmp_path, sink("delta")).run()
    Project(tmp_path, sink("delta")).run()
    assert not (tmp_path / "lake" / LOCK).exists()


@EACH_LAKE
def test_times_without_a_zone_stay_without_one(tmp_path, kind):
    noon = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - that is the point
    there = timezone(timedelta(hours=2))
    driver, generation = lake_sink(kind, {"path": "lake"}, tmp_path), Generation("0123456789", 1, 0)
    driver.begin(generation)
    values = [{"plain": noon, "aware": noon.replace(tzinfo=there)}]
    driver.publish(staged_by(tmp_path, kind, generation, values))
    [row] = read(tmp_path / "lake", kind).to_pylist()
    assert (row["plain"], row["aware"]) == (noon, datetime(2026, 1, 1, 10, tzinfo=UTC))
    assert row["plain"].tzinfo is None


def test_two_sinks_of_one_table_and_a_source_that_reads_it_are_refused(tmp_path):
    with pytest.raises(DgsError) as caught:
        Project(tmp_path, "{delta: {path: lake}}, {delta: {path: ./lake}}").run()
    assert caught.value.code == "DGS316"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (", identity: {ts: key}", "two columns would have the name 'key'"),
        (", columns: {seq: str}", "two columns would have the name 'seq'"),
        (", identity: [tss]", "identity"),
        (", by: key", "kind"),
        (", identity: {nr: x}", "identity"),
        (", partition_by: [day]", "'day', and its type is not known: give it"),
        (", columns: {at: datetime}, partition_by: [at]", "'at', and its type is datetime"),
    ],
)
def test_mistakes_in_the_section_are_reported(tmp_path, options, said):
    with pytest.raises(DgsError, match=said):
        Project(tmp_path, sink("delta", options)).run()
