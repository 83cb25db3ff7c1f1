"""The laws of positions: the position of an event is the highest of all layers, under any dealing and any cuts of lanes."""

from __future__ import annotations

import random

import pytest

from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, OrderKey
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import Tag
from dgs.workers.recovery.positions import Layer, Part, Positions, dealt
from dgs.workers.simulated.faults import Faults
from tests.workers.recovery import test_recovery_mutants as mutants
from tests.workers.simulated import test_crashes

TAGS = [Tag("a"), Tag("b"), Tag("c")]
ROWS = 12
BLOCK = 2
SEEDS = range(400)


def events(rnd):
    """Return a stream of rows with random tags, some at one instant."""
    times = sorted(rnd.choices(range(8), k=ROWS))
    return EventBatch.of("s", rank=0, tags=TAGS, codes=rnd.choices(range(3), k=ROWS), ts=times)


def random_layer(rnd, batch):
    """Return the knowledge of a run: of each split, of some or all tags, in parts with positions at some events."""
    splits = rnd.choice([1, 2, 3])
    parts = []
    for split in range(splits):
        tags = TAGS if rnd.random() < 0.7 else rnd.sample(TAGS, 2)
        cut = rnd.randint(0, len(tags))
        sides = [TagSet.of(*some) for some in (tags[:cut], tags[cut:]) if some]
        parts += [Part(split, some, batch.key(rnd.randrange(ROWS))) for some in sides]
    return Layer(splits, tuple(parts), BLOCK)


def position(layer, tag, seq):
    """Return the position of an event by the definition."""
    split = seq // layer.block % layer.splits
    return max((part.key for part in layer.parts if part.split == split and tag in part.tags), default=BEGIN)


def is_in(positions, tag, key):
    return any(key < position(layer, tag, key.seq) for layer in positions.streams.get("s", ()))


def check(seed):
    """Raise AssertionError if the layers of a seed break a law."""
    rnd = random.Random(seed)
    batch = events(rnd)
    rows = list(zip(batch.tag_list(), map(batch.key, range(ROWS)), strict=True))
    older, newer = (Positions({"s": (random_layer(rnd, batch),)}) for _ in range(2))
    both = newer.over(older)
    for tag, key in rows:
        assert is_in(both, tag, key) == (is_in(older, tag, key) or is_in(newer, tag, key))
    check_reading(both, batch, rows)
    check_starts(both, rnd, rows)


def check_reading(positions, batch, rows):
    """A resumed run skips the events that are in the state. Where layers know all tags, no other event is below the key to read from."""
    splits = 3
    left = [
        key
        for part in dealt(batch, tuple(f"s/{i}" for i in range(splits)), None, block=BLOCK)
        for key in map_keys(positions.above(part, splits))
    ]
    assert sorted(left) == [key for tag, key in rows if not is_in(positions, tag, key)]
    known = TagSet.of(*TAGS)
    if all(
        layer.start(known, split) > BEGIN for layer in positions.streams["s"] for split in range(layer.splits)
    ):
        assert all(key >= positions.base("s") for tag, key in rows if not is_in(positions, tag, key))


def map_keys(batch):
    return [batch.key(row) for row in range(len(batch))]


def check_starts(positions, rnd, rows):
    """A lane starts at or below all of its events that are not in the state."""
    for splits in (1, 2, 3):
        tags = rnd.sample(TAGS, rnd.choice([1, 2, 3]))
        for split in range(splits):
            stream = "s" if splits == 1 else f"s/{split}"
            start = positions.start(stream, TagSet.of(*tags), splits)
            mine = [(t, key) for t, key in rows if t in tags and key.seq // BLOCK % splits == split]
            assert all(key >= start for t, key in mine if not is_in(positions, t, key))


def check_all():
    for seed in SEEDS:
        check(seed)


def test_positions_of_events_are_those_of_their_layers():
    check_all()


@pytest.mark.parametrize(
    "remove",
    [
        mutants.covers_another_dealing_split_by_split,
        mutants.starts_a_lane_where_part_of_its_tags_are,
        mutants.reads_from_the_highest_position,
        mutants.leaves_out_the_event_at_a_position,
        mutants.takes_the_lowest_layer,
        mutants.deals_old_positions_in_other_blocks,
    ],
)
def test_laws_of_positions_notice_a_removed_rule(monkeypatch, remove):
    remove(monkeypatch)
    with pytest.raises(AssertionError):
        check_all()


# A lane that starts at the positions of part of its tags: why no run shows it.


@pytest.mark.parametrize("seed", range(0, 32, 4))
def test_layers_of_a_run_say_something_of_all_tags_of_a_stream(seed):
    case = test_crashes.case_of(seed)
    run = case.check_with(seed, Faults(crashes=3, crash_chance=0.03, stops=2, snapshots=0.2))
    layers = [
        (stream, layer)
        for checkpoint in run.commits
        for stream, found in checkpoint.positions.streams.items()
        for layer in found
    ]
    assert layers
    for stream, layer in layers:
        for split in range(layer.splits):
            assert case.tags_of(stream) <= union(part.tags for part in layer.parts if part.split == split)


def test_lane_starts_alike_at_part_of_its_tags_where_layers_say_something_of_all(monkeypatch):
    rnd = random.Random(1)
    layers = [
        layer for layer in (random_layer(rnd, events(rnd)) for _ in range(400)) if knows_all_tags(layer)
    ]
    lanes = [
        (layer, TagSet.of(*rnd.sample(TAGS, count)), split)
        for layer in layers
        for count in (1, 2, 3)
        for split in (None, *range(layer.splits))
    ]
    whole = [layer.start(tags, split) for layer, tags, split in lanes]
    mutants.starts_a_lane_where_part_of_its_tags_are(monkeypatch)
    assert whole == [layer.start(tags, split) for layer, tags, split in lanes]
    assert len(layers) > 100


def knows_all_tags(layer):
    splits = range(layer.splits)
    return all(TagSet.of(*TAGS) <= union(p.tags for p in layer.parts if p.split == s) for s in splits)


def test_key_of_an_event_is_not_below_itself():
    key = OrderKey(1, 0, 0)
    assert not is_in(Positions({"s": (Layer(1, (Part(0, TagSet.of(*TAGS), key),), BLOCK),)}), TAGS[0], key)
