"""Random programs that call their own methods, as text: methods of ints, with several returns, that call each other and emit."""

from tests.dgs.compiled.random_programs import LEAVES, START, Writer

IN_METHODS = {"i": ["a", "x", "x", "b", "1", "-3", "self.limit"], "f": ["0.5", "float(a)"], "c": ["x == 3", "a < x", "b > 0"]}  # fmt: skip
METHODS = 3


class CallWriter(Writer):
    """Writes a random program whose update calls methods. A method calls only earlier methods."""

    def __init__(self, seed):
        super().__init__(seed)
        self._known, self._leaves = 0, LEAVES

    def program(self):
        """Return the text of the program."""
        lines = ["class P(dgs.Program):", "    limit = 2", f"    def init(self): return {START}"]
        for number in range(METHODS):
            self._leaves = IN_METHODS
            emits = self._random.random() < 0.3
            lines.append(f"    def m{number}(self, a, x, emit):")
            lines += ["        b = a", *("        " + line for line in self.body(2, emits=emits))]
            self._known = number + 1
        self._leaves = LEAVES
        lines += ["    def update(self, state, event, emit):", "        a, b, f, o, p = state"]
        lines += ["        x, y, z = event.payload['x'], event.payload['y'], event.payload['z']"]
        lines += ["        " + line for line in self.block(2)]
        return "\n".join([*lines, "        return a, b, f, o, p", ""])

    def body(self, depth, *, emits):
        """Return the statements of a method: some may return, and the last one does."""
        choose, lines = self._random.choice, []
        for _ in range(self._random.randint(0, 3)):
            kind = choose(["set", "set", "if", "if", "emit", "emit", "raise"])
            if kind == "set":
                lines.append(f"{choose('abx')} = {self.filled('$i', 1)}")
            elif kind == "emit" and emits:
                lines.append(f"emit({self.filled('$i', 1)})")
            elif kind == "raise":
                lines += [f"if x == {choose([4, 2**62])}:", "    raise KeyError(a)"]
            elif depth:
                ends = choose([True, False])
                inner = self.body(depth - 1, emits=emits)
                lines += [
                    f"if {self.filled('$c', 1)}:",
                    *("    " + one for one in (inner if ends else inner[:-1])),
                ]
                lines += [] if ends or len(inner) > 1 else ["    pass"]
        return [*lines, f"return {self.filled('$i', 1)}"]

    def expression(self, of, depth):
        """Return an expression, sometimes with a call."""
        if self._known and of == "i" and self._random.random() < 0.25:
            number = self._random.randrange(self._known)
            given = [self._random.choice(self._leaves["i"]) for _ in range(2)]
            return f"self.m{number}({', '.join(given)}, emit{self._random.choice(['', '=emit'])})"
        if not depth or self._random.random() < 0.2:
            return self._random.choice(self._leaves[of])
        return super().expression(of, depth)
