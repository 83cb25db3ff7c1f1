"""MRQL: `select` over nested bags and lists, grouping by patterns, aggregations of the user's, and `repeat`.

The grammar is `mrql.lark`; docs/queries.md says what is in the subset. `script` is the front end; `readings` finds the files that a text names.

>>> found = script("select (k, sum(x)) from (k, x) in {('a', 1), ('b', 2), ('a', 3)} group by k: k;", {})
>>> from dgs.query.evaluate import answers
>>> answers(found, {})
{'answer': [('a', 4), ('b', 2)]}
"""

from dgs.query.mrql.mrql_readers import Reading, readings
from dgs.query.mrql.mrql_translate import script

__all__ = ["Reading", "readings", "script"]
