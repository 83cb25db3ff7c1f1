"""The checks of Piglet as scripts, each with the file of its expected lines. `cases/upstream/README.md` describes them."""

from dataclasses import dataclass

PAIR = "(f1: int, f2: int)"
TRIPLE_A, TRIPLE_B = "(a1: int, a2: int, a3: int)", "(b1: int, b2: int, b3: int)"
SIDES = (
    f"a = LOAD 'joinInput.csv' USING PigStorage(',') AS {TRIPLE_A};"
    f"b = LOAD 'joinInput.csv' USING PigStorage(',') AS {TRIPLE_B};"
)
WINDOWED_SIDES = SIDES + (
    "c = WINDOW a RANGE 10 SECONDS SLIDE RANGE 10 SECONDS; d = WINDOW b RANGE 10 SECONDS SLIDE RANGE 10 SECONDS;"
)
UNSORTED = "a = LOAD 'unsorted.csv' USING PigStorage(',') AS (f1: chararray, f2: chararray, f3: int);"
EVENTS = "USING {storage}(',') AS (id: chararray, longitude: double, latitude: double);"
MOVED = "b = FOREACH a GENERATE id, longitude + 0.01, latitude + 3.5; STORE b INTO 'out';"
DAILY = "daily = load 'nested.csv' using PigStorage(',') as (exchange, symbol);"
COUNTED = """
g = group {daily} by exchange;
counted = foreach g {{ sym = {daily}.symbol; different = distinct sym; generate group, COUNT(different); }};
store counted into 'out';"""
LINES = "lines = load 'mary.txt' as (line); words = foreach lines generate flatten(TOKENIZE(line)) as word;"
SIX = "AS (f1: int, f2: int, f3: int)"


@dataclass(frozen=True)
class Check:
    """A script, and the file of its lines. `is_list`: their order counts. `is_windowed`, `is_stream`: the script has windows, or streams."""

    name: str
    script: str
    expected: str
    is_list: bool = False


CHECKS = [
    Check("load text", "a = LOAD 'file.txt'; STORE a INTO 'out';", "result1.data", is_list=True),
    Check(
        "load pairs",
        "a = LOAD 'file.csv' USING PigStorage(','); STORE a INTO 'out';",
        "result2.data",
        is_list=True,
    ),
    Check(
        "filter a position",
        "a = load 'file.txt' using PigStorage(':'); b = filter a by $0 == \"small\"; store b into 'out';",
        "result3.data",
        is_list=True,
    ),
    Check("self join", SIDES + "x = JOIN a BY a1, b BY b1; STORE x INTO 'out';", "joined.data"),
    Check("windowed join", WINDOWED_SIDES + "x = JOIN c BY a1, d BY b1; STORE x INTO 'out';", "joined.data"),
    Check(
        "join of fields with one name",
        SIDES.replace("b1: int, b2: int, b3: int", "a1: int, a2: int, a3: int")
        + "x = JOIN a BY a1, b BY a1; y = ORDER x BY b::a1 ASC; STORE y INTO 'out';",
        "joined_ambiguous_fieldnames.data",
    ),
    Check(
        "filtered join",
        SIDES + "x = JOIN a BY a1, b BY b1; y = FILTER x BY a1 == 4; STORE y INTO 'out';",
        "joined_filtered.data",
    ),
    Check("order", UNSORTED + "b = ORDER a BY f1, f2, f3; STORE b INTO 'out';", "sorted.data", is_list=True),
    Check(
        "windowed order",
        UNSORTED
        + "w = WINDOW a RANGE 5 SECONDS SLIDE RANGE 5 SECONDS; b = ORDER w BY f1, f2, f3; STORE b INTO 'out';",
        "sorted.data",
        is_list=True,
    ),
    Check(
        "order both ways",
        UNSORTED + "b = ORDER a BY f1 ASC, f2 DESC; STORE b INTO 'out';",
        "sorted_multiple_directions.data",
        is_list=True,
    ),
    Check(
        "top with a schema",
        UNSORTED.replace("unsorted", "unsorted_top")
        + "b = order a by $1 asc, $2 desc; c = limit b 4; STORE c INTO 'out';",
        "top.data",
        is_list=True,
    ),
    Check(
        "top without a schema",
        "a = LOAD 'unsorted_top.csv' USING PigStorage(','); b = order a by $1 asc, $2 desc; c = limit b 4; STORE c INTO 'out';",
        "top.data",
        is_list=True,
    ),
    *(
        Check(
            f"filter {name}",
            f"a = LOAD 'file.csv' USING {storage}(',') AS {PAIR}; {between} b = FILTER {of} BY f1 > 1 AND f2 > 1; STORE b INTO 'out';",
            "filtered.data",
        )
        for name, storage, between, of in (
            ("of a batch", "PigStorage", "", "a"),
            ("of a stream", "PigStream", "", "a"),
            ("in windows", "PigStorage", "w = WINDOW a RANGE 5 SECONDS SLIDE RANGE 5 SECONDS;", "w"),
        )
    ),
    Check(
        "foreach", "a = LOAD 'events.csv' " + EVENTS.format(storage="PigStorage") + MOVED, "distances.data"
    ),
    Check(
        "foreach on a stream",
        "a = LOAD 'events.csv' " + EVENTS.format(storage="PigStream") + MOVED,
        "distances.data",
    ),
    Check("nested foreach", DAILY + COUNTED.format(daily="daily"), "nested.data"),
    Check(
        "nested foreach in windows",
        DAILY + "win = window daily range 10 seconds slide range 10 seconds;" + COUNTED.format(daily="win"),
        "nested.data",
    ),
    Check(
        "group by two",
        f"a = LOAD 'grouping.txt' {SIX}; b = GROUP a BY (f1, f2); STORE b INTO 'out';",
        "grouping.data",
    ),
    Check(
        "group by two in windows",
        f"a = LOAD 'grouping.txt' {SIX}; w = WINDOW a RANGE 10 SECONDS; b = GROUP w BY (f1, f2); STORE b INTO 'out';",
        "grouping.data",
    ),
    Check(
        "group all", f"a = LOAD 'grouping.txt' {SIX}; b = GROUP a ALL; STORE b INTO 'out';", "groupall.data"
    ),
    Check(
        "field of a bag",
        f"a = LOAD 'grouping.txt' {SIX}; b = GROUP a BY f1; c = FOREACH b GENERATE a.f1, AVG(a.f2); STORE c INTO 'out';",
        "grouping2.data",
    ),
    Check(
        "word count",
        LINES + "g = group words by word; c = foreach g generate group, COUNT(words); store c into 'out';",
        "marycount.data",
    ),
    Check(
        "word count in windows",
        LINES
        + "win = window words range 10 seconds slide range 10 seconds; g = group win by word;"
        + "c = foreach g generate group, COUNT(win); store c into 'out';",
        "marycount.data",
    ),
    Check(
        "tokens",
        "a = load 'mary.txt' as (line); b = foreach a generate TOKENIZE(line); store b into 'out';",
        "bag.data",
        is_list=True,
    ),
    Check(
        "constructors",
        "a = load 'construct.csv' using PigStorage(',') as (f1: int, f2: int, name: chararray);"
        "b = foreach a generate (f1, f2), {f1, f2}, [name, f1]; STORE b INTO 'out';",
        "construct.data",
        is_list=True,
    ),
    Check(
        "union",
        "".join(f"{name} = LOAD 'file.csv' USING PigStorage(',') AS {PAIR};" for name in "abc")
        + "u = UNION a, b, c; STORE u INTO 'out';",
        "united.data",
    ),
    Check(
        "cross of two",
        "a = LOAD 'file.txt' AS (w: chararray); b = LOAD 'file.txt' AS (v: chararray); c = CROSS a, b; STORE c INTO 'out';",
        "cross2.csv",
    ),
    Check(
        "cross of four",
        "a = LOAD 'file.csv' USING PigStorage(',') AS (f1: chararray, f2: int);"
        "b = LOAD 'file.csv' USING PigStorage(',') AS (f1: int, f2: int);"
        "c = LOAD 'file.csv' USING PigStorage(',') AS (f1: int, f2: chararray);"
        "d = LOAD 'file.txt' USING PigStorage(',') AS (f1: chararray); e = CROSS a, b, c, d; STORE e INTO 'out';",
        "crossmany.csv",
    ),
    Check("windowed cross", WINDOWED_SIDES + "x = CROSS c, d; STORE x INTO 'out';", "crossed.data"),
    Check(
        "aggregates",
        "a = load 'aggregate.csv' using PigStorage(',') as (x: int, y: int); b = group a by x;"
        "c = foreach b generate group, COUNT(a.y), SUM(a.y), AVG(a.y); store c into 'out';",
        "aggregate.data",
    ),
    Check(
        "rolling aggregates",
        "a = load 'aggregate.csv' using PigStream(',') as (x: int, y: int); b = group a by x;"
        "c = foreach b generate group, COUNT(a.y), SUM(a.y), AVG(a.y); store c into 'out';",
        "aggregate2.data",
    ),
    Check(
        "accumulate",
        f"a = LOAD 'file.csv' USING PigStorage(',') AS {PAIR};"
        "b = ACCUMULATE a GENERATE min(f1), max(f1), sum(f2), count(f2), avg(f2); STORE b INTO 'out';",
        "accumulate.data",
    ),
    Check(
        "aggregates of all",
        "a = load 'aggregate.csv' using PigStorage(',') as (x: int, y: int); b = group a all;"
        "c = foreach b generate COUNT(a.y), SUM(a.y), AVG(a.y); store c into 'out';",
        "aggrwogrouping.data",
    ),
    Check(
        "sample of all",
        f"a = LOAD 'file.csv' USING PigStorage(',') AS {PAIR}; b = SAMPLE a 1.0; STORE b INTO 'out';",
        "sampling.data",
    ),
    Check(
        "embedded function",
        "<%\ndef my_sum(a: int, b: int) -> int:\n    return a + b\n%>\n"
        f"a = LOAD 'file.csv' USING PigStorage(',') AS {PAIR}; b = FOREACH a GENERATE my_sum(f1, f2); STORE b INTO 'out';",
        "embedded.data",
        is_list=True,
    ),
    Check(
        "macros",
        "DEFINE first(in_alias, p) RETURNS out_alias { $out_alias = FOREACH $in_alias GENERATE $0 + $p, $1; };"
        "DEFINE second(in_alias, p) RETURNS out_alias { $out_alias = FOREACH $in_alias GENERATE $0, $1 - $p; };"
        f"in = LOAD 'file.csv' USING PigStorage(',') AS {PAIR}; out = first(in, 42); out2 = second(out, 1); STORE out2 INTO 'out';",
        "macro1.data",
        is_list=True,
    ),
    *(
        Check(
            f"split into {name}",
            f"a = LOAD 'split.csv' USING PigStream(',') {SIX}; SPLIT a INTO x IF f1 < 7, y IF f2 == 5, z IF (f3 < 6 OR f3 > 6);"
            f"STORE {name} INTO 'out';",
            f"split{name.upper()}.data",
        )
        for name in "xyz"
    ),
    Check(
        "distinct in windows",
        f"a = LOAD 'duplicates.csv' USING PigStorage(',') AS {PAIR}; w = WINDOW a RANGE 10 SECONDS; b = DISTINCT w; STORE b INTO 'out';",
        "unique.data",
    ),
    Check(
        "two joins",
        SIDES
        + "c = FILTER b BY b1 == 4; d = FILTER b BY b3 == 1; x = JOIN a BY a1, c BY b1; y = JOIN a BY a1, d BY b1;"
        + "u = FOREACH x GENERATE a1, b1; v = FOREACH y GENERATE a1, b1; w = UNION u, v; STORE w INTO 'out';",
        "twojoins.data",
    ),
]
