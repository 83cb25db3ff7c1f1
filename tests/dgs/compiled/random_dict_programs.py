"""Random programs whose state is a dict by key, as text, and random batches and histories for them."""

import dgs
from tests.dgs.compiled.both_ways import batch_of
from tests.dgs.compiled.random_programs import Writer

READS = {
    "int": [
        "old = state.get(k, 0)",
        "old = state[k]",
        "old = state[k] if k in state else a",
        "old = state.get(k, x)",
    ],
    "maybe": ["old = state.get(k)"],
    "float": ["old = state.get(k, 0.5)", "old = state[k] if k in state else y"],
    "pair": ["c, old = state.get(k, (0, 0))", "c, old = state[k] if k in state else (1, x)"],
    "object": ["old = state.get(k)"],
}
NEW = {
    "int": ["$i", "old + x", "old"],
    "maybe": ["x", "None", "old"],
    "float": ["$f", "old + y"],
    "pair": ["(c + 1, old + x)", "(old, c)", "(x, $i)"],
    "object": ["event.payload", "event.payload['s']", "old", "x", "None"],
}
STARTS = {"int": 3, "maybe": None, "float": 0.25, "pair": (1, 2), "object": "kept"}
SHOWN = [
    "old",
    "(k, old)",
    "{'k': k, 'old': old, 's': event.payload['s']}",
    "state.get(k)",
    "k in state",
    "state[k]",
    "x",
]


class DictWriter(Writer):
    """Writes a random program over payloads with columns x: int, y: float, z: bool, s: texts and other things."""

    def dict_program(self):
        """Return the text of the program. Its entries are of one kind."""
        choose = self._random.choice
        self.of = choose(list(READS))
        self.keys = choose([(1, 2, 3), ("p", "q"), (True, False)])
        some = [key for key in self.keys if choose([True, False])]
        start = dict.fromkeys(some, STARTS[self.of])
        lines = ["class P(dgs.Program):", f"    def init(self): return {start}"]
        lines += [
            "    def update(self, state, event, emit):",
            "        k, a, b, f, p, o = event.tag.key, 2, 5, 0.5, True, None",
        ]
        lines += ["        x, y, z = event.payload['x'], event.payload['y'], event.payload['z']"]
        lines += ["        " + choose(READS[self.of])]
        lines += ["        " + line for _ in range(3) for line in self.step()]
        return "\n".join([*lines, "        return state", ""])

    def step(self):
        """Return a random statement about the entry."""
        choose = self._random.choice
        kind = choose(["emit", "emit", "store", "store if", "add", "return"])
        new = self.filled(choose(NEW[self.of]), 1)
        if kind == "emit":
            return [f"emit({choose(SHOWN)})"]
        if kind == "store":
            return [f"state[k] = {new}", *choose([[], ["emit((k, state[k]))"]])]
        if kind == "store if":
            return [f"if {self.filled('$c', 1)}:", f"    state[k] = {new}", "    emit(old)"]
        if kind == "add" and self.of in ("int", "float"):
            return ["if k in state:", f"    state[k] += {'x' if self.of == 'int' else 'y'}"]
        return [f"if {self.filled('$c', 1)}:", "    return state"]

    def dict_batch(self):
        """Return a batch of events of two kinds with keys, and the rows where it is cut."""
        draw = self._random
        count = draw.randint(1, 14)
        tags = [dgs.Tag(kind, key) for key in self.keys for kind in "ab"]
        draw.shuffle(tags)
        tags = tags[: draw.randint(1, len(tags))]
        codes = [draw.randrange(len(tags)) for _ in range(count)]
        payload = {
            "x": self.ints(count),
            "y": [draw.randint(-9, 9) / 4 for _ in range(count)],
            "z": [draw.random() < 0.5 for _ in range(count)],
            "s": [draw.choice(["u", "vw", None, ("t", 1), 7]) for _ in range(count)],
        }
        cuts = sorted({draw.randint(1, count - 1) for _ in range(draw.randint(0, 2))}) if count > 1 else []
        return batch_of(payload, tags=tags, codes=codes if len(tags) > 1 else [0] * count), cuts
