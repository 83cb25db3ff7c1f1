"""Drawings of plans and dependence graphs, and explanations of plans.

- `labels`: the text of one worker; `text`: plans as a tree, in Mermaid and DOT; `svg`: plans as SVG.
- `dependence_graph`: the dependence graph in Mermaid and DOT.
- `explain`: the rate of each tag, the workers it joins, waits for and runs beside, and why a plan has only one worker.
"""
