"""Spark queries that write event logs, beside the run that reads them.

- `ingest`: all queries of a run; `queries`: what a section `source: {spark: ...}` reads; `feed`: one query from start to end.
- `failures`: why a query ended, with stream, file and row.
"""
