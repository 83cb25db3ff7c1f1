"""PageRank and k-means in MRQL give the answers of plain loops, here and as programs of dgs."""

import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from typer.testing import CliRunner

from dgs.cli.app import app

QUERIES = Path(__file__).parents[2] / "experiments" / "queries"
EXPECTED = Path(__file__).parents[3] / "shared" / "cases" / "queries" / "expected"


def rows(name, place):
    """Return the rows of an example."""
    done = CliRunner().invoke(app, ["query", str(QUERIES / name / "query.mrql"), "--on", place, "--json"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("place", ["local", "dgs"])
def test_pagerank(place):
    expected = json.loads((EXPECTED / "pagerank.json").read_text())["pagerank"]
    ranks = {row["v"]: row["_1"] for row in rows("pagerank", place)}
    assert len(ranks) == expected["nodes"]
    assert sum(ranks.values()) == pytest.approx(1, abs=1e-12)
    assert {node: ranks[node] for node, _ in expected["top"]} == pytest.approx(
        dict(expected["top"]), rel=1e-9
    )


@pytest.mark.parametrize("place", ["local", "dgs"])
def test_kmeans(place):
    expected = json.loads((EXPECTED / "kmeans.json").read_text())["kmeans"]["centroids"]
    found = [[row["X"], row["Y"], row["N"]] for row in rows("kmeans", place)]
    assert found == [pytest.approx(centre, rel=1e-9) for centre in expected]
