"""Truncation of a stream's log below the keys from which runs resume: these runs read the same events as from the whole log."""

import random

import pytest

from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.event_log import LogWriter
from dgs.workers.sources import SourceContext
from dgs.workers.sources.log_truncation import first_row, truncated
from tests.selection import rest_is_slow
from tests.workers.reading import Kinds, opened, readings, rows, stream

RANK = 1


def config_of(policy):
    return stream({"log": {"path": "log"}}, on_disorder=policy, payload=[])


def events_from(base_dir, config, key):
    """Return the events that a run resumed from a key adds to the state."""
    source = opened(config, base_dir=base_dir, unit="ms", rank=RANK)
    source.skip_to(key)
    found = [row for reading in readings(source) for row in rows(reading.batches)]
    return [(ts, seq) for _, _, ts, seq, _ in found if OrderKey(ts, RANK, seq) >= key]


@pytest.mark.parametrize("policy", ["error", "drop", {"sort_within": "4ms"}])
@pytest.mark.parametrize("seed", rest_is_slow(range(8), keep=3))
def test_truncated_log_has_all_that_runs_need_and_little_else(tmp_path, policy, seed):
    chosen = random.Random(seed)
    slack = 0 if policy == "error" else 3
    writer, ts = LogWriter(tmp_path / "log", "s", "w"), 0
    for batch in range(30):
        times = [ts + chosen.randint(0, 4) - chosen.randint(0, slack) for _ in range(4)]
        ts = max(ts, *times)
        writer.append(batch, {"ts": sorted(times)}, ts - 4 if chosen.random() < 0.5 and slack else None)
    writer.close()
    config = config_of(policy)
    everything = events_from(tmp_path, config, BEGIN)
    ts_there, seq_there = chosen.choice(everything)
    # its own event, another's
    keys = [OrderKey(ts_there, RANK, seq_there), OrderKey(ts_there, chosen.choice([0, 2]), 10**6)]
    expected = [events_from(tmp_path, config, key) for key in keys]
    deleted = truncated(config, SourceContext(Kinds(), "ms", tmp_path), keys, rank=RANK)
    assert [events_from(tmp_path, config, key) for key in keys] == expected
    early = sum(ts < ts_there - 12 for ts, _ in everything)  # rows that surely come before what is needed
    assert deleted >= early // 4 - 2


@pytest.mark.parametrize("keys", [[], [BEGIN], [END], [OrderKey(50, RANK, 5), BEGIN]])
def test_nothing_is_deleted_if_a_run_needs_all_rows_or_its_needs_are_unknown(tmp_path, keys):
    writer = LogWriter(tmp_path / "log", "s", "w")
    for batch in range(9):
        writer.append(batch, {"ts": [10 * batch]})
    context = SourceContext(Kinds(), "ms", tmp_path)
    assert truncated(config_of("error"), context, keys, rank=RANK) == 0
    assert first_row(config_of("error"), context) == 0


def test_log_that_was_never_written_is_not_truncated(tmp_path):
    (tmp_path / "log").mkdir()
    context = SourceContext(Kinds(), "ms", tmp_path)
    assert truncated(config_of("error"), context, [OrderKey(5, RANK, 5)], rank=RANK) == 0
