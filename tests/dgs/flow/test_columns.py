"""Batches of columns have the outputs of the definition, to the bit and with the same ids, wherever they fall back to rows."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dgs
from dgs.flow import FlowError, Table, every, flow, on, steps, tumbling
from dgs.flow.batches import column_keys, column_parts, columnar
from dgs.flow.batches.column_items import Constant, Items, Records
from dgs.flow.batches.column_steps import taken
from dgs.flow.closing import canonical
from dgs.flow.definition import Flow
from dgs.flow.flow_program import FINAL
from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.monoids import COUNT, MAX, MEAN, MEAN_EXACT, SUM, AllOf, FieldOf, MapOf, Top
from tests.dgs.flow import flows
from tests.selection import seeds


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(columnar, "FEWEST", 0)


def outputs(run):
    return sorted(
        (*out.key[:3], str(out.tag), out.index, flows.codec.encode(out.value)) for out in run.outputs
    )


def check(case, seed):
    if case.made.shape in ("sum", "free"):
        found = flows.run_in_columns(case.made, case.inputs, case.ticks, random.Random(seed))
        assert sorted(found) == outputs(case.run()), f"seed {seed}"
        assert flows.counted_codes(found) == case.means(), f"seed {seed}"


@seeds(250)
def test_corollary_4_4_with_columns(seeds):
    for seed in seeds:
        check(flows.case(seed), seed)


ADS = Table({n: n % 3 for n in range(-2, 6)}, name="ads")
PAGES = Table({"a": "x", "b": "y", "c": "x"}, name="pages")
MONOIDS = [
    COUNT,
    FieldOf(SUM, "n"),
    FieldOf(MEAN, "n"),
    FieldOf(MEAN_EXACT, "y"),
    FieldOf(SUM, "x"),
    FieldOf(MAX, "flag"),
    FieldOf(SUM, "big"),
    MapOf(COUNT, key="page", value=None),
    MapOf(SUM, key="n", value="big"),
    AllOf(kinds=MapOf(COUNT, key="page", value=None), last=FieldOf(MAX, "n"), number=COUNT),
    FieldOf(Top(2), "n"),
]


def of_records(seed, records):
    """Add ready-made steps over records to an edge."""
    r = random.Random(seed)
    for _ in range(r.randint(0, 4)):
        records = r.choice(
            [
                lambda edge: edge.filter_by("page", "a", "b"),
                lambda edge: edge.filter_by("n", *r.sample([1, 2.0, True, "a", None, 3, 2**70], 3)),
                lambda edge: edge.filter_by("x", 0.5, 1),
                lambda edge: edge.lookup(ADS, key="n", into="ad", missing="drop"),
                lambda edge: edge.lookup(PAGES, key="page", into="to", missing="drop"),
                lambda edge: edge.map(lambda _, row: {**row, "n": row["n"] + 1}),
                lambda edge: edge.filter(lambda _, row: row["flag"], columns=lambda _, rows: rows["flag"]),
            ]
        )(records)
    keyed = r.choice([("n",), ("page",), ("page", "n"), ("flag",), ("x",), ("big", "flag")])
    edge = records.key_by(*keyed)
    over = r.choice([None, "history", tumbling(20)])
    if r.random() < 0.2:
        return edge.project("n", "page", "flag") if r.random() < 0.5 else edge
    return edge.aggregate(r.choice(MONOIDS), over=over, idle=r.choice(["all", "skip"]))


def case_of_records(seed):
    r = random.Random(seed)
    value = r.random()
    build = lambda records: of_records(value, records)  # noqa: E731
    made = Flow("records", {"records": dict}, build, clock=every(flows.PERIOD))
    rows = sorted(r.randint(-5, 60) for _ in range(r.choice([1, 5, 30, 60])))
    inputs = [(ts, record(r)) for ts in rows]
    return flows.Case(made, {"records": inputs}, [20, 45, FINAL], 4)


def record(r):
    return {
        "n": r.randint(-1, 5),
        "page": r.choice("abcd"),
        "x": r.choice([0.5, 1.0, 3.25]),  # whose sums are exact
        "y": r.choice([0.1, 1e16, -1e16, 0.3]),
        "flag": r.random() < 0.5,
        "big": r.choice([2**62, -(2**62), 7]),
    }


@seeds(250)
def test_ready_made_steps_over_records(seeds):
    for seed in seeds:
        check(case_of_records(seed), seed)


def column_of_another_filter(edge):
    return edge.filter(lambda _, v: v % 3, columns=lambda _, v: v % 2)


@pytest.mark.parametrize(
    ("build", "row"),
    [
        (column_of_another_filter, "value 2"),
        (lambda edge: edge.map(lambda _, v: v // 2, columns=lambda _, v: v / 2), "value 0"),
        (lambda edge: edge.each(lambda _, v, at: at, columns=lambda _, v, at: v), "value 0, at 10"),
        (
            lambda edge: edge.flat_map(lambda _, v: [v] * v, columns=lambda _, v: (v, np.arange(len(v)))),
            "value 0",
        ),
        (lambda edge: edge.key_by(lambda _, v: v % 2, columns=lambda _, v: v % 3), "value 2"),
    ],
)
def test_columns_that_differ_from_the_function_are_f25(build, row):
    made = Flow("wrong", {"numbers": int}, lambda numbers: build(numbers).aggregate(COUNT), clock=every(100))
    inputs = {"numbers": [(10 + n, n) for n in range(5)]}
    with pytest.raises(FlowError) as caught:
        flows.run_in_columns(made.compiled(), inputs, [FINAL], random.Random(1))
    assert caught.value.codes == ["F25"]
    assert row in str(caught.value)


def is_wrong(seed):
    try:
        check(case_of_records(seed), seed)
    except (AssertionError, RuntimeWarning):
        return True
    return False


def test_mutants_of_columns_are_found(monkeypatch):
    def wrong(cls, name, function):
        with monkeypatch.context() as patch:
            patch.setattr(cls, name, function)
            assert any(map(is_wrong, range(200)))

    counts, blocks = column_parts._counts, columnar.Columnar._blocks
    wrong(column_parts, "_counts", lambda codes, size: counts(codes[1:], size))
    wrong(column_parts, "_is_exact", lambda column: True)
    wrong(column_keys, "_keys_at", lambda place, parts: (parts[0][0], parts[1][0]))
    wrong(
        columnar.Columnar,
        "_blocks",
        lambda self, items: ([blocks(self, items)[0][0]], np.array([0, len(items)])),
    )


def test_functions_without_columns_go_on_in_rows():
    @flow(clock=every(10))
    def halves(numbers: int):
        kept = numbers.filter(lambda _, v: v > 1, columns=lambda _, v: v > 1)
        return kept.map(lambda _, v: v / 2).key_by(lambda _, v: v % 2).aggregate(SUM)

    case = flows.Case(halves, {"numbers": [(n, n % 7) for n in range(50)]}, [FINAL], 1)
    check(case, 0)


def check_windows(case, seed):
    """Compare the states of random windows of items with those of `update`, by their codec bytes."""
    program, r = case.made.program, random.Random(seed)
    if not program.gives("update_windows"):
        return
    for (batch,) in flows.batches(case.made, case.inputs, [FINAL]):
        if batch.tags[0].kind == "tick":
            continue
        items = replace(batch, codes=None, payload=flows.in_columns(batch.payload, r))
        cuts = sorted(r.randint(0, len(items)) for _ in range(r.randint(0, 4)))
        found = program.update_windows(items, np.array(cuts, dtype=np.int64))
        for start, stop, state in zip([0, *cuts], [*cuts, len(items)], found, strict=True):
            right = program.identity()
            for event in items.cut(start, stop).events():
                right = program.update(right, event, pytest.fail)
            assert flows.codec.encode(state) == flows.codec.encode(right), f"seed {seed}"


def test_windows_of_items_have_the_states_of_update():
    for seed in range(200):
        check_windows(flows.case(seed), seed)
        check_windows(case_of_records(seed), seed)


def test_windows_of_a_batch_without_items_have_the_states_of_none():
    @flow(clock=on("ends"))
    def total(numbers: int, ends: int):
        return numbers.aggregate(SUM)

    program, none = total.program(), np.zeros(0, dtype=np.int64)
    batch = EventBatch("numbers", 0, none, none, (Tag("numbers"),), None, none)
    assert program.update_windows(batch, np.array([0, 0])) == [program.identity()] * 3


def test_windows_cut_in_another_place_are_found(monkeypatch):
    def wrong(blocks, bounds, cuts, cut=columnar._in_windows):
        return cut(blocks, bounds, np.maximum(cuts - 1, 0))

    monkeypatch.setattr(columnar, "_in_windows", wrong)
    with pytest.raises(AssertionError):
        [check_windows(case_of_records(seed), seed) for seed in range(100)]


def test_canonical_order_is_that_of_codec_bytes():
    r = random.Random(5)
    numbers = [r.randrange(2 ** r.randint(1, 70)) for _ in range(300)]
    texts = [
        "".join(r.choice("abz\x00") for _ in range(r.choice([0, 1, 3, 31, 32, 255, 256, 300])))
        for _ in range(300)
    ]
    small = [n for n in numbers if n < 2**63]
    for keys in (numbers, small, texts, [-n for n in numbers], [*texts, "\xe4"], [*numbers, *texts]):
        assert canonical(keys) == sorted(keys, key=flows.codec.encode)


@pytest.mark.parametrize(
    "values", [tuple(range(2, 12)), (True, "\ud800"), ("a", "\ud800"), (0, 0.5, *range(5, 15))]
)
@pytest.mark.parametrize(
    "column", [np.array([True, False]), np.array([1, 0, 5]), np.array([0.5, 7.0]), pa.array(["a", "b"])]
)
def test_values_are_looked_for_in_columns_as_in_rows(column, values):
    items = Items(np.arange(len(column)), None, Constant(()), Records.of({"x": column}))
    found = taken(steps.FilterBy("x", values))(items)
    assert found.rows.tolist() == [row for row, value in enumerate(column.tolist()) if value in values]


WRONG_FORMS = {
    "too short": lambda rows: rows.map(by_field, columns=lambda _, them: them["n"][:1]),
    "a number": lambda rows: rows.map(by_field, columns=lambda _, them: 5),
    "nothing": lambda rows: rows.map(by_field, columns=lambda _, them: None),
    "two dimensions": lambda rows: rows.map(by_field, columns=lambda _, them: np.ones((len(them["n"]), 2))),
    "a mask too long": lambda rows: rows.filter(by_field, columns=lambda _, them: np.ones(2000, bool)),
    "keys too short": lambda rows: rows.key_by(by_field, columns=lambda _, them: them["n"][:1]).aggregate(
        COUNT
    ),
    "no pair": lambda rows: rows.flat_map(lambda _, row: [1], columns=lambda _, them: [1]),
    "no item": lambda rows: rows.flat_map(
        lambda _, row: [1], columns=lambda _, them: (them["n"], them["n"] + 1)
    ),
}


def by_field(_, row):
    return row["n"]


@pytest.mark.parametrize("name", WRONG_FORMS)
def test_columns_of_another_form_are_refused(name):
    table = {"ts": np.arange(1000), "n": np.arange(1000)}
    with pytest.raises(FlowError, match="its columns= gives columns of another form") as caught:
        dgs.run(flow(clock=every(1000))(WRONG_FORMS[name]), streams={"rows": table})
    assert caught.value.codes == ["F25"]


def test_a_form_for_columns_with_other_parameters_is_refused():
    for columns in (lambda values: values, "n"):
        with pytest.raises(FlowError, match="gets a columns= that does not fit"):
            flow()(lambda rows, *, columns=columns: rows.map(by_field, columns=columns)).types()
