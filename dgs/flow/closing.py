"""Closers: the nodes that wait for the end of a block. Each says what it keeps of its items, and what it gives when the block closes.

A *part* is what a node keeps of the items of one key in one block. Parts of one key and block are joined. A *store* is what a node
keeps between blocks. Both are plain data, and belong to the state of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from operator import add
from typing import Any

from dgs import codec
from dgs.errors import InternalError
from dgs.flow import steps
from dgs.flow.batches import window_sums
from dgs.flow.batches.block_bounds import Bound
from dgs.flow.batches.item_bags import Bags
from dgs.flow.batches.owned_states import lift_of, owned, result_of_kept
from dgs.flow.panes import Panes, TimeWindow
from dgs.flow.templates import KeyedUnordered, overrides
from dgs.monoids import Count, Sum

Parts = dict[Any, Any]
Store = dict[Any, Any]
Item = tuple[Any, Any, Any]
"""Key, value and time."""

_LARGE = 2**63
"""Integers from 0 to below this are in the order of their codec bytes."""


def canonical(keys: Iterable[Any]) -> list[Any]:
    """Return keys in order of their codec bytes.

    >>> canonical([3, "b", 1]), canonical(["ab", "b", "a"])
    ([1, 3, 'b'], ['a', 'b', 'ab'])
    """
    listed = list(keys)
    if len(listed) < 2:  # noqa: PLR2004 - nothing to sort
        return listed
    kinds = set(map(type, listed))
    if kinds == {int}:
        found = sorted(listed)
        if found[0] >= 0 and found[-1] < _LARGE:  # the order of their bytes, without encoding them
            return found
    if kinds == {str} and all(map(str.isascii, listed)):
        return sorted(sorted(listed), key=len)
    return sorted(listed, key=codec.encode)


class Closer:
    """The base: a node that waits for the end of a block."""

    lifting: Any = None
    """The monoid that lifts and joins its items; None if it keeps them in another way."""

    keeps_items = False
    """Whether it keeps each item of a block, so that blocks may be too large."""

    is_idle_work = False
    """Whether it has something to do in blocks without items, once it has seen an item."""

    def part(self, key: Any, value: Any, at: int | None) -> Any:
        """Return the part of one item."""
        raise NotImplementedError

    def join(self, left: Any, right: Any) -> Any:
        """Return the joined part. It may change both."""
        raise NotImplementedError

    @property
    def joining(self) -> Callable[[Any, Any], Any]:
        """The function that joins parts: for sums and counts an addition, without a call of Python."""
        if self.lifting is None:
            return self.join
        is_sum = getattr(type(self.lifting), "join", None) in (Count.join, Sum.join)
        return add if is_sum else self.lifting.join

    def check_kept(self, parts: Parts) -> None:
        """Check that the kept items of a block fit. Raises TooLargeError."""

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:
        """Close a block; `parts`: by input and key."""
        raise NotImplementedError

    def is_busy(self, store: Store) -> bool:
        """Return whether the next block must be closed even if it has no items."""
        return self.is_idle_work and bool(store)

    def keys_of(self, store: Store) -> Iterable[Any]:
        """Return the keys of which a store has something."""
        return store

    def store_of(self, key: Any, store: Store) -> Store:
        """Return the store of one key alone. Law: closing key by key, and then `pass_block`, is closing."""
        return {key: store[key]} if key in store else {}

    def put_store(self, key: Any, own: Store, store: Store) -> None:
        """Put back the store of one key."""
        store.pop(key, None)
        store.update(own)

    def pass_block(self, store: Store) -> None:
        """Do the work of a block that concerns no single key, after all keys."""


class SortCloser(Bags, Closer):
    """Keeps the items of a block, and gives those of each key in order when the block closes."""

    keeps_items = True

    def __init__(self, step: steps.Sort, bound: Bound, *, is_ordered: bool) -> None:
        super().__init__(bound, is_ordered=is_ordered and step.ties != "value")
        self._by = steps.sort_key(step.by)

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:  # noqa: ARG002 - the contract
        """Give the items of each key in their order, with their own times."""
        for key in canonical(parts[0]):
            for value, at in sorted(self.items(parts[0], key), key=lambda item: self._by(key, item[0])):
                yield key, value, at


class BlockCloser(Bags, Closer):
    """Calls a function of the items of a key."""

    keeps_items = True

    def __init__(self, step: steps.Block, bound: Bound, *, is_ordered: bool) -> None:
        super().__init__(bound, is_ordered=is_ordered)
        self._function = step.function

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:  # noqa: ARG002 - the contract
        """Give the values that the function returns for the items of each key."""
        for key in canonical(parts[0]):
            for made in self._function(key, [value for value, _ in self.items(parts[0], key)], end):
                yield key, made, end


class JoinCloser(Bags, Closer):
    """Pairs the items of both sides."""

    keeps_items = True

    def __init__(self, step: steps.Join, bound: Bound) -> None:
        super().__init__(bound, is_ordered=False)
        self._function = step.function or (lambda _, left, right: (left, right))

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:  # noqa: ARG002 - the contract
        """Give the pairs of each key that both sides have."""
        left, right = parts
        for key in canonical(key for key in left if key in right):
            others = self.items(right, key)
            for a, _ in self.items(left, key):
                for b, _ in others:
                    yield key, self._function(key, a, b), end


class _Joining(Closer):
    """Keeps the joined aggregate of a monoid."""

    def __init__(self, monoid: Any) -> None:
        self.monoid = self.lifting = monoid
        self._lift = lift_of(monoid)

    def part(self, key: Any, value: Any, at: int | None) -> Any:  # noqa: ARG002 - the contract
        """Lift the value."""
        return self._lift(value)

    def join(self, left: Any, right: Any) -> Any:
        """Join two aggregates."""
        return self.monoid.join(left, right)


class AggregateCloser(_Joining):
    """Gives the aggregate of a block, or of all history. Its store: all keys with their aggregates, None if none is kept."""

    def __init__(self, step: steps.Aggregate) -> None:
        super().__init__(step.monoid)
        self._keeps = step.over == "history"
        self._result = result_of_kept(step.monoid) if self._keeps else step.monoid.result
        self.is_idle_work = step.idle == "all"

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:  # noqa: ARG002 - the contract
        """Give a result for each key with items, or for each key ever seen."""
        monoid = self.monoid
        for key, part in parts[0].items():
            if self._keeps:
                store[key] = monoid.join(store[key], part) if key in store else part
            elif self.is_idle_work:
                store[key] = None
        for key in canonical(store if self.is_idle_work else parts[0]):
            state = store[key] if self._keeps else parts[0][key] if key in parts[0] else monoid.identity()
            yield key, self._result(state), end


class WindowCloser(_Joining):
    """Gives the aggregate of the last panes. Its store: the queue of panes of each key; empty ones are kept for `idle="all"` only.

    Sums and counts have a store of sums instead, until a value comes that is not an integer.
    """

    def __init__(self, step: steps.Aggregate, over: TimeWindow, period: int) -> None:
        super().__init__(step.monoid)
        self._size, self.slide = over.blocks(period)
        self._is_all = step.idle == "all"
        join, kind = self.monoid.join, type(self.monoid)
        self._sums = getattr(kind, "join", None) in (Count.join, Sum.join)
        is_result = getattr(kind, "result", None) in (Count.result, Sum.result)
        self._result = None if is_result else result_of_kept(self.monoid)
        self._panes = Panes(lambda left, right: join(owned(left), owned(right)), self.monoid.identity())
        self.is_idle_work = True

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:
        """Add the block's panes; give the windows that end here."""
        panes, before, result = self._panes, block - self._size + 1, self._result
        ends_here = not (block + 1) % self.slide
        if self._are_sums(parts[0], store):
            window_sums.add(store, block, parts[0], keep_all=self._is_all)
            if ends_here:
                totals = window_sums.drop_before(store, before)
                for key in canonical(totals):
                    yield key, (totals[key] if result is None else result(totals[key])), end
            return
        for key, part in parts[0].items():
            if key not in store:
                store[key] = panes.empty()
            panes.push(store[key], block, part)
        for key in canonical(store) if ends_here else ():
            queue = store[key]
            total = panes.slide(queue, before)
            if self._is_all or queue[0] or queue[1]:
                yield key, (total if result is None else result(total)), end
            else:
                del store[key]

    def _are_sums(self, parts: Parts, store: Store) -> bool:
        """Return whether a store and the parts of a block are sums of integers. If not, a store of sums is changed to one of queues."""
        if not self._sums or (store and not window_sums.holds(store)):
            return False
        is_exact = window_sums.are_integers(parts)
        if store and not is_exact:
            window_sums.to_queues(store)
        return is_exact

    def keys_of(self, store: Store) -> Iterable[Any]:
        """Return the keys of which a store has something."""
        return store["totals"] if window_sums.holds(store) else store

    def store_of(self, key: Any, store: Store) -> Store:
        """Return the panes of a key."""
        return window_sums.of_key(store, key) if window_sums.holds(store) else super().store_of(key, store)

    def put_store(self, key: Any, own: Store, store: Store) -> None:
        """Put back the panes of a key. If one of the two stores has queues, both are changed to queues."""
        if window_sums.holds(store) and (not own or window_sums.holds(own)):
            window_sums.put_key(store, key, own)
            return
        for one in (own, store) if store else ():
            if window_sums.holds(one):
                window_sums.to_queues(one)
        super().put_store(key, own, store)


class UnorderedCloser(_Joining):
    """Runs a KeyedUnordered template. Its store: the states by key under "states", the state of a new key as "start"."""

    def __init__(self, template: KeyedUnordered) -> None:
        super().__init__(template.monoid)
        self._template = template
        self.lifting = None if overrides(template, "lift") else template.monoid
        self.is_idle_work = template.idle == "all"

    def is_busy(self, store: Store) -> bool:  # noqa: ARG002 - the contract
        """Return whether markers change the state of keys that have not come yet."""
        return self.is_idle_work

    def keys_of(self, store: Store) -> Iterable[Any]:
        """Return the keys with a state."""
        return store.get("states", ()) if self.is_idle_work else ()

    def store_of(self, key: Any, store: Store) -> Store:
        """Return the state of a key, and that of a new key."""
        if not store:
            store.update(states={}, start=self._template.initial_state())
        states = store["states"]
        return {"states": {key: states[key]} if key in states else {}, "start": store["start"]}

    def put_store(self, key: Any, own: Store, store: Store) -> None:  # noqa: ARG002 - the contract
        """Put back the state of a key."""
        store["states"].update(own["states"])

    def pass_block(self, store: Store) -> None:
        """Let the block pass for future keys."""
        alone = self.store_of(None, store)
        for _ in self.close([{}], alone, 0, None):
            raise InternalError(problem="a block without keys gave an item")
        store["start"] = alone["start"]

    def part(self, key: Any, value: Any, at: int | None) -> Any:  # noqa: ARG002 - the contract
        """Lift the item as the template says."""
        if self.lifting is not None:
            return self._lift(value)
        state = self._template.lift(key, value)
        return owned(state) if state is value else state

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:  # noqa: ARG002 - the contract
        """Update the states and call the template's `on_marker`."""
        template, monoid, made = self._template, self.monoid, list[tuple[Any, Any]]()
        if not store:
            store.update(states={}, start=template.initial_state())
        states = store["states"]
        for key in canonical({**states, **parts[0]} if self.is_idle_work else parts[0]):
            state = states[key] if key in states else deepcopy(store["start"])
            found = monoid.result(parts[0][key] if key in parts[0] else monoid.identity())
            states[key] = template.update_state(state, found)
            template.on_marker(states[key], key, end, lambda new_key, value: made.append((new_key, value)))
            yield from ((new_key, value, end) for new_key, value in made)
            made.clear()
        if self.is_idle_work:
            store["start"] = template.update_state(store["start"], monoid.result(monoid.identity()))


class SnapshotCloser(UnorderedCloser):
    """Runs a KeyedUnordered template whose `on_item` reads the state of the last marker, so the items are kept until the block closes.

    A part: the joined aggregate, and the items.
    """

    keeps_items = True

    def __init__(self, template: KeyedUnordered, bound: Bound) -> None:
        super().__init__(template)
        self.lifting = None
        self._bags = Bags(bound, is_ordered=False)

    def part(self, key: Any, value: Any, at: int | None) -> Any:
        """Lift the item, and keep it."""
        return [super().part(key, value, at), self._bags.part(key, value, at)]

    def join(self, left: Any, right: Any) -> Any:
        """Join the aggregates, and put the items together."""
        return [super().join(left[0], right[0]), self._bags.join(left[1], right[1])]

    def check_kept(self, parts: Parts) -> None:
        """Check all bags of a block. Raises TooLargeError."""
        self._bags.check_kept({key: bag for key, (_, bag) in parts.items()})

    def close(self, parts: list[Parts], store: Store, block: int, end: int | None) -> Iterator[Item]:
        """Call the template's `on_item` for the items in canonical order, then close the block as usual."""
        template, made = self._template, list[tuple[Any, Any]]()
        before = self.store_of(None, store)  # makes the store if necessary
        bags = {key: bag for key, (_, bag) in parts[0].items()}
        for key in canonical(bags):
            state = store["states"].get(key, before["start"])
            for value, at in self._bags.items(bags, key):
                template.on_item(deepcopy(state), key, value, lambda *item: made.append(item))
                yield from ((new_key, new, at) for new_key, new in made)
                made.clear()
        yield from super().close([{key: part for key, (part, _) in parts[0].items()}], store, block, end)


def closer_of(step: steps.Step, period: int, bound: Bound, *, is_ordered: bool) -> Closer | None:  # noqa: PLR0911 - one return a step
    """Return the closer of a step; None if it does not wait for the end of a block. `is_ordered`: its input is ordered."""
    match step:
        case steps.Sort():
            return SortCloser(step, bound, is_ordered=is_ordered)
        case steps.Block():
            return BlockCloser(step, bound, is_ordered=is_ordered)
        case steps.Join():
            return JoinCloser(step, bound)
        case steps.Aggregate(over=TimeWindow() as over):
            return WindowCloser(step, over, period)
        case steps.Aggregate():
            return AggregateCloser(step)
        case steps.Apply(template) if isinstance(template, KeyedUnordered):
            has_snapshots = overrides(template, "on_item")
            return SnapshotCloser(template, bound) if has_snapshots else UnorderedCloser(template)
    return None
