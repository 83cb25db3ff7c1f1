"""A step that raises while a flow runs: the error names the step, the function, the key and the row of the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dgs
from dgs.errors import UserCodeError
from dgs.flow import every, flow
from dgs.monoids import COUNT
from tests.dgs.flow.test_leaving_out import BROKEN
from tests.dgs.flow.test_plan_files import write

ROWS = {
    "row": [(1, "a bb"), (3, "ccc boom")],
    "late": [(1, "a kaputt"), (30, "a")],
    "item": [(1, "a"), (4, "bb bang")],
}


def raised(directory: Path, name: str, fault: str, **more: Any) -> UserCodeError:
    path = write(directory, name, {"lines": ROWS[fault]}, **more)
    (directory / "flows.py").write_text(BROKEN)
    with pytest.raises(UserCodeError) as caught:
        dgs.run(path, **more.pop("options", {}))
    return caught.value


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(BROKEN.splitlines(), 1) if text in line)


@pytest.mark.parametrize("name", ["free", "summed", "ordered"])
def test_a_step_in_front_names_the_line_of_its_row(tmp_path: Path, name: str) -> None:
    error = raised(tmp_path, name, "row")
    number = line_of("def free" if name == "free" else "return lines.flat_map(split).key_by")
    assert f"(step 1 'flat_map' at flows.py:{number}, function split, key (), at 3)" in str(error)
    assert "row 1 of stream 'lines'" in str(error) or "stream 'lines', row 1" in str(error)
    assert str(error).endswith("(lines.jsonl, line 2)")
    assert (error.row, error.file, error.line) == (1, "lines.jsonl", 2)


def test_an_item_of_an_ordered_step_names_its_key_and_row(tmp_path: Path) -> None:
    error = raised(tmp_path, "ordered", "item")
    place = f"(step 3 'Last' at flows.py:{line_of('def ordered')}, function Last.on_item, key 'bang', at 4)"
    assert place in str(error)
    assert (error.row, error.line) == (1, 2)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("summed", "step 4 'each' at flows.py:{}, function told, key 'kaputt', at 10"),
        ("rising", "step 3 'Rising' at flows.py:{}, function Rising.on_marker, key 'kaputt', at 20"),
        ("ordered", "step 3 'Last' at flows.py:{}, function Last.on_marker, key 'kaputt', at 20"),
        ("blocks", "step 3 'block' at flows.py:{}, function blocks.block, key 'kaputt', at 10"),
    ],
)
def test_a_step_after_the_end_of_a_block_names_key_and_block(tmp_path: Path, name: str, step: str) -> None:
    text = "return words(lines).block(block)" if name == "blocks" else f"def {name}"
    assert f"({step.format(line_of(text))})" in str(raised(tmp_path, name, "late"))


def test_each_file_counts_its_own_lines(tmp_path: Path) -> None:
    write(tmp_path, "free", {"lines": ROWS["late"]})
    (tmp_path / "lines.jsonl").rename(tmp_path / "1.jsonl")
    path = write(tmp_path, "free", {"lines": [(ts + 90, line) for ts, line in ROWS["row"]]})
    (tmp_path / "lines.jsonl").rename(tmp_path / "2.jsonl")
    (tmp_path / "flows.py").write_text(BROKEN)
    path.write_text(path.read_text().replace("lines.jsonl", "*.jsonl"))
    with pytest.raises(UserCodeError, match=r"row 3, .*\(2.jsonl, line 2\)"):
        dgs.run(path)


def test_rows_of_python_streams_have_no_file() -> None:
    from dgs.flow import flow

    @flow()
    def inverse(numbers: int) -> Any:
        return numbers.map(lambda _, number: 1 / number)

    with pytest.raises(UserCodeError) as caught:
        dgs.run(inverse, streams={"numbers": [(1, 2), (2, 0)]}, runtime="local")
    assert caught.value.row == 1
    assert "function test_rows_of_python_streams_have_no_file.inverse.<lambda>" in str(caught.value)
    assert str(caught.value).endswith("worker w0")


class Unknown:
    """A value that the codec does not encode."""


@pytest.mark.parametrize("key", [[1], Unknown()], ids=["list", "object"])
def test_a_value_that_cannot_be_a_key_is_named(key: Any) -> None:
    from dgs.flow import every, flow

    @flow(clock=every(10))
    def counted(numbers: int) -> Any:
        return numbers.key_by(lambda _, number: key).fold(lambda n, _: n + 1, 0)

    with pytest.raises(
        UserCodeError, match=r"R02 .*cannot be a key.*\(step 1 'key_by' at .*row 0 of stream 'numbers'"
    ):
        dgs.run(counted, streams={"numbers": [(1, 5)]}, runtime="local")


def test_rows_of_python_streams_are_left_out_in_front_of_an_ordered_step() -> None:
    from dgs.flow import every, flow

    @flow(clock=every(10))
    def products(numbers: int) -> Any:
        inverse = numbers.map(lambda _, number: 12 // number).key_by(lambda _, number: number % 2)
        return inverse.fold(lambda product, number: product * number, 1)

    streams = {"numbers": [(1, 2), (2, 0), (3, 6)]}
    settings = {"on_error": "skip"}
    run = dgs.run(products, streams=streams, runtime="local", settings=settings, verify=True)
    assert (run.outputs, run.verified, [letter.row for letter in run.dead_letters]) == ([12], True, [1])


def inverse(_, value):
    return 1 // value["n"]


@pytest.mark.parametrize(
    "columns",
    [None, lambda _, value: 1 // value["n"], lambda _, value: [1 // n for n in value["n"].tolist()]],
)
@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("position", [0, 1, 700, 1999])
@np.errstate(divide="raise")
def test_the_row_at_fault_is_named_wherever_it_is_in_a_batch(columns, is_keyed, position):
    @flow(clock=every(1000))
    def inverted(items):
        made = items.filter_by("is_wanted", True).map(inverse, columns=columns)
        return made.key_by(lambda _, n: n).aggregate(COUNT) if is_keyed else made

    rows = [{"n": int(number != position), "is_wanted": True} for number in range(2000)]
    rows.insert(0, {"n": 0, "is_wanted": False})
    with pytest.raises(UserCodeError) as caught:
        dgs.run(inverted, streams={"items": list(enumerate(rows))})
    assert (caught.value.row, caught.value.ts) == (position + 1, position + 1)
    assert "function inverse" in str(caught.value)
