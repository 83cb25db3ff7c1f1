"""Every operator on a grid of edge values, in machine code and translated by Python: compiled equals interpreted, bit for bit."""

from itertools import product

import numpy as np
import pytest

import dgs
from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, interpreted, program_of, without_limit

INTS = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    7,
    -7,
    1000,
    -1000,
    2**31,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**62,
    2**63 - 1,
    -(2**63),
]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, 1e300, -1e300, 5e-324, 2.0**53, 2.0**63, float("inf"), float("-inf"), float("nan")]  # fmt: skip
BOOLS = [True, False]

OF_NUMBERS = [
    "x + y", "x - y", "x * y", "x / y", "x < y", "x <= y", "x > y", "x >= y", "x == y", "x != y", "-x", "+x", "abs(x)",
    "float(x)", "bool(x)", "not x", "x if x > y else None", "x != 0 and y > 0", "x == 1 or y < 0", "x < y < 3", "x == y == x",
    "(x, y, 1, 'text')", "{'x': x, 'sum': x + y, 'one': 1.5}", "-(-x)", "x * 2 - y", "(x > y) + 1", "(x > y) & (y > 0)",
    "int(x)", "round(x)", "math.floor(x)", "math.ceil(x)", "math.trunc(x)", "math.sqrt(x)", "math.fabs(x)", "math.isnan(x)",
    "math.isinf(x)", "math.isfinite(y)", "x // y", "x % y", "divmod(x, y)", "len((x, y))",
]  # fmt: skip
OF_ONE_TYPE = ["min(x, y)", "max(x, y)", "min(y, x, y)", "y if x else x"]
OF_INTS = [
    "x % y == 0", "x % y != 0", "x % 7", "x // -3", "x % -5", "x & y", "x | y", "x ^ y", "~x", "x % 1000 == 7", "x ** 2", "x ** 3",
    "x ** 0", "x << 3", "x >> 3", "x << y if abs(y) < 80 else 0", "x >> y", "sum((x, y, 1))", "max((x, y))",
]  # fmt: skip
CASES = {
    "int, int": (INTS, INTS, [*OF_NUMBERS, *OF_ONE_TYPE, *OF_INTS]),
    "int, float": (INTS, FLOATS, OF_NUMBERS),
    "float, int": (FLOATS, INTS, OF_NUMBERS),
    "float, float": (FLOATS, FLOATS, [*OF_NUMBERS, *OF_ONE_TYPE]),
    "bool, int": (BOOLS, INTS, [*OF_NUMBERS, "x & y", "x << 2"]),
    "bool, bool": (BOOLS, BOOLS, [*OF_NUMBERS, *OF_ONE_TYPE, "x & y", "x | y", "x ^ y"]),
}


QUICK = {
    "int, int": [
        "x + y",
        "x - y",
        "x * y",
        "x / y",
        "x // y",
        "x % y",
        "x % y == 0",
        "-x",
        "abs(x)",
        "min(x, y)",
        "x < y < 3",
    ],
    "int, float": ["x + y", "x / y", "x < y", "x == y", "x if x > y else None"],
    "float, float": [
        "x * y",
        "x / y",
        "-x",
        "abs(x)",
        "max(x, y)",
        "x != y",
        "not x",
        "x // y",
        "x % y",
        "round(x)",
        "math.sqrt(x)",
    ],
    "bool, int": ["x + y", "x & y", "(x, y, 1, 'text')", "x == 1 or y < 0"],
}
"""The operators that are tested in machine code by `make test`: each takes 0.05 s."""


def grid(name, operators):
    """Return a program with a kind for each operator, and a batch with every pair of values for each kind."""
    xs, ys, _ = CASES[name]
    lines = [
        "class P(dgs.Program):",
        "    def init(self): return 0",
        "    def update(self, state, event, emit):",
    ]
    lines += ["        x = event.payload['x']", "        y = event.payload['y']"]
    for number, operator in enumerate(operators):
        lines += [f"        if event.tag.kind == 'k{number}':", f"            emit({operator})"]
    program = program_of("\n".join([*lines, "        return state", ""]))
    pairs = [(number, x, y) for number in range(len(operators)) for x, y in product(xs, ys)]
    codes = [number for number, _, _ in pairs]
    payload = {"x": np.array([x for _, x, _ in pairs]), "y": np.array([y for _, _, y in pairs])}
    return program, batch_of(payload, tags=[dgs.Tag(f"k{n}") for n in range(len(operators))], codes=codes)


def without_errors(program, batch):
    """Return the events of a batch for which Python raises nothing."""
    rows = [row for row in range(len(batch)) if len(interpreted(program, batch.cut(row, row + 1), 0)) == 2]
    return batch.take(np.array(rows))


def check_grid(name, operators, translate, monkeypatch):
    """Compare a grid; return the compiled update."""
    without_limit(monkeypatch)
    program, batch = grid(name, operators)
    batch = without_errors(program, batch)
    batch = batch_of(batch.payload, tags=batch.tags, codes=batch.codes)
    compiled = Compiled(program, translate)
    got, wanted = compiled.fold(batch, 0), interpreted(program, batch, 0)
    assert not compiled.update.refusals
    wrong = [
        (operators[int(batch.codes[row])], batch.events()[row].payload, got[1][row], want)
        for row, want in enumerate(wanted[1])
        if got[1][row] != want
    ]
    assert not wrong
    assert got[0] == wanted[0]
    return compiled.update


@pytest.mark.parametrize("name", CASES)
def test_operators_of_the_lowered_text_are_those_of_python(name, monkeypatch):
    check_grid(name, CASES[name][2], by_python, monkeypatch)


@pytest.mark.parametrize("name", QUICK)
def test_operators_of_machine_code_are_those_of_python(name, monkeypatch, machine):
    done = check_grid(name, QUICK[name], machine, monkeypatch)
    assert done.events > done.interpreted  # otherwise the interpreter would be compared with itself


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_operators_of_machine_code_are_those_of_python(name, monkeypatch, machine):
    check_grid(name, CASES[name][2], machine, monkeypatch)


@pytest.mark.parametrize("operator", ["x / y", "x // y", "x % y", "x % y == 0", "x * 2 // y"])
def test_an_event_that_raises_raises_as_in_python(operator):
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    text += f"        x, y = event.payload['x'], event.payload['y']\n        emit({operator})\n        return state + 1\n"
    program = program_of(text)
    batch = batch_of({"x": np.array([4, 5, 6, 7]), "y": np.array([1, 2, 0, 3])})
    assert Compiled(program).fold(batch, 0) == interpreted(program, batch, 0)
    assert len(interpreted(program, batch, 0)) == 3
