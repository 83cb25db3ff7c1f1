"""Observing a run: what hosts measure, what a run knows of itself, and the file that keeps it. Read in this order.

- `figures`: the data model, from one worker to the whole run. Everything that shows a run is drawn from it.
  Its meter says where the time of a host goes. `blame`: what holds a run back.
- `progress_line`, `top_tables`: how far a run is, in one line and in tables.
- `figure_lines`: figures as lines of text, and back, and the bounded file of them in the run directory.

Law: observing never changes a run. What cannot be measured or written is left out.
"""
