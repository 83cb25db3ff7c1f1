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
    (project / "cases.csv").write_text("a,A\n1,2\n")
    (project / "types.jsonl").write_text('{"v": 5}\n{"v": "x"}\n')
    (project / "lists.jsonl").write_text('{"v": [5]}\n')
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


def test_a_file_with_a_header_alone_is_a_table_without_rows(flights, dgs):
    (flights / "none.csv").write_text("carrier,delay\n")
    for place in ("local", "dgs"):
        done = dgs(f"query 'select count(*) n, sum(delay) s from t' --from t=none.csv --on {place} --json")
        assert (done.code, json.loads(done.out)) == (0, {"n": 0, "s": None})


@pytest.mark.parametrize(
    "query",
    [
        "select tumble(t, 10) w, count(*) n from c group by 1 order by n desc, w limit 2",
        "select tumble(t, 10) w, count(*) n from c group by 1 order by n desc, w",
        "select w from (select tumble(t, 10) w, count(*) n from c group by 1) order by n desc, w",
        "select count(*) n from (select tumble(t, 10) w, u from c)",
        "select tumble(t, 10) w, count(*) n from (select u, max(t) t from c group by u) group by 1 order by w",
        "select tumble(t, 10) w, u from (select u, t from c order by t limit 3) order by w, u",
        (
            "select a.u, b.w from (select u, tumble(t, 10) w from c) a left join (select v, tumble(t, 10) w from c) b"
            " on a.u = b.v and a.w = b.w order by 1, 2"
        ),
    ],
)
def test_rows_of_several_windows_are_answered_together(flights, dgs, query):
    (flights / "c.csv").write_text("u,v,t\n1,1,3\n2,1,7\n1,5,12\n2,2,31\n3,2,32\n1,1,38\n")
    here, there = (dgs(f"query '{query}' --from c=c.csv --on {place} --json") for place in ("local", "dgs"))
    assert (there.code, there.out) == (0, here.out)
    assert here.out


def test_a_table_may_have_the_name_of_the_answer(flights, dgs):
    done = dgs("query 'select count(*) n from answer' --from answer=flights.csv --on dgs --json")
    assert (done.code, json.loads(done.out)) == (0, {"n": 4})


@pytest.mark.parametrize("name", ["windows.pig", "windows.sql"])
def test_windows_are_answered_by_the_times_of_their_rows(flights, dgs, name):
    (flights / "clicks.csv").write_text("ann,1000\nbob,14000\nann,12000\nann,\nbob,-1\n")
    (flights / "windows.pig").write_text(
        "a = LOAD 'clicks.csv' USING PigStorage(',') AS (user: chararray, ts: long); w = WINDOW a RANGE 10 SECONDS;"
        " g = GROUP w BY user; c = FOREACH g GENERATE group, COUNT(w); DUMP c;"
    )
    (flights / "named.csv").write_text("user,at\n" + (flights / "clicks.csv").read_text())
    (flights / "windows.sql").write_text(
        "select user, tumble(at, '10 seconds') w, count(*) n from t group by 1, 2"
    )
    done = dgs(f"query {name} --from t=named.csv --on dgs --verify --json")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 4


def test_pig_reads_maps_and_bags_that_are_null(flights, dgs):
    (flights / "bags.txt").write_text("1\t{(1),(3)}\t[k#v]\n2\t\t\n")
    (flights / "bags.pig").write_text(
        "n = LOAD 'bags.txt' AS (id: int, b: bag{t: (p: int)}, m: map[]);"
        " c = FOREACH n GENERATE id, COUNT(b) AS n, m#'k' AS v; DUMP c;"
    )
    done = dgs("query bags.pig --verify")
    assert (done.code, done.out.splitlines()) == (0, ["(1,2,v)", "(2,,)"]), done.err


def test_a_parameter_may_be_a_list(flights, dgs):
    done = dgs("query 'select delay from t where carrier in $m' --from t=flights.csv -p m=[AA,HA] --json")
    assert [json.loads(line)["delay"] for line in done.out.splitlines()] == [-3, 1]


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


def test_a_query_is_written_for_spark(flights, dgs):
    done = dgs("query by.sql --from flights=flights.csv --emit spark -o texts")
    assert done.code == 0, done.err
    text = (flights / "texts" / "answer.sql").read_text()
    assert text.startswith("-- names differ by case")
    assert "FROM `flights`" in text


LOOP = "repeat v = {1} step select x + 1 from x in v limit 2;"


@pytest.mark.parametrize("form", ["duckdb", "spark"])
def test_a_loop_is_not_one_statement(flights, dgs, form):
    (flights / "loop.mrql").write_text(LOOP)
    done = dgs(f"query loop.mrql --emit {form}")
    assert (done.code, "error[Q501]: the loop of 'answer' is not one statement" in done.err) == (3, True), (
        done.err
    )


def test_a_plan_file_needs_the_times_of_all_files_that_a_script_names(flights, dgs):
    (flights / "all.mrql").write_text('select f.delay from f in stream(csv, "flights.csv");')
    done = dgs("query all.mrql --emit dgs")
    assert (done.code, "give --from flights=PATH:ts=COLUMN" in done.err) == (2, True), done.err


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
        (
            "query 'select * from t' --from t=cases.csv",
            3,
            "Q202]: query.sql:1:15: two columns are named 'a' and 'A'",
        ),
        (
            "query 'select v from t' --from t=types.jsonl",
            5,
            "error[Q703]: the values of a column in types.jsonl",
        ),
        ("query 'select * from t' --from t=lists.jsonl -o rows.csv", 2, "'v' holds lists or records"),
        (
            "query 'select delay // 0 from t' --from t=flights.csv -o nowhere/rows.csv",
            4,
            "nowhere/rows.csv: its directory does not exist",
        ),
        ("query 'select 1' --from 'a b=flights.csv'", 2, "a name is of letters"),
        (
            "query 'select 1' --on dgs",
            3,
            "error[Q110]: not supported: a program of a query that reads no stream",
        ),
        (
            "query 'select from t' --from t=flights.csv",
            3,
            "a `select` without columns",
        ),
        (
            "query 'select cast(carrier as int) from t' --from t=flights.csv",
            5,
            "error[Q704]: cast: 'UA' cannot be int64",
        ),
        ("query 'select delay // 0 from t' --from t=flights.csv", 5, "error[Q704]: integer division by 0"),
        (
            "query 'select * from t where delay in $m' --from t=flights.csv -p m=5",
            3,
            "the parameter 'm' is no list",
        ),
    ],
)
def test_mistakes_end_with_their_codes(flights, dgs, line, code, said):
    done = dgs(line)
    assert (done.code, said in done.err) == (code, True), done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("query by.sql --from flights=none.csv", 3, "Its path is relative to the working directory"),
        ("query by.sql --from flights=flights.csv:ts=at", 3, "are carrier, delay. Correct `:ts=at`"),
        ("query none.pig", 3, "Its path is relative to the working directory"),
        ("query none.mrql", 3, "Its path is relative to the script, or to the working directory"),
        ("query by.sql --from flights=broken.parquet", 3, "the file cannot be read as parquet"),
        ("query by.sql --from flights=empty.csv", 3, "the file is empty"),
        ("query by.sql --from flights=flights.csv --rules none.py:mine", 3, 'Write "file.py:Name" or'),
        (
            "query by.sql --from flights=flights.csv --rules none.here:mine",
            3,
            "there is no module 'none' in ",
        ),
        ("query latin.sql", 2, "latin.sql cannot be read: it is not UTF-8 text"),
        ("check latin.sql", 2, "latin.sql cannot be read: it is not UTF-8 text"),
        ("explain latin.sql --query", 2, "latin.sql cannot be read: it is not UTF-8 text"),
    ],
)
def test_files_that_are_not_there_or_broken_are_said_without_a_plan_file(flights, dgs, line, code, said):
    (flights / "none.pig").write_text("a = LOAD 'none.txt' AS (line); DUMP a;")
    (flights / "none.mrql").write_text('select x from x in source(csv, "none.csv", ",");')
    (flights / "latin.sql").write_bytes("select 'é'".encode("latin-1"))
    (flights / "empty.csv").write_text("")
    (flights / "broken.parquet").write_text("PAR1")
    done = dgs(line)
    assert (done.code, said in done.err) == (code, True), done.err
    assert "plan" not in done.err


@pytest.mark.parametrize("verb", ["run", "plan", "explain", "bench", "predict", "simulate", "compile"])
def test_a_query_in_place_of_a_plan_file_is_recognised(flights, dgs, verb):
    done = dgs(f"{verb} by.sql")
    assert (done.code, "this is a query: answer it with `dgs query`" in done.err) == (3, True), done.err


def test_explain_says_the_class_and_what_forces_it(flights, dgs):
    done = dgs("explain by.sql --query --json --from flights=flights.csv")
    found = json.loads(done.out)
    assert found["class"] == "A"
    assert found["compactions"][0]["keys"] == [
        {"column": "carrier", "clause": "group by", "place": "by.sql:2:23"}
    ]


def test_explain_counts_the_rows_that_are_kept(flights, dgs):
    line = "explain by.sql --query --from flights=flights.csv"
    assert "keeps 3 rows of 4" in dgs(line).out
    assert json.loads(dgs(f"{line} --json").out)["compactions"][0]["kept"] == {"rows": 3, "of": 4}


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
    assert [json.loads(line) for line in done.out.splitlines()] == [{"at": 2, "n": 3}, {"at": 3, "n": 4}]


def test_the_time_of_an_answer_takes_the_place_of_no_column(flights, dgs):
    done = dgs(
        "query 'select count(*) as at from flights' --from flights=flights.csv --on dgs --answer every=2"
    )
    assert (done.code, done.out, "another name" in done.err) == (2, "", True)


TWO = """\
words = LOAD 'words.txt' AS (word:chararray);
by = GROUP words BY word;
counted = FOREACH by GENERATE group, COUNT(words) AS n;
everything = GROUP words ALL;
first = FOREACH everything GENERATE MIN(words.word) AS word;
DUMP counted;
DUMP first;
"""


def test_rows_that_pig_dumps_and_stores_begin_with_the_time_of_their_answer(project, dgs):
    (project / "words.txt").write_text("b\na\nb\n")
    (project / "two.pig").write_text(TWO.replace("DUMP first", "STORE first INTO 'first.txt'"))
    done = dgs("query two.pig --on dgs --answer every=2")
    counted = [line for line in done.out.splitlines() if line.startswith("(")]
    assert sorted(counted) == ["(2,a,1)", "(2,b,2)"]
    assert (project / "first.txt").read_text() == "2,a\n"


@pytest.mark.parametrize("place", ["local", "dgs"])
def test_each_of_several_outputs_is_named_and_has_a_file_of_its_own(project, dgs, place):
    (project / "words.txt").write_text("b\na\nb\n")
    (project / "two.pig").write_text(TWO)
    assert dgs(f"query two.pig --on {place} -o rows.jsonl").code == 0
    counted = [json.loads(line) for line in (project / "rows.counted.jsonl").read_text().splitlines()]
    first = [json.loads(line) for line in (project / "rows.first.jsonl").read_text().splitlines()]
    assert sorted(row["n"] for row in counted) == [1, 2]
    assert first == [{"word": "a"}]
    assert not (project / "rows.jsonl").exists()
    printed = [json.loads(line) for line in dgs(f"query two.pig --on {place} --json").out.splitlines()]
    assert [{"output": "first", **row} for row in first] == [
        row for row in printed if row["output"] == "first"
    ]


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


FILES = {
    'select (w, count(r)) from r in source(json, "r.json"), w in r.words group by w: w;': [
        ["a", 2],
        ["b", 1],
    ],
    'select (r.k, r.v) from r in stream(csv, "semi.csv", ";");': [[1, "x, y"], [2, "z"]],
    'select l from l in source(line, "semi.csv");': [["1;x, y"], ["2;z"], ["k;v"]],
}


@pytest.mark.parametrize("text", FILES)
def test_a_text_of_mrql_says_the_format_and_the_delimiter_of_a_file(project, dgs, text):
    (project / "r.json").write_text('{"words": ["a", "b"]}\n{"words": ["a"]}\n')
    (project / "semi.csv").write_text("k;v\n1;x, y\n2;z\n")
    (project / "out.mrql").write_text(text)
    done = dgs("query out.mrql --json")
    assert [list(json.loads(line).values()) for line in done.out.splitlines()] == FILES[text], done.err


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
