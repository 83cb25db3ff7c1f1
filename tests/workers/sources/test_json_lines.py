"""Lines of JSON: a quick way for flat ones reads them, or refuses them, as the strict decoder does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.workers.sources.readers import jsonl
from dgs.workers.sources.readers.jsonl import LineProblemError, parsed

BLANKS = st.sampled_from(["", "", " ", "\t", "\r", "  "])
NAMES = st.sampled_from(["a", "b", "c", '\\":', " :", "{", "ä"]).map(lambda name: f'"{name}"')
VALUES = st.sampled_from(
    [
        "1",
        "-2.5",
        "1e999",
        "NaN",
        "null",
        "true",
        '"x"',
        '"12:30"',
        '"\\":"',
        '"{"',
        "[1, [2]]",
        '{"a": 1}',
        "{}",
    ]
)


@st.composite
def lines(draw) -> str:
    """Return an object with fields that may come twice, blanks anywhere, and sometimes more behind it."""
    fields = draw(st.lists(st.tuples(NAMES, BLANKS, BLANKS, VALUES, BLANKS), max_size=4))
    inside = ",".join(f"{name}{one}:{two}{value}{three}" for name, one, two, value, three in fields)
    return f"{draw(BLANKS)}{{{inside}}}{draw(BLANKS)}{draw(st.sampled_from(['', '', '', ',', '{}']))}"


def strictly(told: str) -> object:
    try:
        return jsonl._DECODER.decode(told)
    except (json.JSONDecodeError, LineProblemError):
        return LineProblemError


@given(lines())
def test_lines_are_read_or_refused_as_the_strict_decoder_does(told):
    wanted = strictly(told)
    try:
        found = parsed(told.encode())
    except LineProblemError:
        found = LineProblemError
    assert found == wanted


@pytest.mark.parametrize("line", ['{"ts": 1, "user": "u1"}', '{"a":1}\r', '{"at": "12:30:05", "n": 2.5}'])
def test_flat_lines_are_read_in_the_quick_way(line):
    assert jsonl._flat(line) == json.loads(line)
