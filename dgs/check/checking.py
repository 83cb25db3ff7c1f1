"""Checking a program: one law after the other, except those that do not apply."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from dgs.check import relation
from dgs.check.drawing.sample_payloads import any_ints, payload_strategies
from dgs.check.drawing.sample_tags import known_kinds, sample_tags
from dgs.check.drawing.strategies import simplest
from dgs.check.drawing.time_steps import passes
from dgs.check.elsewhere.another_process import AnotherProcess
from dgs.check.laws import LAWS, Finding, Law
from dgs.check.options import Options
from dgs.check.report import CheckReport, LawResult
from dgs.check.scenarios.equality import close, same
from dgs.check.scenarios.reachable import narrated
from dgs.check.scenarios.world import World
from dgs.check.search.search import ERRORS, Counterexample, named, search
from dgs.model.declarations import near_misses
from dgs.model.program import Program

RAISES = "user code raises nothing on states and events that it can meet"


def run_checks(program: Program, options: Options, before: Iterable[LawResult] = ()) -> CheckReport:
    """Check all laws of a program. `before`: results of earlier checks."""
    results = list(before)
    found = relation.relation_finding(program)
    results.append(of_finding(relation.NAME, relation.WORDS, found))
    if found is not None:
        return CheckReport(
            program.name, tuple(results), options.seed, ("nothing else can be checked before",)
        )
    world, notes = made_world(program, options)
    notes += near_misses(program)
    if not program.dependence.rules:
        notes.append("the program declares no dependence, so it runs as one worker")
    with closing(world):
        for law in LAWS:
            results.append(_checked(law, world, options, results))
    return CheckReport(program.name, tuple(results), options.seed, tuple(notes))


def made_world(program: Program, options: Options) -> tuple[World, list[str]]:
    """Return the world for checking a program, and notes about it. Raises UsageError if payloads are unknown."""
    keys = {kind: list(values) for kind, values in options.keys.items()}
    given = options.strategies
    tags = sample_tags(program, keys, given)
    payloads, guessed = payload_strategies(program, tags, given)
    samples = [
        (tag, simplest(payloads[tag.kind])) for tag in {tag.kind: tag for tag in reversed(tags)}.values()
    ]
    default = same if options.tolerance is None else close(options.tolerance)
    world = World(
        program,
        tags,
        payloads,
        options.streams,
        options.states_equal or default,
        options.outputs_equal or default,
        any_ints(program, tags, given),
        passes(program, samples),
        AnotherProcess,
    )
    return world, [*_notes(program, {*keys, *given}, guessed)]


def _notes(program: Program, said: Iterable[str], guessed: Sequence[str]) -> Iterator[str]:
    known = known_kinds(program)
    if unknown := sorted(kind for kind in said if known and kind not in known):
        yield f"the program declares no kind {', '.join(unknown)}: it has {', '.join(known)}"
    if guessed:
        yield f"payloads of {', '.join(guessed)} are guessed: a type hint or `strategies=` says better"


def of_finding(name: str, words: str, finding: Finding | None) -> LawResult:
    """Return the result of a law that needs no scenario."""
    return LawResult(name, words, "holds" if finding is None else "BROKEN", finding=finding)


def of_counterexample(law: Law, world: World, found: Counterexample, **figures: Any) -> LawResult:
    """Return the result of a law with a counterexample and its story."""
    finding = named(found, law).finding
    name = finding.law or law.name
    return LawResult(
        name,
        RAISES if name == ERRORS else next((one.words for one in LAWS if one.name == name), law.words),
        "BROKEN",
        finding=finding,
        scenario=found.scenario,
        story=tuple(narrated(world, found.scenario)),
        checked_as=law.name,
        **figures,
    )


def holding(law: Law, world: World, **figures: Any) -> LawResult:
    """Return the result of a law without a counterexample, or the reason why it could not be checked."""
    missing = law.missing(world)
    if missing is not None:
        return LawResult(law.name, law.words, "no need", reason=missing)
    return LawResult(law.name, law.words, "holds", **figures)


def _checked(law: Law, world: World, options: Options, results: list[LawResult]) -> LawResult:
    broken = {one.law for one in results if one.is_broken} | {
        one.checked_as for one in results if one.is_broken
    }
    first = next((name for name in (ERRORS, *law.after) if name in broken), None)
    if first is not None:
        return LawResult(law.name, law.words, "skipped", reason=f"until {first} holds")
    missing = law.missing(world)
    if missing is not None:
        return LawResult(law.name, law.words, "no need", reason=missing)
    started = time.monotonic()
    count, found = search(law, world, max_examples=options.max_examples, seed=options.seed)
    seconds = time.monotonic() - started
    if found is not None:
        return of_counterexample(law, world, found, examples=count, seconds=seconds)
    return holding(law, world, examples=count, seconds=seconds)
