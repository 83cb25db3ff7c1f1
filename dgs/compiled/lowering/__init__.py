"""Lowering: from the source of an `update` to the text of a loop over columns, in which every name is ours.

- `value_types`, `values`, `python_values`: types, values while lowering, and states as scalars.
- `method_source`: the syntax tree of a method, which is certainly the code that runs, and the values that it reads from outside.
- `loops_written_out`: loops and `match` as simpler statements.
- `arithmetic`, `branches`, `expressions`, `compared_texts`, `known_calls`, `entries`, `inlined_calls`, `statements`: lowering an update for events of one kind.
- `loop_text`, `merged_lanes`, `window_lanes`: the text of a loop over one lane, over several, and over windows of one.
"""
