"""The paper's section 2 as types: tags, order, events, dependence, programs. Read in this order.

- `tags`: kinds, tags, implementation tags; `key_sets`, `tag_sets`, `impl_tags`: sets of them, finite or not.
- `order`: the total order of events, by (ts, rank, seq); `columns`: its numbers and payloads as columns.
- `events`: one event, and batches of events; `outputs`: batches of outputs, with ids that identify repeats.
- `dependence`: the relation of tags that depend on each other.
- `program`: the user's program: `init`, `update`, `fork`, `join`. `declarations`: the check of its kinds, relation and methods.
- `user_code`: calls of its methods, whose errors name the method and the event.
- `identity`: the record of its program that a checkpoint keeps.
- `wire_forms`: codec forms of all these; importing any module of the model registers them.
"""

from dgs.model import wire_forms as _forms

__all__: list[str] = []
del _forms
