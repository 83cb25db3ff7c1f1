"""Checkpoint stores in a directory, and the user's own. Read in this order.

- `saved`: the two kinds of files, states and records, and the paths of outputs in a record.
- `directory`: lists, verifies and prunes a directory of checkpoints. `directory_store`: the store of a run in such a directory.
- `custom_store`: a store of the user's own.
"""
