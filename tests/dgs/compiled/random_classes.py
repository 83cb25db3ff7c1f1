"""Random programs as users write them: states of records, methods, constants that change, columns of all types, also with nulls.

`random_programs` tests the operators; this module tests everything around them.
"""

import numpy as np
import pyarrow as pa

import dgs
from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, interpreted, program_of
from tests.dgs.compiled.random_programs import EDGES, FLOATS, Writer

HEAD = """
from dataclasses import dataclass, replace
from typing import NamedTuple
{record}
    n: int = 0
    t: float = 0.0
    best: int | None = None
LIMIT = 4
NAMES = ("u", "x", "é")
class Base(dgs.Program):
    limit = 6
    def init(self): return S()
    def helper(self, a, b=2):
        for k in (1, b):
            if a == k:
                return k * b
        return a - b if a > b else b
    def tell(self, emit, v):
        if v > 2: emit({{"told": v}})
class P(Base):
    def __init__(self): self.scale = 3
    @property
    def twice(self): return self.limit * 2
    def update(self, state, event, emit):
        n, t, best = state.n, state.t, state.best
        x, y, z, m, s = (event.payload["x"], event.payload["y"], event.payload["z"], event.payload["m"], event.payload["s"])
"""
RECORDS = {"S(NamedTuple)": "state._replace", "S": "replace"}
LEAVES = {
    "i": ["n", "x", "event.ts", "3", "self.limit", "LIMIT", "self.scale", "self.twice", "(m or 1)", "(0 if best is None else best)"],
    "f": ["t", "y", "-0.0", "0.5", "float(x)"],
    "c": ["z", "m is None", "best is not None", "m == x", "m == best", "s == 'u'", "s in NAMES", "s is None", "event.tag.kind == A", "event.tag.key == 'p'", "m", "x in (1, m, LIMIT)"],
}  # fmt: skip
FORMS = {
    "i": ["$i + $i", "$i - $i", "$i * $i", "$i // $i", "$i % $i", "min($i, $i)", "self.helper($i)", "self.helper($i, b=$i)", "$i if $c else $i", "m + $i", "max(m, $i)", "sum(($i, m))"],
    "f": ["$f + $f", "$f * $i", "$f / $f", "max($f, $f)", "$f if $c else $f", "m / $f"],
    "c": ["$i < $i", "$f <= $i", "not $c", "$c and $i > 1", "$c or $f > 0", "m is not None and m > $i", "any(v == $i for v in (1, x))"],
}  # fmt: skip
EMITTED = ["$i", "($i, $f)", "m", "s", "best", "state", "event.payload", "{'a': $i, 'm': m}", "{**event.payload, 'v': $f}", "event.tag.key", "(m, (s, 1))", "event.payload['o']"]  # fmt: skip
STATEMENTS = [
    ["n = $i"], ["n += $i"], ["t = $f"], ["best = m"], ["best = $i"], ["best = None"], ["self.tell(emit, $i)"], ["assert $i != 7, n"],
    ["if $c:", "    emit($e)", "elif $c:", "    n -= 1", "else:", "    t = $f"], ["if best is None or best < x:", "    best = x"],
    ["if m is None:", "    emit('none')", "else:", "    n += m"], ["if m is None:", "    return state", "n -= m"],
    ["match m:", "    case None:", "        n = 0", "    case 1 | 2 if $c:", "        emit($e)", "    case _:", "        n ^= m"],
    ["match s:", "    case 'u':", "        n += 2", "    case 'x' | None:", "        t = -t"],
    ["for v in (x, $i, 2):", "    if $c:", "        continue", "    n ^= v"], ["if $i == 7:", "    raise ValueError(n)"],
]  # fmt: skip


class ClassWriter(Writer):
    """Writes a random class, and batches for it."""

    forms, leaves = FORMS, LEAVES

    def program(self):
        draw = self._random
        name = draw.choice(list(RECORDS))
        record = f"class {name}:" if "(" in name else f"@dataclass(frozen=True)\nclass {name}:"
        first = "" if "(" in name else "state, "
        chosen = [
            line for _ in range(draw.randint(2, 5)) for line in draw.choice([["emit($e)"], *STATEMENTS])
        ]
        ends = ["S(n, t, best)", "S(best=best, n=n, t=t)", f"{RECORDS[name]}({first}n=n, best=best)"]
        lines = [
            self.filled(line.replace("$e", draw.choice(EMITTED)), 2)
            for line in [*chosen, f"return {draw.choice(ends)}"]
        ]
        return HEAD.format(record=record) + "".join(f"        {line}\n" for line in lines)

    def expression(self, of, depth):
        if not depth or self._random.random() < 0.3:
            return self._random.choice(self.leaves[of])
        return f"({self.filled(self._random.choice(self.forms[of]), depth - 1)})"

    def column(self, values, of):
        """Return values as a list, a column of Arrow, in one piece or two, or of NumPy."""
        array = pa.array(values, of)
        ways = [values, array, pa.chunked_array([array[:1], array[1:]])]
        return self._random.choice(
            ways if array.null_count or of == pa.string() else [*ways, np.array(values)]
        )

    def batch(self):
        draw = self._random
        count, nulls, large = draw.randint(1, 9), draw.choice([0.0, 0.4, 1.0]), draw.choice([0.0, 0.2])
        small = [draw.randint(-4, 8) for _ in range(count)]
        floats = [
            draw.choice(FLOATS) if draw.random() < 0.3 else draw.randint(-9, 9) / 4 for _ in range(count)
        ]
        columns = {
            "x": ([draw.choice(EDGES) if draw.random() < large else one for one in small], pa.int64()),
            "y": (floats, pa.float64()),
            "z": ([draw.random() < 0.5 for _ in range(count)], pa.bool_()),
            "m": ([None if draw.random() < nulls else draw.randint(-3, 5) for _ in range(count)], pa.int64()),
            "s": ([draw.choice(["u", "x", "é", None]) for _ in range(count)], pa.string()),
        }
        payload = {name: self.column(*column) for name, column in columns.items()}
        payload["o"] = [draw.choice(["u", None, (1, 2), {"q": 3.5}]) for _ in range(count)]
        tags = [dgs.Tag(kind, key) for kind in ("a", "b") for key in ("p", "é")]
        return batch_of(payload, tags=tags, codes=[draw.randrange(len(tags)) for _ in range(count)])

    def change(self, program):
        """Sometimes change a value that the program reads from outside."""
        if self._random.random() < 0.3:
            type(program).update.__globals__["LIMIT"] = self._random.randint(1, 9)
        if self._random.random() < 0.3:
            program.limit = self._random.randint(1, 9)


def differing_class(seed, translate=by_python):
    """Return whether a random class behaves differently when compiled, its text, and the compiled update."""
    writer = ClassWriter(seed)
    text = writer.program()
    program = program_of(text)
    compiled, state = Compiled(program, translate), program.init()
    for _ in range(3):
        batch = writer.batch()
        writer.change(program)
        if compiled.fold(batch, state, [len(batch) // 2] if len(batch) > 1 else []) != interpreted(
            program, batch, state
        ):
            return True, text, compiled.update
    return False, text, compiled.update
