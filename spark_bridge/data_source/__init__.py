"""The data source `format("dgs")`: what runs inside the Python processes of Spark. It needs no session.

- `format`: the data source as Spark sees it.
- Writing an event log: `log_options`, `log_writer` (tasks and commit), `sorting`, `staging`, `log_delivery`, `query_owner`.
- Reading what runs have committed: `readers`, `run_files`, `checkpoint_rows`.
"""
