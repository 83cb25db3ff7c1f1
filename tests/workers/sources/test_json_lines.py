"""Lines of JSON: the fast decoder accepts, reads and refuses them as the strict decoder does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.workers.sources.readers import jsonl
from dgs.workers.sources.readers.jsonl import LineProblemError, parsed, parsed_together

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
    """Return an object with fields that may be repeated, blanks anywhere, and sometimes text after it."""
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


def one_by_one(texts: list[bytes]) -> object:
    try:
        return [jsonl._DECODER.decode(text.decode()) for text in texts]
    except (json.JSONDecodeError, LineProblemError):
        return None


PARTS = st.sampled_from(
    [
        *'{}[]":,',
        '"a":',
        "1",
        '"x"',
        "1e999",
        "\\ud800",
        '{"a":1}',
        '{"b":"}"}',
        '{"a":"\\ud83d\\ude00"}',
        '{"a":"\\ud83d\\\\\\ude00"}',
        "\x00",
        "ä",
        '{"a":1},{"b":[{"c":1}',
        '{"d":1}]}',
        '{"a":{"b":[1,{"c":"]"}]}}',
        '{"a":"\\\\"}',
        '{"a":"\\"{"}',
        '{"a":1,"a":2}',
        '{"a" :1,"a":2}',
        '{"a"\t:1,"a":"\\":"}',
        '{"a":"\\":","b" :2}',
        "[" * 99,
    ]
)


@given(st.lists(st.one_of(lines(), st.lists(PARTS, max_size=6).map("".join)), min_size=1, max_size=4))
def test_lines_that_are_read_together_are_those_read_one_by_one(told):
    texts = [line.encode() for line in told]
    found = parsed_together(texts)
    assert found is None or found == one_by_one(texts)


WHOLE = [
    '{"ts": 1, "user": "u1"}',
    '{"at": "12:30:05", "n": 2.5}',
    '{"x": [1.5, {"y": "a:[\\"{"}], "z" : {}}',
    '{"text": "\\ud55c \\uD83D\\uDE00 \\\\d"}',
    '{"a":1}\r',
]


@given(st.lists(st.sampled_from(WHOLE), min_size=1))
def test_right_lines_are_read_together(told):
    assert parsed_together([line.encode() for line in told]) is not None


DIGITS = st.text("0123456789", min_size=1, max_size=25)
NUMBERS = st.one_of(
    st.tuples(DIGITS, DIGITS, st.integers(-330, 330)).map(lambda parts: "{}.{}e{}".format(*parts)),
    st.tuples(DIGITS, DIGITS).map(".".join),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**70), 2**70).map(str),
    DIGITS,
)


@given(NUMBERS, st.sampled_from(["", "-"]))
def test_numbers_are_those_of_the_strict_decoder(number, sign):
    told = f'{{"a": {sign}{number}}}'
    found, wanted = parsed_together([told.encode()]), strictly(told)
    assert found is None or repr(found[0]) == repr(wanted)


def test_lines_that_are_two_objects_only_together_are_wrong():
    assert parsed_together([b'{"a": 1}, {"b": [{"c": 1}', b'{"d": 1}]}']) is None


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"a": 1',
        b'{"a": 1e999}',
        b'{"a": [[-1e999]]}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud83d"}',
        b'{"a": "\\ude00\\ud83d"}',
        b'{"a": "\\\\ud83d\\ude00"}',
        b'{"a": "\\ud83d\\\\\\ude00"}',
        b'{"a": 1, "a": 2}',
        b'{"a" : 1, "a": 2}',
        b'{"a"\t: 1, "a": 2}',
        b'{"a"\r: 1, "a": 2}',
        b'{"a": [1e999, 2]}',
        b'{"a": {"b": 1, "b": 2}}',
        b"1",
        None,
        b'{"a":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"a": ' + b"[" * 9999 + b"]" * 9999 + b"}",
    ],
)
def test_no_line_that_is_wrong_alone_is_read_together_with_others(wrong):
    right = b'{"a": 1}'
    assert parsed_together([right, right]) == [{"a": 1}, {"a": 1}]
    assert parsed_together([right, wrong, right]) is None
