"""Checkpoints and outputs as tables that Spark writes and knows by name.

- `epoch_table`: a table to which the epochs of runs are appended, each once.
- `checkpoint_table`: a row for every committed epoch. `output_tables`: outputs under a name of the catalog.
"""
