"""Optimizers: from atoms to a dependence graph, a tag tree, a shaped tag tree, and a plan.

- `by_name`: the optimizers a user can choose, and `plan`, which runs all steps.
- `atoms`: the smallest sets of implementation tags to place; `graph`: the dependences between them.
- `tag_tree`: the trees that optimizers make; `greedy`: Appendix B; `cheapest`: the plan that is predicted to be the fastest.
- `exhaustive`: all trees, for small programs; `random_trees`: any shape, for tests.
- `shaping`: merged leaves, bounded fan-out; `fitting`, `matching`: state types and forks for each node.
"""
