"""The errors of wrong scripts: golden texts, each with its place and fix."""

from pathlib import Path

import pytest

from dgs.query.pig.pig_translation import Translator
from dgs.query.pig.text.pig_reading import read_script

A = "a = LOAD 'a.csv' AS (n: int, name: chararray, raw);\n"
S = "s = LOAD 's.csv' USING PigStream(',') AS (n: int);\n"


def problems(text: str) -> list[str]:
    return [str(one) for one in Translator(Path("/nowhere")).read(read_script(text, "t.pig")).problems]


WRONG = {
    A + "b = FILTER aa BY n > 1;": """Q201 t.pig:2:12: no alias 'aa'
    b = FILTER aa BY n > 1;
               ^
    Did you mean a?""",
    A + "b = FILTER a BY nme == 'x';": """Q201 t.pig:2:17: no field 'nme'
    b = FILTER a BY nme == 'x';
                    ^
    Did you mean name?""",
    A + "b = FOREACH a GENERATE $5;": """Q203 t.pig:2:24: $5, where there are 3 fields
    b = FOREACH a GENERATE $5;
                           ^
    The last one is $2.""",
    A + "b = JOIN a BY n, a BY n; c = FILTER b BY n > 1;": """Q202 t.pig:2:42: 'n' is more than one field
    b = JOIN a BY n, a BY n; c = FILTER b BY n > 1;
                                             ^
    Write a::n or a_2::n.""",
    A + "b = FOREACH a GENERATE name + 1;": """Q204 t.pig:2:24: a number is needed here, and this is chararray
    b = FOREACH a GENERATE name + 1;
                           ^
    Cast it: (double) ...""",
    A + "b = FILTER a BY n;": """Q204 t.pig:2:17: a condition is needed here, and this is int
    b = FILTER a BY n;
                    ^
    Cast the value, or take one of a type that fits.""",
    A + "b = FOREACH a GENERATE UPER(name);": """Q205 t.pig:2:24: no function 'UPER'
    b = FOREACH a GENERATE UPER(name);
                           ^
    Did you mean UPPER?""",
    A + "b = FOREACH a GENERATE SUBSTRING(name, 1);": """Q206 t.pig:2:24: SUBSTRING takes 3 arguments, not 2
    b = FOREACH a GENERATE SUBSTRING(name, 1);
                           ^
    Give as many as it takes.""",
    A + "b = FOREACH a GENERATE n AS (x, y);": """Q206 t.pig:2:30: 2 names for 1 field
    b = FOREACH a GENERATE n AS (x, y);
                                 ^
    Name each of them.""",
    A
    + "b = FOREACH a GENERATE FLATTEN(raw);": """Q204 t.pig:2:24: FLATTEN of bytearray: give it a type where it is loaded
    b = FOREACH a GENERATE FLATTEN(raw);
                           ^
    It takes a bag or a tuple.""",
    A
    + "b = FOREACH a GENERATE n; c = UNION a, b;": """Q208 t.pig:2:27: a union of relations with 3 and 1 fields
    b = FOREACH a GENERATE n; c = UNION a, b;
                              ^
    Use UNION ONSCHEMA.""",
    A + "STORE a INTO '$out';": """Q120 t.pig:2:1: the parameter $out has no value
    STORE a INTO '$out';
    ^
    Give it: -p out=...""",
    A + "b = FILTER a BY n > $least;": """Q120 t.pig:2:21: the parameter $least has no value
    b = FILTER a BY n > $least;
                        ^
    Give it: -p least=...""",
    A + "b = STREAM a THROUGH `sort`;": """Q110 t.pig:2:5: STREAM ... THROUGH is not supported
    b = STREAM a THROUGH `sort`;
        ^
    Call a Python function of a <% %> section in FOREACH.""",
    A + "b = RANK a BY n;": """Q110 t.pig:2:5: RANK is not supported
    b = RANK a BY n;
        ^
    ORDER the rows, and number them where they are read.""",
    "a = SOCKET_READ 'localhost:9999' AS (n: int); DUMP a;": """Q110 t.pig:1:1: SOCKET_READ is not supported without a plan file
    a = SOCKET_READ 'localhost:9999' AS (n: int); DUMP a;
    ^
    In one it reads the stream 'localhost_9999', of a `socket` source.""",
    "a = LOAD 'x.nt' USING RDFFileStorage() AS (s);": """Q110 t.pig:1:17: the storage RDFFileStorage is not supported
    a = LOAD 'x.nt' USING RDFFileStorage() AS (s);
                    ^
    There are PigStorage, PigStream and TextLoader.""",
    S + "o = ORDER s BY n;": """Q401 t.pig:2:1: ORDER waits for the end of 's', a stream that has none
    o = ORDER s BY n;
    ^
    Give it windows first: w = WINDOW s RANGE 10 SECONDS;""",
    S + "o = LIMIT s 3;": """Q401 t.pig:2:1: LIMIT waits for the end of 's', a stream that has none
    o = LIMIT s 3;
    ^
    Give it windows first: w = WINDOW s RANGE 10 SECONDS;""",
    S + "o = CROSS s, s;": """Q401 t.pig:2:1: CROSS waits for the end of 's', a stream that has none
    o = CROSS s, s;
    ^
    Give it windows first: w = WINDOW s RANGE 10 SECONDS;""",
    S
    + "v = WINDOW s RANGE 10 SECONDS;\nw = WINDOW s RANGE 5 SECONDS;\nj = JOIN v BY n, w BY n;": """Q402 t.pig:2:1: two windows that differ: RANGE 10000 ms SLIDE 10000 ms here, RANGE 5000 ms SLIDE 5000 ms in line 3
    v = WINDOW s RANGE 10 SECONDS;
    ^
    Make them equal.""",
    S + "w = WINDOW s RANGE 10 FORTNIGHTS;": """Q204 t.pig:2:14: no unit 'fortnights'
    w = WINDOW s RANGE 10 FORTNIGHTS;
                 ^
    There are milliseconds, seconds, minutes, hours, days.""",
    A + "m = small(a);": """Q201 t.pig:2:5: no macro 'small'
    m = small(a);
        ^
    There is no macro yet.""",
    "IMPORT '../other.pig';": """Q110 t.pig:1:1: IMPORT of '../other.pig', outside of the project
    IMPORT '../other.pig';
    ^
    Put the file under /nowhere.""",
    "IMPORT 'other.pig';": """Q201 t.pig:1:1: no file 'other.pig' to import
    IMPORT 'other.pig';
    ^
    Give one of the names that are there.""",
    "DEFINE m(x) RETURNS y { $y = DISTINCT $x; };\n"
    + A
    + "b, c = m(a);": """Q206 t.pig:3:1: m has 1 result, not 2
    b, c = m(a);
    ^
    Give as many as it takes.""",
    A + "b = SAMPLE a 2;": """Q204 t.pig:2:14: a share from 0 to 1 is needed here, not 2
    b = SAMPLE a 2;
                 ^
    Cast the value, or take one of a type that fits.""",
    A + "b = LIMIT a -1;": """Q204 t.pig:2:13: a whole number from 0 is needed here, not -1
    b = LIMIT a -1;
                ^
    Cast the value, or take one of a type that fits.""",
    A
    + "b = GROUP a BY n; c = SAMPLE b 0.5;": """Q110 t.pig:2:19: SAMPLE of rows that are no longer those of a stream, or have no numbers
    b = GROUP a BY n; c = SAMPLE b 0.5;
                      ^
    Put it before GROUP, JOIN and DISTINCT.""",
    A
    + "b = GROUP a BY n; c = FOREACH b { d = FOREACH a GENERATE n; GENERATE COUNT(d); }; DUMP c;": """Q110 t.pig:2:39: FOREACH within the block of a FOREACH is not supported
    b = GROUP a BY n; c = FOREACH b { d = FOREACH a GENERATE n; GENERATE COUNT(d); }; DUMP c;
                                          ^
    A block has FILTER, DISTINCT, ORDER, LIMIT and values. Make the rest before GROUP.""",
}


@pytest.mark.parametrize("text", WRONG)
def test_the_text_of_a_mistake(text: str) -> None:
    assert problems(text) == [WRONG[text]]


def test_statements_independent_of_a_wrong_one_go_on() -> None:
    program = Translator(Path("/nowhere")).read(
        read_script(
            A + "b = STREAM a THROUGH `x`; c = FILTER b BY n > 1; DUMP c; d = DISTINCT a; DUMP d;", "t.pig"
        )
    )
    assert [error.code for error in program.problems] == ["Q110"]
    assert [output.name for output in program.outputs] == ["d"]
