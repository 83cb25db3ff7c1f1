"""The checker: each mistake under its code, all mistakes together, with place, expectation, finding and fix."""

import os
import re
from pathlib import Path
from typing import NamedTuple, TypedDict

import pytest

import dgs
from dgs.errors import UserCodeError
from dgs.flow import (
    FlowError,
    KeyedOrdered,
    KeyedUnordered,
    count,
    every,
    flow,
    merge,
    on,
    sliding,
    tumbling,
)
from dgs.flow.panes import TimeWindow
from dgs.monoids import COUNT, SUM, AllOf, Top

HIT = dgs.kind("hit", key=str)


class View(TypedDict):
    """A record of a page view."""

    ad: str
    user: int


class Ordered(KeyedOrdered):
    """Passes values on."""

    def on_item(self, state, key, value, emit):
        emit(value)
        return state


class Changing(Ordered):
    """Declares that it changes values in place."""

    changes_values = True


class OfFew(KeyedOrdered):
    """Has no `emit`."""

    def on_item(self, state, key, value):
        return state


class NoMonoid(KeyedUnordered):
    """Has no monoid."""

    def update_state(self, state, found):
        return found


class OfNumbers(Ordered):
    """Takes numbers with text keys."""

    takes_key = str
    takes_value = int


class GivesText(Ordered):
    """Has a text as the annotation of its result."""

    gives = "int"


class Snapshot(KeyedUnordered):
    """Reads the state of the last marker."""

    monoid = SUM

    def update_state(self, state, found):
        return found

    def on_item(self, state, key, value, emit):
        emit(key, state)


class MeanOfMeans(KeyedUnordered):
    """The published flaw D1: the mean of a block is its sum by its count, also without items."""

    monoid = AllOf(total=SUM, n=COUNT)

    def initial_state(self):
        return 0.0

    def update_state(self, state, found):
        return max(state, found["total"] / found["n"])


class NotANumber(MeanOfMeans):
    """The same with the float division of other languages."""

    def update_state(self, state, found):
        return state + (found["total"] / found["n"] if found["n"] else float("nan"))


class NoStart(MeanOfMeans):
    """Has no initial state."""

    def initial_state(self):
        raise LookupError("no first state")


class Skipping(MeanOfMeans):
    """Counts blocks, and declares that blocks without items change nothing."""

    idle = "skip"

    def update_state(self, state, found):
        return state + 1


class Yielding(KeyedOrdered):
    """Yields values, which are ignored."""

    def on_item(self, state, key, value, emit):
        yield value


class SinceMiss(dgs.Program):
    """A program whose events depend on each other."""

    depends = dgs.Dependence((HIT, HIT, dgs.SAME_KEY))

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state


def by_text(_, value) -> str:
    return str(value)


def by_number(_, value) -> int:
    return value


def of_text(_, value: str):
    return value


def codes(function, clock=None):
    with pytest.raises(FlowError) as caught:
        flow(clock=clock)(function).types()
    return caught.value.codes


async def late(_, value):
    return value


def yielding(_, value):
    yield value


def numbers(lines: int):
    return lines


WRONG = {
    "F01 no monoid": ("F01", None, lambda a: a.aggregate(sum)),
    "F01 no table": ("F01", None, lambda a: a.lookup(5, key="ad", into="campaign")),
    "F01 no template": ("F01", None, lambda a: a.apply(Ordered)),
    "F01 arity": ("F01", None, lambda a: a.map(lambda value: value)),
    "F01 fold's arity": ("F01", None, lambda a: a.fold(lambda state: state, 0)),
    "F01 class of a monoid": ("F01", None, lambda a: a.aggregate(type(COUNT))),
    "F01 idle": ("F01", None, lambda a: a.aggregate(COUNT, idle="none")),
    "F01 missing": ("F01", None, lambda a: a.lookup({}, key="ad", into="campaign", missing="skip")),
    "F01 ties": ("F01", None, lambda a: a.sort(by=by_text, ties="first")),
    "F01 partial": ("F01", None, lambda a: a.fold(lambda s, v: s, 0, over=count(2, partial="keep"))),
    "F01 no key": ("F01", None, lambda a: a.key_by(None).aggregate(COUNT)),
    "F01 no sort key": ("F01", None, lambda a: a.sort(by=None)),
    "F01 no values": ("F01", None, lambda a: a.filter_by("ad")),
    "F01 no fields": ("F01", None, lambda a: a.project()),
    "F01 no on_item": ("F01", None, lambda a: a.apply(KeyedOrdered())),
    "F01 arity of on_item": ("F01", None, lambda a: a.apply(OfFew())),
    "F01 template without monoid": ("F01", None, lambda a: a.apply(NoMonoid())),
    "F01 merge of nothing": ("F01", None, lambda a: merge()),
    "F01 not last": ("F01", None, lambda a: a.into(SinceMiss(), tag=lambda _, v: HIT(v)).map(lambda _, v: v)),
    "F01 no program": ("F01", None, lambda a: a.into(SinceMiss, tag=lambda _, v: HIT(v))),
    "F01 clock of text": ("F01", "1s", lambda a: a),
    "F01 list of fields": ("F01", None, lambda a: a.key_by(["ad", "user"])),
    "F01 function beside a field": ("F01", None, lambda a: a.key_by(by_text, "ad")),
    "F01 function for a field": ("F01", None, lambda a: a.filter_by(by_text, "x")),
    "F01 no field to look up into": ("F01", None, lambda a: a.lookup({}, key="ad", into=None)),
    "F01 list to sort by": ("F01", None, lambda a: a.sort(by=["ad"])),
    "F01 number with a point to sort by": ("F01", None, lambda a: a.sort(3.5)),
    "F01 truth to sort by": ("F01", None, lambda a: a.sort(True)),
    "F01 several fields to sort by": ("F01", None, lambda a: a.sort(("ad", "user"))),
    "F01 no step": ("F01", None, lambda a: a.mapp(by_text)),
    "F01 arguments": ("F01", None, lambda a: a.aggregate(COUNT, overr="history")),
    "F01 no argument": ("F01", None, lambda a: a.sort()),
    "F01 join of no edge": ("F01", None, lambda a: a.join(5)),
    "F01 merge of no edge": ("F01", None, lambda a: merge(None, a)),
    "F01 gives": ("F01", None, lambda a: a.map(by_text, gives="int")),
    "F01 async": ("F01", None, lambda a: a.map(late)),
    "F01 yield": ("F01", None, lambda a: a.filter(yielding)),
    "F01 yield in a template": ("F01", None, lambda a: a.apply(Yielding())),
    "F01 truth of parts": ("F01", every(5), lambda a: a.aggregate(COUNT, accept_parts=3)),
    "F01 truth of gaps": ("F01", None, lambda a: a.fold(lambda s, v: s, 0, over=count(2, allow_gaps="x"))),
    "F01 type of a template": ("F01", None, lambda a: a.apply(GivesText())),
    "F01 payload": ("F01", None, lambda a: a.into(SinceMiss(), tag=lambda _, v: HIT(v), payload="ad")),
    "F02 key_by twice": ("F02", None, lambda a: a.key_by(by_text).key_by(by_number).apply(Ordered())),
    "F02 pairs": ("F02", None, lambda a: a.pairs(lambda k, v: (v, v)).fold(lambda s, v: v, 0)),
    "F02 into": ("F02", None, lambda a: a.sort(by=0).into(SinceMiss(), tag=lambda _, v: HIT(v))),
    "F03 merge": ("F03", None, lambda a: a.key_by(by_text).merge(a.key_by(by_number))),
    "F03 join": ("F03", None, lambda a: a.key_by(by_text).join(a.key_by(by_number))),
    "F03 join without keys": ("F03", None, lambda a: a.key_by(by_text).join(a)),
    "F03 template": ("F03", None, lambda a: a.key_by(by_number).apply(OfNumbers())),
    "F04 function": ("F04", None, lambda a: a.map(lambda _, v: v, gives=int).map(of_text)),
    "F04 merge": ("F04", None, lambda a: a.map(by_text).merge(a.map(by_number))),
    "F04 field": ("F04", None, lambda a: a.map(lambda _, v: v, gives=View).key_by("adv")),
    "F05 owned": ("F05", None, lambda a: merge(a.apply(Changing()), a.map(lambda _, v: v))),
    "F07 multiple": ("F07", every("1s"), lambda a: a.aggregate(COUNT, over=sliding("2500ms"))),
    "F07 no clock": ("F07", None, lambda a: a.aggregate(COUNT, over=tumbling("1s"))),
    "F08 arrival": ("F08", None, lambda a: a.pairs(lambda k, v: (v, v)).sort(by=0, ties="arrival")),
    "F09 lost": ("F09", every(5), lambda a: a.sort(by=0).apply(Ordered()).aggregate(COUNT)),
    "F11 merge": ("F11", None, lambda a: a.sort(by=0).merge(a).apply(Ordered())),
    "F12 no result": ("F12", None, lambda a: None),
    "F12 list of edges": ("F12", None, lambda a: [a, a]),
    "F12 raises": ("F12", None, lambda a: a.map(by_text) if int("x") else a),
    "F12 items of an edge": ("F12", None, lambda a: [one for one in a]),  # noqa: C416 - a mistake
    "F12 flow of no edge": ("F12", None, lambda a: flow()(numbers)(3)),
    "F12 no stream": ("F12", on("ends"), lambda a: a),
    "F13 snapshot": ("F13", every(5), lambda a: a.apply(Snapshot())),
    "F20 raises": ("F20", every(5), lambda a: a.apply(MeanOfMeans())),
    "F20 NaN": ("F20", every(5), lambda a: a.apply(NotANumber())),
    "F20 no first state": ("F20", every(5), lambda a: a.apply(NoStart())),
    "F23 skip": ("F23", every(5), lambda a: a.apply(Skipping())),
    "W01 text for a window": ("W01", every(5), lambda a: a.aggregate(COUNT, over="10s")),
    "W01 count for an aggregate": ("W01", every(5), lambda a: a.aggregate(COUNT, over=count(3))),
    "W01 time for a fold": ("W01", every(5), lambda a: a.fold(lambda s, v: s, 0, over=sliding(10))),
    "W01 count of text": ("W01", None, lambda a: a.fold(lambda s, v: s, 0, over=count("3"))),
    "W01 size": ("W01", every(5), lambda a: a.aggregate(COUNT, over=tumbling(0))),
    "W01 text": ("W01", every(5), lambda a: a.aggregate(COUNT, over=sliding("ten"))),
    "W01 count": ("W01", None, lambda a: a.fold(lambda s, v: v, 0, over=count(0))),
    "W01 clock": ("W01", every(-5), lambda a: a),
    "W01 origin": ("W01", every(5, "1s"), lambda a: a),
    "W01 start": ("W01", every(5, start="now"), lambda a: a),
    "W02 gaps": ("W02", every(5), lambda a: a.aggregate(COUNT, over=TimeWindow(5, 10))),
    "W02 count": ("W02", None, lambda a: a.fold(lambda s, v: v, 0, over=count(5, 10))),
    "W03 not aligned": (
        "W03",
        every(5),
        lambda a: a.aggregate(COUNT, over=tumbling(10)).aggregate(SUM, over=tumbling(15)),
    ),
    "W03 merged": ("W03", every(5), lambda a: tens(a).merge(fifteens(a)).aggregate(SUM, over=tumbling(15))),
    "W03 joined": ("W03", every(5), lambda a: tens(a).join(fifteens(a)).aggregate(COUNT, over=tumbling(15))),
}


def tens(a):
    return a.aggregate(COUNT, over=tumbling(10))


def fifteens(a):
    return a.aggregate(COUNT, over=tumbling(15))


class Price(NamedTuple):
    ticker: str
    price: int

    @property
    def cents(self):
        return self.price * 100


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (tuple[str, int], [0, -1], [2, -3, "price"]),
        (tuple[int, ...], [0, 7], ["price"]),
        (list[int], [5], ["price"]),
        (dict[str, int], ["any"], [0, b"any"]),
        (Price, ["price", 1, "cents"], ["prise", 2]),
        (View, ["ad"], ["add", 0]),
        (str, [0], ["price"]),
    ],
)
def test_fields_are_those_of_the_type(kind, right, wrong):
    def sorting(name):
        return lambda a: a.map(lambda _, v: v, gives=kind).sort(name)

    assert all(flow()(sorting(name)).types() for name in right)
    assert [codes(sorting(name)) for name in wrong] == [["F04"]] * len(wrong)


def test_field_that_values_do_not_have_is_named_with_the_value():
    made = flow()(lambda a: a.key_by(0).sort(5))
    with pytest.raises(UserCodeError, match=r"no field 5 in \('x', 1\) \(step 2 'sort'"):
        made.denote({"a": [(1, ("x", 1))]})


@pytest.mark.parametrize("name", WRONG)
def test_mistake_has_its_code(name):
    code, clock, build = WRONG[name]
    assert codes(build, clock) == [code]


RIGHT = {
    "windows of windows": (
        every(5),
        lambda a: a.aggregate(COUNT, over=tumbling(10)).aggregate(SUM, over=tumbling(20)),
    ),
    "gaps": (every(5), lambda a: a.aggregate(COUNT, over=TimeWindow(5, 10, allow_gaps=True))),
    "parts": (every(5), lambda a: a.sort(by=0).apply(Ordered()).aggregate(COUNT, accept_parts=True)),
    "kept": (every(5), lambda a: a.sort(by=0).apply(Ordered(), keeps=True).aggregate(COUNT)),
    "sorted": (None, lambda a: a.key_by(by_text).key_by(by_number).sort(by=0).apply(Ordered())),
    "exact ticks": (every(5, start=0), lambda a: a.apply(Snapshot())),
    "counts of numbers": (None, lambda a: a.map(lambda _, v: v, gives=bool).map(by_number).map(by_text)),
    "several values": (None, lambda a: a.flat_map(yielding)),
    "total order": (None, lambda a: a.into(SinceMiss(), tag=lambda _, v: HIT(v))),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_flow_passes(name):
    clock, build = RIGHT[name]
    assert flow(clock=clock)(build).types()


def test_merge_of_constant_keys_is_ordered():
    @flow()
    def homes(a: int, b: int):
        return a.key_by("A").apply(Ordered()).merge(b.key_by("B").apply(Ordered())).apply(Ordered())

    assert "merge    O(str, Any)" in homes.types()


def test_merge_of_sources_is_ordered_and_of_one_source_twice_is_not():
    def merged(a, b):
        return a.map(lambda _, v: v).merge(b).key_by(by_text).apply(Ordered())

    assert "merge    O((), Any)" in flow()(merged).types()
    assert codes(lambda a: a.map(lambda _, v: v).merge(a).apply(Ordered())) == ["F11"]


def test_stream_that_is_not_used_is_a_mistake():
    assert codes(lambda a, b: a) == ["F12"]


def test_stream_of_markers_has_no_items():
    assert codes(lambda a, ends: a.merge(ends), on("ends")) == ["F01"]


def test_flow_with_another_clock_is_a_mistake():
    inner = flow(clock=every(7))(numbers)
    assert codes(lambda a: inner(a).map(by_text), every(5)) == ["F06"]


def test_texts_of_mistakes_are_those_of_the_golden_file():
    """`UPDATE_GOLDEN=1` rewrites tests/golden/flow_mistakes.txt."""
    found = []
    for name, (_, clock, build) in WRONG.items():
        with pytest.raises(FlowError) as caught:
            flow(clock=clock)(build).types()
        text = re.sub(r"test_flow_checks\.py:\d+", "flow.py:1", str(caught.value))
        found.append(f"# {name}\n{re.sub(r' object at 0x[0-9a-f]+', '', text)}\n")
    golden = Path(__file__).parents[2] / "golden" / "flow_mistakes.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("\n".join(found))
    assert "\n".join(found) == golden.read_text()


def test_template_with_another_word_for_idle_is_a_mistake():
    class Never(NoMonoid):
        monoid = SUM
        idle = "never"

    assert codes(lambda a: a.apply(Never())) == ["F01"]


def test_sort_compares_the_items_of_a_key():
    made = flow()(lambda a: a.key_by(0).sort(by=1).map(lambda _, pair: pair[1]))
    rows = [(1, ("x", 2)), (1, ("y", "b")), (2, ("x", 1)), (2, ("y", "a"))]
    assert made.denote({"a": rows}) == [1, 2, "a", "b"]
    assert dgs.run(made, streams={"a": rows}).outputs == [1, 2, "a", "b"]


def test_five_mistakes_are_five():
    def wrong(a):
        edge = a.aggregate(COUNT, over=sliding("2500ms")).map(lambda v: v)
        edge = edge.pairs(lambda k, v: (v, v)).apply(Ordered()).sort(by=0).apply(Ordered()).aggregate(COUNT)
        return edge.aggregate(COUNT, over=tumbling(-1))

    assert codes(wrong, every("1s")) == ["F07", "F01", "F02", "F09", "W01"]


def test_calls_that_are_no_steps_hide_no_other_mistake():
    def wrong(a):
        edge = a.mapp(by_text).aggregate().join(None).pairs(lambda k, v: (k, v)).apply(Ordered())
        edge = edge.map(lambda v: v)
        return edge["ad"]

    with pytest.raises(FlowError) as caught:
        flow(clock=every(0))(wrong).types()
    assert sorted(caught.value.codes) == ["F01", "F01", "F01", "F01", "F02", "F12", "W01"]
    assert isinstance(caught.value.__cause__, TypeError)


def test_function_of_a_flow_names_its_streams_and_returns():
    with pytest.raises(FlowError, match=r"its parameter \*edges is no stream"):
        flow()(lambda *edges: edges[0])
    for wrong in (late, yielding):
        with pytest.raises(
            FlowError, match=r"its function does nothing when it is called    test_flow_checks.py:\d+"
        ):
            flow()(wrong).types()


def test_parameter_without_stream_is_refused_before_anything_runs():
    with pytest.raises(FlowError, match="parameter 'lines' has no stream"):
        flow()(numbers).denote({})


def test_check_of_a_thousand_nodes_is_quick():
    import time

    def long(a):
        for _ in range(1000):
            a = a.map(by_number)
        return a

    made = flow()(long)
    start = time.process_time()
    made.types()
    assert time.process_time() - start < 1


def test_the_last_block_has_two_fates():
    with pytest.raises(FlowError, match="does not know end='keep'"):
        flow(end="keep")(numbers).types()


@pytest.mark.parametrize("wrong", [None, "a"])
def test_flow_is_made_of_a_function(wrong):
    with pytest.raises(FlowError, match=r"Write @flow\(\) or @flow\(clock=...\) above"):
        flow()(wrong)
    with pytest.raises(FlowError, match=r"Write @flow\(\) or @flow\(clock=...\) above"):
        flow(numbers)


def test_arguments_without_a_value_are_a_mistake_with_a_remedy():
    made = flow()(lambda a, *, size: a)
    with pytest.raises(FlowError, match=r"missing a required argument: 'size' .*\n.*bind\(...\) or `args:`"):
        made.types()


def test_mistakes_of_windows_and_fields_are_found_beside_a_wrong_clock():
    @flow(clock=every(1.5))
    def wrong(numbers: int):
        counts = numbers.filter_by("kind", 1).key_by("a", "b").aggregate(COUNT, over=tumbling(-3))
        return counts.fold(lambda last, n: n, 0, over=tumbling("2s")).aggregate(COUNT, over=sliding(4, 0))

    with pytest.raises(FlowError) as caught:
        wrong.types()
    assert caught.value.codes == ["W01", "F04", "F04", "F04", "W01", "W01", "W01"]


def test_refusal_of_a_monoid_is_a_mistake_with_its_place_beside_others():
    @flow(clock=every(10, origin="x"))
    def wrong(numbers):
        return numbers.aggregate(Top(0))

    with pytest.raises(FlowError) as caught:
        wrong.types()
    assert caught.value.codes == ["F12", "W01"]
    assert "give a whole number of at least 1    test_flow_checks.py:" in str(caught.value)
