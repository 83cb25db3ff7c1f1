"""Random programs that the compiler accepts, as text, and random batches: small numbers and the limits of 32, 53 and 64 bits.

They are made from a seed, which Hypothesis draws: drawing every token would take longer than running the program.
"""

import random
import re

import numpy as np

import dgs
from tests.dgs.compiled.both_ways import batch_of

EDGES = [2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, -1.5, 3.0, 1e300, 2.0**53, float("inf"), float("-inf"), float("nan")]
START = (0, 1, 0.5, None, True)
"""The initial state: the values of a, b, f, o and p."""

OF_INTS = ["$i + $i", "$i - $i", "$i * $i", "$i // $i", "$i % $i", "-$i", "abs($i)", "min($i, $i)", "$i & $i", "p + $i", "$i if $c else $i", "$i >> 3", "x << 2", "int($f)", "round($f)", "x ** 2", "$i or $i", "$i and $i", "sum((a, $i))", "math.floor($f)", "(o or $i)"]  # fmt: skip
OF_FLOATS = ["$f + $f", "$f - $i", "$i * $f", "$f / $f", "$i / $f", "$i / $i", "x / 7", "$i / $i", "x / 3", "-$f", "abs($f)", "max($f, $f)", "$f if $c else $f", "$f // $f", "$f % $i", "math.sqrt($f)", "(f, $f, y)[1:][0]"]  # fmt: skip
CONDITIONS = [
    "$i < $i",
    "$i == $f",
    "$f > $i",
    "x > 9007199254740992.0",
    "x == 9007199254740992.0",
    "not $c",
    "$c and $c",
    "$c or $c",
    "0 <= $i < $i",
    "$i % $i == 0",
    "$i in (1, $i, -3)",
    "any(n > $i for n in (a, x))",
    "all(n < b for n in (a, x, $i))",
    "math.isnan($f)",
]
LEAVES = {
    "i": ["a", "b", "x", "x", "event.ts", "1", "-3", "7", str(2**53 + 1)],
    "f": ["f", "y", "0.5", "-0.0", "float(a)"],
    "c": ["p", "z", "x == 3", "event.tag.kind == A", "o is None"],
}
FORMS = {"i": OF_INTS, "f": OF_FLOATS, "c": CONDITIONS}
EMITTED = ["$i", "$f", "($i, $f, 'text')", "{'v': $i, 'x': x, 'o': o}", "state", "z", "event.ts", "o"]


class Writer:
    """Writes a random program."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def program(self):
        """Return the text of a program over payloads with columns x: int, y: float, z: bool."""
        lines = ["class P(dgs.Program):", f"    def init(self): return {START}"]
        lines += ["    def update(self, state, event, emit):", "        a, b, f, o, p = state"]
        lines += ["        x, y, z = event.payload['x'], event.payload['y'], event.payload['z']"]
        lines += ["        " + line for line in self.block(2)]
        return "\n".join([*lines, "        return a, b, f, o, p", ""])

    def block(self, depth, *, some=False):
        """Return statements. `some`: `o` is known not to be None."""
        return [line for _ in range(self._random.randint(1, 3)) for line in self.statement(depth, some=some)]

    def statement(self, depth, *, some):  # noqa: PLR0911 - one for each statement
        choose = self._random.choice
        kind = choose(
            [
                "set",
                "set",
                "set",
                "emit",
                "emit",
                "swap",
                "if",
                "if",
                "narrow",
                "narrow",
                "return",
                "raise",
                "for",
                "match",
            ]
        )
        if kind == "set" and not some:
            name = choose("abfpo")
            values = {"a": "$i", "b": "$i", "f": "$f", "p": "$c", "o": choose(["x", "None", "a"])}
            return [f"{name} = {self.filled(values[name], 2)}"]
        if kind == "emit":
            return [f"emit({self.filled(choose(EMITTED), 2)})"]
        if kind == "raise":
            return self.raising()
        if kind == "swap" or (kind == "return" and depth < 2):
            return [
                choose(["return state", "return b, a, f, None, p"]) if kind == "return" else "a, b = b, a"
            ]
        if not depth:
            return [f"a += {self.filled('$i', 1)}" if not some else "b -= o"]
        if kind == "for":
            return self.loop(depth)
        if kind == "match":
            return ["match x:", "    case 1 | 3:", "        a += 1", "    case -2 if p:", "        b -= 1", "    case _:", "        p = False"]  # fmt: skip
        test = "o is not None" if kind == "narrow" else self.filled("$c", 2)
        lines = [f"if {test}:", *("    " + line for line in self.block(depth - 1, some=kind == "narrow"))]
        if choose([True, False]):
            lines += ["else:", *("    " + line for line in self.block(depth - 1))]
        return lines

    def loop(self, depth):
        """Return a loop of a few rounds, with `break` or `continue` in some."""
        items = self._random.choice(["(a, x, 3)", "range(3)", "reversed((b, 1))", "(x, 2, b)[:2]"])
        lines = [f"for n in {items}:", *("    " + line for line in self.block(depth - 1))]
        leaves = [f"    if {self.filled('$c', 1)}:", f"        {self._random.choice(['break', 'continue'])}"]
        return [lines[0], *self._random.choice([[], leaves]), *lines[1:], "    a += n & 7", *self._random.choice([[], ["else:", "    b ^= 1"]])]  # fmt: skip

    def raising(self):
        """Return statements that raise for some events."""
        test = f"{self.filled('$i', 1)} == {self._random.choice([7, 2**53])}"
        raises = [f"if {test}:", "    raise ValueError(a, 'no')"]
        return self._random.choice([raises, [f"assert not {test}, 'no'"]])

    def filled(self, form, depth):
        """Return a template with random expressions in its gaps."""
        return re.sub(r"\$(\w)", lambda found: self.expression(found[1], depth), form)

    def expression(self, of, depth):
        if not depth or self._random.random() < 0.2:
            return self._random.choice(LEAVES[of])
        return f"({self.filled(self._random.choice(FORMS[of]), depth - 1)})"

    def ints(self, count):
        """Return random ints: for some programs only small ones, so that nothing deviates."""
        large = self._random.choice([0.0, 0.05, 0.4])
        draw = self._random
        return [draw.choice(EDGES) if draw.random() < large else draw.randint(-5, 5) for _ in range(count)]

    def batch(self):
        """Return a batch of 1 to 12 events of the kinds a and b, and the rows where it is cut."""
        draw = self._random
        count = draw.randint(1, 12)
        floats = [
            draw.choice(FLOATS) if draw.random() < 0.3 else draw.randint(-9, 9) / 4 for _ in range(count)
        ]
        bools = [draw.random() < 0.5 for _ in range(count)]
        payload = {"x": np.array(self.ints(count)), "y": np.array(floats), "z": np.array(bools)}
        codes = None if draw.random() < 0.5 else [draw.randint(0, 1) for _ in range(count)]
        tags = [dgs.Tag("a")] if codes is None else [dgs.Tag("b"), dgs.Tag("a")]
        cuts = sorted({draw.randint(1, count - 1) for _ in range(draw.randint(0, 2))}) if count > 1 else []
        return batch_of(payload, tags=tags, codes=codes), cuts
