"""Lists of the files in a table of a lake: damaged lines are ignored."""

import json

import pytest

from dgs.workers.sinks.lake.written_files import LIST, changed, last_listed, note_written

LINE = {"file": "b.parquet", "size": 1, "digest": "0", "run": "r", "epoch": 9}


@pytest.mark.parametrize("field", LINE)
@pytest.mark.parametrize("value", [None, [], 1.5])
def test_lines_of_another_form_are_passed_over(tmp_path, field, value):
    (tmp_path / "a.parquet").write_text("rows")
    (tmp_path / "b.parquet").write_text("others")
    note_written(tmp_path, {tmp_path / "a.parquet": ""}, run="r", epoch=3)
    with (tmp_path / LIST).open("a") as lines:
        lines.write(f"\n{json.dumps(LINE | {field: value})}\n")
    assert (last_listed(tmp_path, "r"), changed(tmp_path, "r")) == (3, None)
    with (tmp_path / LIST).open("a") as lines:
        lines.write(f"\n{json.dumps(LINE)}\n")
    assert (last_listed(tmp_path, "r"), changed(tmp_path, "r")) == (9, "b.parquet is damaged")
