"""Columns of numbers with nulls: values that may be None, as in the interpreter."""

import random

import pyarrow as pa
import pytest

from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, interpreted, program_of

UPDATE = """class P(dgs.Program):
    def init(self): return 0, None
    def update(self, state, event, emit):
        n, best = state
        x, y = event.payload["x"], event.payload["y"]
"""
BODIES = {
    "skipped": "if x is None:\n    emit('none')\n    return n, best\nemit(x)\nreturn n + x, best",
    "arithmetic raises": "emit(n)\nreturn n + x, best",
    "as a float": "emit(float(x))\nreturn n, x",
    "equal": "emit((x == 3, x != 3, x == None, None is x, x == best, x in (1, None, n)))\nreturn n, x",
    "compared": "if best is None or x > best:\n    best = x\nreturn n, best",
    "truth": "emit(not x)\nreturn (n + x if x else n - 1), best",
    "or": "emit(x or 7)\nreturn n + (x or 1), best",
    "least": "emit(max(x, 2))\nreturn min(n, x), best",
    "sum": "return sum((n, x)), best",
    "matched": "match x:\n    case None: n -= 1\n    case 3: n += 5\n    case _: n ^= x\nreturn n, x",
    "is in a chain": "if x is None is None:\n    emit(1)\nelse:\n    emit(x + 1)\nreturn n, best",
    "passed on": "emit({'v': x, 'w': (x, y)})\nemit(event.payload)\nreturn n, best",
    "one or the other": "emit(x if x is None or x > 2 else y)\nreturn n, best",
    "two columns": "if x is None and y is None:\n    emit('both')\nelif y is not None:\n    n += y\nreturn n, x",
}


def program(body):
    return program_of(UPDATE + "".join(f"        {line}\n" for line in body.split("\n")))


def column(draw, count):
    """Return a random column of numbers, as a list or of Arrow."""
    nulls = draw.choice([0.0, 0.0, 0.3, 1.0])
    values = [None if draw.random() < nulls else draw.choice([-2, 0, 1, 3, 2**63 - 1]) for _ in range(count)]
    of = pa.null() if values.count(None) == count and draw.random() < 0.5 else pa.int64()
    cut = draw.randint(0, count)
    halves = [pa.array(values[:cut], of), pa.array(values[cut:], of)]
    return draw.choice([values, pa.array(values, of), pa.chunked_array(halves)])


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("seed", range(8))
def test_batches_with_and_without_nulls_equal_the_interpreter(body, seed):
    draw, made = random.Random(seed), program(body)
    compiled, state = Compiled(made), made.init()
    for _ in range(5):
        count = draw.randint(1, 6)
        batch = batch_of({"x": column(draw, count), "y": column(draw, count)})
        assert compiled.fold(batch, state) == interpreted(made, batch, state)


@pytest.mark.parametrize("of", [pa.bool_(), pa.int8(), pa.uint32(), pa.float32(), pa.float64()])
def test_all_types_of_numbers_may_have_nulls(of):
    made = program("if x is None:\n    return n - 1, best\nemit(x)\nreturn n + (x > 0), x")
    compiled = Compiled(made)
    state = (0, None)
    for values in ([1, 0], [None, 1], [None, None], [0]):
        batch = batch_of({"x": pa.array(values, pa.int64()).cast(of), "y": [1] * len(values)})
        assert compiled.fold(batch, state) == interpreted(made, batch, state)
    assert not compiled.update.refusals
    assert compiled.update.interpreted == compiled.update.deviations == 0


def test_nulls_that_come_later_ask_for_one_loop_for_all_that_follows():
    made, loops = program(BODIES["skipped"]), []

    def translate(loop):
        loops.append(loop)
        return by_python(loop)

    compiled = Compiled(made, translate)
    for x in ([1, 2], [None, 2], [3, 4], [None, None], [5]):
        batch = batch_of({"x": pa.array(x, pa.int64()), "y": [1] * len(x)})
        assert compiled.fold(batch, (0, None)) == interpreted(made, batch, (0, None))
    assert len(loops) == 2
    assert compiled.update.interpreted == 0
