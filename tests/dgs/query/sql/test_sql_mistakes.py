"""The exact texts of mistakes in SQL, with their places. `UPDATE_GOLDEN=1` rewrites tests/golden/sql_mistakes.txt."""

import os
import re
from pathlib import Path

import duckdb
import pytest

from dgs.query import duck
from dgs.query.compact.arrow_rows import to_arrow
from dgs.query.errors import QueryError
from dgs.query.relation import Source
from dgs.query.split import split
from dgs.query.sql import relation
from dgs.query.sql.sql_dialect import FREQUENT, OWN
from dgs.query.types import BOOL, FLOAT, INT, TEXT, Schema, list_of
from tests.dgs.query.sql.test_sql_answers import QUERIES, ROWS, SCHEMAS

GOLDEN = Path(__file__).parents[3] / "golden" / "sql_mistakes.txt"

SOURCES = {
    "flights": Source(
        "flights",
        Schema.of(carrier=TEXT, origin=TEXT, day=INT, dep_delay=INT, late=BOOL, stops=list_of(TEXT)),
    ),
    "weather": Source("weather", Schema.of(origin=TEXT, day=INT, precip=FLOAT)),
}

WRONG = [
    "",
    "selec carrier from flights",
    "select carrier from flights where",
    "select 'abc from flights",
    "select carrier from flights; select day from flights",
    "select count(* from flights",
    "delete from flights",
    "select sum(dep_delay) over (partition by carrier) from flights",
    "with recursive a as (select 1 n) select n from a",
    "select carrier from flights\ngroup by rollup (carrier)",
    "select * from flights tablesample 10",
    "select * from flights, lateral (select 1)",
    "select carrier from flights intersect select day from weather",
    "select carrier,, day from flights",
    "select carrier, from from flights",
    "select x + 1 y, 1 as x from flights",
    "select carrier from flights where exists (select from weather)",
    "select count(distinct , day) from flights",
    "select carrier from flights where day not is null",
    "select case when day > 1 'big' end\nfrom flights",
    "select stops[1:2] from flights",
    "select carrier from flights\nwhere date '2020-01-01' < now()",
    "select current_date",
    "select date '2020-01-01' + interval '1.5 hours'",
    "select date '2020-01-01' + interval 2 centuries",
    "select date '2020-01-01' - date '2019-01-01'",
    "select date_trunc('decade', date '2020-01-01'), day from flights",
    "select extract(millennium from date '2020-01-01') from flights",
    "select interval '1 day' from flights",
    "select strftime(date '2020-01-01', '%B') from flights",
    "select strftime(date '2020-01-01', carrier) from flights",
    "select iif(late, 1, 2) from flights",
    "select datetime(day), var_map(carrier), float_bin(day) from flights",
    "select regexp_matches(carrier, 'U') from flights",
    "select carrier from flights f semi join weather w on f.origin = w.origin",
    "select carrier from flights where carrier like 'a!' escape '!'",
    "select carrier from flights where carrier like origin escape '!'",
    "select trunc(dep_delay, 1), day << 2 from flights",
    "select initcap(carrier) from flights",
    "select lpd(carrier, 2, ' ') from flights",
    "select time_bucket(interval '1 hour', date '2020-01-01') from flights",
    "select mode(carrier) from flights",
    "select tumble(t, '1 day'), count(*) from (select cast(carrier as timestamp) t from flights) group by 1",
    "select count(distinct (carrier, day)) from flights",
    "select count(*) from flights group by ()",
    "select day from flights where (carrier, day) not in (select origin, day from weather)",
    "select day from flights where (carrier, origin) in (('UA', 'JFK'))",
    "select * from flights natural join weather",
    "select string_agg(carrier, ',' order by day) from flights",
    "select first(carrier) from flights",
    "select carrier from flights where day > $since",
    "select nme from flights",
    "select dep_dely from flights",
    "select carrier from fligths",
    "select f.carrier, x.day from flights f",
    "select day from flights, weather where flights.origin = weather.origin",
    "select f.day from flights f, flights f",
    "select carrier from flights order by 3",
    "select carrier + 1 from flights",
    "select carrier from flights where day",
    "select carrier from flights where dep_delay = 'late'",
    "select sum(carrier) from flights",
    "select substrin(carrier, 1, 2) from flights",
    "select round(dep_delay, 1, 2) from flights",
    "select carrier, day, count(*)\nfrom flights\ngroup by carrier",
    "select carrier from flights having count(*) > 3 and day > 1",
    "select carrier, day from flights union all select origin from weather",
    "select carrier from flights union all select day from weather",
    "select carrier, (select precip from weather w where w.origin = f.origin) from flights f",
    "select carrier from flights where origin in (select origin, day from weather)",
    "select tumble(day, 'soon') from flights",
    "select f.day, w.precip from flights f, weather w",
    "select * from flights limit 10%",
    "select try_cast(carrier as int) from flights",
    "select carrier from flights where day > ?",
    "select *, count(*) from flights group by carrier",
    "select day + $(x from flights",
    "select carrier from flights where day between symmetric 1 and 2",
    "select carrier from flights for update",
    "select cast(late as timestamp) from flights",
    "select round(day, carrier), list_contains(day, 1) from flights",
    "select list_contains(stops, 1) from flights",
    "select list_sum(stops) from flights",
]


def told(text):
    """Return the error of a query: from the front end, otherwise from the split."""
    with pytest.raises(QueryError) as wrong:
        split(relation(text, SOURCES, name="q.sql"))
    return str(wrong.value)


def test_mistakes_are_said_with_their_places():
    found = "\n".join(f"{text.rstrip()}\n{told(text)}\n" for text in WRONG)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


@pytest.mark.parametrize("text", [one for one in WRONG if one])
def test_a_mistake_has_a_place_and_no_text_of_the_parser(text):
    said = told(text)
    assert said.split()[1].startswith("q.sql:")
    assert "^" in said
    assert not {"sqlglot", "Expression", "\x1b", "Line 1"} & set(said.replace(",", " ").split())


TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\\w+(?:\\.\\d+)?|<>|<=|>=|!=|\\|\\||::|//|\\S")


def mutated(tokens):
    """Yield the texts with one token dropped, doubled, or swapped with the next one."""
    for place, one in enumerate(tokens):
        before, after = tokens[:place], tokens[place + 1 :]
        yield from (" ".join([*before, *after]), " ".join([*before, one, one, *after]))
        if after:
            yield " ".join([*before, after[0], one, *after[1:]])


@pytest.mark.parametrize("queries", [QUERIES[::9], pytest.param(QUERIES, marks=pytest.mark.slow, id="all")])
def test_texts_that_duckdb_refuses_are_mistakes_here(queries):
    sources = {name: Source(name, schema) for name, schema in SCHEMAS.items()}
    connection = duckdb.connect()
    for name, schema in SCHEMAS.items():
        connection.register(name, to_arrow(ROWS[name], schema))
    read_too_generously = []
    for text in {text for query in queries if len(query) < 300 for text in mutated(TOKEN.findall(query))}:
        try:
            relation(text, sources)
        except QueryError:
            continue
        if "+ +" in text:  # sqlglot drops a sign that changes nothing
            continue
        try:
            connection.sql(text)
        except duckdb.Error as error:
            read_too_generously.append((text, str(error).partition("\n")[0]))
    assert read_too_generously == []


def test_functions_that_are_known_without_asking_duckdb_are_its_own():
    assert not FREQUENT - duck.function_names()
    assert not OWN & duck.function_names()
