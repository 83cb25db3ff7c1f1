"""The programs of flows at run time: `leaving_out` closes blocks with `on_error: skip`; `windowed_flow` folds many windows at once."""
