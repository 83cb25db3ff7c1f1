"""Spark queries that write event logs while a run reads them.

- `ingest`: all queries of a run; `queries`: a section `source: {spark: ...}` as a query; `feed`: one query from start to end.
- `micro_batches`: from a batch to its commit; `row_writing`: Spark writes its rows; `division`: its rows by stream; `succession`: a query
  that goes on where a lost one ended.
- `left_out`: rows that do not enter the log, and their dead letters; `casts`: casts that may fail.
- `text_files`: CSV and JSON lines as the sources `csv` and `jsonl` read them.
- `training`: a query from which Java learns what Spark needs at a start.
- `failures`: the error that ended a query, with stream, file and row.
"""
