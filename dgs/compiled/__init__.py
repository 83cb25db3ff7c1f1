"""Compiled programs: machine code made from a program's own `update`, which folds columns (`pip install 'dgs[compiled]'`).

Outputs, states and errors are those of the interpreted program, bit for bit. Code that might behave differently is refused when the update
is lowered, or left to the interpreter for that event. Read in this order.

- `lowering`: from the source of an update to the text of a loop over columns.
- `llvm`: from that text to LLVM's.
- `loop_files`, `machine`, `called_loops`: the files of loops and their counts, LLVM, and loops of machine code as functions.
- `lanes_as_columns`, `states_as_arrays`, `written_outputs`: the inputs and the outputs of a loop.
- `compiled_update`, `merged_run`, `windows_at_once`: folding batches of one lane, of several, and many windows, with the interpreter for
  events that deviate.
- `verified_folds`: some folds are done twice and compared. `compiled_beside`: compiling beside the run. `cheaper_way`: whether machine
  code pays. `python_loops`: loops without LLVM, for comparing.
- `preview`: what would be compiled, before a run.
"""
