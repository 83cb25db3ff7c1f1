"""The flaws of the paper, P1 to P7 of the design, each with the behaviour here."""

from pathlib import Path

import pytest

from dgs.flow import FlowError
from dgs.pico import (
    fold_reduce,
    from_lines,
    from_stream,
    map,  # noqa: A004 - the name in dgs.pico
    new,
    reduce,
    tumbling,
    w,
    window,
)
from tests.dgs.pico.pipelines import word_count

UPSTREAM = Path(__file__).parents[4] / "shared" / "cases" / "upstream" / "pico"


def total(a, b):
    return a + b


def test_p1_a_combine_fits_bags_and_streams_whose_source_has_a_window(tmp_path):
    assert word_count.types().endswith("for s in bag, list, stream with a window at its source")
    path = tmp_path / "lines.txt"
    path.write_text("a b\na\nb\n")
    stream = new(from_lines(str(path), structure="stream", window=tumbling(2))) | word_count
    assert sorted(stream.denote()) == [("a", 2), ("b", 1), ("b", 1)]
    with pytest.raises(FlowError, match="P04"):
        (new(from_lines(str(path), structure="stream")) | word_count).denote()


def test_p2_a_combined_list_is_in_order_of_the_last_element_of_each_group(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a b c\nb\na\n")
    pipeline = new(from_lines(str(path), structure="list")) | word_count
    assert pipeline.denote() == [("c", 1), ("b", 2), ("a", 2)]
    assert pipeline.run().outputs == pipeline.denote()


def test_p3_merge_is_typed_both_ways_round():
    source, processing = new(from_stream("a", gives=int)), new(map(abs, gives=int))
    assert (source + processing).types() == (processing + source).types()
    assert (source + processing).types().startswith("(Any)s -> (int)s")


def test_p4_merge_of_ordered_collections_does_not_depend_on_the_order_of_its_operands():
    a, b = (new(from_stream(name, structure="list")) for name in "ab")
    streams = {"b": [(1, "b1"), (1, "b2"), (2, "b3")], "a": [(1, "a1"), (2, "a2")]}
    assert (a + b).denote(streams) == (b + a).denote(streams) == ["a1", "b1", "b2", "a2", "b3"]
    assert (b + a).run(streams=streams).outputs == (a + b).denote(streams)


def test_p5_a_start_that_is_not_neutral_is_found():
    one = fold_reduce(total, 1, total)
    with pytest.raises(FlowError) as caught:
        (new(from_stream("a", structure="bag")) | new(one)).check()
    assert caught.value.codes == ["F22"]


@pytest.mark.parametrize(("partial", "sums"), [("emit", [6, 6, 4]), ("drop", [6, 6])])
def test_p6_partial_windows_are_emitted_or_dropped_and_empty_ones_never_are(partial, sums):
    stream = new(from_stream("a")) | new(w(reduce(total), over=window(3, 2, "count", partial=partial)))
    elements = [(1, 1), (2, 2), (3, 3), (4, 0), (5, 3), (9, 1)]
    assert stream.denote({"a": elements}) == stream.run(streams={"a": elements}).outputs == sums
    assert stream.denote({"a": []}) == stream.run(streams={"a": []}).outputs == []


def test_p7_a_file_is_a_bag_unless_its_structure_is_given(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("b\na\n")
    assert new(from_lines(str(path))).types() == "() -> (str)s, for s in bag"
    assert new(from_lines(str(path), structure="list")).types() == "() -> (str)s, for s in list"
