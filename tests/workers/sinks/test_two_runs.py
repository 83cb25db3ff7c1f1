"""Two runs on one sink: the second is refused while the first runs, and the first loses nothing."""

import json
import threading
import time
from itertools import product

import pytest

import dgs
from dgs.errors import OutputUnwritableError
from dgs.workers.sinks.opening import OutputIsInputError, SharedOutputError
from tests.workers.sinks.test_output_modes import amounts

SINKS = """\
import json
from pathlib import Path


class Lines:
    def __init__(self, path):
        self.path, self.lines = Path(path), []

    def write(self, batch, epoch):
        self.lines += batch.to_list()

    def stage(self, epoch):
        with self.path.open("a") as file:
            file.writelines(json.dumps(line) + "\\n" for line in self.lines)
        self.lines.clear()


class Named(Lines):
    def place(self):
        return str(self.path.resolve())
"""
PROGRAM = """\
import time
from pathlib import Path

import dgs

HERE = Path(__file__).parent
VALUE = dgs.kind("value")


class Echo(dgs.Program):
    depends = dgs.Dependence((VALUE, VALUE, dgs.ALWAYS))

    def __init__(self, waits):
        self.waits = waits

    def init(self):
        return None

    def update(self, state, event, emit):
        (HERE / "begun").touch()
        while self.waits and not (HERE / "go").exists():
            time.sleep(0.01)
        emit({"ts": event.ts, "amount": event.payload})
        return state
"""
PLAN = """\
version: 1
name: echo
program: {ref: "program.py:Echo", args: {waits: WAITS}}
streams:
  - id: values
    tags: {kind: value}
    source: {jsonl: {path: values}}
    payload: amount
runtime: {kind: local}
sinks: [SINK]
"""
FILES = {kind: f"{{{kind}: {{path: out, mode: MODE}}}}" for kind in ("jsonl", "csv", "parquet", "spark")}
TABLE = ["{sqlite: {path: out.db, mode: MODE}}", "{sqlite: {path: link.db, mode: MODE}}"]
CUSTOM = '{custom: {ref: "sinks.py:Lines", args: {path: ABSOLUTE/lines}}}'
NAMED = [
    '{custom: {ref: "sinks.py:Named", args: {path: ABSOLUTE/lines}}}',
    '{custom: {ref: "sinks.py:Named", args: {path: ABSOLUTE/../PARENT/lines}}}',
]
ALIASES = ["link", "./out/.", "nested/../out", "../PARENT/out", "ABSOLUTE/out"]
"""Other names of the directory `out`."""
NAMED_OTHERWISE = [
    *((FILES["jsonl"], FILES["csv"].replace("out", alias)) for alias in ALIASES),
    *((TABLE[0], TABLE[0].replace("out", alias)) for alias in ALIASES[2:]),
]
PAIRS = [
    *product(FILES.values(), FILES.values()),
    *product(TABLE, TABLE),
    *NAMED_OTHERWISE,
    (CUSTOM, CUSTOM),
    tuple(NAMED),
]


@pytest.fixture
def plan(tmp_path):
    """Return a function that writes a plan file with a sink."""
    values = "".join(f'{{"ts": {value}, "amount": {value}}}\n' for value in (1, 2))
    for name, text in {"program.py": PROGRAM, "sinks.py": SINKS, "values": values}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link.db").symlink_to(tmp_path / "out.db")
    (tmp_path / "nested").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out", target_is_directory=True)

    def write(name, sink, *, waits=False, mode="append"):
        sink = sink.replace("MODE", mode).replace("ABSOLUTE", str(tmp_path)).replace("PARENT", tmp_path.name)
        (tmp_path / name).write_text(PLAN.replace("SINK", sink).replace("WAITS", str(waits).lower()))
        return tmp_path / name

    return write


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_second_run_is_refused_and_the_first_loses_nothing(plan, tmp_path, first, second):
    one, two = plan("one.yaml", first, waits=True), plan("two.yaml", second)
    done = []
    running = threading.Thread(target=lambda: done.append(dgs.run(one)))
    running.start()
    try:
        patience = time.monotonic() + 240
        while not (tmp_path / "begun").exists() and time.monotonic() < patience:
            time.sleep(0.01)
        with pytest.raises(OutputUnwritableError, match="another run is writing to it"):
            dgs.run(two)
    finally:
        (tmp_path / "go").touch()
        running.join()
    assert [row["amount"] for row in done[0].outputs] == [1, 2]
    if "custom" in first:
        assert [json.loads(line)["amount"] for line in (tmp_path / "lines").read_text().splitlines()] == [
            1,
            2,
        ]
    else:
        assert amounts(tmp_path, first[1 : first.index(":")]) == [1, 2]
    dgs.run(two)
    assert [*tmp_path.glob("out/.dgs-lock"), *tmp_path.glob(".*.lock")] == []


@pytest.mark.parametrize(
    ("one", "two"), [*product(["jsonl"], ["jsonl"]), ("parquet", "spark"), ("spark", "spark")]
)
def test_two_sinks_of_a_plan_on_one_place_are_refused(plan, one, two):
    with pytest.raises(SharedOutputError, match="write to the same"):
        dgs.run(plan("plan.yaml", f"{FILES[one]}, {FILES[two]}"))


def test_two_sinks_of_a_plan_on_one_table_are_refused(plan):
    with pytest.raises(SharedOutputError, match="write to the same"):
        dgs.run(plan("plan.yaml", ", ".join(TABLE)))


@pytest.mark.parametrize("path", ["/", ".", "folder"])
def test_a_directory_is_no_database(plan, tmp_path, path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputUnwritableError, match="it is a directory, and a database is a file"):
        dgs.run(plan("plan.yaml", f"{{sqlite: {{path: {path}}}}}"))


def linked(tmp_path, how):
    """Make another name for a sink's output, and return the path for a source."""
    if how == "directory":
        (tmp_path / "alias").symlink_to(tmp_path / "out", target_is_directory=True)
        return "alias/*.jsonl"
    if how == "glob":
        return "*/part-*.jsonl"
    if how == "deep":
        return "**/*.jsonl"
    (tmp_path / "alias.jsonl").hardlink_to(tmp_path / "out" / "part-0.jsonl") if how == "hard" else (
        tmp_path / "alias.jsonl"
    ).symlink_to(tmp_path / "out" / "part-0.jsonl")
    return "alias.jsonl"


@pytest.mark.parametrize("mode", ["replace-own", "append"])
@pytest.mark.parametrize("how", ["directory", "glob", "deep", "hard", "soft"])
def test_a_source_that_reads_a_sink_by_another_name_is_refused(plan, tmp_path, how, mode):
    dgs.run(plan("plan.yaml", FILES["jsonl"], mode="replace-own"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    text = plan("plan.yaml", FILES["jsonl"], mode=mode).read_text()
    (tmp_path / "plan.yaml").write_text(
        text.replace("{path: values}", f"{{path: '{linked(tmp_path, how)}'}}")
    )
    with pytest.raises(OutputIsInputError) as refused:
        dgs.run(tmp_path / "plan.yaml", fresh=True)
    assert refused.value.exit_code == 3
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    "source", ["{csv: {path: out.db}}", "{csv: {path: 'out.*'}}", "{jsonl: {path: link.db}}"]
)
def test_a_source_that_reads_the_database_is_refused(tmp_path, source):
    from dgs.job.schema import SinkConfig, StreamConfig
    from dgs.workers.sinks.opening import check_no_collisions, targets

    (tmp_path / "out.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "out.db")
    kind = source[1 : source.index(":")]
    path = source[source.index("path: ") + 6 : -2].strip("'")
    streams = [StreamConfig(id="s", tags={"kind": "n"}, source={kind: {"path": path}})]
    sinks = [SinkConfig.model_validate({"sqlite": {"path": "out.db"}})]
    with pytest.raises(OutputIsInputError, match="'sqlite' writes into"):
        check_no_collisions(targets(sinks, output_dir=tmp_path, base_dir=tmp_path), streams, tmp_path)
