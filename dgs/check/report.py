"""The report of a check: law by law, with a counterexample in words for each law that does not hold.

>>> report = CheckReport("Total", (LawResult("C3", "independent events commute", "holds", examples=200),), seed=0)
>>> print(report)
Total: no counterexample (seed 0)
  holds     C3            200 examples
>>> report.ok
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dgs.check.laws.contract import Finding
from dgs.check.scenarios.scenario import Scenario

Status = Literal["holds", "BROKEN", "skipped", "no need"]


@dataclass(frozen=True)
class LawResult:
    """The result for one law: the number of examples and seconds, or the `reason` why it was not checked.

    A broken law has a `finding`, a `scenario` (None if none is needed), and its `story`: each step with the state that it leads
    to.
    """

    law: str
    words: str
    status: Status
    examples: int = 0
    seconds: float = 0.0
    reason: str = ""
    finding: Finding | None = None
    scenario: Scenario | None = None
    story: tuple[tuple[str, str], ...] = ()
    checked_as: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether there is a counterexample."""
        return self.status == "BROKEN"

    def __str__(self) -> str:
        if self.finding is None:
            about = f"{self.examples} examples" if self.status == "holds" and self.examples else self.reason
            return f"  {self.status:<9} {self.law:<13} {about}".rstrip()
        return "\n".join(
            [f"  {self.status:<9} {self._said()}", "", *(f"    {line}" for line in self._lines()), ""]
        )

    def _said(self) -> str:
        """Return the law that is broken, by its name in the documentation."""
        return self.words if self.words.startswith(self.law) else f"{self.law}: {self.words}"

    def _lines(self) -> list[str]:
        finding = self.finding
        if finding is None:
            return []
        lines = [finding.what]
        width = max((len(step) for step, _ in self.story), default=0)
        width = min(width, 60)
        lines += [
            f"  {step:<{width}}  {leads}" if step.split()[0] != "event" else f"  {step}: {leads}"
            for step, leads in self.story
        ]
        sides = [side for side in (finding.expected, finding.got) if side is not None]
        width = max((len(name) for name, _ in sides), default=0)
        lines += [f"{name:<{width}} = {value}" for name, value in sides]
        lines += [f"difference: {one}" for one in finding.differences]
        if finding.hint:
            head, *more = finding.hint.splitlines()
            lines += [f"hint: {head}", *(f"  {line}" for line in more)]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the result as data for JSON."""
        data: dict[str, Any] = {
            "law": self.law,
            "words": self.words,
            "status": self.status.lower(),
            "examples": self.examples,
            "seconds": round(self.seconds, 3),
        }
        if self.reason:
            data["reason"] = self.reason
        if self.finding is not None:
            data["counterexample"] = {
                "what": self.finding.what,
                "steps": [list(step) for step in self.story],
                "events": 0 if self.scenario is None else self.scenario.event_count,
                "expected": self.finding.expected,
                "got": self.finding.got,
                "differences": list(self.finding.differences),
                "hint": self.finding.hint,
                "dependent": self.finding.dependent,
            }
        return data


@dataclass(frozen=True)
class CheckReport:
    """The findings of a check. It is true if no law is broken.

    `notes`: facts about the check, such as guessed payloads.
    """

    program: str
    laws: tuple[LawResult, ...]
    seed: int = 0
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no counterexample was found."""
        return not self.broken

    @property
    def broken(self) -> tuple[LawResult, ...]:
        """The laws that do not hold."""
        return tuple(one for one in self.laws if one.is_broken)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        many = len(self.broken)
        said = "no counterexample" if self.ok else f"{many} law{'s do' if many > 1 else ' does'} not hold"
        lines = [f"{self.program}: {said} (seed {self.seed})", *(f"  note: {note}" for note in self.notes)]
        return "\n".join([*lines, *map(str, self.laws)]).rstrip("\n")

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for JSON."""
        return {
            "program": self.program,
            "ok": self.ok,
            "seed": self.seed,
            "notes": list(self.notes),
            "laws": [one.to_json() for one in self.laws],
            **self.facts,
        }
