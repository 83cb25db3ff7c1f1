"""Rates that a user gives in place of sampled ones: of whole kinds, and of single tags.

>>> from dgs.model.tag_sets import TagSet
>>> from dgs.model.tags import kind
>>> VIEW = kind("view", key=("home", "shop"))
>>> sampled = Stream("clicks", TagSet.of(VIEW("home"), VIEW("shop")), {VIEW("home"): 3.0, VIEW("shop"): 1.0})
>>> with_rates([sampled], {"view": 80.0})[0].rates, with_rates([sampled], {"view": 80.0, "view(shop)": 50.0})[0].rates
({view('home'): 60.0, view('shop'): 20.0}, {view('home'): 30.0, view('shop'): 50.0})
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dgs.errors import InvalidError
from dgs.errors.nearest import did_you_mean
from dgs.model.tags import Tag
from dgs.planner.topology import Stream

ROUNDING = 1 + 1e-9


class UnknownRateError(InvalidError):
    """A rate is given for a tag that no stream carries."""

    code = "DGS327"
    template = "a rate is given for {tag}, which no stream carries{nearest}"
    fix = "Write a kind or a tag of the streams, such as {example}"


class ContradictoryRatesError(InvalidError):
    """Rates that are given for a kind and for its tags contradict each other."""

    code = "DGS328"
    template = "the rates contradict each other: {problem}"
    fix = "The rate of a kind is that of all its tags together: raise it, or lower those of its tags"


def with_rates(streams: Sequence[Stream], given: Mapping[str, float]) -> list[Stream]:
    """Return the streams with rates given by name (`view`, `view(home)`) in events per second over all streams.

    The tags of a kind keep their proportions, and so do the streams of a tag. Raises UnknownRateError, ContradictoryRatesError.
    """
    kinds: dict[str, float] = {}
    single: dict[Tag, float] = {}
    names = _Names(streams)
    for name, rate in given.items():
        found = names.find(name)
        if isinstance(found, Tag):
            if found in single:
                raise ContradictoryRatesError(
                    problem=f"{found!r} has two rates, {single[found]:g} and {rate:g}"
                )
            single[found] = rate
        else:
            kinds[found] = rate
    made = _Rates(streams)
    for tag, rate in single.items():
        made.set_tag(tag, rate)
    for kind, rate in kinds.items():
        made.set_kind(kind, rate, {tag: each for tag, each in single.items() if tag.kind == kind})
    return made.streams()


class _Names:
    """The names of the kinds and tags of streams."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._kinds = sorted({each for stream in streams for each, _ in stream.tags.kinds})
        self._tags: dict[tuple[str, str], Tag] = {}
        self._types: set[tuple[str, type]] = set()
        for stream in streams:
            for tag in _listed(stream):
                self._types.add((tag.kind, type(tag.key)))
                for text in (str(tag.key), repr(tag.key)):
                    self._tags.setdefault((tag.kind, text), tag)

    def find(self, name: str) -> Tag | str:
        """Return the tag with a name, or the kind. Raises UnknownRateError."""
        match = re.fullmatch(r"([^()]+?)(?:\((.*)\))?", name.strip(), re.DOTALL)
        kind, key = (match[1], match[2]) if match else (name, None)
        if kind in self._kinds and key is None:
            return kind
        tag = self._tags.get((kind, str(key))) or self._of_a_new_key(kind, key)
        if tag is None:
            nearest = did_you_mean(name, [*self._kinds, *map(repr, self._tags.values())])
            example = ", ".join(self._kinds[:3]) or "view(home)"
            raise UnknownRateError(tag=name, nearest=nearest, example=example)
        return tag

    def _of_a_new_key(self, kind: str, key: str | None) -> Tag | None:
        """Return the tag of a key that is not listed, a number unless the listed keys of the kind are texts; None if no stream carries it."""
        if key is None:
            return None
        text, is_number = Tag(kind, key.strip("'\"")), re.fullmatch(r"-?[0-9]+", key)
        are_texts = (kind, str) in self._types and (kind, int) not in self._types
        tag = Tag(kind, int(key)) if is_number and not are_texts else text
        return tag if any(tag in stream.tags for stream in self._streams) else None


def _listed(stream: Stream) -> Iterator[Tag]:
    yield from stream.rates
    if stream.tags.is_finite:
        yield from stream.tags.tags()


class _Rates:
    """The rates of streams by stream and tag; None: all other tags of the stream."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._rates: dict[tuple[str, Tag | None], float] = {}
        for stream in streams:
            self._rates |= {(stream.id, tag): stream.rate(tag) for tag in _listed(stream)}
            self._rates[stream.id, None] = stream.other_rate

    def set_tag(self, tag: Tag, rate: float) -> None:
        """Set the rate of a tag over all streams."""
        self._share(rate, [(stream.id, tag) for stream in self._streams if tag in stream.tags])

    def set_kind(self, kind: str, rate: float, given: Mapping[Tag, float]) -> None:
        """Set the rate of a kind, of which some tags have rates already."""
        rest = rate - sum(given.values())
        places = [place for place in self._rates if self._is_of(place, kind) and place[1] not in given]
        unlisted = [] if places else self._unlisted(kind)
        if rest < -rate * (ROUNDING - 1) or (rest > rate * (ROUNDING - 1) and not (places or unlisted)):
            tags = " and ".join(map(repr, given))
            problem = f"{tags} come {sum(given.values()):g} times a second, and all of {kind} {rate:g} times"
            raise ContradictoryRatesError(problem=problem)
        self._share(max(rest, 0.0), places)
        for place in unlisted:
            self._rates[place] = self._rates.get(place, 0.0) + max(rest, 0.0) / len(unlisted)

    def _unlisted(self, kind: str) -> list[tuple[str, Tag | None]]:
        """Return the places for tags of a kind that have no rate: single tags, or all other tags of a stream, of which other kinds may be, too."""
        found: list[tuple[str, Tag | None]] = []
        for stream in self._streams:
            keys = stream.tags.keys(kind)
            if keys.is_finite:
                tags = (Tag(kind, key) for key in sorted(keys.extra, key=repr))
                found += ((stream.id, tag) for tag in tags if (stream.id, tag) not in self._rates)
            elif keys:
                found.append((stream.id, None))
        return found

    def _is_of(self, place: tuple[str, Tag | None], kind: str) -> bool:
        """Return whether a place is for tags of a kind: for one of its tags, or for all other tags of a stream if only this kind has others."""
        name, tag = place
        if tag is not None:
            return tag.kind == kind
        tags = next(stream.tags for stream in self._streams if stream.id == name)
        return [each for each, keys in tags.kinds if not keys.is_finite] == [kind]

    def _share(self, rate: float, places: Sequence[tuple[str, Tag | None]]) -> None:
        """Give places a rate together, in proportion to what they have; equal parts if they have nothing."""
        total = sum(self._rates.get(place, 0.0) for place in places)
        for place in places:
            part = self._rates.get(place, 0.0) / total if total else 1 / len(places)
            self._rates[place] = rate * part

    def streams(self) -> list[Stream]:
        """Return the streams with these rates."""
        of: dict[str, dict[Tag, float]] = {stream.id: {} for stream in self._streams}
        for (name, tag), rate in self._rates.items():
            if tag is not None:
                of[name][tag] = rate
        return [
            replace(stream, rates=of[stream.id], other_rate=self._rates[stream.id, None])
            for stream in self._streams
        ]
