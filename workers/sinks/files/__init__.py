"""Sinks of files: staged when an epoch is closed, and published when it is committed. Read in this order.

- `places`: the directories and names of output files. `owned`: one file until it is published, and which files in a directory are ours.
- `publishing`: staged files get their final names.
- `file_sink`: one open writer per epoch, small batches collected, and the formats.
"""
