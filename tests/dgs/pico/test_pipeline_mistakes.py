"""All mistakes of a pipeline in one pass: their codes, and their texts in tests/golden/pico_mistakes.txt."""

import os
import re
from pathlib import Path

import pytest

from dgs.flow import FlowError
from dgs.pico import (
    filter,  # noqa: A004 - the name in dgs.pico
    first,
    flat_map,
    fold_reduce,
    from_csv,
    from_lines,
    from_stream,
    iterate,
    join_fold_reduce,
    map,  # noqa: A004 - the name in dgs.pico
    merge,
    new,
    p,
    pair,
    reduce,
    to,
    to_jsonl,
    tumbling,
    w,
    w_p,
    window,
)


def length(line: str) -> int:
    return len(line)


def characters(line: str):
    yield from line


def doubled(number: int) -> int:
    return 2 * number


def low(a, b):
    return min(a, b)


def total(a, b):
    return a + b


prices = new(from_stream("prices"))
lines = new(from_lines("input.txt"))
listed = new(from_lines("other.txt", structure="list"))
both = join_fold_reduce(lambda s, a, b: s + a * b, 0, total)
gather = fold_reduce(lambda s, x: [*s, x], [], total, commutative=False)

WRONG = {
    "P01 a function's annotation": lines | new(map(doubled)),
    "P01 merge": (lines | new(map(length))) + new(from_lines("second.txt")),
    "P01 by": lines | new(p(reduce(low), by=doubled)),
    "P02 merge": lines + listed,
    "P02 pair": pair(lines, listed, both),
    "P02 no structure": new(from_lines("input.txt", structure="set")),
    "P03 stream": prices | new(w_p(reduce(low), by=first, over=window(10, 5))) | new(p(reduce(total), by=first)),
    "P03 bag": lines | new(gather),
    "P04 stream": prices | new(p(reduce(total), by=first)),
    "P04 pair": pair(prices, new(from_stream("tweets")), both),
    "P05 bag": lines | new(w(reduce(total), over=tumbling(10))),
    "P05 source": new(from_lines("input.txt", window=tumbling(1000))),
    "P06 pair": lines | pair(new(map(length)), new(map(length)), both),
    "P07 merge": lines | merge(new(map(length)), new(map(length))),
    "P08 to": to(lines, new(map(length)), new(filter(str.isdigit))),
    "P09 input": new(map(length)) | new(to_jsonl("out/")),
    "P10 source behind": lines | new(from_lines("second.txt")),
    "P10 behind a sink": lines | new(to_jsonl("out/")) | new(map(length)),
    "P10 pair's operator": lines | new(both),
    "P10 operator of pair": pair(lines, new(from_lines("second.txt")), reduce(total)),
    "P10 no operator": lines | new(5),
    "P10 name": new(from_lines("a b.txt")) + new(from_lines("a_b.txt")),
    "P10 function": lines | new(map(lambda key, value: value)),
    "P10 yield": lines | new(filter(characters)),
    "P11 gives": lines | new(flat_map(str.split, gives="str")),
    "P12 iterate": lines | iterate(new(map(length))),
    "W01 size": prices | new(w(reduce(total), over=window(0, 5))),
    "W01 source": new(from_stream("prices", window=tumbling(5))),
    "W01 no window": prices | new(w(reduce(total), over=5)),
    "W01 unit": prices | new(w(reduce(total), over=window(5, 5, "minutes"))),
    "W01 text": prices | new(w(reduce(total), over=window("ten", "1s", "time"))),
    "W01 partial": prices | new(w(reduce(total), over=tumbling(5, partial="keep"))),
    "W02 time": prices | new(w(reduce(total), over=window("1s", "10s", "time"))),
    "W02 slide": prices | new(w(reduce(total), over=window(5, 10))),
    "W03 count": new(from_lines("input.txt", structure="stream", window=tumbling(10))) | new(w(reduce(total), over=window(5, 5))),
    "F22 start": lines | new(map(length)) | new(fold_reduce(total, 1, total)),
}  # fmt: skip


def mistakes_of(pipeline):
    with pytest.raises(FlowError) as caught:
        pipeline.named("words").flow()
    return caught.value


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_has_its_code(case):
    assert mistakes_of(WRONG[case]).codes == [case.partition(" ")[0]]


def test_all_mistakes_are_reported_at_once():
    several = to(
        lines | new(map(doubled)) | new(w(reduce(low), over=tumbling(3))),
        new(flat_map(str.split, gives="str")),
        iterate(new(map(length))),
        new(5),
    )
    assert sorted(mistakes_of(several).codes) == ["P01", "P05", "P10", "P11", "P12"]


def test_texts_of_mistakes_are_those_of_the_golden_file():
    """`UPDATE_GOLDEN=1` rewrites tests/golden/pico_mistakes.txt."""
    found = []
    for case, pipeline in WRONG.items():
        text = re.sub(r"test_pipeline_mistakes.py:\d+", "words.py:1", str(mistakes_of(pipeline)))
        found.append(f"# {case}\n{text}\n")
    golden = Path(__file__).parents[2] / "golden" / "pico_mistakes.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("\n".join(found))
    assert "\n".join(found) == golden.read_text()


def test_mistakes_name_the_line_that_made_the_operator():
    wrong = lines | new(map(doubled))
    (mistake,) = mistakes_of(wrong).facts["mistakes"]
    line = test_mistakes_name_the_line_that_made_the_operator.__code__.co_firstlineno + 1
    assert mistake["place"] == f"test_pipeline_mistakes.py:{line}"


def test_a_stream_too_many_names_the_line_of_the_pipeline():
    pipeline = new(from_stream("a")) | new(map(str))
    with pytest.raises(FlowError) as caught:
        pipeline.denote({"a": [], "b": []})
    (mistake,) = caught.value.mistakes
    assert mistake["place"].startswith("test_pipeline_mistakes.py:")


def test_a_pipeline_in_the_place_of_an_operator_is_drawn():
    wrong = pair(new(from_stream("a")), new(from_stream("b")), new(reduce(min)))
    text = str(mistakes_of(wrong))
    assert "new(reduce(min)): takes no such operator" in text
    assert "object at 0x" not in text


def test_right_pipelines_have_no_mistakes():
    windowed = new(from_lines("input.txt", structure="stream", window=tumbling(10)))
    for pipeline in (
        lines | new(map(length)) | new(reduce(total)),
        listed | new(w(gather, over=window(10, 5))) | new(gather),
        windowed | new(reduce(low)) | new(w(reduce(low), over=tumbling(100, "time"))),
        new(from_csv("rows.csv")) + new(from_csv("more.csv")) | new(p(reduce(low), by=first)),
        prices | new(to_jsonl("out/")),
    ):
        pipeline.check()
