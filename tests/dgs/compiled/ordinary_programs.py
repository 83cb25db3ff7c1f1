"""Typical programs of users, named after their contents. Payloads have columns x: int, y: float, z: bool, s: text.

`KEYED`: their states are by key.
"""

PROGRAMS = {
    "sqrt": """
import math
class P(dgs.Program):
    def init(self):
        return (0, 0.0)
    def update(self, state, event, emit):
        n, m2 = state
        x = event.payload["y"]
        m2 += x * x
        emit(math.sqrt(m2))
        return n + 1, m2
""",
    "bucket": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        bucket = int(event.payload["y"] // 10)
        if bucket != state:
            emit({"bucket": bucket, "rest": event.payload["y"] % 10})
        return bucket
""",
    "divmod": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        q, r = divmod(event.ts, 60)
        if r == 0:
            emit((q, state))
            return 0
        return state + 1
""",
    "namedtuple": """
from typing import NamedTuple
class S(NamedTuple):
    count: int
    best: float | None = None
class P(dgs.Program):
    def init(self):
        return S(0)
    def update(self, state, event, emit):
        y = event.payload["y"]
        best = y if state.best is None or y > state.best else state.best
        if event.tag.kind == "b":
            emit({"count": state.count, "best": best})
        return state._replace(count=state.count + 1, best=best)
""",
    "for tuple": """
class P(dgs.Program):
    limits = (1, 3, 10)
    def init(self):
        return 0
    def update(self, state, event, emit):
        level = 0
        for limit in self.limits:
            if event.payload["x"] > limit:
                level += 1
        if level != state:
            emit(level)
        return level
""",
    "shift": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        state = (state * 31 + event.payload["x"]) & 0xFFFF
        if event.tag.kind == "b":
            emit(state >> 3)
        return state
""",
    "power int": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        return state + event.payload["x"] ** 2
""",
    "match": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        match event.tag.kind:
            case "a":
                return state + event.payload["x"]
            case "b":
                emit(state)
                return 0
""",
    "get payload": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        return state + event.payload.get("x", 0)
""",
    "None at first": """
class P(dgs.Program):
    def init(self):
        return None
    def update(self, state, event, emit):
        x = event.payload["x"]
        if state is None:
            return x
        if x > state:
            emit({"new": x, "old": state})
            return x
        return state
""",
    "or": """
class P(dgs.Program):
    def init(self):
        return (None, 0)
    def update(self, state, event, emit):
        last, n = state
        gap = event.ts - (last or 0)
        if last and gap > 3:
            emit(gap)
        return event.ts, n + 1
""",
    "walrus": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        if (x := event.payload["x"]) > 3:
            emit(x)
        return state + x
""",
    "function": """
LIMIT = 10
def level(x):
    if x > LIMIT:
        return 2
    elif x > LIMIT / 2:
        return 1
    return 0
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        new = level(event.payload["x"])
        if new > state:
            emit({"level": new, "ts": event.ts})
        return new
""",
    "count by key": """
class P(dgs.Program):
    def init(self):
        return {}
    def update(self, state, event, emit):
        key = event.tag.key
        state[key] = state.get(key, 0) + 1
        if event.tag.kind == "b":
            emit({"key": key, "count": state[key]})
        return state
""",
    "tuple by key": """
class P(dgs.Program):
    def init(self):
        return {}
    def update(self, state, event, emit):
        key = event.tag.key
        n, total = state.get(key, (0, 0.0))
        y = event.payload["y"]
        if n and y > 3 * total / n:
            emit({"key": key, "y": y, "mean": total / n})
        state[key] = n + 1, total + y
        return state
""",
    "minfloat": """
class P(dgs.Program):
    def init(self):
        return (float("inf"), float("-inf"))
    def update(self, state, event, emit):
        lo, hi = state
        y = event.payload["y"]
        if event.tag.kind == "b":
            emit({"lo": lo, "hi": hi})
            return float("inf"), float("-inf")
        return min(lo, y), max(hi, y)
""",
    "isnan": """
import math
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        y = event.payload["y"]
        if math.isnan(y):
            return state
        return state + int(y > 1)
""",
    "xor flag": """
class P(dgs.Program):
    def init(self):
        return False, 0
    def update(self, state, event, emit):
        on, since = state
        z = bool(event.payload["z"])
        if z != on:
            emit({"on": z, "lasted": event.ts - since})
            return z, event.ts
        return state
""",
    "sum tuple": """
class P(dgs.Program):
    def init(self):
        return (0, 0, 0)
    def update(self, state, event, emit):
        a, b, c = state
        new = (b, c, event.payload["x"])
        if sum(new) > 10:
            emit(sum(new) / len(new))
        return new
""",
    "slice tuple": """
class P(dgs.Program):
    def init(self):
        return (0, 0, 0)
    def update(self, state, event, emit):
        state = state[1:] + (event.payload["x"],)
        emit(max(state))
        return state
""",
    "all": """
class P(dgs.Program):
    def init(self):
        return (0, 0, 0)
    def update(self, state, event, emit):
        if all(v > 0 for v in state):
            emit(True)
        return (state[1], state[2], event.payload["x"])
""",
    "generators with one name": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        x = event.payload["x"]
        emit(max(max(v * 2 for v in (v, x & 7)) for v in (1, x & 3)))
        return 3 if any(all(v < x for v in (v, 3)) for v in (x, 2)) else 5
""",
    "kind and key": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        emit((event.tag.kind, event.tag.key, event.payload["s"], state))
        return state + 1
""",
    "super": """
class Base(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        return state + event.payload["x"]
class P(Base):
    def update(self, state, event, emit):
        state = super().update(state, event, emit)
        if state > 5:
            emit(state)
        return state
""",
    "property": """
class P(dgs.Program):
    @property
    def limit(self):
        return 3
    def init(self):
        return 0
    def update(self, state, event, emit):
        if event.payload["x"] > self.limit:
            emit(event.payload)
        return state + 1
""",
    "static": """
class P(dgs.Program):
    @staticmethod
    def scale(x):
        return x * 3
    @classmethod
    def bias(cls):
        return 2
    def init(self):
        return 0
    def update(self, state, event, emit):
        return state + self.scale(event.payload["x"]) + self.bias()
""",
    "record with another": """
class P(dgs.Program):
    def init(self):
        return 0
    def update(self, state, event, emit):
        record = event.payload
        x, y = record["x"], record["y"]
        is_hot = x > 2 and y > 0.5
        emit({**record, "hot": is_hot})
        return state + is_hot
""",
    "texts": """
class P(dgs.Program):
    wanted = "u"

    def init(self):
        return 0

    def update(self, state, event, emit):
        kind = event.payload["s"]
        if kind == "vw" or event.tag.key == "p":
            return state + 1
        if kind in (self.wanted, "y") and kind is not None and "z" != kind:
            emit({"kind": kind, "count": state})
        return state - (kind not in ("x", "u"))
""",
    "frozen dataclass": """
from dataclasses import dataclass, replace
@dataclass(frozen=True, slots=True)
class S:
    count: int
    total: float = 0.0
    best: float | None = None
class P(dgs.Program):
    def init(self):
        return S(0)
    def update(self, state, event, emit):
        y = event.payload["y"]
        if event.tag.kind == "b":
            emit({"count": state.count, "best": state.best})
            return S(count=event.payload["x"], best=-y)
        if state.best is None or y > state.best:
            emit(state)
            state = replace(state, best=y, total=state.total + y)
        return S(state.count + event.payload["x"], state.total, best=state.best) if state else None
""",
    "frozen dataclass by key": """
import dataclasses
@dataclasses.dataclass(frozen=True, order=True)
class Inner:
    least: int
    is_new: bool = True
@dataclasses.dataclass(frozen=True)
class S:
    inner: Inner | None
    pair: tuple[int, float]
class P(dgs.Program):
    start = 7
    def init(self):
        return {}
    def update(self, state, event, emit):
        key, x = event.tag.key, event.payload["x"]
        before = state.get(key)
        if before is None:
            state[key] = S(None, (x, -0.0))
            return state
        inner = before.inner
        if inner is None:
            inner = Inner(x)
        elif inner.least > x:
            inner = Inner(x, False)
        state[key] = dataclasses.replace(before, inner=inner, pair=(before.pair[0] + x, event.payload["y"]))
        emit({"before": before, "now": state[key], "least": inner.least})
        return state
""",
    "key in state": """
class P(dgs.Program):
    def init(self):
        return {}
    def update(self, state, event, emit):
        key = event.tag.key
        if key not in state:
            state[key] = 0
        state[key] += event.payload["x"]
        if event.tag.kind == "b":
            emit(state[key])
        return state
""",
}
KEYED = {"key in state", "frozen dataclass by key", "texts", "count by key", "tuple by key"}
