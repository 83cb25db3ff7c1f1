"""The laws of pipelines: by their definition, and through the runtime. `make test-all` tries a thousand new cases of each."""

import functools
from collections import Counter
from copy import deepcopy
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from dgs.errors import UserCodeError
from dgs.flow import FlowError
from dgs.flow.flow_program import FINAL
from dgs.flow.panes import CountWindow, TimeWindow
from dgs.pico import (
    filter,  # noqa: A004 - the name in dgs.pico
    from_stream,
    map,  # noqa: A004 - the name in dgs.pico
    new,
    p,
    pair,
    reduce,
    semantics,
    to,
    tumbling,
    w,
    w_p,
)
from dgs.pico.syntax import combines_of
from tests.dgs.flow import flows
from tests.dgs.pico.random_pipelines import (
    ORDERED,
    PRODUCT,
    STRUCTURES,
    SUMS,
    TOTAL,
    chain,
    combines,
    counts,
    elements,
    key,
    parity,
    pipelines,
    single,
    source,
    streams,
)
from tests.selection import EXPLORES, MANY

sized = settings(
    max_examples=MANY // 2 if EXPLORES else 12, deadline=None, suppress_health_check=list(HealthCheck)
)
searching = settings(sized, max_examples=100, phases=[Phase.generate], report_multiple_bugs=False)


def law(**strategies):
    """Make a property of a function; `search` looks for a counterexample of any size."""

    def made(function):
        prop = sized(given(**strategies)(function))
        prop.search = searching(given(**strategies)(function))
        return prop

    return made


structures = st.sampled_from(STRUCTURES)


def same(structure, left, right):
    return left == right if structure != "bag" else Counter(left) == Counter(right)


def run(pipeline, inputs):
    """Run the program of a pipeline sequentially; skip pipelines that cannot be run yet."""
    try:
        made = pipeline.flow().compiled()
        return [one.value for one in flows.run(made, inputs, ticks=[FINAL]).outputs]
    except FlowError as refused:
        # W03: the flow requires more than the pipeline
        assume(not {"F00", "W03"}.intersection(refused.codes))
        raise
    except UserCodeError as stopped:  # a key that changes between two windows
        assume("R02" not in str(stopped))
        raise


@law(structure=structures, data=st.data(), inputs=streams)
def test_lowering_keeps_the_outputs_of_the_definition(structure, data, inputs):
    pipeline = data.draw(pipelines(structure))
    inputs = {name: inputs[name] for name in pipeline.flow().streams}
    found, expected = run(pipeline, inputs), pipeline.denote(inputs)
    assert Counter(found) == Counter(expected)
    if structure == "list":
        assert found == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_list_has_the_order_of_its_meaning_under_any_plan(seed):
    """Every element is on both sides, so many pairs have equal places."""
    other = source("a", "list") | new(map(lambda x: (x[0], x[1] + 1)))
    pipeline = pair(source("a", "list"), other, p(PRODUCT, parity))
    for step in range(1, 5):
        inputs = {"a": [(row, (row * step % 4, (row + step) % (step + 2))) for row in range(6)]}
        for one in (pipeline, pipeline + pipeline):
            run = one.run(streams=inputs, optimizer={"name": "random", "seed": seed})
            assert run.outputs == one.denote(inputs)


def means(pipeline, inputs):
    """Return the outputs of a pipeline by its definition, given streams that it may read."""
    return pipeline.denote({name: inputs[name] for name in pipeline.flow().streams})


@law(structure=structures, data=st.data(), inputs=streams)
def test_merge_laws(structure, data, inputs):
    a, b = source("a", structure), source("b", structure)
    c = chain(data.draw, source("b", structure), structure, 2)
    assert means(a + b, inputs) == means(b + a, inputs)
    assert Counter(means((a + b) + c, inputs)) == Counter(means(a + (b + c), inputs))
    assert Counter(means(a + c, inputs)) == Counter(means(c + a, inputs))


def slides(pipeline):
    overs = [operator.over for _, operator in combines_of(pipeline.term)]
    return {over.slide for over in overs if isinstance(over, TimeWindow)}


@law(structure=structures, data=st.data(), inputs=streams)
def test_to_laws(structure, data, inputs):
    one, two, three = (new(data.draw(single | combines(structure))) for _ in range(3))
    head = source("a", structure)
    assert Counter(means(to(head, one, two, three), inputs)) == Counter(
        means(to(head, three, one, two), inputs)
    )
    assume(len(slides(one) | slides(two)) <= 1)  # the last windows by time end at a multiple of all slides
    assert Counter(means(to(head, one, two), inputs)) == Counter(
        means(head | one, inputs) + means(head | two, inputs)
    )


@law(structure=structures, data=st.data(), inputs=streams)
def test_pipe_is_associative(structure, data, inputs):
    head = source("a", structure) + source("b", structure)
    one, two = (chain(data.draw, new(data.draw(single)), structure, 2) for _ in range(2))
    assert means((head | one) | two, inputs) == means(head | (one | two), inputs)


@law(operator=single, over=counts)
def test_op_w_p_equal(operator, over):
    """Operators on single elements do not depend on decomposition."""
    assert w(operator, over) is p(operator, key) is w_p(operator, key, over) is operator


@law(
    structure=st.sampled_from(["list", "stream"]),
    operator=st.sampled_from([TOTAL, SUMS, ORDERED]),
    over=counts,
    inputs=streams,
)
def test_windows_of_groups_are_those_of_each_group_alone(structure, operator, over, inputs):
    """Equation of w-p-: it splits by key first, and then into windows."""
    head = source("a", structure) + source("b", structure)
    groups = [head | new(filter(lambda x, k=k: key(x) == k)) | new(w(operator, over)) for k in range(4)]
    found = Counter(value for group in groups for value in means(group, inputs))
    assert Counter(means(head | new(w_p(operator, key, over)), inputs)) == found


@law(values=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=8))
def test_fold_reduce_any_partition(values):
    """A fold does not depend on the parts of its input; its join is associative, and commutative where the operator says so."""
    check_laws(SUMS, values)
    check_laws(ORDERED, values)
    check_laws(TOTAL, values)
    check_laws(PRODUCT, [(one, one) for one in values])


def test_wrong_join():
    with pytest.raises(AssertionError):
        check_laws(reduce(lambda a, b: a - b), [1, 2, 3])


def check_laws(operator, values):
    """Check an operator on values (pairs for an operator of two collections)."""

    def join(*states):
        return operator.join(*deepcopy(states))

    def folded(part):
        if operator.fold is None:
            return functools.reduce(operator.join, deepcopy(part))
        fold = (lambda state, two: operator.fold(state, *two)) if operator.binary else operator.fold
        return functools.reduce(fold, part, deepcopy(operator.start))

    if operator.fold is not None:
        for cut in range(len(values) + 1):
            assert join(folded(values[:cut]), folded(values[cut:])) == folded(values)
    for a, b, c in product([folded([value]) for value in values[:4]], repeat=3):
        assert join(a, join(b, c)) == join(join(a, b), c)
        assert not operator.commutative or join(a, b) == join(b, a)


@law(rows=elements, data=st.data())
def test_structures_agree(rows, data):
    """A bag has the values of the list; a stream with one window over all is the list; a list reduced by windows and again is reduced."""
    operators = [data.draw(single | combines("bag")) for _ in range(2)]

    def of(head):
        return means(head | new(operators[0]) | new(operators[1]), {"a": rows})

    stream = new(from_stream("a", window=tumbling(1000, "time")))
    found = of(source("a", "list"))
    assert Counter(of(source("a", "bag"))) == Counter(found) == Counter(of(stream))
    over, group = tumbling(3, partial="emit"), data.draw(st.sampled_from([p, lambda operator, _: operator]))
    once = means(source("a", "list") | new(group(TOTAL, key)), {"a": rows})
    again = source("a", "list") | new(w(group(TOTAL, key), over)) | new(group(TOTAL, key))
    assert means(again, {"a": rows}) == once


@law(data=st.data(), inputs=streams)
def test_figure_2(data, inputs):
    """A windowed operator works on lists and on streams alike."""
    operator = data.draw(combines("stream"))
    streamed, listed = (
        (source("a", kind) + source("b", kind)) | new(operator) for kind in ("stream", "list")
    )
    assert means(streamed, inputs) == means(listed, inputs)


def rank_by_operand(monkeypatch):
    monkeypatch.setattr(semantics, "_ordered", lambda items: sorted(items, key=lambda item: item.place[:1]))


def window_before_partition(monkeypatch):
    def combined(self, operator, given):
        found = []
        for _, place, items in self._windows(operator, given) if given else ():
            for group in semantics._groups(operator, items).values():
                values = [item.value for item in group]
                found.append(semantics.Item(place, semantics._folded(operator, values)))
        return found

    monkeypatch.setattr(semantics.Meaning, "_combined", combined)


def start_in_each_part(monkeypatch):
    start = (0, 1)
    monkeypatch.setitem(vars(SUMS), "start", start)


def partial_windows_dropped_on_lists(monkeypatch):
    windows = semantics.Meaning._windows

    def whole(self, operator, items):
        over = operator.over
        for found in windows(self, operator, items):
            if not isinstance(over, CountWindow) or len(found[2]) == over.size:
                yield found

    monkeypatch.setattr(semantics.Meaning, "_windows", whole)


def key_of_a_window_lost(monkeypatch):
    monkeypatch.setattr(semantics, "_groups", lambda operator, items: {(): items} if items else {})


MUTANTS = [
    (rank_by_operand, test_merge_laws),
    (window_before_partition, test_windows_of_groups_are_those_of_each_group_alone),
    (key_of_a_window_lost, test_windows_of_groups_are_those_of_each_group_alone),
    (start_in_each_part, test_fold_reduce_any_partition),
    (partial_windows_dropped_on_lists, test_structures_agree),
    (window_before_partition, test_lowering_keeps_the_outputs_of_the_definition),
]


@pytest.mark.parametrize(("mutant", "test"), MUTANTS, ids=lambda it: it.__name__)
def test_a_wrong_meaning_breaks_a_law(monkeypatch, mutant, test):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        test.search()
