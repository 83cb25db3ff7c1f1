"""The items that a state keeps until their block closes: the parts of keys, and the forms of keys that are not plain.

The first of equal keys is the key of their part. The form that outputs show does not depend on that: a state notes every form that is not
plain, and at the end of the block each key gets the form to show.

>>> state = {"parts": {}}
>>> for key in (1, 1.0, True): note_form(state, (3, 0), 7, key)
>>> in_forms(state, (3, 0), 7, {1: "part", 2: "other"})
{1.0: 'part', 2: 'other'}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from dgs.flow.batches.block_bounds import TooLargeError
from dgs.flow.closing import Closer, Parts
from dgs.flow.flow_graph import Graph
from dgs.model.key_forms import PLAIN, check_key, is_plain, shown_form
from dgs.model.tag_sets import TagSet

State = dict[str, Any]

Place = tuple[int, int]
"""A node that keeps something, and one of its inputs."""

Span = tuple[int, int]

SMALLEST = 3
"""The number of entries that every state has."""

OF_CLASSES = ("keyed", "idle")
"""The parts of a state that are by node and class."""


def places_of_items(graph: Graph, closers: Mapping[int, Closer]) -> list[Place]:
    """Return the inputs of nodes that keep each item of a block."""
    kept = (number for number, closer in closers.items() if closer.keeps_items)
    return [place for number in kept for place in inputs_of(graph, number)]


def inputs_of(graph: Graph, number: int) -> list[Place]:
    """Return the inputs of a node."""
    return [(number, port) for port in range(len(graph.nodes[number].inputs))]


def note_form(state: State, place: Place, block: int, key: Any) -> None:
    """Note the form of the key of an item, unless it is plain. Raises BadKeyError for NaN, and for numbers without a common hash."""
    if is_plain(key):
        return
    forms = state.setdefault("forms", {}).setdefault(place, {}).setdefault(block, {})
    if key not in forms:
        check_key(key)
    elif shown_form(forms[key], key) is forms[key]:
        return
    else:
        del forms[key]  # a dictionary keeps the first of equal keys
    forms[key] = key


def noting(state: State, place: Place, block: int) -> Callable[[Any], None]:
    """Return the function that notes the form of a key; a repeated form costs little."""
    before: dict[type, set[Any]] = {bool: set(), float: set()}

    def note(key: Any) -> None:
        kind = type(key)
        if kind is tuple:
            if not PLAIN.issuperset(map(type, key)):
                note_form(state, place, block, key)
        elif key not in before.get(kind, ()):
            note_form(state, place, block, key)
            if kind in before and (key or kind is bool):  # 0.0 and -0.0 are two forms
                before[kind].add(key)

    return note


def join_parts(
    state: State, place: Place, closer: Closer, blocks: Iterable[tuple[int, Parts]], *, is_plain: bool
) -> None:
    """Join the parts of items in blocks into those of a state. `is_plain`: all their keys are plain."""
    mine = state["parts"].setdefault(place, {})
    for block, parts in blocks:
        if not is_plain:
            for key in parts:
                note_form(state, place, block, key)
        if block in mine:
            join_blocks(closer.joining, mine, {block: parts})
        else:
            mine[block] = parts


def join_blocks(join: Callable[[Any, Any], Any], mine: dict[int, Parts], blocks: dict[int, Parts]) -> None:
    """Join the parts of blocks into the existing ones. Raises TooLargeError with the key and the block."""
    for block, parts in blocks.items():
        of_block = mine.get(block)
        if of_block is None:
            mine[block] = parts
            continue
        try:
            for key, part in parts.items():
                of_block[key] = join(of_block[key], part) if key in of_block else part
        except TooLargeError as error:
            error.key, error.block = key, block
            raise


@lru_cache(maxsize=1024)
def classes_in(tags: TagSet, kind: str, classes: int) -> frozenset[Any]:
    """Return the hash classes that are keys of a kind of tags in a set. Every fork asks this of the same few sets.

    >>> from dgs.model.tags import Tag
    >>> sorted(classes_in(TagSet.of(Tag("item", 2), Tag("tick", 1)), "item", 4))
    [2]
    """
    keys = tags.keys(kind)
    return frozenset(cls for cls in range(classes) if cls in keys)


def fork_keys(state: State, owner: State, sides: tuple[State, State], right: frozenset[Any]) -> None:
    """Give the keys of each class to one of two states, and keys without a class to `owner`. A class costs the same however many keys it has."""
    for name in OF_CLASSES:
        for number, by_class in state.get(name, {}).items():
            found: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
            for cls, keys in by_class.items():
                if cls is None:
                    owner.setdefault(name, {}).setdefault(number, {})[cls] = keys
                else:
                    found[cls in right][cls] = keys
            for side, some in zip(sides, found, strict=True):
                if some:
                    side.setdefault(name, {}).setdefault(number, {}).update(some)


def join_keys(state: State, other: State) -> None:
    """Add the keys of another state to those of a state. No key is in both."""
    for name in OF_CLASSES:
        for number, by_class in other.get(name, {}).items():
            of_node = state.setdefault(name, {}).setdefault(number, {})
            for cls, keys in by_class.items():
                if of_node.get(cls):
                    of_node[cls].update(keys)
                else:
                    of_node[cls] = keys


def joined_spans(one: Span | None, other: Span | None) -> Span | None:
    """Return the span over two spans; None is that of no items."""
    if one is None or other is None:
        return other if one is None else one
    (first, last), (low, high) = one, other
    if first <= low and high <= last:
        return one
    return min(first, low), max(last, high)


def join_rare(state: State, other: State) -> None:
    """Join the parts that few states have: outputs that wait for their tick, the number of items so far, the forms of keys."""
    for block, values in other.get("waiting", {}).items():
        state.setdefault("waiting", {}).setdefault(block, {}).update(values)
    if "taken" in other:
        state["taken"] = state.get("taken", 0) + other["taken"]
    if "forms" in other:
        _join_forms(state, other["forms"])


def _join_forms(state: State, noted: dict[Place, dict[int, dict[Any, Any]]]) -> None:
    for place, blocks in noted.items():
        for block, forms in blocks.items():
            for key in forms:
                note_form(state, place, block, key)


def in_forms(state: State, place: Place, block: int, parts: Parts) -> Parts:
    """Return the parts of a block by the forms of their keys to show, and forget these forms."""
    if "forms" not in state:
        return parts
    blocks = state["forms"].get(place)
    if not blocks or block not in blocks:
        return parts
    forms = blocks.pop(block)
    return {forms.get(key, key): part for key, part in parts.items()}
