"""Counterexamples in files: saved by one `dgs check`, and run again by another after the program has been fixed.

The file is JSON. It has each scenario as codec bytes, which run no code when they are read, and as a story for people.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from dgs import codec
from dgs.check.checking import holding, made_world, of_counterexample, of_finding
from dgs.check.laws import LAWS, Law
from dgs.check.laws.commuting import IndependentEventsCommute
from dgs.check.options import Options
from dgs.check.relation import NAME, WORDS, relation_finding
from dgs.check.report import CheckReport, LawResult
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World
from dgs.check.search.search import Counterexample, examined
from dgs.errors import CodecError, UsageError
from dgs.model.events import Event
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.named_files import write_named

VERSION = 1
COMMUTING = IndependentEventsCommute.name

BY, MARK = "dgs check --save-counterexample", '"counterexamples": ['
"""The command that writes such a file, and the text by which it is known to be one."""


def save(report: CheckReport, target: str, path: Path) -> None:
    """Write the counterexamples of a report to a file. Raises ForeignFileError, OutputUnwritableError, CodecError."""
    found = [
        {**one.to_json(), "checked_as": one.checked_as, "scenario": _text(one.scenario)}
        for one in report.broken
        if one.scenario is not None
    ]
    data = {"version": VERSION, "target": target, "seed": report.seed, "counterexamples": found}
    text = json.dumps(data, indent=2, default=str) + "\n"
    write_named(path, text, BY, mark=MARK)


def target_of(path: Path) -> str:
    """Return the target of the counterexamples in a file. Raises UsageError."""
    return str(_read(path).get("target", ""))


def replay(path: Path, program: Program, options: Options) -> CheckReport:
    """Run the counterexamples in a file again. Raises UsageError for a file of another kind."""
    problem = relation_finding(program)
    if problem is not None:
        return CheckReport(program.name, (of_finding(NAME, WORDS, problem),), options.seed)
    saved = list(_saved(path))
    sampled = {event.tag.kind: [event.payload] for _, scenario in saved for event in scenario.every_event()}
    options = Options(
        strategies={**{kind: [None] for kind in _kinds(program)}, **sampled},
        states_equal=options.states_equal,
        outputs_equal=options.outputs_equal,
        tolerance=options.tolerance,
        seed=options.seed,
    )
    world, notes = made_world(program, options)
    with closing(world):
        return CheckReport(
            program.name, tuple(_again(world, *one) for one in saved), options.seed, tuple(notes)
        )


def _again(world: World, name: str, scenario: Scenario) -> LawResult:
    law = next((one for one in LAWS if one.name == name), None)
    if law is None:
        raise UsageError(message=f"there is no law {name!r}: the file is of another version")
    forks = [step.sides for step in scenario.steps if not isinstance(step, Event)]
    for sides in forks + ([] if scenario.sides is None else [scenario.sides]):
        if sides.fork not in world.forks:
            raise UsageError(message=f"the program has no fork {sides.fork!r} any more: check it anew")
    missing = law.missing(world) or _impossible(world, law, scenario)
    if missing is not None:
        return LawResult(law.name, law.words, "no need", reason=missing)
    finding = examined(law, world, scenario)
    if finding is None:
        return holding(law, world, examples=1)
    return of_counterexample(law, world, Counterexample(scenario, finding), examples=1)


def _impossible(world: World, law: Law, scenario: Scenario) -> str | None:
    """Return why a scenario is no longer possible, None if it is: dependent tags can be neither forked apart nor exchanged."""
    depends, program = world.dependence, world.program
    forks = [*(step.sides for step in scenario.steps if not isinstance(step, Event)), scenario.sides]
    for sides in (one for one in forks if one is not None):
        if depends.between(sides.left, sides.right):
            return (
                f"{sides.left!r} and {sides.right!r} are dependent now, so they are on no two sides of a fork"
            )
        whole = TagSet.of(*program.accumulating)
        if program.has_derived_fork and not (sides.left <= whole or sides.right <= whole):
            return "the fork is derived now, and has no two sides with kinds that do not accumulate"
    if law.name == COMMUTING:
        one, two = (event.tag for event in scenario.events)
        if depends(one, two):
            return f"{one!r} and {two!r} are dependent now, so their order is kept"
    return None


def _saved(path: Path) -> Iterator[tuple[str, Scenario]]:
    for one in _read(path).get("counterexamples", []):
        try:
            scenario = Scenario.from_data(codec.decode(base64.b64decode(one["scenario"])))
        except (CodecError, ValueError, TypeError, KeyError) as error:
            raise UsageError(message=f"{path}: a scenario cannot be read: {error}") from error
        yield str(one.get("checked_as")), scenario


def _read(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(message=f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise UsageError(message=f"{path} has no counterexamples of `dgs check --save-counterexample`")
    return data


def _text(scenario: Scenario | None) -> str | None:
    return (
        None
        if scenario is None
        else base64.b64encode(codec.encode(scenario.to_data(), keeps_order=True)).decode()
    )


def _kinds(program: Program) -> list[str]:
    from dgs.check.drawing.sample_tags import sample_tags

    return list(dict.fromkeys(tag.kind for tag in sample_tags(program, {})))
