"""Sinks of files: staged when an epoch is closed, and published when it is committed. Read in this order.

- `places`: the directories and names of output files. `owned`: which files in a directory are ours.
- `part_file`: one file until it is published. `publishing`: staged files get their final names.
- `file_sink`: one open writer per epoch, and small batches collected. `jsonl_sink`, `table_sinks`: the formats.
"""
