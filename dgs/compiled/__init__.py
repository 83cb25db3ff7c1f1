"""Compiled programs: machine code made from a program's own `update`, which folds columns (`pip install 'dgs[compiled]'`).

Outputs, states and errors are those of the interpreted program, bit for bit. What is not surely the same is refused when the update is
lowered, or left to the interpreter for that event. Read in this order.

- `value_types`, `values`, `python_values`: types, values while lowering, and states as scalars.
- `method_source`: the syntax tree of a method that surely is the code that runs, and what it reads from outside.
- `arithmetic`, `expressions`, `statements`: lowering an update for events of one kind.
- `loop_text`, `loop_files`, `machine`: the text of a loop, its files, and numba.
- `lanes_as_columns`, `written_outputs`: what goes into a loop, and what comes out.
- `compiled_update`: folding batches, with the interpreter for what deviates. `python_loops`: the same without numba, for comparing.
- `preview`: what would be compiled, before a run.
"""
