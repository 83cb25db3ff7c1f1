"""Optimizers: from atoms to a dependence graph, a tag tree, a shaped tag tree, and a plan.

- `by_name`: the optimizers a user can choose, and `plan`, which runs all steps.
- `atoms`: the smallest sets of implementation tags to place; `graph`: the dependences between them.
- `tag_tree`: the trees that optimizers make, with merged leaves and bounded fan-out; `greedy`: Appendix B.
- `cheapest`: the plan that is predicted to be the fastest, of some trees or of all; `random_trees`: any shape, for tests.
- `matching`: state types and forks for each node.
"""
