"""The example queries: the answers of their plan files are those that were computed without dgs."""

from pathlib import Path

import pytest

import dgs

HERE = Path(__file__).parents[2] / "experiments" / "queries"
FLIGHTS = Path(__file__).parents[3] / "shared" / "data" / "nycflights13" / "flights.csv.gz"
needs_flights = pytest.mark.skipif(not FLIGHTS.exists(), reason="the data of nycflights13 are not here")


def outputs(name, **options):
    return dgs.run(HERE / name / "plan.yaml", fresh=True, run_dir=options.pop("run_dir"), **options).outputs


@pytest.mark.parametrize("optimizer", [{"name": "sequential"}, {"name": "random", "seed": 7}])
def test_three_tables_are_answered_three_times(tmp_path, optimizer):
    rows = outputs("three_tables", run_dir=tmp_path / "run", optimizer=optimizer)
    answers = [rows[start : start + 10] for start in (0, 10, 20)]
    assert [(sum(row["n"] for row in one), sum(row["rev"] for row in one)) for one in answers] == [
        (229, 1_054_336_319),
        (2_053, 9_730_581_855),
        (6_897, 32_881_720_290),
    ]
    assert max(answers[2], key=lambda row: row["rev"]) == {"nation": 24, "n": 1193, "rev": 5_674_922_597}


@needs_flights
def test_flights_by_carrier(tmp_path):
    rows = outputs("flights_by_carrier", run_dir=tmp_path / "run")
    united = {
        "carrier": "UA",
        "n": 58_665,
        "s": 701_898,
        "c": 57_979,
        "a": pytest.approx(12.106072888459614),
        "m": 483,
    }
    assert len(rows) == 16
    assert united in rows


@needs_flights
def test_flights_in_dry_and_in_wet_hours(tmp_path):
    rows = outputs("flights_weather", run_dir=tmp_path / "run")
    assert [(row["origin"], row["wet"], row["n"], row["s"]) for row in rows] == [
        ("EWR", False, 109_368, 1_535_087),
        ("EWR", True, 7_591, 228_604),
        ("JFK", False, 102_333, 1_150_438),
        ("JFK", True, 6_509, 163_389),
        ("LGA", False, 95_126, 900_063),
        ("LGA", True, 6_004, 144_290),
    ]
