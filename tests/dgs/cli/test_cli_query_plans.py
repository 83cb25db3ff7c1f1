"""Plan files with `program: {query: ...}`: runs under several plans, weights, answers, and their mistakes."""

import json
from pathlib import Path

import pytest

from dgs.api.queries.stream_columns import TIMES
from dgs.job.loading import load_callable

PLAN = """\
version: 1
name: sums
program:
  query:
    file: by.sql
streams:
  - id: flights
    source: {csv: {path: flights.csv}}
    split: 2
runtime: {kind: local}
"""


@pytest.fixture
def flights(project):
    rows = [(ts, ("UA", "AA", "HA")[ts % 3], "NA" if ts % 5 == 0 else ts % 7 - 3) for ts in range(1, 40)]
    lines = [f"{ts},{carrier},{delay}" for ts, carrier, delay in rows]
    (project / "flights.csv").write_text("\n".join(["ts,carrier,delay", *lines]) + "\n")
    (project / "by.sql").write_text(
        "select carrier, count(*) n, sum(delay) s\nfrom flights group by carrier\n"
    )
    (project / "plan.yaml").write_text(PLAN)
    return project


@pytest.fixture
def answered(flights, dgs):
    def answered(line="run plan.yaml --fresh --verify --json"):
        done = dgs(line)
        assert done.code == 0, done.err
        run = json.loads(done.out.splitlines()[-1])
        files = sorted((flights / run["run_dir"] / "outputs").glob("*.jsonl"))
        return [json.loads(row) for file in files for row in file.read_text().splitlines()]

    return answered


def expected(flights, dgs):
    """Return what DuckDB says of the file as a whole."""
    return [
        json.loads(line) for line in dgs("query by.sql --from flights=flights.csv --json").out.splitlines()
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_answer_is_that_of_the_whole_file_under_any_plan(flights, dgs, answered, seed):
    found = answered(f"run plan.yaml --fresh --verify --json --optimizer random --set optimizer.seed={seed}")
    assert found == expected(flights, dgs)


def test_answers_come_at_the_events_of_a_stream(flights, edit, answered):
    (flights / "asked.csv").write_text("ts\n3\n39\n")
    edit("plan.yaml", "file: by.sql", "file: by.sql\n    answer: {stream: asked}")
    edit("plan.yaml", "runtime:", "  - id: asked\n    source: {csv: {path: asked.csv}}\nruntime:")
    assert [row["n"] for row in answered()] == [1, 1, 1, 13, 13, 13]


def test_the_generator_of_times_of_answers_has_the_name_that_checkpoints_hold():
    assert TIMES == "dgs.api.queries.answer_times:times"
    assert callable(load_callable(TIMES, Path()))


@pytest.mark.parametrize(
    ("query", "is_by_window"),
    [
        ("select carrier, count(*) n from flights group by carrier", False),
        ("select tumble(ts, 5) w, count(*) n from flights group by 1 order by n desc limit 2", False),
        ("select tumble(ts, 5) w, count(*) n from flights group by 1", True),
    ],
)
def test_answers_at_ticks_are_verified_only_if_they_are_by_window(flights, dgs, query, is_by_window):
    (flights / "by.sql").write_text(query)
    plan = PLAN.replace("by.sql", "by.sql\n    answer: {every: 5}").replace(
        "flights.csv", "flights.csv, ts: ts"
    )
    (flights / "plan.yaml").write_text(plan)
    assert dgs("run plan.yaml").code == 0
    done = dgs("run plan.yaml --fresh --verify")
    assert done.code == (0 if is_by_window else 2), done.err
    assert ("write `answer: end` or `answer: {rows: N}`" in done.err) != is_by_window
    assert len(list((flights / ".dgs" / "runs").iterdir())) == 1 + is_by_window


@pytest.mark.parametrize(
    ("query", "keeps_all"),
    [
        ("select carrier, count(*) n from flights group by carrier", False),
        ("select tumble(ts, 5) w, count(*) n from flights group by 1", False),
        ("select tumble(ts, 5) w, count(*) n from flights group by 1 order by n desc limit 2", True),
    ],
)
def test_explain_says_that_all_windows_are_kept_where_their_rows_meet(flights, dgs, query, keeps_all):
    (flights / "by.sql").write_text(query)
    (flights / "plan.yaml").write_text(PLAN.replace("flights.csv", "flights.csv, ts: ts"))
    for line in ("explain plan.yaml --query", "explain by.sql --query --from flights=flights.csv"):
        done = dgs(line)
        assert done.code == 0, done.err
        assert ("none of them is ever dropped" in done.out) == keeps_all


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_come_after_every_n_rows_and_after_the_last(flights, edit, answered, seed):
    edit("plan.yaml", "file: by.sql", "text: select count(*) n from flights\n    answer: {rows: 10}")
    found = answered(f"run plan.yaml --fresh --verify --json --optimizer random --set optimizer.seed={seed}")
    assert [row["n"] for row in found] == [10, 20, 30, 39]


def test_rows_that_come_with_the_run_are_not_counted_before_it(flights, edit, dgs):
    edit("plan.yaml", "csv: {path: flights.csv}", "socket: {port: 0}")
    edit("plan.yaml", "    split: 2", "    columns: {carrier: str, delay: int}")
    edit("plan.yaml", "file: by.sql", "file: by.sql\n    answer: {rows: 10}")
    done = dgs("run plan.yaml")
    assert (done.code, "those of 'flights' come with it" in done.err) == (3, True), done.err


def test_rows_of_the_time_of_the_last_counted_one_count(flights, edit, answered):
    rows = "".join(f"{ts},UA,1\n" for ts in (1, 2, 2, 2, 3, 4))
    (flights / "flights.csv").write_text(f"ts,carrier,delay\n{rows}")
    edit("plan.yaml", "file: by.sql", "text: select count(*) n from flights\n    answer: {rows: 2}")
    assert [row["n"] for row in answered()] == [4, 6]


def test_columns_are_declared_where_no_row_tells_them(flights, edit, answered):
    (flights / "flights.csv").write_text("ts,carrier,delay\n")
    edit("plan.yaml", "    split: 2", "    columns: {carrier: str, delay: int}")
    edit("plan.yaml", "file: by.sql", "text: select count(carrier) n, sum(delay) s from flights")
    assert answered() == [{"n": 0, "s": None}]


@pytest.mark.parametrize("source", ["socket: {port: 0}", "custom: {ref: flights.py:Flights}"])
def test_columns_are_declared_for_sources_that_are_not_opened_before(flights, edit, dgs, source):
    edit("plan.yaml", "csv: {path: flights.csv}", source)
    done = dgs("explain plan.yaml --query")
    assert (done.code, "write `columns: {NAME: TYPE, ...}`" in done.err) == (3, True), done.err
    edit("plan.yaml", "    split: 2", "    columns: {carrier: str, delay: int}")
    done = dgs("explain plan.yaml --query")
    assert (done.code, "class A" in done.out) == (0, True), done.err


def test_a_socket_of_a_script_of_pig_is_a_stream_of_the_plan(flights, edit, answered):
    (flights / "by.pig").write_text(
        "f = SOCKET_READ 'localhost:9999' AS (carrier: chararray, delay: int);"
        "late = FILTER f BY delay > 2; SOCKET_WRITE late TO 'localhost:9998';"
    )
    edit("plan.yaml", "file: by.sql", "file: by.pig")
    edit("plan.yaml", "id: flights", "id: localhost_9999")
    assert {row["delay"] for row in answered()} == {3}


def test_weights_take_rows_away(flights, edit, answered):
    (flights / "flights.csv").write_text("ts,carrier,delay,op\n1,UA,5,I\n2,AA,1,I\n3,UA,5,D\n")
    edit("plan.yaml", "    split: 2", "    weight: {column: op, insert: I, delete: D}")
    assert answered() == [{"carrier": "AA", "n": 1, "s": 1}]


def test_a_stream_deletes_rows_of_another(flights, edit, answered):
    (flights / "flights.csv").write_text("ts,carrier,delay\n1,UA,5\n2,AA,1\n")
    (flights / "gone.csv").write_text("ts,carrier,delay\n3,UA,5\n")
    edit(
        "plan.yaml", "    split: 2", "  - id: gone\n    source: {csv: {path: gone.csv}}\n    deletes: flights"
    )
    assert answered() == [{"carrier": "AA", "n": 1, "s": 1}]


def test_parameters_are_bound(flights, edit, answered):
    (flights / "by.sql").write_text("select count(*) n from flights where carrier = $of")
    edit("plan.yaml", "file: by.sql", "file: by.sql\n    params: {of: UA}")
    assert answered() == [{"n": 13}]


WRONG = [
    (
        "file: by.sql",
        "text: select count(*) n from flights where carrier = $of\n    params: {of: UA, off: AA}",
        "plan.yaml:6:27: the query reads no parameter 'off'; did you mean 'of'? Correct the name",
    ),
    (
        "    split: 2",
        "    columns: {carrier: str, delay: int, dely: int}",
        "plan.yaml:9:47: stream 'flights': there is no column 'dely' in flights.csv; did you mean 'delay'?",
    ),
    (
        "    split: 2",
        "    payload: [carrier, delay]\n    columns: {carrier: str, delay: int, ts: int}",
        "there is no column 'ts' in `payload:`",
    ),
    ("file: by.sql", "file: bi.sql", "cannot read"),
    ("file: by.sql", "text: select 1\n    file: by.sql", "give the query as `text:`, or the `file:`"),
    ("id: flights", "id: flight", "Q201]: by.sql:2:6: no table 'flights'; did you mean 'flight'?"),
    (
        "file: by.sql",
        "file: by.sql\n    answer: {stream: flihts}",
        "no stream 'flihts'; did you mean 'flights'?",
    ),
    ("file: by.sql", "file: by.sql\n    answer: {evry: 3}", "unknown key 'evry'"),
    ("file: by.sql", "file: by.sql\n    answer: {rows: 3, every: 3}", "give `every:`, `stream:` or `rows:`"),
    ("file: by.sql", "file: by.sql\n    answer: {rows: 0}", "at least 1"),
    ("    split: 2", "    columns: {carrier: text}", "expected 'int', 'float', 'str', 'bool' or 'datetime'"),
    ("file: by.sql", "file: by.sql\n    require: D", "expected 'A', 'B' or 'C'"),
    ("file: by.sql", "text: select carrier from flights\n    require: B", "class C, where B is required"),
    (
        "file: by.sql",
        "text: select carrier from flights where delay > $least",
        "no value for the parameter 'least'",
    ),
    (
        "file: by.sql",
        "text: select 1 as one",
        "stream 'flights': the query does not read it; it reads no stream",
    ),
    ("  query:\n", "  args: {a: 1}\n  query:\n", "`query:` takes the place of"),
    ("    split: 2", "    weight: {colum: op}", "missing key 'column'"),
    (
        "    split: 2",
        "    weight: {column: op}",
        "`weight:` names no column 'op'; there are ts, carrier, delay",
    ),
    (
        "file: by.sql",
        "text: select carrier w from flights\n    output: changes",
        "Q202]: query.sql:1:8: the answer has a column 'w'",
    ),
    (
        "file: by.sql",
        "text: select count(*), tumble(delay, 5) from flights group by 2",
        "windows are by the column 'delay', and the times of its rows by 'ts': write `ts: delay`",
    ),
    ("    split: 2", "    deletes: flight", "no other stream 'flight'; did you mean 'flights'?"),
]


@pytest.mark.parametrize(("before", "after", "said"), WRONG)
def test_mistakes_in_a_plan_file_are_said(flights, edit, dgs, before, after, said):  # noqa: PLR0917
    edit("plan.yaml", before, after)
    done = dgs("run plan.yaml")
    assert (done.code, said in done.err) == (3, True), done.err
    assert "Traceback" not in done.err


def test_weights_are_for_queries(project, edit, dgs):
    edit("plan.yaml", "payload: amount", "payload: amount\n    deletes: right")
    done = dgs("run plan.yaml")
    assert done.code == 3
    assert "is for a query" in done.err


def test_another_having_resumes_the_state(flights, edit, dgs):
    """The answer from a state may change, but not the kept state."""
    from dgs.api.preparing import from_file, load

    before = load(from_file("plan.yaml", {})).identity_parts()
    (flights / "by.sql").write_text(
        "select carrier, count(*) n, sum(delay) s from flights group by carrier having count(*) > 3"
    )
    assert load(from_file("plan.yaml", {})).identity_parts() == before
    (flights / "by.sql").write_text("select delay, count(*) n from flights group by delay")
    assert load(from_file("plan.yaml", {})).identity_parts() != before


def test_more_deletions_than_insertions_end_the_run_or_are_left_out(flights, edit, dgs, answered):
    (flights / "flights.csv").write_text("ts,carrier,delay,op\n1,UA,5,I\n2,AA,1,D\n")
    edit("plan.yaml", "    split: 2", "    weight: {column: op, insert: I, delete: D}")
    done = dgs("run plan.yaml --fresh")
    assert (done.code, "error[Q702]" in done.err) == (5, True)
    edit("plan.yaml", "file: by.sql", "file: by.sql\n    on_negative: drop")
    assert answered() == [{"carrier": "UA", "n": 1, "s": 5}]
