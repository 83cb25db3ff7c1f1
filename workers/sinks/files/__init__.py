"""Sinks of files: staged when an epoch is closed, and published when it is committed. Read in this order.

- `places`: the directories and names of output files. `owned`: a file until it is published, and the list of our files in a directory.
- `publishing`: staged files get their final names.
- `file_sink`: one open writer per epoch, small batches collected, and the formats.
"""
