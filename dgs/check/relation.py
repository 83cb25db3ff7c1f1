"""The check of the dependence relation: it must be symmetric, and give an answer for every pair of declared tags.

>>> from dgs.model.tags import kind
>>> class Lopsided(Program):
...     kinds = (kind("cell", key=range(3)),)
...     def depends(self, a, b): return a.key == b.key + 1
...     def init(self): return 0
...     def update(self, state, event, emit): return state
>>> relation_finding(Lopsided()).what
'depends(cell(0), cell(1)) is False, and depends(cell(1), cell(0)) is True'
"""

from __future__ import annotations

from itertools import islice

from dgs.check.laws.contract import Finding
from dgs.errors import AsymmetricDependenceError, DgsError
from dgs.errors.raised import summary
from dgs.model.declarations import check_declarations
from dgs.model.dependence import Rule, When
from dgs.model.program import Program
from dgs.model.tags import Tag

NAME = "dependence"
WORDS = "the dependence relation is symmetric, and answers for all declared tags"

MOST_TAGS = 60
"""At most this many tags of a sample are tried, in all pairs."""


def relation_finding(program: Program) -> Finding | None:
    """Return the problem with the relation, None if there is none. Raises ProgramError if the program's declarations are wrong."""
    check_declarations(program)
    try:
        relation = program.dependence
    except AsymmetricDependenceError as error:
        facts = error.facts
        return Finding(
            f"depends({facts['left']!r}, {facts['right']!r}) is {facts['forward']}, "
            f"and depends({facts['right']!r}, {facts['left']!r}) is {facts['backward']}",
            hint="two events either commute or they do not: answer the same both ways, or give Dependence rules",
            dependent=(repr(facts["left"]), repr(facts["right"])),
        )
    except DgsError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a predicate of the user may raise anything
        return _raised(error)
    return next((found for rule in relation.rules if (found := _asked(program, rule))), None)


def _asked(program: Program, rule: Rule) -> Finding | None:
    """Call a predicate with some of the tags of its kinds."""
    if isinstance(rule.when, When):
        return None
    from dgs.check.drawing.sample_tags import sample_tags

    tags = sample_tags(program, {})
    left = [tag for tag in tags if tag.kind == rule.left]
    right = [tag for tag in tags if tag.kind == rule.right]
    for a, b in islice(((a, b) for a in left for b in right), MOST_TAGS**2):
        try:
            rule.holds(a, b)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a predicate of the user may raise anything
            return _raised(error, a, b)
    return None


def _raised(error: BaseException, *pair: Tag) -> Finding:
    about = f"({pair[0]!r}, {pair[1]!r})" if pair else ""
    return Finding(
        f"depends{about} raised {summary(error)}",
        hint="the relation must answer for every pair of tags of the declared kinds, also where one of them has no key",
    )
