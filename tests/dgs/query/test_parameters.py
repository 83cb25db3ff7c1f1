"""Parameters of queries: a name that the text does not ask for is an error, in every language, command and runtime."""

import pytest

from dgs.errors import DgsError
from dgs.query.fronts import read
from dgs.query.prompt import Prompt
from dgs.query.relation import Source
from dgs.query.standing import Query
from dgs.query.types import INT, Schema

SOURCES = {"t": Source("t", Schema.of(a=INT))}
SQL = "select a from t where a > $least"
MRQL = "select x.a from x in t where x.a > least;"
PIG = "%default least 1\na = LOAD 't' AS (a: int); b = FILTER a BY a > $least; DUMP b;"


@pytest.mark.parametrize(("lang", "text"), [("sql", SQL), ("mrql", MRQL), ("pig", PIG)])
def test_a_parameter_that_the_text_does_not_ask_for_is_refused(lang, text):
    assert read(text, SOURCES, lang=lang, params={"least": 1}).outputs
    with pytest.raises(
        DgsError, match="Q120: the query reads no parameter 'leats'; did you mean 'least'"
    ) as error:
        read(text, SOURCES, lang=lang, params={"least": 1, "leats": 2})
    assert error.value.exit_code == 3


def test_a_default_does_not_hide_a_misspelt_name():
    with pytest.raises(DgsError, match="no parameter 'leats'; did you mean 'least'"):
        read(PIG, SOURCES, lang="pig", params={"leats": 2})


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("pig", PIG.replace("%default", "%declare")),
        ("mrql", f"least = 1; {MRQL}"),
        ("mrql", MRQL.replace("least", "1")),
    ],
)
def test_a_value_that_the_text_hides_is_refused(lang, text):
    with pytest.raises(DgsError, match="the query reads no parameter 'least'"):
        read(text, SOURCES, lang=lang, params={"least": 2})


def test_a_parameter_with_the_name_of_a_table_is_refused():
    with pytest.raises(DgsError, match="the query reads no parameter 't'"):
        read(MRQL, SOURCES, lang="mrql", params={"least": 1, "t": 2})


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("pig", "a = LOAD 't' AS (a: int); c = STREAM a THROUGH `sort $way`; DUMP a;"),
        ("mrql", "x = repeat way; select x.a from x in t;"),
    ],
)
def test_a_parameter_of_a_statement_that_is_left_out_is_accepted(lang, text):
    try:
        found = read(text, SOURCES, lang=lang, params={"way": 2})
    except DgsError as error:
        assert "parameter" not in str(error)  # noqa: PT017 - the statement itself is wrong
    else:
        assert found.refused


@pytest.mark.parametrize("clause", ["limit $n", "limit 1 offset $n"])
def test_a_limit_without_its_parameter_says_so(clause):
    assert read(f"select a from t order by a {clause}", SOURCES, params={"n": 2}).outputs
    with pytest.raises(DgsError, match=r"Q120 .*no value for the parameter 'n'; did you mean 'nn'"):
        read(f"select a from t order by a {clause}", SOURCES, params={"nn": 2})


def test_a_standing_query_refuses_it():
    query = Query(SQL, schemas={"t": Schema.of(a=INT)}, params={"least": 1, "most": 2})
    with pytest.raises(DgsError, match="no parameter 'most'"):
        query.script  # noqa: B018 - it is made when it is read


def test_the_prompt_tells_at_its_end_which_parameters_nothing_read():
    prompt = Prompt("sql", params={"least": 1, "leats": 2})
    assert prompt.fed("select 1 + $least as a;") == ['{"a": 2}']
    (said,) = prompt.ended()
    assert said.startswith("Q120: the query reads no parameter 'leats'; did you mean 'least'?")


LINES = [
    "query q.{lang} {tables}-p least=1 -p leats=2",
    "query q.{lang} {tables}-p least=1 -p leats=2 --on dgs",
    "query q.{lang} {tables}-p least=1 -p leats=2 --on spark",
    "query q.{lang} {tables}-p least=1 -p leats=2 --emit duckdb",
    "explain --query q.{lang} {tables}-p least=1 -p leats=2",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    ("lang", "text"), [("sql", SQL), ("mrql", MRQL), ("pig", PIG.replace("'t'", "'t.csv'"))]
)
def test_each_command_refuses_it(project, dgs, lang, text, line):
    (project / f"q.{lang}").write_text(text)
    (project / "t.csv").write_text("a\n1\n2\n")
    done = dgs(line.format(lang=lang, tables="" if lang == "pig" else "--from t=t.csv "))
    assert done.code == 3, done.out
    assert "the query reads no parameter 'leats'; did you mean 'least'?" in done.err


def test_check_refuses_it(project, dgs):
    (project / "q.sql").write_text(SQL)
    done = dgs("check q.sql -p least=1 -p leats=2")
    assert (done.code, "no parameter 'leats'" in done.err) == (3, True)


def test_a_parameter_that_is_given_twice_is_refused(project, dgs):
    done = dgs("query 'select 1 + $a as b' -p a=1 -p a=2")
    assert (done.code, "-p a: the name is given twice" in done.err) == (2, True)


def test_statements_that_are_left_out_are_told_in_every_form(project, dgs):
    (project / "t.csv").write_text("1\n")
    (project / "q.pig").write_text(
        "a = LOAD 't.csv' AS (a: int); b = STREAM a THROUGH `sort`; DUMP a; DUMP b;"
    )
    for more in ("", " --json", " -o a.csv"):
        assert dgs(f"query q.pig{more}").err.count("Q110") == 1
