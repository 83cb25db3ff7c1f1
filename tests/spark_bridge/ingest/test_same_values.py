"""A program sees the same events, field by field, of a Parquet file through Spark as without it: columns of random types, with nulls."""

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dgs

PROGRAM = """
import dgs


class Rows(dgs.Program):
    kinds = (dgs.kind("row", key=str),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit([repr(event), [f"{type(one).__name__} {one!r}" for one in event.payload.values()]])
        return state
"""
ROWS = 40
EPOCH = datetime(2024, 2, 28, 23, 59, tzinfo=UTC)
LEAVES = [
    (pa.int8(), lambda r: r.randrange(-128, 128)),
    (pa.int32(), lambda r: r.randrange(-(2**31), 2**31)),
    (pa.int64(), lambda r: r.choice([2**63 - 1, -(2**63), 2**53 + 1])),
    (pa.float32(), lambda r: r.choice([0.5, -0.0, float("inf"), 3.1])),
    (pa.float64(), lambda r: r.choice([0.1, -0.0, float("nan"), 1e308])),
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.string(), lambda r: r.choice(["", "é\0\n", "NA", "😀", " x "])),
    (pa.binary(), lambda r: r.choice([b"", b"\xff\0"])),
    (pa.date32(), lambda r: date(1, 1, 1) + timedelta(days=r.randrange(3_000_000))),
    (pa.timestamp("us", "UTC"), lambda r: EPOCH + timedelta(microseconds=r.randrange(-(10**15), 10**15))),
    (pa.timestamp("us"), lambda r: EPOCH.replace(tzinfo=None) + timedelta(microseconds=r.randrange(10**12))),
    (pa.decimal128(20, 3), lambda r: Decimal(r.randrange(-(10**18), 10**18)).scaleb(-3)),
]


def drawn_type(r, depth=2):
    """Draw a type of Arrow, with a function that draws its values."""
    form = r.choice(["leaf", "leaf", "list", "record", "map"]) if depth else "leaf"
    if form == "leaf":
        return r.choice(LEAVES)
    inner, draw = drawn_type(r, depth - 1)
    if form == "list":
        return pa.list_(inner), lambda r: [or_null(draw, r) for _ in range(r.randrange(3))]
    if form == "map":
        return pa.map_(pa.string(), inner), lambda r: [
            (name, or_null(draw, r)) for name in "ba"[: r.randrange(3)]
        ]
    return pa.struct([("z", inner), ("a", pa.int64())]), lambda r: {
        "z": or_null(draw, r),
        "a": or_null(lambda r: 1, r),
    }


def or_null(draw, r):
    return None if r.random() < 0.2 else draw(r)


def seen(folder, source, split):
    name = next(iter(source))
    plan = {
        "version": 1, "name": name, "program": {"ref": "program.py:Rows"},
        "streams": [
            {"id": "rows-1", "tags": {"kind": "row", "key": {"column": "key"}}, "source": source, "split": split}
        ],
        "runtime": {"kind": "local"}, "optimizer": {"name": "greedy"},
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(json.dumps(plan))
    return sorted(dgs.run(folder / f"{name}.yaml", run_dir=folder / name).outputs, key=repr)


@pytest.mark.parametrize("seed", range(3))
def test_program_sees_the_same_of_a_file_through_spark(spark, tmp_path, seed):
    r = random.Random(seed)
    columns = {
        "ts": pa.array(sorted(r.randrange(10**6) for _ in range(ROWS))),
        "key": [r.choice("ab") for _ in range(ROWS)],
    }
    for name in r.sample(["Z", "b", "a", "source", "payload_", "x y", "é"], 6):
        kind, draw = drawn_type(r)
        columns[name] = pa.array([or_null(draw, r) for _ in range(ROWS)], kind)
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    (tmp_path / "program.py").write_text(PROGRAM)
    alone = seen(tmp_path, {"parquet": {"path": "rows.parquet"}}, 1)
    through = seen(tmp_path, {"spark": {"format": "parquet", "path": "rows.parquet"}}, 2)
    assert through == alone
    assert len(alone) == ROWS
