"""The dependence relation: dependent events must stay in order (Definition 2.1, clause 2).

It is declared as rules between kinds, and symmetric by construction; kinds without a rule are independent. In a program that
declares nothing, everything depends on everything: parallelism is never assumed.

>>> from dgs.model.tags import kind
>>> UPDATE, VIEW = kind("update", key=str), kind("view", key=str)
>>> relation = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))
>>> relation(VIEW("a"), UPDATE("a")), relation(VIEW("a"), UPDATE("b")), relation(VIEW("a"), VIEW("a"))
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from dgs.errors import AsymmetricDependenceError, DgsError, PredicateError, UsageError
from dgs.errors.raised import RAISED, is_ours, summary, user_trace
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Kind, Tag


class When(Enum):
    """The condition on which two tags of a rule's kinds depend on each other."""

    ALWAYS = "always"
    SAME_KEY = "same_key"


ALWAYS = When.ALWAYS
"""In a rule of a Dependence: events of the two kinds always depend on each other."""
SAME_KEY = When.SAME_KEY
"""In a rule of a Dependence: events of the two kinds depend on each other if they have one key."""

TagPredicate = Callable[[Tag, Tag], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """Tags of kinds `left` and `right` depend on each other if `when` holds; a predicate gets (left, right)."""

    left: Kind | str
    right: Kind | str
    when: When | TagPredicate

    def holds(self, a: Tag, b: Tag) -> bool:
        """Return whether the rule makes `a` and `b` dependent, in either order."""
        if (a.kind, b.kind) == (self.left, self.right) and self.asked(a, b):
            return True
        return (b.kind, a.kind) == (self.left, self.right) and self.asked(b, a)

    def asked(self, left: Tag, right: Tag) -> bool:
        """Return whether tags of the two kinds, in this order, depend on each other. Raises PredicateError."""
        if isinstance(self.when, When):
            return self.when is ALWAYS or left.key == right.key
        try:
            return bool(self.when(left, right))
        except DgsError:
            raise
        except RAISED as error:
            if is_ours(error):
                raise
            raise PredicateError(
                trace=user_trace(error),
                error=summary(error),
                rule=f"{self.left}-{self.right}",
                tags=f"{left!r} and {right!r}",
            ) from error


def _rule(given: Any) -> Rule:
    """Return a rule. Raises UsageError for anything else than a rule or its three parts."""
    if isinstance(given, Rule):
        return given
    if not isinstance(given, (tuple, list)) or len(given) != len(fields(Rule)):
        message = (
            f"a rule of a Dependence is (kind, kind, dgs.ALWAYS, dgs.SAME_KEY or a function), not {given!r}"
        )
        raise UsageError(message=message)
    return Rule(*given)


class Dependence:
    """A symmetric relation on tags, given by rules. Law: `relation(a, b) == relation(b, a)`."""

    def __init__(self, *rules: Rule | tuple[Kind | str, Kind | str, When | TagPredicate]) -> None:
        self.rules = tuple(_rule(one) for one in rules)
        self.is_total = False
        self._by_kinds: dict[tuple[str, str], list[Rule]] = {}
        for rule in self.rules:
            for pair in {(str(rule.left), str(rule.right)), (str(rule.right), str(rule.left))}:
                self._by_kinds.setdefault(pair, []).append(rule)

    @classmethod
    def everything(cls) -> Dependence:
        """Return the relation in which every pair of tags is dependent."""
        relation = cls()
        relation.is_total = True
        return relation

    @classmethod
    def from_function(cls, depends: TagPredicate, tags: Iterable[Tag]) -> Dependence:
        """Return the relation that `depends` describes over a finite set of tags.

        Raises AsymmetricDependenceError with the first pair on which it is not symmetric.
        """
        listed = list(tags)
        for i, a in enumerate(listed):
            for b in listed[i:]:
                forward, backward = bool(depends(a, b)), bool(depends(b, a))
                if forward != backward:
                    raise AsymmetricDependenceError(left=a, right=b, forward=forward, backward=backward)
        kinds = list(dict.fromkeys(tag.kind for tag in listed))
        return cls(*(Rule(a, b, depends) for i, a in enumerate(kinds) for b in kinds[i:]))

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds whose declarations (key domains) the rules carry, by name."""
        sides = [side for rule in self.rules for side in (rule.left, rule.right)]
        return {str(side): side for side in sides if isinstance(side, Kind)}

    def __call__(self, a: Tag, b: Tag) -> bool:
        """Return whether `a` and `b` are dependent."""
        return self.is_total or any(rule.holds(a, b) for rule in self.rules)

    def between(self, left: TagSet, right: TagSet) -> bool:
        """Return whether some tag of `left` depends on some tag of `right`.

        Exact for ALWAYS and SAME_KEY. A predicate is evaluated on every pair of tags of finite sets; for an infinite set
        the answer is True: independence is never assumed.
        """
        if self.is_total:
            return bool(left) and bool(right)
        return any(
            self._rule_between(rule, left, right) or self._rule_between(rule, right, left)
            for rule in self._rules_about(left, right)
        )

    def _rules_about(self, left: TagSet, right: TagSet) -> Iterable[Rule]:
        """Return the rules that can hold between tags of two sets."""
        if left.others or right.others:
            return self.rules
        pairs = ((a, b) for a, _ in left.kinds for b, _ in right.kinds)
        return [rule for pair in pairs for rule in self._by_kinds.get(pair, ())]

    def _rule_between(self, rule: Rule, left: TagSet, right: TagSet) -> bool:
        mine, yours = left.keys(str(rule.left)), right.keys(str(rule.right))
        if not mine or not yours:
            return False
        if isinstance(rule.when, When):
            return rule.when is ALWAYS or not mine.isdisjoint(yours)
        if not (mine.is_finite and yours.is_finite):
            return True
        return any(
            rule.asked(Tag(str(rule.left), k), Tag(str(rule.right), j))
            for k in sorted(mine.extra, key=repr)
            for j in sorted(yours.extra, key=repr)
        )

    def witness(self, left: TagSet, right: TagSet) -> tuple[str, str] | None:
        """Return a readable pair of dependent tags of the two sets, for error messages; None if the sets are independent."""
        for a in left.tags():
            for b in right.tags():
                if self(a, b):
                    return repr(a), repr(b)
        return (repr(left), repr(right)) if self.between(left, right) else None

    def __repr__(self) -> str:
        if self.is_total:
            return "Dependence.everything()"
        return f"Dependence({', '.join(f'{r.left}-{r.right}' for r in self.rules)})"
