"""MRQL: `select` over nested bags and lists, grouping by patterns, aggregations of the user's, and `repeat`.

`mrql_translate` makes scripts of the algebra. The grammar is `mrql.lark`; docs/queries.md says what is in the subset.
"""
