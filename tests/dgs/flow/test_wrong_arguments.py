"""Every parameter of the public functions of flows and pipelines: a value of no known kind is a mistake with a code, and never Python's own error.

The tables have right arguments for each function; a parameter that is missing there fails a test.
"""

import inspect
from typing import Any

import numpy as np
import pytest

import dgs
from dgs import pico
from dgs.errors import UsageError
from dgs.flow import Edge, Flow, FlowError, Stateless, Table, count, every, flow, on, sliding, tumbling
from dgs.monoids import COUNT
from dgs.pico import fold_reduce, from_stream, join_fold_reduce, new, reduce, w, window

HIT = dgs.kind("hit", key=str)


class Odd:
    """A value that no parameter accepts."""


class Doubled(Stateless):
    """Emits each value twice."""

    def on_item(self, key, value, emit):
        emit(key, value)


class Hits(dgs.Program):
    """Takes hits."""

    kinds = (HIT,)
    depends = dgs.Dependence()

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state


def two(key, value):
    return (key, value)


def three(key, value, at):
    return [value]


FUNCTION = {"function": two, "gives": Any, "columns": two}
STEPS = {
    "map": FUNCTION,
    "filter": {"function": two, "columns": two},
    "flat_map": FUNCTION,
    "each": {"function": three, "gives": Any, "columns": three},
    "lookup": {"table": {1: 2}, "key": "x", "into": "y", "missing": "drop"},
    "filter_by": {"field": "x", "values": [1]},
    "project": {"fields": ["x"]},
    "key_by": {"by": [two], "gives": str, "columns": two},
    "pairs": {"function": two, "gives": tuple[str, int]},
    "sort": {"by": "x", "ties": "value"},
    "aggregate": {"monoid": COUNT, "over": sliding(20), "idle": "all", "accept_parts": True},
    "fold": {"function": two, "start": 0, "over": count(2), "gives": int},
    "block": {"function": three, "gives": int, "accept_parts": True},
    "join": {"other": None, "function": three, "gives": int, "accept_parts": True},
    "merge": {"others": None},
    "apply": {"template": Doubled(), "keeps": True},
    "into": {"program": Hits(), "tag": two, "payload": two},
}
ANY = {("fold", "start"), ("filter_by", "values"), ("fold_reduce", "start"), ("join_fold_reduce", "start")}
"""Parameters that take any value."""


def called(function, given):
    """Call a function with arguments by name; lists for *parameters."""
    kinds = {one.name: one.kind for one in inspect.signature(function).parameters.values()}
    several = [
        name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL and name in given
    ]
    if not several:
        return function(**given)
    first = [name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    named = {name: given[name] for name in given if name not in (*several, *first)}
    return function(*(given[name] for name in first), *given[several[0]], **named)


def built(name, **odd):
    """Return the types of a flow with one step and replaced arguments."""

    def build(a):
        edge = a if name == "into" else a.map(two).key_by(two)
        given = STEPS[name] | {"join": {"other": edge}, "merge": {"others": [edge]}}.get(name, {})
        several = {one: [value] if isinstance(given[one], list) else value for one, value in odd.items()}
        return called(getattr(edge, name), given | several)

    return flow(clock=every(10))(build).types()


@pytest.mark.parametrize(
    "name", [one for one, made in vars(Edge).items() if callable(made) and one[0] != "_"]
)
def test_steps_know_each_of_their_arguments(name):
    parameters = list(inspect.signature(getattr(Edge, name)).parameters)[1:]
    assert sorted(parameters) == sorted(STEPS[name])
    assert built(name)
    for parameter in parameters:
        if (name, parameter) not in ANY:
            with pytest.raises(FlowError) as caught:
                built(name, **{parameter: Odd()})
            assert set(caught.value.codes) <= {"F01", "W01"}, parameter


def of_window(over):
    return flow(clock=every(10))(lambda a: a.aggregate(COUNT, over=over)).types()


def of_count(over):
    return flow()(lambda a: a.fold(two, 0, over=over)).types()


def of_clock(clock):
    return flow(clock=clock)(
        lambda a, marks: a.merge(marks) if isinstance(clock, type(every(1))) else a
    ).types()


def numbers(a):
    return a.map(two)


NUMBERS = flow()(numbers)

FLOWS = {
    every: ({"period": "1s", "origin": 5, "start": 0}, of_clock),
    on: ({"stream": "marks"}, of_clock),
    tumbling: ({"size": 20}, of_window),
    sliding: ({"size": 20, "slide": 10, "allow_gaps": True}, of_window),
    count: ({"size": 2, "slide": 1, "partial": "emit", "allow_gaps": True}, of_count),
    flow: ({"clock": every(10), "end": "drop"}, lambda made: made(numbers).types()),
    Table: ({"rows": {1: 2}, "name": "ads"}, repr),
    Table.json: ({"path": __file__.replace(".py", ".json")}, repr),
    Flow: (
        {"name": "n", "streams": {"a": int}, "build": numbers, "clock": every(10), "end": "drop", "arguments": {}},
        Flow.types,
    ),
    NUMBERS.denote: ({"inputs": {"a": [(1, 2)]}}, repr),
    NUMBERS.program: ({"classes": 8}, repr),
    NUMBERS.compiled: ({"classes": 8}, repr),
    NUMBERS.explained: ({"classes": 8}, repr),
}  # fmt: skip


def refuses(function, right, use, codes=("F01", "F12", "W01")):
    """Check that an unknown value for each argument is refused, and that the table has all parameters."""
    parameters = inspect.signature(function).parameters.values()
    assert sorted(one.name for one in parameters if not one.name.startswith("_")) == sorted(right)
    for name in right:
        if (function.__name__, name) in ANY:
            continue
        several = isinstance(right[name], list)
        with pytest.raises(FlowError) as caught:
            use(called(function, right | {name: [Odd()] if several else Odd()}))
        assert set(caught.value.codes) <= set(codes), name


@pytest.mark.parametrize("function", FLOWS, ids=lambda one: one.__qualname__)
def test_functions_of_flows_know_each_of_their_arguments(function):
    right, use = FLOWS[function]
    if function != Table.json:
        use(function(**right))
    refuses(function, right, use)


LIST = new(from_stream("numbers", structure="list"))
OTHERS = new(from_stream("others", structure="list"))


def behind(operator):
    return (LIST | new(operator)).flow()


def with_window(over):
    return behind(w(reduce(min), over=over))


def source(operator):
    return new(operator).flow()


FILE = {"path": "a.txt", "structure": "stream", "window": pico.tumbling(10, "time"), "name": "lines"}
FOLD = {"fold": lambda s, x: s, "start": 0, "join": min, "gives": int}
PIPELINES = {
    pico.from_lines: (FILE, source),
    pico.from_csv: (FILE | {"gives": dict}, source),
    pico.from_stream: ({"name": "a", "gives": int, "structure": "stream", "window": None}, source),
    pico.to_jsonl: ({"path": "out"}, behind),
    pico.map: ({"function": str, "gives": str}, behind),
    pico.flat_map: ({"function": str, "gives": str}, behind),
    pico.filter: ({"function": bool}, behind),
    pico.reduce: ({"join": min}, behind),
    pico.fold_reduce: (FOLD | {"commutative": False}, behind),
    pico.join_fold_reduce: (
        FOLD | {"fold": lambda s, a, b: s},
        lambda operator: pico.pair(LIST, OTHERS, operator).flow(),
    ),
    pico.p: ({"operator": reduce(min), "by": str}, behind),
    pico.w: ({"operator": reduce(min), "over": window(2, 1)}, behind),
    pico.w_p: ({"operator": reduce(min), "by": str, "over": window(2, 1)}, behind),
    pico.window: (
        {"size": 2, "slide": 1, "unit": "count", "partial": "emit", "allow_gaps": True},
        with_window,
    ),
    pico.tumbling: ({"size": 2, "unit": "time", "partial": "drop"}, with_window),
    pico.new: ({"operator": reduce(min)}, lambda made: (LIST | made).flow()),
    pico.to: ({"pipeline": LIST, "branches": [new(reduce(min))]}, pico.Pipeline.flow),
    pico.pair: (
        {
            "left": LIST,
            "right": OTHERS,
            "operator": join_fold_reduce(lambda s, a, b: s, 0, min),
        },
        pico.Pipeline.flow,
    ),
    pico.merge: ({"left": LIST, "right": OTHERS}, pico.Pipeline.flow),
    LIST.named: ({"name": "mine"}, repr),
    LIST.denote: ({"streams": {"numbers": []}}, repr),
    LIST.program: ({"classes": 8}, repr),
}
ELEMENTWISE = [pico.p, pico.w]


@pytest.mark.parametrize("function", PIPELINES, ids=lambda one: one.__qualname__)
def test_functions_of_pipelines_know_each_of_their_arguments(function):
    right, use = PIPELINES[function]
    use(called(function, right))
    refuses(function, right, use, codes=("F01", "F12", "P02", "P05", "P09", "P10", "P11", "W01"))


@pytest.mark.parametrize("none", [{"by": None}, {"over": None}])
def test_none_is_no_key_and_no_window(none):
    (name,) = none
    made = pico.p(reduce(min), **none) if name == "by" else pico.w(reduce(min), **none)
    with pytest.raises(FlowError):
        behind(made)


def test_operators_on_single_elements_look_at_their_key_and_window_too():
    for made in (
        pico.p(pico.map(str), by=Odd()),
        pico.w(pico.map(str), over=Odd()),
        fold_reduce(None, 0, min),
    ):
        with pytest.raises(FlowError) as caught:
            behind(made)
        assert caught.value.codes == ["P10"]


METHODS = [NUMBERS.types, NUMBERS.check_streams, LIST.types, LIST.check, LIST.flow, LIST.run, pico.iterate]
MAKERS = [Flow, Table, dgs.flow.merge, *PIPELINES, *FLOWS, *METHODS]


@pytest.mark.parametrize("function", MAKERS, ids=lambda one: one.__qualname__)
def test_calls_with_other_arguments_than_a_function_takes_are_mistakes(function):
    parameters = inspect.signature(function).parameters.values()
    kinds = {one.kind for one in parameters}
    required = [one for one in parameters if one.default is one.empty and "VAR" not in one.kind.name]
    calls = [lambda: function(of_no_name=1)]
    calls += [function] if required else []
    calls += [] if inspect.Parameter.VAR_POSITIONAL in kinds else [lambda: function(*range(9))]
    for call in calls if inspect.Parameter.VAR_KEYWORD not in kinds else calls[1:]:
        with pytest.raises(FlowError) as caught:
            call()
        (mistake,) = caught.value.facts["mistakes"]
        assert mistake["code"] == "F01"
        assert mistake["place"].startswith("test_wrong_arguments.py:")
        assert mistake["expected"].startswith(f"{function.__name__}(")


def test_a_mistake_inside_a_function_is_no_wrong_call():
    def build(a):
        raise TypeError("build() takes 1 positional argument")

    with pytest.raises(FlowError) as caught:
        flow()(build).types()
    assert caught.value.codes == ["F12"]


@pytest.mark.parametrize("odd", [None, 3, "in.txt", {}, Odd()])
def test_what_is_no_pipeline_is_a_mistake_on_either_side(odd):
    for made in (lambda: odd | LIST, lambda: odd + LIST, lambda: LIST | odd, lambda: LIST + odd):
        with pytest.raises(FlowError) as caught:
            made().check()
        assert "P10" in caught.value.codes


def test_operators_are_put_together_as_pipelines_only():
    assert (from_stream("numbers") | new(pico.map(str))).denote({"numbers": [(1, 2)]}) == ["2"]
    for made in (lambda: from_stream("a") | pico.map(str), lambda: from_stream("a") + Odd()):
        with pytest.raises(FlowError, match="is an operator, and no pipeline yet"):
            made()


def test_a_join_that_is_async_is_not_called():
    async def join(left, right):
        return left

    with pytest.raises(FlowError) as caught:
        behind(fold_reduce(lambda s, x: s, 0, join))
    assert caught.value.codes == ["P10"]


def test_a_start_that_is_an_array_is_compared_element_by_element():
    def adding(start):
        return fold_reduce(lambda s, x: s + x, start, lambda a, b: a + b)

    assert behind(adding(np.zeros(2)))
    with pytest.raises(FlowError) as caught:
        behind(adding(np.ones(2)))
    assert caught.value.codes == ["F22"]


@pytest.mark.parametrize("name", [[1], {}, {1: 2}, {3}])
def test_names_without_a_hash_are_mistakes(name):
    with pytest.raises(FlowError) as caught:
        new(from_stream(name)).check()
    assert caught.value.codes == ["P10"]


def test_streams_that_have_no_text_as_name_are_mistakes():
    for made in (NUMBERS, LIST):
        with pytest.raises(FlowError) as caught:
            made.denote({1: []})
        assert caught.value.codes == ["F12"]


def test_functions_of_dgs_refuse_calls_with_other_arguments():
    for call in (dgs.run, lambda: dgs.run(NUMBERS, of_no_name=1), lambda: dgs.run(1, 2, 3), dgs.resume):
        with pytest.raises(UsageError, match=r"it takes (run|resume)\("):
            call()


def test_every_public_function_is_in_a_table():
    known = {one.__name__ for one in (*FLOWS, *PIPELINES)}
    public = {
        name
        for module in (dgs.flow, pico)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }
    assert public - known == {"merge", "first", "second", "iterate"} - known


def test_a_run_says_what_its_streams_and_settings_are():
    for options in ({"streams": Odd()}, {"runtime": Odd()}, {"optimizer": 5}, {"settings": "x"}):
        with pytest.raises(dgs.errors.UsageError):
            dgs.run(NUMBERS, **({"streams": {"a": [(1, 2)]}} | options))


def test_table_of_a_file_that_cannot_be_read_is_a_sentence(tmp_path):
    (tmp_path / "rows.json").write_text("{")
    for name in ("absent.json", "rows.json", "."):
        with pytest.raises(UsageError, match="no table can be read from"):
            Table.json(tmp_path / name)
