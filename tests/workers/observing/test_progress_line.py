"""The progress line: its content, and its shortening on a narrow terminal."""

import random
import re

import pytest

from dgs.workers.observing.figures import RunFigures, StreamFigures, Wait, WorkerFigures
from dgs.workers.observing.progress_line import Progressing, Rates

START = 1_700_000_000


def waiting(t):
    """A run whose worker waits for a silent stream, for 9 s at t = 109."""
    wait = Wait("stream", "rules", START + 500, 100.0)
    return RunFigures(
        t=float(t),
        name="fraud",
        unit="s",
        phase="running",
        events=1000 * (t - 99),
        outputs=7,
        workers={"w0": WorkerFigures(0, 100, waits_for=wait, held_events=900)},
        streams={
            "rules": StreamFigures(rows=1, events=1, frontier=START, heard=100.0, lag_seconds=3700.0),
            "payments": StreamFigures(
                rows=9, events=9, frontier=START + 900, heard=float(t), lag_seconds=2.0
            ),
        },
    )


@pytest.fixture
def progressing():
    shown = Progressing()
    for t in range(100, 110):
        shown.add(waiting(t))
    return shown


def numbers(line):
    return re.findall(r"\d[\d,:.-]*", line)


def test_a_run_without_an_end_shows_its_lag_and_what_it_waits_for(progressing):
    assert progressing.line() == (
        "fraud: 10,000 events, 7 outputs, 1,000 events/s (1,000 on average), 1 h 1 min behind, event time 2023-11-14 22:13:20, "
        "worker w0 waits for stream 'rules' to pass 2023-11-14 22:21:40; last heard 9 s ago; 900 events held"
    )


def test_a_narrow_terminal_loses_words_and_keeps_numbers(progressing):
    assert progressing.line(width=100) == (
        "fraud 10,000 ev 7 out 1,000/s (1,000) -1 h 1 min at 2023-11-14 22:13:20 w0 waits for rules"
    )
    narrowest = progressing.line(width=1)
    assert numbers(narrowest) == numbers(progressing.line(width=90).removesuffix(" w0 waits for rules"))
    assert {"10,000", "7", "1,000"} <= set(numbers(narrowest))


def test_short_waits_are_not_shown():
    shown = Progressing()
    shown.add(waiting(101))
    assert "waits" not in shown.line()


def test_percent_and_remaining_time_count_processed_events():
    shown = Progressing()
    for t in range(6):
        done = 100 * t
        workers = {"w0": WorkerFigures(0, done)}
        streams = {"s": StreamFigures(rows=2 * done, events=2 * done, share=min(1.0, 2 * done / 1000))}
        shown.add(RunFigures(t=float(t), name="sums", events=2 * done, workers=workers, streams=streams))
    assert "50 %" in shown.line()
    assert "5 s to go" in shown.line()


def test_remaining_time_is_known_though_a_generation_begins_without_figures_of_streams():
    shown = Rates()
    shown.add(RunFigures(t=10.0, phase="starting"))
    for t in range(15, 18):
        read = 100 * (t - 15)
        shown.add(
            RunFigures(
                t=float(t),
                phase="running",
                events=read,
                streams={"s": StreamFigures(rows=read, events=read, share=read / 1000)},
                workers={"w": WorkerFigures(0, read)},
            )
        )
    assert shown.seconds_left == pytest.approx(8.0)
    assert shown.mean == pytest.approx(100.0)


def test_one_stream_without_a_known_end_leaves_out_the_percentage():
    shown = Progressing()
    streams = {"s": StreamFigures(rows=5, events=5, share=0.5), "live": StreamFigures(rows=5, events=5)}
    shown.add(RunFigures(t=1.0, streams=streams, workers={"w0": WorkerFigures(0, 5)}))
    assert "%" not in shown.line()


@pytest.mark.parametrize("told", [2, 1], ids=["at once", "later"])
def test_after_a_restart_the_rate_is_that_of_the_new_generation(told):
    shown = Progressing()
    for t, events, generation in ((0, 0, 1), (1, 900, 1), (2, 100, told), (3, 150, told)):
        shown.add(RunFigures(t=float(t), events=events, generation=generation))
    assert "50 events/s (50 on average)" in shown.line()


SPEEDS = {
    "even": lambda _at, _chance: 1.0,
    "uneven": lambda _at, chance: chance.uniform(0.5, 1.5),
    "slow to start": lambda at, _chance: 0.1 if at < 0.15 else 1.0,
    "half as fast": lambda at, _chance: 2.0 if at < 0.2 else 1.0,
    "three times as fast": lambda at, _chance: 1.0 if at < 0.3 else 3.0,
    "ever faster": lambda at, _chance: 1.0 + at,
    "with pauses": lambda at, _chance: 0.0 if int(at * 80) % 8 == 0 else 1.0,
}


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("seconds", [40, 400])
def test_remaining_time_is_right_to_a_fifth_from_half_way_on_also_if_the_speed_changes(speed, seconds):
    chance, shares = random.Random(speed), [0.0]
    while shares[-1] < 1.0:
        at = len(shares) / seconds
        shares.append(min(shares[-1] + SPEEDS[speed](at, chance) / seconds, 1.0))
    shown, whole = Rates(), len(shares) - 1
    for second, share in enumerate(shares[:-1]):
        rows = round(share * 10**6)
        shown.add(
            RunFigures(
                t=1000.0 + second,
                phase="running",
                events=rows,
                streams={"s": StreamFigures(rows=rows, events=rows, share=rows / 10**6)},
                workers={"w": WorkerFigures(0, rows)},
            )
        )
        if share >= 0.5:
            assert shown.seconds_left == pytest.approx(whole - second, abs=whole / 5)


def test_long_runs_keep_few_figures():
    shown = Rates()
    for second in range(20_000):
        streams = {"s": StreamFigures(rows=second, events=second, share=second / 40_000)}
        shown.add(RunFigures(t=float(second), streams=streams, workers={"w": WorkerFigures(0, second)}))
    assert len(shown._late) < 1000
    assert shown.seconds_left == pytest.approx(20_001, rel=0.01)
