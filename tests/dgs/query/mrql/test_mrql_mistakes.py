"""Mistakes in MRQL: the whole text of each error."""

import pytest

pytest.importorskip("lark")

from dgs.query.errors import QueryError
from dgs.query.mrql import script
from dgs.query.relation import Source
from dgs.query.types import FLOAT, INT, TEXT, Schema

ORDERS = {"orders": Source("orders", Schema.of(id=INT, price=FLOAT, who=TEXT))}

GOLDEN = [
    """Q101 q.mrql:1:10: `frm` is not expected here
    select x frm orders;
             ^
    Expected: `from`""",
    """Q101 q.mrql:1:30: `gruop` is not expected here
    select o.id from o in orders gruop by k: o.who;
                                 ^
    Expected: `group`""",
    """Q101 q.mrql:1:9: '?' begins no word of MRQL
    count(1 ? 2);
            ^""",
    """Q101 q.mrql:1:1: a script without an output
    x = 1;
    ^
    End with an expression, or `store`.""",
    """Q110 q.mrql:1:12: XML (`xml`) is not in this MRQL
    x = source(xml, "a.xml");
               ^
    The other statements are read; turn XML into JSON or CSV before.""",
    """Q110 q.mrql:1:1: `import` is not in this MRQL
    import "other.mrql";
    ^
    Leave it out.""",
    """Q110 q.mrql:1:17: the function 'f' calls itself without an end that the text fixes
    function f(a) { f(a) + 1 }; f(1);
                    ^
    Recursion over data is not supported: use `repeat`.""",
    """Q201 q.mrql:1:8: no field 'prise'; did you mean 'price'?
    select o.prise from o in orders;
           ^
    Give one of the names that are there.""",
    """Q201 q.mrql:1:20: no name 'ordrs'; did you mean 'orders'?
    select o from o in ordrs;
                       ^
    Give one of the names that are there.""",
    """Q201 q.mrql:1:1: the columns of 'a' are not known
    source(csv, "data/a.csv");
    ^
    Name its file with `--from a=PATH`, add a stream of that id, or give its `type(..)`.""",
    """Q203 q.mrql:1:8: `#5` of 3 items
    select o#5 from o in orders;
           ^
    Items count from 0.""",
    """Q203 q.mrql:1:15: 3 names for tuples of 2 items
    select a from (a, b, c) in {(1, 2)};
                  ^
    Give a smaller number, or the name of the column.""",
    """Q204 q.mrql:1:8: argument 2 is text, where int64 or float64 is needed
    select o.price + o.who from o in orders;
           ^
    Cast the value, or take one of a type that fits.""",
    """Q204 q.mrql:1:33: float64 where a condition is needed
    select o from o in orders where o.price;
                                    ^
    Cast the value, or take one of a type that fits.""",
    """Q204 q.mrql:1:16: record<id int64, price float64, who text> where a number is needed
    select (k, sum(o)) from o in orders group by k: o.id;
                   ^
    Cast the value, or take one of a type that fits.""",
    """Q204 q.mrql:1:20: an ordinal needs a list, whose elements have one
    select argmin(c in orders: c.price) from o in orders;
                       ^
    Write the elements in [ ], or repeat over such a list.""",
    """Q205 q.mrql:1:8: no function 'conut'; did you mean 'count'?
    select conut(o) from o in orders;
           ^
    Write it with functions that are there.""",
    """Q206 q.mrql:1:1: sum takes 1 argument, not 2
    sum(orders, 1);
    ^
    Give as many as it takes.""",
    """Q208 q.mrql:1:10: a union of elements with different parts
    orders + {1};
             ^
    Give both sides the same number of columns, of types that fit.""",
    """Q303 q.mrql:1:1: 'f' is no commutative monoid: plus(-2, -1) is -1, plus(-1, -2) is 1; plus(-2, 0) is -2, plus(0, -2) is 2; plus(-2, 1) is -3, plus(1, -2) is 3
    aggregation f(-, 0); f(select o.id from o in orders);
    ^
    The parts of a stream are added up in any order. Let plus be commutative and associative, with zero neutral.""",
    """Q306 q.mrql:1:1: a loop without a bound
    repeat R = orders step orders;
    ^
    Give it `limit n`, or `until` a condition.""",
]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda text: text.split(":")[0] + text.split(":", 3)[3][:30])
def test_the_text_of_a_mistake(golden):
    statement = golden.splitlines()[1].strip()
    with pytest.raises(QueryError) as error:
        script(statement, ORDERS, name="q.mrql")
    assert str(error.value) == golden


def test_the_rest_of_a_file_goes_on_after_what_is_not_supported():
    found = script(
        'x = source(xml, "a");\nselect y from y in x;\nselect o.id from o in orders;', ORDERS, name="q.mrql"
    )
    assert [name for name, _ in found.outputs] == ["answer"]
    assert [(one.code, one.facts["where"]) for one in found.refused] == [
        ("Q110", "q.mrql:1:12"),
        ("Q201", "q.mrql:2:20"),
    ]


def test_another_mistake_is_not_left_out():
    with pytest.raises(QueryError, match="Q204"):
        script('import "a.mrql"; not 1; 2;', {})
