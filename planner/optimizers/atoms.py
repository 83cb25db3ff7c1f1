"""Atoms: the smallest sets of implementation tags that optimizers place.

An atom is one tag of one stream or, if the keys are unbounded, one hash class of the keys of one kind of one stream.
All kinds use the same number of classes, so equal keys meet in equal classes. Keys with much of the traffic become atoms of their
own, in every kind and stream whose keys must line up.

>>> from dgs.model.tags import kind
>>> from dgs.planner.topology import Stream
>>> from dgs.model.dependence import ALWAYS
>>> VIEW, BARRIER = kind("view", key=str), kind("barrier")
>>> class Views(Program):
...     depends = Dependence((VIEW, VIEW, SAME_KEY), (BARRIER, VIEW, ALWAYS))
>>> clicks = Stream("clicks", TagSet.of(VIEW), rates={VIEW("home"): 90.0}, other_rate=10.0)
>>> for atom in atoms(Topology([clicks, Stream("ticks", TagSet.of(BARRIER))]), Views(), classes=2):
...     print(atom, atom.rate)
view('home')@clicks 90.0
view(hash%2 in [0] - {'home'})@clicks 5.0
view(hash%2 in [1])@clicks 5.0
barrier@ticks 0.0
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.key_sets import KeySet, key_class
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Key, Tag
from dgs.planner.topology import Stream, Topology

CLASSES_PER_LEAF = 4
"""Hash classes per leaf: enough to balance leaves by rate, and few enough to read in a plan."""

MAX_CLASSES = 4096
"""The most hash classes: no plan needs more."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A part of one stream that no plan divides.

    With a `kind`: the one tag (`kind`, `key`), or, if `domain` is given, the keys of `domain` in class `hash_class` of
    `modulus`. Without a kind: `rest`, the tags of a stream of unknown kinds.
    """

    stream: str
    kind: str | None
    key: Key = None
    domain: KeySet | None = None
    hash_class: int = 0
    modulus: int = 1
    rest: TagSet | None = None
    rate: float = 0.0

    @property
    def is_single(self) -> bool:
        """Whether the atom is exactly one implementation tag."""
        return self.kind is not None and self.domain is None

    @property
    def tag(self) -> Tag:
        """The one tag of a single atom."""
        return Tag(str(self.kind), self.key)

    @property
    def tags(self) -> TagSet:
        """The tags of the atom."""
        if self.rest is not None:
            return self.rest
        return TagSet.from_kinds({str(self.kind): _keys([self])})

    @property
    def order(self) -> tuple[str, str, bool, int, str]:
        """The sort key among atoms of equal rate: by stream, then tag."""
        key = f"{self.key:020}" if isinstance(self.key, int) and self.key >= 0 else repr(self.key)
        return self.stream, self.kind or "", not self.is_single, self.hash_class, key

    def __str__(self) -> str:
        text = repr(self.tag) if self.is_single else repr(self.tags)[1:-1]
        return f"{text}@{self.stream}"


def impl_tags(items: Iterable[Atom]) -> ImplTagSet:
    """Return the implementation tags of many atoms, built once per stream and kind."""
    groups: dict[str, dict[str, list[Atom]]] = {}
    whole: dict[str, TagSet] = {}
    for atom in items:
        if atom.kind is None:
            whole[atom.stream] = atom.tags
        else:
            groups.setdefault(atom.stream, {}).setdefault(atom.kind, []).append(atom)
    found, alone = dict[str, TagSet](), dict[tuple[str, Key], TagSet]()
    for stream, kinds in groups.items():
        (kind, same), *others = kinds.items()
        if others or len(same) > 1 or not same[0].is_single:
            found[stream] = TagSet.from_kinds({kind: _keys(same) for kind, same in kinds.items()})
        elif (tag := (kind, same[0].key)) in alone:
            found[stream] = alone[tag]  # thousands of streams may have the same tag
        else:
            found[stream] = alone[tag] = same[0].tags
    return ImplTagSet.of({**found, **whole})


def _keys(same: list[Atom]) -> KeySet:
    """Return the keys of atoms of one stream and one kind."""
    keys = KeySet.of(atom.key for atom in same if atom.is_single)
    hashed = [atom for atom in same if not atom.is_single]
    if hashed and hashed[0].domain is not None:
        keys = keys | _in_classes(hashed[0].domain, hashed[0].modulus, [atom.hash_class for atom in hashed])
    return keys


def _in_classes(domain: KeySet, modulus: int, classes: Sequence[int]) -> KeySet:
    """Return the keys of a domain that are in hash classes. Keys that the domain excludes are looked at only for these classes."""
    whole = KeySet.hashed(modulus, classes)
    if domain.extra or len(domain.classes) != domain.modulus:
        return domain & whole
    lacking = _by_class(domain, modulus)
    return whole - KeySet.of(key for one in classes for key in lacking.get(one, ()))


@lru_cache(maxsize=64)
def _by_class(domain: KeySet, modulus: int) -> Mapping[int, Sequence[Key]]:
    """Return the keys that a domain excludes, by their hash class."""
    found: dict[int, list[Key]] = {}
    for key in domain.missing:
        found.setdefault(key_class(key) % modulus, []).append(key)
    return found


def atoms(topology: Topology, program: Program, *, classes: int | None = None) -> list[Atom]:
    """Return the atoms of all streams, in stream order; unbounded keys are divided into `classes` hash classes."""
    modulus = classes or CLASSES_PER_LEAF * topology.cpus
    hot = _hot_keys(topology, program.dependence, modulus)
    found: list[Atom] = []
    for stream in topology.streams:
        if stream.tags.others:
            rate = sum(stream.rates.values()) + stream.other_rate
            found.append(Atom(stream.id, None, rest=stream.tags, rate=rate))
        else:
            found.extend(_of_stream(stream, hot, modulus))
    return found


def coarse_atoms(topology: Topology, program: Program, *, most: int) -> list[Atom]:
    """Return the atoms of as many hash classes as make at most `most` atoms, whatever the number of machines.

    There are none if no keys are unbounded, or if one class already makes more atoms.
    """
    whole = atoms(topology, program, classes=1)
    divided = sum(atom.domain is not None for atom in whole)
    if not divided or len(whole) > most:
        return []
    classes = min(MAX_CLASSES, (most - len(whole)) // divided + 1)
    while len(found := atoms(topology, program, classes=classes)) > most:  # keys with much of the traffic
        classes = max(1, classes * most // len(found))
    return found


def _of_stream(stream: Stream, hot: dict[str, list[Key]], modulus: int) -> Iterator[Atom]:
    kinds = len(stream.tags.kinds)
    for kind, keys in stream.tags.kinds:
        listed = {tag.key: rate for tag, rate in stream.rates.items() if tag.kind == kind and tag.key in keys}
        pulled = [key for key in hot.get(kind, ()) if not keys.is_finite and key in keys]
        single = list(dict.fromkeys([*sorted(keys.extra, key=repr), *pulled]))
        hashed = KeySet() if keys.is_finite else keys - KeySet.of(single)
        present = _classes_in(hashed, modulus) if hashed else []
        unlisted = sum(key not in listed for key in single) + len(present)
        share = stream.other_rate / kinds / unlisted if unlisted else 0.0
        for key in single:
            yield Atom(stream.id, kind, key, rate=listed.get(key, share))
        extra = _class_rates(listed, single, modulus) if present else {}
        for c in present:
            yield Atom(stream.id, kind, None, hashed, c, modulus, rate=share + extra.get(c, 0.0))


def _classes_in(hashed: KeySet, modulus: int) -> list[int]:
    """Return the numbers of those of `modulus` classes that hold keys of a set made of whole classes."""
    step = gcd(hashed.modulus, modulus)
    residues = {c % step for c in hashed.classes}
    return [c for c in range(modulus) if c % step in residues]


def _class_rates(listed: dict[Key, float], single: Collection[Key], modulus: int) -> dict[int, float]:
    """Return the rate of each class, from the listed keys that are not atoms of their own."""
    rates: dict[int, float] = {}
    alone = set(single)
    for key, rate in listed.items():
        if key not in alone:
            c = key_class(key) % modulus
            rates[c] = rates.get(c, 0.0) + rate
    return rates


def key_groups(dependence: Dependence) -> dict[str, frozenset[str]]:
    """Return for each kind under a SAME_KEY rule the kinds whose keys must line up with its own, directly or through others."""
    groups: dict[str, frozenset[str]] = {}
    for rule in dependence.rules:
        if rule.when is SAME_KEY:
            sides = (str(rule.left), str(rule.right))
            merged = frozenset(sides).union(*(groups.get(side, frozenset()) for side in sides))
            groups.update(dict.fromkeys(merged, merged))
    return groups


def _hot_keys(topology: Topology, dependence: Dependence, modulus: int) -> dict[str, list[Key]]:
    """Return for each kind the keys with at least an average class's share of the traffic of its group."""
    groups = key_groups(dependence)
    rates: dict[frozenset[str], dict[Key, float]] = {}
    for stream in topology.streams:
        for tag, rate in stream.rates.items():
            group = rates.setdefault(groups.get(tag.kind, frozenset([tag.kind])), {})
            group[tag.key] = group.get(tag.key, 0.0) + rate
    total = {
        group: sum(keys.values())
        + sum(s.other_rate for s in topology.streams if any(k in s.tags for k in group))
        for group, keys in rates.items()
    }
    hot: dict[str, list[Key]] = {}
    for kinds, keys in rates.items():
        some = sorted((k for k, r in keys.items() if r > 0 and r * modulus >= total[kinds]), key=repr)
        hot.update(dict.fromkeys(kinds, some))
    return hot
