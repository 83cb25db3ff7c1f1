"""The paper's section 2 as types: tags, order, events, dependence, programs. Read in this order.

- `tags`: kinds, tags, implementation tags; `key_sets`, `tag_sets`, `impl_tags`: sets of them, finite or not.
- `order`: the total order of events, by (ts, rank, seq); `row_numbers`, `columns`: its numbers and payloads as columns.
- `events`: one event, and batches of events; `outputs`: batches of outputs with the ids that tell repeats.
- `dependence`: which tags depend on each other.
- `program`: what a user writes: `init`, `update`, `fork`, `join`; `user_code`: what it raises, in words of the user.
- `identity`: what a checkpoint remembers of the program that made it.
- `wire_forms`: how all these travel; importing any module of the model registers the forms with the codec.
"""

from dgs.model import wire_forms as _forms

__all__: list[str] = []
del _forms
