"""The contract of a law, and the finding if it is broken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dgs.check.drawing.scenarios import Draws
from dgs.check.scenarios.equality import Equal, Symptom, differences, symptom
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World
from dgs.model.events import Event
from dgs.model.user_code import shown


@dataclass(frozen=True)
class Finding:
    """Two sides of a law that should be equal but are not. `expected` and `got`: each a name and a value as text.

    `law`: the law that is broken, if it is not the one that was checked. `dependent`: two tags that should probably be declared
    dependent.
    """

    what: str
    expected: tuple[str, str] | None = None
    got: tuple[str, str] | None = None
    differences: tuple[str, ...] = ()
    hint: str = ""
    dependent: tuple[str, str] | None = None
    law: str | None = None


class Law(ABC):
    """A law: it draws scenarios, and checks one.

    `name`: its short name. `words`: the law as a sentence. `after`: laws that must hold before this one is checked.
    `fewest`: the least number of events that a scenario is about (None: always the same number).
    """

    name: ClassVar[str]
    words: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ("codec", "ownership", "determinism")
    fewest: ClassVar[int | None] = None

    def missing(self, world: World) -> str | None:
        """Return why the law does not apply to a program, None if it does."""
        del world
        return None

    @abstractmethod
    def draw(self, draws: Draws) -> Scenario:
        """Draw a scenario."""

    def variants(self, world: World, scenario: Scenario) -> Iterable[Scenario]:
        """Return the scenarios to check for a drawn one, since checking is much cheaper than drawing."""
        del world
        return (scenario,)

    @abstractmethod
    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Return the finding in a scenario, None if the law holds there. Raises UserRaised if user code raises."""


def compared(
    equal: Equal, what: str, expected: tuple[str, Any], got: tuple[str, Any], hints: dict[Symptom, str]
) -> Finding | None:
    """Return a finding if two values differ, with the hint for this kind of difference."""
    if equal(expected[1], got[1]):
        return None
    return Finding(
        what,
        (expected[0], shown(expected[1])),
        (got[0], shown(got[1])),
        tuple(differences(expected[1], got[1])),
        hints.get(symptom(expected[1], got[1])) or hints.get("other", ""),
    )


def compared_outputs(
    world: World,
    events: Sequence[Event],
    expected: tuple[str, Sequence[list[Any]]],
    got: tuple[str, Sequence[list[Any]]],
    hint: str,
) -> Finding | None:
    """Return a finding if the outputs of an event differ, or come in another order."""
    for event, wanted, found in zip(events, expected[1], got[1], strict=True):
        if len(wanted) == len(found) and all(map(world.outputs_equal, wanted, found)):
            continue
        names = [f"{name}, outputs of {event.tag!r}" for name in (expected[0], got[0])]
        told = hint
        if symptom(wanted, found) == "rounding":
            told = ROUNDING
        return Finding(
            f"the outputs of {event.tag!r} differ",
            (names[0], shown(wanted)),
            (names[1], shown(found)),
            tuple(differences(wanted, found)),
            told,
        )
    return None


ROUNDING = (
    "they differ only by rounding: sums of floats depend on the order of adding. Compare with a tolerance "
    "(`--tolerance 1e-9`, `tolerance=1e-9`), or add exactly: integers of the smallest unit, Fraction, Decimal"
)
