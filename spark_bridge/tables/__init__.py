"""Checkpoints and outputs as tables that Spark writes and knows by name.

- `epoch_table`: a table to which the epochs of runs are appended, each once.
- `checkpoint_table`: a row for every committed epoch; `lost_checkpoints` restores a directory of checkpoints from it. `output_tables`:
  outputs under a name of the catalog.
"""
