"""Sinks of files: staged while an epoch is open, published when it is committed.

- `places`: where files of outputs are and how they are named.
- `file_sink`: one open writer per epoch; `jsonl_sink`, `table_sinks`: the formats; `buffer`: small batches wait to be written together.
- `part_file`: one file on its way; `publishing`: staged files get their final names.
"""
