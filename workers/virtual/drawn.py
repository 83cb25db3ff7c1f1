"""Events of streams at their rates, at random times.

>>> from dgs.model.tags import kind
>>> VIEW = kind("view", key=int)
>>> streams = [Stream("views", TagSet.of(VIEW), {VIEW(1): 30.0}, other_rate=10.0)]
>>> (views,) = drawn(streams, events=400, seed=1).values()
>>> len(views.times), round(float(views.times[-1])), views.tags[0], bool((views.codes == 0).mean() > 0.6)
(400, 10, view(1), True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dgs.model.events import EventBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.topology import Stream

UNKNOWN_KEYS = 256
"""Keys in place of those whose rates are known only as a sum."""

NANOSECONDS = 1e9

NO_TAGS = (Tag("none"),)
"""The tags of a stream without events, since a batch has at least one."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The events of one stream. `times`: seconds at the rates of the stream; `codes`: the position of each event's tag."""

    times: npt.NDArray[np.float64]
    tags: tuple[Tag, ...]
    codes: npt.NDArray[np.int32]

    def batch(self, stream: str, rank: int, *, pace: float) -> EventBatch:
        """Return the events as a batch, `pace` times as fast. A ts is in nanoseconds."""
        ts = (self.times * (NANOSECONDS / pace)).astype(np.int64)
        payload = np.zeros(len(ts), dtype=np.int64)
        return EventBatch.of(stream, rank=rank, tags=self.tags, ts=ts, codes=self.codes, payload=payload)


def drawn(streams: Sequence[Stream], *, events: int, seed: int) -> dict[str, Drawn]:
    """Return about `events` events, in proportion to the rates. Streams without a rate have none."""
    rnd = np.random.default_rng(seed)
    rates = {stream.id: dict(_rates(stream)) for stream in streams}
    total = sum(sum(of.values()) for of in rates.values())
    found = {}
    for name, of in rates.items():
        own = sum(of.values())
        if not own:
            found[name] = Drawn(np.empty(0), NO_TAGS, np.empty(0, dtype=np.int32))
            continue
        count = max(1, round(events * own / total))
        codes = rnd.choice(len(of), size=count, p=[rate / own for rate in of.values()]).astype(np.int32)
        found[name] = Drawn(np.sort(rnd.random(count)) * events / total, tuple(of), codes)
    return found


def _rates(stream: Stream) -> Iterator[tuple[Tag, float]]:
    """Yield tags with their rates; those without a known rate share the rest."""
    yield from ((tag, rate) for tag, rate in stream.rates.items() if rate)
    others = [tag for tag in _samples(stream.tags) if tag not in stream.rates]
    if stream.other_rate and others:
        yield from ((tag, stream.other_rate / len(others)) for tag in others)


def _samples(tags: TagSet) -> Iterator[Tag]:
    """Yield the tags of a set; for a kind with infinitely many keys, some of them."""
    for kind, keys in tags.kinds:
        if keys.is_finite:
            yield from (Tag(kind, key) for key in sorted(keys.extra, key=repr))
        else:
            possible = (Tag(kind, key) for key in range(UNKNOWN_KEYS * keys.modulus))
            some = (tag for tag in possible if tag in tags)
            yield from (tag for tag, _ in zip(some, range(UNKNOWN_KEYS), strict=False))
