"""The batches of a compiled flow: items pass in columns as far as steps and data allow, and in rows after that.

- `column_items`: items in columns; `column_keys`: keys as numbers; `column_steps`: steps over columns.
- `column_parts`: the parts of keys and blocks that a node keeps; `window_sums`: sums of the last blocks; `columnar`: all of these
  together, for one batch.
- `fused`: steps in rows as one generated function; `event_work`: one event at work on the state.
"""
