"""Sets of implementation tags, such as the ones a worker owns (Section 3.1).

>>> from dgs.model.tags import kind
>>> VALUE = kind("value")
>>> mine, yours = ImplTagSet.of(a=TagSet.of(VALUE)), ImplTagSet.of(b=TagSet.of(VALUE))
>>> mine.isdisjoint(yours), (mine | yours).tags() == TagSet.of(VALUE)
(True, True)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import ImplTag


@dataclass(frozen=True, slots=True)
class ImplTagSet:
    """An immutable mapping from stream id to the (non-empty) set of its tags, sorted by stream id."""

    streams: tuple[tuple[str, TagSet], ...] = ()

    @classmethod
    def of(cls, mapping: Mapping[str, TagSet] | None = None, /, **streams: TagSet) -> ImplTagSet:
        """Return the set with the given tags of each stream."""
        return cls(tuple((s, t) for s, t in sorted({**(mapping or {}), **streams}.items()) if t))

    def stream(self, stream: str) -> TagSet:
        """Return the tags of `stream` in this set."""
        at = bisect_left(self.streams, (stream,))
        return self.streams[at][1] if at < len(self.streams) and self.streams[at][0] == stream else TagSet()

    def tags(self) -> TagSet:
        """Return the tags of all streams together: the predicate that fork gets."""
        return union(dict.fromkeys(tags for _, tags in self.streams))

    def __iter__(self) -> Iterator[tuple[str, TagSet]]:
        return iter(self.streams)

    def __bool__(self) -> bool:
        return bool(self.streams)

    def __contains__(self, itag: ImplTag) -> bool:
        return itag.tag in self.stream(itag.stream)

    def __or__(self, other: ImplTagSet) -> ImplTagSet:
        found = dict(self.streams)
        for stream, tags in other.streams:
            found[stream] = found[stream] | tags if stream in found else tags
        return ImplTagSet.of(found)

    def __and__(self, other: ImplTagSet) -> ImplTagSet:
        theirs = dict(other.streams)
        return ImplTagSet.of({s: tags & theirs[s] for s, tags in self.streams if s in theirs})

    def __sub__(self, other: ImplTagSet) -> ImplTagSet:
        theirs = dict(other.streams)
        return ImplTagSet.of({s: tags - theirs[s] if s in theirs else tags for s, tags in self.streams})

    def isdisjoint(self, other: ImplTagSet) -> bool:
        """Return whether the two sets share no implementation tag."""
        return not self & other

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{stream}: {tags!r}" for stream, tags in self.streams) + "}"
