"""A flow at run time, beside its program: `leaving_out` closes blocks with `on_error: skip`."""
