"""The data source `format("dgs")`: code that runs in Spark's Python processes, without a session.

- `format`: the data source as Spark sees it.
- Writing an event log: `log_options`, `log_writer` (tasks and commit), `staging`, `log_delivery`, `query_owner`.
- Reading committed outputs and checkpoints of runs: `run_options`, `readers`, `pushdown`, `run_files`, `checkpoint_rows`, `typed_rows`.
"""
