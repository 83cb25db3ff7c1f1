"""`dgs query` on scripts of Pig, and its prompt."""

import io
import json
import sys

import pytest

WORDS = """input = load '$in' as (line);
words = foreach input generate flatten(TOKENIZE(line)) as word;
grpd = group words by word;
cntd = foreach grpd generate group, COUNT(words);
store cntd into '$out';
"""


@pytest.fixture
def words(project):
    (project / "words.pig").write_text(WORDS)
    (project / "mary.txt").write_text("Mary had a lamb\na lamb was sure\n")
    return project


@pytest.mark.parametrize("place", ["local", "dgs"])
def test_a_script_reads_and_writes_its_files(words, dgs, place):
    done = dgs(f"query words.pig -p in=mary.txt -p out=counts --on {place} --verify")
    assert done.code == 0, done.err
    assert done.out == "6 rows in counts\n"
    assert sorted((words / "counts").read_text().splitlines()) == [
        "Mary,1",
        "a,2",
        "had,1",
        "lamb,2",
        "sure,1",
        "was,1",
    ]


def test_dump_shows_tuples_and_json_objects(words, dgs):
    (words / "top.pig").write_text("a = LOAD 'mary.txt' AS (line: chararray); b = LIMIT a 1; DUMP b;")
    assert dgs("query top.pig").out == "(Mary had a lamb)\n"
    assert json.loads(dgs("query top.pig --json").out) == {"line": "Mary had a lamb"}


def test_unsupported_statements_are_reported_and_the_rest_goes_on(words, dgs):
    (words / "some.pig").write_text(
        "a = LOAD 'mary.txt' AS (line: chararray);\nb = STREAM a THROUGH `sort`;\nDUMP b;\nc = LIMIT a 1;\nDUMP c;"
    )
    done = dgs("query some.pig")
    assert (done.code, done.out) == (0, "(Mary had a lamb)\n")
    assert "Q110 some.pig:2:5: STREAM ... THROUGH is not supported" in done.err


def test_a_mistake_ends_with_its_place(words, dgs):
    done = dgs("query words.pig -p in=mary.txt")
    assert done.code == 3
    assert "words.pig:5:1: the parameter $out has no value" in done.err
    assert "^" in done.err


def test_a_query_is_given_or_the_prompt_is(project, dgs):
    assert dgs("query").code == 2
    assert dgs("query 'select 1 a' --repl").code == 2


def test_the_prompt_reads_a_pipe(words, dgs, monkeypatch):
    (words / "pairs.csv").write_text("k,n\nx,1\n")
    lines = "a = LOAD 'mary.txt' AS (line);\nb = oops;\nc = LIMIT a 1; DUMP c;\n:lang sql\nselect k from pairs;\nselect"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    done = dgs("query --repl --lang pig --from pairs=pairs.csv")
    assert done.code == 0, done.err
    said = done.out.splitlines()
    assert said[0].startswith("Q201 prompt:1:5: no alias 'oops'")
    assert said[-4:] == [
        "The language is sql.",
        '{"k": "x"}',
        "Q101 prompt: the input ends within a statement",
        "    select",
    ]
    assert "(Mary had a lamb)" in said


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return x * 2", "6"),
        ("sys.exit(0)", "error[Q704]: f(3,) raised SystemExit: 0"),
        ("raise KeyboardInterrupt", "error[Q704]: f(3,) raised KeyboardInterrupt"),
    ],
)
def test_a_function_in_a_script_is_called_back_and_its_exits_are_errors(project, dgs, body, told):
    (project / "numbers.csv").write_text("3\n")
    (project / "calls.pig").write_text(
        f"<%\nimport sys\ndef f(x: int) -> int:\n    {body}\n%>\n"
        "a = LOAD 'numbers.csv' USING PigStorage(',') AS (n: int); b = FOREACH a GENERATE f(n); DUMP b;"
    )
    done = dgs("query calls.pig")
    assert told in done.out + done.err
    assert (done.code == 0) == (told == "6")
