"""The meaning of a program: the oracles that every runtime is tested against.

- `sequential`: the specification, a fold of `update` over all events in order, and programs without their vectorised methods; `skipped_events`: `on_error: skip`.
- `wire_diagrams`: the parallel semantics (Definition 2.2), executable.
- `comparison`, `equivalence`: equality of outputs as multisets, and up to the order of independent outputs.
"""
