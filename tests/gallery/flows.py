"""Operators of flows: wrong ones, each with its code, and right ones that look similar.

>>> len(WRONG) >= 15, len(RIGHT) >= 8
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dgs.flow import Flow, KeyedOrdered, KeyedUnordered, Stateless, every
from dgs.flow.building import Edge
from dgs.monoids import COUNT, MEAN_EXACT, SUM, SUM_EXACT, Top

Build = Callable[[Edge], Edge]

WRONG: dict[str, tuple[str, type, Build]] = {}
"""By name: the code, the type of the values of the stream, and the steps."""
RIGHT: dict[str, tuple[type, Build]] = {}


def wrong(code: str, values: Any = int):
    def noted(build: Build) -> Build:
        WRONG[build.__name__] = (code, values, build)
        return build

    return noted


def right(values: Any = int):
    def noted(build: Build) -> Build:
        RIGHT[build.__name__] = (values, build)
        return build

    return noted


def flow_of(name: str) -> Flow:
    """Return the flow of an operator, with a clock of 10."""
    values, build = WRONG[name][1:] if name in WRONG else RIGHT[name]
    return Flow(name, {"a": values}, build, clock=every(10, start=0))


def monoid(identity: Any, lift: Any, join: Any, result: Any = lambda state: state, **more: Any) -> Any:
    """Return a monoid of functions."""
    functions = {"identity": lambda _: identity, "lift": lambda _, value: lift(value)}
    functions |= {"join": lambda _, a, b: join(a, b), "result": lambda _, state: result(state)}
    return type("Made", (), {**functions, **more})()


def keyed(a: Edge) -> Edge:
    """Return items of two keys."""
    return a.key_by(lambda _, value: hash(value) % 2)


@wrong("F21")
def appending(a):
    return keyed(a).aggregate(monoid((), lambda value: (value,), lambda x, y: x + y))


class NaNMean(KeyedUnordered):
    monoid = monoid((0, 0.0), lambda v: (1, float(v)), lambda x, y: (x[0] + y[0], x[1] + y[1]))

    def update_state(self, state, found):
        return found[1] / found[0] if found[0] else math.nan

    def on_marker(self, state, key, at, emit):
        emit(key, state)


@wrong("F20")
def mean_of_nothing(a):
    return keyed(a).apply(NaNMean())


class Running(KeyedUnordered):
    """Emits the running sum of the block with every item."""

    monoid = SUM

    def __init__(self):
        self.total = 0

    def initial_state(self):
        return 0

    def update_state(self, state, found):
        self.total = 0
        return state + found

    def on_item(self, state, key, value, emit):
        self.total += value
        emit(key, self.total)


@wrong("F21")
def running_aggregate(a):
    return keyed(a).apply(Running())


class WrongSkip(KeyedUnordered):
    """Skips blocks without items, although they change the state once it is above 3."""

    idle = "skip"
    monoid = SUM

    def initial_state(self):
        return 0

    def update_state(self, state, found):
        return state + found if state <= 3 else state + found - 1

    def on_marker(self, state, key, at, emit):
        emit(key, state)


@wrong("F23")
def skipping_what_decays(a):
    return keyed(a).apply(WrongSkip())


@wrong("F21", tuple[int, int])
def sorting_without_ties(a):
    by_first = monoid((), lambda v: (v,), lambda x, y: tuple(sorted(x + y, key=lambda v: v[0])))
    return a.key_by(lambda _, v: 0).aggregate(by_first)


@wrong("F02")
def keying_again_what_is_ordered(a):
    return keyed(a).key_by(lambda _, v: v % 3).fold(lambda last, v: v, None)


@wrong("F22", float)
def float_sum_said_to_be_exact(a):
    return a.key_by(lambda _, v: 0).aggregate(monoid(0.0, float, lambda x, y: x + y, exact=True))


@wrong("F22")
def start_that_is_not_neutral(a):
    return keyed(a).aggregate(monoid(1, lambda v: v, lambda x, y: x + y))


@wrong("F21")
def first_two(a):
    return keyed(a).aggregate(monoid((), lambda v: (v,), lambda x, y: (x + y)[:2]))


class Numbered(Stateless):
    """Gives every item its number."""

    def __init__(self):
        self.number = 0

    def on_item(self, key, value, emit):
        self.number += 1
        emit(key, (self.number, value))


@wrong("F21")
def index_and_value(a):
    return keyed(a).apply(Numbered())


@wrong("F21", tuple[int, int])
def row_of_the_maximum(a):
    best = monoid((-99, 0), lambda v: v, lambda x, y: x if x[0] >= y[0] else y)
    return a.key_by(lambda _, v: 0).aggregate(best)


@wrong("F21", str)
def joined_texts(a):
    return a.key_by(lambda _, v: 0).aggregate(monoid("", lambda v: v, lambda x, y: x + y))


def two_means(points):
    """Return the centres of two clusters whose seeds are the first two points."""
    seeds = list(dict.fromkeys(points))[:2]
    near = [[p for p in points if min(seeds, key=lambda s: abs(p - s)) == seed] for seed in seeds]
    return [sum(group) / len(group) for group in near if group]


@wrong("F21")
def clusters_in_order_of_arrival(a):
    return a.key_by(lambda _, v: 0).aggregate(
        monoid((), lambda v: (v,), lambda x, y: x + y, lambda points: sorted(two_means(points)))
    )


COUNTER = [0]


@wrong("F21")
def values_with_a_counter(a):
    def counted(_, value):
        COUNTER[0] += 1
        return value, COUNTER[0]

    return keyed(a).map(counted)


class EmitsKeys(KeyedOrdered):
    def on_item(self, state, key, value, emit):
        emit(key, value)
        return state


@wrong("F25")
def columns_of_another_filter(a):
    return a.filter(lambda _, v: v > 3, columns=lambda _, v: v >= 3).key_by(lambda _, v: 0).aggregate(COUNT)


@wrong("F24")
def ordered_step_that_emits_a_key(a):
    return keyed(a).apply(EmitsKeys())


class EmitsLate(KeyedOrdered):
    emit = None

    def on_item(self, state, key, value, emit):
        if self.emit is not None:
            self.emit(value)
        self.emit = emit
        return state


@wrong("F24")
def emit_after_its_method(a):
    return keyed(a).apply(EmitsLate())


class EmitsItsState(KeyedOrdered):
    """Emits one list each time, which is empty in the end."""

    def initial_state(self):
        return []

    def on_item(self, state, key, value, emit):
        state.append(value)
        emit(state)
        return state

    def on_marker(self, state, key, at, emit):
        state.clear()
        return state


@wrong("F24")
def state_emitted_and_changed(a):
    return keyed(a).apply(EmitsItsState())


class EmitsNoKey(KeyedUnordered):
    monoid = SUM

    def initial_state(self):
        return 0

    def update_state(self, state, found):
        return state + found

    def on_marker(self, state, key, at, emit):
        emit(state)


@wrong("F24")
def unordered_step_that_emits_no_key(a):
    return keyed(a).apply(EmitsNoKey())


SEEN = set()


@wrong("F21")
def values_not_seen_by_the_process(a):
    def unseen(_, value):
        is_new = value not in SEEN
        SEEN.add(value)
        return is_new

    return a.filter(unseen)


class Unseen(Stateless):
    """Keeps the values that it has seen, though it has no state."""

    def __init__(self):
        self.seen = set()

    def on_item(self, key, value, emit):
        if value not in self.seen:
            self.seen.add(value)
            emit(key, value)


@wrong("F21")
def values_not_seen_by_the_template(a):
    return a.apply(Unseen())


class Extending:
    """Joins into the left list."""

    def __init__(self, lift):
        self.lift = lift

    def identity(self):
        return []

    def join(self, left, right):
        left.extend(right)
        return left

    def result(self, state):
        return sorted(state)


@wrong("F22", dict[str, list[int]])
def join_that_changes_a_part_of_the_value(a):
    return a.aggregate(Extending(lambda value: value.setdefault("x", [1])))


class OfOneState(Extending):
    """Every call of `identity` or `lift` gives the same list."""

    def __init__(self, identity, lift):
        super().__init__(lift)
        self.identity = identity


@wrong("F22")
def identity_that_is_one_object(a):
    empty: list[int] = []
    return keyed(a).aggregate(OfOneState(lambda: empty, lambda value: [value]), idle="all")


@wrong("F22")
def lift_that_gives_one_object(a):
    one = [1]
    return a.key_by(lambda _, v: 0).aggregate(OfOneState(list, lambda _: one))


class NumberedByClass(Stateless):
    """Numbers values in a dictionary of the class, in order of arrival."""

    numbers: dict[Any, int] = {}  # noqa: RUF012 - what is wrong with it

    def on_item(self, key, value, emit):
        emit(key, self.numbers.setdefault(value, len(self.numbers)))


@wrong("F21")
def numbers_of_the_class(a):
    return a.pairs(lambda _, v: (0, v)).apply(NumberedByClass())


@wrong("F21")
def counter_of_a_default(a):
    def numbered(_, value, seen=[]):  # noqa: B006 - what is wrong with it
        seen.append(value)
        return len(seen)

    return a.map(numbered)


@wrong("F21")
def block_that_adds_to_earlier_blocks(a):
    totals: dict[Any, int] = {}

    def total(key, items, at):
        totals[key] = totals.get(key, 0) + sum(items)
        return [totals[key]]

    return keyed(a).block(total)


class EmitsItsTotal(KeyedUnordered):
    """Emits one list at each marker, which the next block changes."""

    monoid = SUM

    def initial_state(self):
        return [0]

    def update_state(self, state, found):
        state[0] += found
        return state

    def on_marker(self, state, key, at, emit):
        emit(key, state)


@wrong("F24")
def state_emitted_and_changed_in_the_next_block(a):
    return a.key_by(lambda _, v: 0).apply(EmitsItsTotal())


@wrong("F21")
def numbers_of_a_closure(a):
    seen: list[Any] = []

    def number(_, value):
        if value not in seen:
            seen.append(value)
        return seen.index(value)

    return keyed(a).pairs(lambda key, v: (key, v)).map(number).aggregate(SUM)


@right()
def results_of_the_class(a):
    """Caches results, which would be the same again."""
    squares: dict[int, int] = {}
    return a.pairs(lambda _, v: (0, v)).map(lambda _, v: squares.setdefault(v, v * v))


@right(list[int])
def join_that_changes_the_value(a):
    return a.aggregate(Extending(lambda value: value))


class EmitsACopy(EmitsItsState):
    def on_item(self, state, key, value, emit):
        state.append(value)
        emit(list(state))
        return state


@right()
def copies_of_the_state(a):
    return keyed(a).apply(EmitsACopy())


@right()
def columns_of_the_same_filter(a):
    return a.filter(lambda _, v: v > 3, columns=lambda _, v: v > 3).key_by(lambda _, v: 0).aggregate(COUNT)


@right()
def counts(a):
    return keyed(a).aggregate(COUNT, idle="all")


@right(float)
def means(a):
    return a.key_by(lambda _, v: 0).aggregate(MEAN_EXACT)


@right(float)
def sums_up_to_rounding(a):
    return a.key_by(lambda _, v: 0).aggregate(SUM)


@right(float)
def exact_sums(a):
    return a.key_by(lambda _, v: 0).aggregate(SUM_EXACT)


@right()
def best_two(a):
    return keyed(a).aggregate(Top(2))


@right(tuple[int, int])
def row_of_the_maximum_with_ties(a):
    best = monoid((-99, -99), lambda v: v, max)
    return a.key_by(lambda _, v: 0).aggregate(best)


class Gaps(KeyedOrdered):
    """The difference from the previous item."""

    def on_item(self, last, key, value, emit):
        if last is not None:
            emit(value - last)
        return value

    def on_marker(self, last, key, at, emit):
        emit(-1)
        return last


@right()
def differences(a):
    return keyed(a).apply(Gaps())


class Totals(KeyedUnordered):
    idle = "skip"
    monoid = SUM

    def initial_state(self):
        return 0

    def update_state(self, state, found):
        return state + found

    def on_marker(self, state, key, at, emit):
        emit(key, (at, state))


@right()
def totals(a):
    return keyed(a).apply(Totals())


@right()
def clusters_in_canonical_order(a):
    return a.pairs(lambda _, v: (0, v)).block(lambda _, points, at: [two_means(points)])


@right()
def texts_in_order(a):
    return keyed(a).fold(lambda text, value: f"{text}{value}", "")
