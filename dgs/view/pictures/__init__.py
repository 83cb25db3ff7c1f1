"""The drawings of a run in SVG, whose slots a scene fills.

- `texts`: numbers, times and foreign texts in words that are safe to show. `markup`: elements with their content escaped.
- `plan_layout`, `plan_picture`: the plan as a tree. `stream_picture`: the streams on one axis. `charts`: what changed over time.
"""
