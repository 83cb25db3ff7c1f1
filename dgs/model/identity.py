"""The identity of a program: the parts that must be equal for a saved state and committed outputs to be usable.

A state can be resumed by a program with the same state types, forks and joins, kinds, dependence and version, that reads the
same streams in the same order: the order decides ties. Code is not compared: users raise `version` when a change of the code
makes old states unusable.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.tags import kind
>>> class Sums(Program):
...     depends = Dependence((kind("barrier"), kind("value", key=int), ALWAYS))
>>> one, other = identity_of(Sums(), ["values", "barriers"]), identity_of(Sums(), ["barriers", "values"])
>>> one.digest == identity_of(Sums(), ["values", "barriers"]).digest
True
>>> one.difference(other)
["streams in order: 'values', 'barriers' there, 'barriers', 'values' here"]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dgs import codec
from dgs.errors.hidden_values import masked
from dgs.model.dependence import Rule, When
from dgs.model.program import Program, State
from dgs.model.tags import Kind, Tag
from dgs.model.user_code import UserCode

Migrate = Callable[[State, int], State]

LONGEST_PART = 200
"""The most characters of a part; a longer part is cut and gets a digest."""

MOST_PAIRS = 1_000_000
"""The most pairs of keys on which a predicate between two kinds is evaluated."""


@dataclass(frozen=True, slots=True)
class ProgramIdentity:
    """The name and version of a program, and readable descriptions by name of all else that a saved state relies on."""

    name: str
    version: int
    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """BLAKE2b of the identity, 16 hexadecimal characters."""
        data = codec.encode([self.name, self.version, dict(self.parts)])
        return hashlib.blake2b(data, digest_size=8).hexdigest()

    def difference(self, other: ProgramIdentity) -> list[str]:
        """Return the differences, one line each: "there" means this identity, "here" the other."""
        mine, yours = _all(self), _all(other)
        names = [*mine, *(name for name in yours if name not in mine)]
        pairs = ((name, mine.get(name, "nothing"), yours.get(name, "nothing")) for name in names)
        return [f"{name}: {there} there, {here} here" for name, there, here in pairs if there != here]

    def is_other_version_of(self, other: ProgramIdentity) -> bool:
        """Return whether the version differs and nothing else does."""
        same = (self.name, dict(self.parts)) == (other.name, dict(other.parts))
        return same and self.version != other.version

    def __str__(self) -> str:
        return f"{self.name} version {self.version} ({self.digest})"


def identity_of(program: Program, streams: Sequence[str]) -> ProgramIdentity:
    """Return the identity of a program that reads these declared streams, in this order."""
    parts: dict[str, str] = {"streams in order": ", ".join(map(repr, streams))}
    parts |= {f"state type {state.name!r}": f"handles {state.handles!r}" for state in program.states()}
    for fork in program.fork_joins():
        parts[f"fork {fork.name!r}"] = f"{fork.parent} to {fork.left} and {fork.right}"
    parts |= {f"kind {name!r}": _domain(kind) for name, kind in program.all_kinds().items()}
    parts["accumulating kinds"] = ", ".join(sorted(map(str, program.accumulates))) or "none"
    parts |= _dependence(program) | dict(program.identity_parts())
    return ProgramIdentity(
        program.name, program.version, {name: _short(masked(text)) for name, text in parts.items()}
    )


def migration(program: Program) -> Migrate | None:
    """Return the program's `migrate`, None if it gives none. Its exceptions become UserCodeError."""
    if not program.gives("migrate"):
        return None

    return partial(UserCode(program).call, "migrate", program.migrate)


def _all(identity: ProgramIdentity) -> dict[str, str]:
    return {"program": identity.name, "version": str(identity.version), **identity.parts}


def _domain(kind: Kind) -> str:
    if isinstance(kind.domain, type):
        return "any key" if kind.domain is object else f"keys of type {kind.domain.__qualname__}"
    return "no key" if kind.domain is None else f"one of {', '.join(map(repr, kind.domain))}"


def _dependence(program: Program) -> dict[str, str]:
    """Return for each pair of kinds with a rule the condition on which their tags depend on each other."""
    if program.dependence.is_total:
        return {"dependence": "everything on everything"}
    found: dict[str, set[str]] = {}
    for rule in program.dependence.rules:
        first, second = sorted([str(rule.left), str(rule.right)])
        found.setdefault(f"dependence of {first!r} and {second!r}", set()).add(_when(rule, program))
    return {name: " or ".join(sorted(texts - {"never"})) or "never" for name, texts in sorted(found.items())}


def _when(rule: Rule, program: Program) -> str:
    if isinstance(rule.when, When):
        return rule.when.value.replace("_", " ")
    left, right = program.kind(str(rule.left)), program.kind(str(rule.right))
    if not (left.is_finite and right.is_finite) or _size(left) * _size(right) > MOST_PAIRS:
        return "as a function says"
    pairs = [f"{a!r} and {b!r}" for a in _tags(left) for b in _tags(right) if rule.holds(a, b)]
    return ", ".join(pairs) or "never"


def _size(kind: Kind) -> int:
    return len(kind.domain) if isinstance(kind.domain, tuple) else 1


def _tags(kind: Kind) -> Iterator[Tag]:
    keys = kind.domain if isinstance(kind.domain, tuple) else (None,)
    return (Tag(str(kind), key) for key in keys)


def _short(text: str) -> str:
    if len(text) <= LONGEST_PART:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[:LONGEST_PART]}... ({digest})"


codec.register(ProgramIdentity, name="dgs.ProgramIdentity", formerly="dgs.program_identity.ProgramIdentity")
