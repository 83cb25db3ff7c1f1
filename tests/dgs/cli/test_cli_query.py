"""`dgs query` and `dgs explain --query`: answers, files, verification, and how mistakes end."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def flights(project):
    (project / "flights.csv").write_text("carrier,delay\nUA,5\nAA,1\nUA,NA\nHA,-3\n")
    (project / "by.sql").write_text(
        "select carrier, count(*) n, sum(delay) s\nfrom flights group by carrier\n"
    )
    return project


def test_a_query_over_a_file_is_answered(flights, dgs):
    done = dgs("query by.sql --from flights=flights.csv --verify --json")
    assert done.code == 0, done.err
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"carrier": "AA", "n": 1, "s": 1},
        {"carrier": "HA", "n": 1, "s": -3},
        {"carrier": "UA", "n": 2, "s": 5},
    ]
    assert "verified" in done.err


def test_a_text_is_answered_as_a_table(flights, dgs):
    done = dgs("query 'select max(delay) m from flights' --from flights=flights.csv")
    assert (done.code, done.out) == (0, "m\n5\n")


def test_rows_go_into_a_file(flights, dgs):
    done = dgs("query by.sql --from flights=flights.csv -o rows.csv")
    assert (done.code, done.out) == (0, "")
    assert (flights / "rows.csv").read_text().splitlines()[0] == '"carrier","n","s"'


def test_parameters_are_values(flights, dgs):
    done = dgs(
        "query 'select delay from flights where delay > $least' --from flights=flights.csv -p least=1 --json"
    )
    assert [json.loads(line) for line in done.out.splitlines()] == [{"delay": 5}]


def test_a_query_is_written_for_duckdb(flights, dgs):
    done = dgs("query by.sql --from flights=flights.csv --emit duckdb")
    assert done.out.startswith("SELECT")
    assert done.code == 0


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (
            "query 'select nme from flights' --from flights=flights.csv",
            3,
            "error[Q201]: query.sql:1:8: flights has no",
        ),
        ("query by.sql", 3, "no table 'flights'"),
        ("query no.sql", 2, "no such file"),
        ("query by.sql --from flights", 2, "--from NAME=PATH"),
        ("query by.sql --from flights=flights.txt", 2, "no such format"),
        ("query by.sql --from flights=none.csv", 3, "no file at"),
        ("query by.sql --from flights=flights.csv --lang sqll", 3, "no language 'sqll'; did you mean 'sql'?"),
        ("query by.sql --from flights=flights.csv -p a", 2, "-p NAME=VALUE"),
        ("query 'select carrier from flights' --from flights=flights.csv --require B", 3, "class C"),
        ("explain by.sql --from flights=flights.csv", 2, "are for --query"),
    ],
)
def test_mistakes_end_with_their_codes(flights, dgs, line, code, said):
    done = dgs(line)
    assert (done.code, said in done.err) == (code, True), done.err
    assert "Traceback" not in done.err


def test_explain_says_the_class_and_what_forces_it(flights, dgs):
    done = dgs("explain by.sql --query --json --from flights=flights.csv")
    found = json.loads(done.out)
    assert found["class"] == "A"
    assert found["compactions"][0]["keys"] == [
        {"column": "carrier", "clause": "group by", "place": "by.sql:2:23"}
    ]


def test_explain_needs_no_tables_for_sql(flights, dgs):
    done = dgs("explain by.sql --query")
    assert done.code == 0
    assert "class A" in done.out


@pytest.mark.parametrize("package", ["duckdb", "sqlglot"])
def test_a_missing_package_is_q503(flights, dgs, monkeypatch, package):
    monkeypatch.setattr("dgs.query.fronts.find_spec", lambda name: None if name == package else object())
    done = dgs("query by.sql --from flights=flights.csv")
    assert done.code == 4
    assert (
        f"error[Q503]: a query {'on local' if package == 'duckdb' else 'in sql'} needs {package}" in done.err
    )
    assert "pip install 'dgs[query]'" in done.err


def test_a_run_of_dgs_gives_the_same_answer(flights, dgs):
    here = dgs("query by.sql --from flights=flights.csv --json")
    done = dgs("query by.sql --from flights=flights.csv --on dgs --verify --json")
    assert (done.code, done.out) == (0, here.out), done.err


def test_answers_come_while_rows_do(flights, dgs):
    done = dgs(
        "query 'select count(*) n from flights' --from flights=flights.csv --on dgs --answer every=2 --json"
    )
    assert [json.loads(line)["n"] for line in done.out.splitlines()] == [3, 4]


def test_answer_needs_dgs(flights, dgs):
    done = dgs("query by.sql --from flights=flights.csv --answer every=2")
    assert (done.code, "--on dgs" in done.err) == (2, True)


def test_a_script_of_pig_loads_its_files(project, dgs):
    (project / "words.txt").write_text("a b a\nb a\n")
    (project / "count.pig").write_text(
        "lines = LOAD '$in' AS (line);\n"
        "words = FOREACH lines GENERATE FLATTEN(TOKENIZE(line)) AS word;\n"
        "by = GROUP words BY word;\n"
        "counted = FOREACH by GENERATE group, COUNT(words) AS n;\n"
        "DUMP counted;\n"
    )
    here = dgs("query count.pig -p in=words.txt --json")
    assert [json.loads(line)["n"] for line in here.out.splitlines()] == [3, 2]
    assert dgs("query count.pig -p in=words.txt --json --on dgs --verify").out == here.out


def test_a_text_of_mrql_reads_its_files(project, dgs):
    (project / "edges.csv").write_text("s,d\n1,2\n1,3\n2,3\n")
    (project / "out.mrql").write_text(
        'select (s, count(e)) from e in source(csv, "edges.csv", ",") group by s: e.s;\n'
    )
    done = dgs("query out.mrql --json --verify")
    assert [list(json.loads(line).values()) for line in done.out.splitlines()] == [[1, 2], [2, 1]], done.err


RULES = """
from dgs.query.relation import Where
from dgs.query.rewrite import Rules

wrong = Rules("wrong")


@wrong.to_replace(Where)
def forget(node):
    return node.input


harmless = Rules("harmless")


@harmless.to_replace(Where)
def keep(node):
    return None
"""


@pytest.mark.parametrize(("name", "code", "rows"), [("wrong", 1, 4), ("harmless", 0, 1)])
def test_rules_of_the_user_rewrite_the_query_and_verify_finds_wrong_ones(flights, dgs, name, code, rows):
    (flights / "rules.py").write_text(RULES)
    done = dgs(
        f"query 'select delay from flights where delay > 2' --from flights=flights.csv --rules rules.py:{name} --verify --json"
    )
    assert (done.code, len(done.out.splitlines())) == (code, rows), done.err


def test_rules_that_are_none_are_refused(flights, dgs):
    done = dgs("query by.sql --from flights=flights.csv --rules json:dumps")
    assert done.code == 3
    assert "Q601" in done.err


@pytest.mark.parametrize("options", ["", " --on dgs", " --emit duckdb"])
def test_a_query_without_its_packages_says_what_to_install(flights, options):
    """In a fresh interpreter, where no module of queries has been imported yet."""
    line = f"query by.sql --from flights=flights.csv{options}"
    text = f"import sys; sys.modules['sqlglot'] = None; from dgs.cli import process; sys.argv[1:] = {line.split()}; process()"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=flights, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert "Q503" in done.stderr
    assert "pip install 'dgs[query]'" in done.stderr
