"""The checks of Piglet, on each place that answers queries: the same lines as Piglet's, as lists or as multisets."""

import re
from collections import Counter
from pathlib import Path

import pytest

from dgs.query.evaluate import answers, zbag
from dgs.query.pig.pig_storage import line_of
from dgs.query.pig.pig_translation import Translator
from dgs.query.pig.text.pig_reading import read_script
from tests.dgs.query.pig.piglet_checks import CHECKS, Check

CASES = Path(__file__).parents[5] / "shared" / "cases" / "upstream" / "piglet"

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the cases are not beside the checkout (shared/cases)"
)

DIFFERENCE = {"grouping2.data": {"1": "{(1),(1)}", "4": "{(4),(4)}", "7": "{(7),(7)}", "8": "{(8),(8)}"}}
"""Piglet makes one value of `A.f1`; in Apache Pig and here it is a bag."""


def expected(check: Check) -> list[str]:
    """Return the lines of the file, with the named difference."""
    lines = (CASES / "expected" / check.expected).read_text("utf-8").splitlines()
    bags = DIFFERENCE.get(check.expected)
    if bags is None:
        return lines
    return [f"{bags[line.split(',')[0]]},{line.split(',')[1]}" for line in lines]


def comparable(lines: list[str]) -> list[str]:
    """Return lines with the tuples of bags in one order: bags have none."""
    return [re.sub(r"\{(\(.*?\))\}", _sorted_bag, line) for line in lines]


def _sorted_bag(found: re.Match[str]) -> str:
    return "{" + ",".join(sorted(re.findall(r"\([^()]*\)", found[1]))) + "}"


def interpreted(check: Check) -> list[str]:
    """Return the lines that the interpreter answers."""
    program = Translator(CASES / "input").read(read_script(check.script, "check.pig"))
    assert not program.problems, [str(one) for one in program.problems]
    tables = {name: zbag(load.table(CASES / "input")) for name, load in program.loads.items()}
    (output,) = program.outputs
    rows = answers(program.script, tables)[output.name]
    return [line_of(row[: len(output.fields)], output.fields, output.delimiter) for row in rows]


def assert_same(lines: list[str], check: Check) -> None:
    got, wanted = comparable(lines), comparable(expected(check))
    if check.is_list:
        assert got == wanted
    else:
        assert Counter(got) == Counter(wanted)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_interpreter_answers_as_piglet(check: Check) -> None:
    assert_same(interpreted(check), check)
