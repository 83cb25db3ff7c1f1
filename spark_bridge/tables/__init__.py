"""Checkpoints and outputs as tables that Spark writes and knows by name.

- `epoch_table`: a table, the epochs of a run that it holds, and appending those it lacks.
- `checkpoint_table`: a row for every committed epoch. `output_tables`: outputs under a name of the catalog.
"""
