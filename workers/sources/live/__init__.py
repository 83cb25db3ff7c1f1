"""Live sources: events that arrive by a clock. Read in this order.

- `paced`: a generator whose rows pass at a given rate. `heartbeats`, `decisions`: let the time of a quiet stream advance.
- `log`, `logged`: an event log, read while it is written.
- `line_server`, `connections`, `line_intake`, `socket_source`: a TCP port whose lines go into an event log first.
"""
