"""The paper's section 2 as types: tags, order, events, dependence, programs. Read in this order.

- `tags`: kinds, tags, implementation tags; `key_sets`, `tag_sets`, `impl_tags`: sets of them, finite or not.
- `order`: the total order of events, by (ts, rank, seq); `row_numbers`, `columns`: its numbers and payloads as columns.
- `events`: one event, and batches of events; `outputs`: batches of outputs, with ids that identify repeats.
- `dependence`: the relation of tags that depend on each other.
- `program`: the user's program: `init`, `update`, `fork`, `join`; `user_code`: errors that it raises, in the user's words.
- `identity`: the record of its program that a checkpoint keeps.
- `wire_forms`: codec forms of all these; importing any module of the model registers them.
"""

from dgs.model import wire_forms as _forms

__all__: list[str] = []
del _forms
