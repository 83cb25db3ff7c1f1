"""The programs of flows at run time: `classed_flow` closes each hash class of keys on its own; `leaving_out` closes blocks with `on_error: skip`; `windowed_flow` folds many windows at once."""
