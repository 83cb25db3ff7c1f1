"""`LawBroken`: the error of the suites for connectors, with the law and the problem.

>>> raise LawBroken("source", object(), "order", "row 3 has the time 5, after 7")
Traceback (most recent call last):
dgs.testing.broken_law.LawBroken: source object breaks the law `order`: row 3 has the time 5, after 7
"""

from __future__ import annotations


class LawBroken(AssertionError):  # noqa: N818 - a finding of a test, as OutputsDiffer is
    """A connector breaks a law of its contract. `law`: its name, as in `dgs.connectors` and docs/connectors.md."""

    def __init__(self, role: str, connector: object, law: str, problem: str) -> None:
        self.role, self.law, self.problem = role, law, problem
        super().__init__(f"{role} {type(connector).__name__} breaks the law `{law}`: {problem}")
