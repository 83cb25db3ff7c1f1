"""Spark queries that write event logs while a run reads them.

- `ingest`: all queries of a run; `queries`: a section `source: {spark: ...}` as a query; `feed`: one query from start to end.
- `text_files`: CSV and JSON lines as the sources `csv` and `jsonl` read them.
- `failures`: the error that ended a query, with stream, file and row.
"""
