"""Tags and payloads of rows: from columns of every form, and errors for wrong ones."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import AmbiguousTagError, MalformedRowError
from dgs.model.tags import Tag
from tests.workers.reading import events, opened, readings, stream

PAGE = {"kind": "view", "key": {"column": "k"}}
BOTH = {"kind": {"column": "kind"}, "key": {"column": "k"}}
ANY = {"kind": "new", "key": {"column": "k"}}

FORMS = {
    "list": lambda values: values,
    "numpy": lambda values: np.array(values) if values and all(type(v) is int for v in values) else values,
    "arrow": pa.array,
    "chunked": lambda values: pa.chunked_array([pa.array(values).slice(0, 1), pa.array(values).slice(1)]),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
}
forms = st.sampled_from(sorted(FORMS))


def tags(config, columns, **options):
    count = len(next(iter(columns.values())))
    return [tag for tag, _, _ in events(config, {"ts": list(range(count)), **columns}, **options)]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=2), min_size=1), forms, st.integers(1, 20))
def test_key_from_a_column(keys, form, batch_rows):
    assert tags(stream(tags=PAGE), {"k": FORMS[form](keys)}, batch_rows=batch_rows) == [
        Tag("view", k) for k in keys
    ]


@given(
    st.lists(st.tuples(st.sampled_from(["cell", "value", "new"]), st.integers(0, 3)), min_size=1),
    forms,
    forms,
)
def test_kind_and_key_from_columns(pairs, kind_form, key_form):
    kinds, keys = [kind for kind, _ in pairs], [key for _, key in pairs]
    found = tags(stream(tags=BOTH), {"kind": FORMS[kind_form](kinds), "k": FORMS[key_form](keys)})
    assert found == [Tag(kind) if kind == "value" else Tag(kind, key) for kind, key in pairs]


def test_kinds_without_keys_need_none_in_the_column():
    columns = {"kind": ["barrier", "view"], "k": [None, "home"]}
    assert tags(stream(tags=BOTH), columns) == [Tag("barrier"), Tag("view", "home")]


def test_kind_from_a_column_with_a_literal_key():
    config = stream(tags={"kind": {"column": "kind"}, "key": "l"})
    assert tags(config, {"kind": ["side", "barrier"]}) == [Tag("side", "l"), Tag("barrier")]


def test_one_tag_needs_no_codes():
    for config in (
        stream(tags={"kind": "value"}),
        stream(tags=["value"]),
        stream(tags={"kind": "side", "key": "r"}),
    ):
        (batch,) = readings(opened(config, {"ts": [1, 2]}))[0].batches
        assert (len(batch.tags), batch.codes) == (1, None)


def test_distinct_tags_are_listed_once_in_the_order_of_their_rows():
    (batch,) = readings(opened(stream(tags=PAGE), {"ts": [1, 2, 3, 4], "k": ["b", "a", "b", "c"]}))[0].batches
    assert batch.tags == (Tag("view", "b"), Tag("view", "a"), Tag("view", "c"))
    assert batch.codes.tolist() == [0, 1, 0, 2]
    assert batch.codes.dtype == np.int32


def test_tag_column_of_the_list_form_holds_kinds_pairs_or_tags():
    column = ["barrier", ["view", "a"], ("view", "b"), Tag("cell", 4)]
    found = tags(stream(tags=["barrier", "view", "cell"]), {"tag": column})
    assert found == [Tag("barrier"), Tag("view", "a"), Tag("view", "b"), Tag("cell", 4)]


def test_wrong_tag_is_found_after_repeated_ones():
    with pytest.raises(MalformedRowError) as caught:
        tags(stream(tags=PAGE), {"k": ["a", "b", "a", "b", 7, "a"]})
    assert caught.value.row == 4


@pytest.mark.parametrize(
    ("sections", "columns", "said"),
    [
        (PAGE, {"k": ["a", None]}, "the key of kind 'view' is missing or null"),
        (PAGE, {"k": pa.array(["a", None])}, "the key of kind 'view' is missing or null"),
        (PAGE, {"k": ["a", 7]}, "key 7 of kind 'view' must be str, not int"),
        (BOTH, {"kind": ["view", None], "k": ["a", "b"]}, "the kind is missing or null"),
        (BOTH, {"kind": ["view", "cell"], "k": ["a", "b"]}, "key 'b' of kind 'cell' must be int, not str"),
        (ANY, {"k": ["a", Decimal("1.5")]}, "a key of kind 'new' cannot be a Decimal"),
        (["value", "barrier"], {"tag": ["value", None]}, "the tag is missing or null"),
        (["value", "barrier"], {"tag": ["value", 5]}, "5 is not a tag: expected a kind or a pair"),
        (["value", "view"], {"tag": ["value", "view"]}, "the key of kind 'view' is missing or null"),
    ],
)
def test_wrong_tag_names_its_row(sections, columns, said):
    with pytest.raises(MalformedRowError) as caught:
        tags(stream(tags=sections), columns)
    assert caught.value.row == 1
    assert caught.value.problem.startswith(said)


def payloads(columns, **sections):
    return [payload for _, _, payload in events(stream(**sections), {"ts": [1, 2], **columns})]


def test_payload_named_is_that_column_bare():
    assert payloads({"a": [1, 2], "b": [3, 4]}, payload="b") == [3, 4]


def test_payload_list_is_a_record_of_those_columns():
    assert payloads({"a": [1, 2], "b": ["x", "y"]}, payload=["b", "a"]) == [
        {"b": "x", "a": 1},
        {"b": "y", "a": 2},
    ]


def test_payload_of_no_columns_is_none():
    (batch,) = readings(opened(stream(payload=[]), {"ts": [1, 2], "a": [1, 2]}))[0].batches
    assert batch.payload is None


def test_payload_not_said_is_the_column_payload_else_a_record_of_all():
    assert payloads({"payload": ["x", "y"], "a": [1, 2]}) == ["x", "y"]
    assert payloads({"a": [1, 2]}) == [{"ts": 1, "a": 1}, {"ts": 2, "a": 2}]


@pytest.mark.parametrize("values", [[1, 2], [1.5, 2.0], [True, False]])
@pytest.mark.parametrize("form", ["list", "arrow"])
def test_numbers_without_nulls_are_numpy_others_are_not(values, form):
    for column, is_numpy in ((values, True), ([values[0], None], False)):
        (batch,) = readings(opened(stream(payload="a"), {"ts": [1, 2], "a": FORMS[form](column)}))[0].batches
        assert isinstance(batch.payload, np.ndarray) is is_numpy
        assert [event.payload for event in batch.events()] == column


def sources_with(tmp_path, columns):
    """Write the columns in every format; return the sources that read them, and the items of a source in memory."""
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "a.parquet")
    pa_csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return [({form: {"path": f"a.{form}"}}, None) for form in ("csv", "jsonl", "parquet")] + [
        ("data", [columns])
    ]


@pytest.mark.parametrize(
    ("part", "tags"),
    [
        ("key", {"kind": "view", "key": "k"}),
        ("key", {"kind": {"column": "kind"}, "key": "k"}),
        ("kind", {"kind": "k"}),
    ],
)
def test_text_that_is_the_name_of_a_column_is_refused_unless_it_is_marked(tmp_path, part, tags):
    columns = {"ts": [1], "k": ["home"], "kind": ["view"]}
    for source, items in sources_with(tmp_path, columns):
        config = stream(source, tags=tags, payload=[])
        with pytest.raises(AmbiguousTagError) as caught:
            events(config, items, base_dir=tmp_path)
        said = str(caught.value)
        assert f"`{part}: k` is a text, and there is a column 'k'" in said
        assert f"`{part}: {{column: k}}`" in said
        literal = stream(source, tags={**tags, part: {"value": "k"}}, payload=[])
        ((tag, _, _),) = events(literal, items, base_dir=tmp_path)
        assert {"kind": tag.kind, "key": tag.key}[part] == "k"
        assert f"`{part}: {{value: k}}`" in said


def test_text_that_the_program_lists_is_a_kind_whatever_the_columns(tmp_path):
    columns = {"ts": [1], "value": [5], "l": [6], "side": ["r"]}
    for source, items in sources_with(tmp_path, columns):
        for tags, tag in (
            ({"kind": "value"}, Tag("value")),
            ({"kind": "side", "key": "l"}, Tag("side", "l")),
        ):
            assert events(stream(source, tags=tags, payload=[]), items, base_dir=tmp_path) == [(tag, 1, None)]
