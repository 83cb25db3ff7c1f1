"""Live sources: events that arrive by a clock.

- `waiting`: what they have in common: reading never blocks, and says when to ask again.
- `paced`: a generator whose rows are let through at a rate. `heartbeats`: how a quiet stream says that time passes.
- `log`, `logged`: an event log, read while it is written.
- `line_server`, `line_intake`, `socket_source`: a TCP port whose lines go into an event log first.
"""
