"""Inputs that are wrong, in every format: each is an error of the input that names file, line and column."""

import datetime as dt
import decimal
import gzip
import io
import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

import dgs
from dgs.errors import InvalidError, MalformedRowError
from dgs.workers.sources.readers import csv as csv_reader
from tests.workers.reading import events, opened, readings, stream

ROWS = b"ts,a\n1,1\n2,2\n"
LINES = b'{"ts": 1, "a": 1}\n{"ts": 2, "a": 2}\n'


def zipped(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.csv", data)
    return file.getvalue()


def table(ts=(1, 2), **columns):
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"ts": ts, **columns}), file)
    return file.getvalue().to_pybytes()


PARQUET = table(a=[1, 2])


class Keys(encryption.KmsClient):
    """Keeps the keys of encrypted files in the files themselves."""

    def wrap_key(self, key_bytes, _master_key_identifier):
        return key_bytes.hex()


def with_encrypted_columns():
    """Return a Parquet file with a footer that everybody can read, and a column that nobody can."""
    of = encryption.CryptoFactory(lambda _: Keys())
    how = encryption.EncryptionConfiguration("footer", column_keys={"key": ["a"]}, plaintext_footer=True)
    rows, file = pa.table({"ts": [1, 2], "a": [1, 2]}), pa.BufferOutputStream()
    secret = of.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    with pq.ParquetWriter(file, rows.schema, encryption_properties=secret) as writer:
        writer.write_table(rows)
    return file.getvalue().to_pybytes()


def with_wrong_checksum():
    """Return a Parquet file in which a bit of a value is another one."""
    file, value = pa.BufferOutputStream(), 0x1122334455667788
    rows = pa.table({"ts": [1], "a": [value]})
    pq.write_table(rows, file, compression="none", use_dictionary=False, write_page_checksum=True)
    data = value.to_bytes(8, "little")
    return file.getvalue().to_pybytes().replace(data, b"\x89" + data[1:])


INT, STR = {"columns": {"ts": "int", "a": "int"}}, {"columns": {"a": "str"}}
BIG = "9" * 20

# name: (file, bytes, options of the source, row, what the error says)
CSV = {
    "latin-1": ("a.csv", "ts,a\n1,x\n2,süß\n".encode("latin-1"), STR, 1, "column 'a': its text is not utf-8: byte 0xfc at byte 12"),
    "year 0": ("a.csv", b"ts,a\n1,2020-01-01\n2,0000-01-01\n", {}, 1, "beyond the years 1 to 9999"),
    "year 0 as ts": ("a.csv", b"ts,a\n2020-01-01,1\n0000-01-01,2\n", {}, 1, "does not fit into 64 bits"),
    "latin-1 header": ("a.csv", "ts,größe\n1,1\n".encode("latin-1"), {}, 0, "byte 0xf6 at byte 5"),
    "utf-16 as utf-8": ("a.csv", ROWS.decode().encode("utf-16"), {}, 0, "encoding: utf-16"),
    "utf-16 without mark as utf-8": ("a.csv", ROWS.decode().encode("utf-16-le"), {}, 0, "NUL byte"),
    "utf-8 as utf-16": ("a.csv", ROWS, {"encoding": "utf-16"}, 0, "encoding: utf-8"),
    "cut utf-16": ("a.csv", ROWS.decode().encode("utf-16")[:-1], {"encoding": "utf-16"}, 0, "its text is not utf-16"),
    "utf-8 as ascii": ("a.csv", "ts,a\n1,süß\n".encode(), {**STR, "encoding": "ascii"}, 0, "is not ascii: byte 0xc3 at byte 8"),
    "half a pair in utf-7": ("a.csv", b"ts,a\n1,+2AA-\n", {**STR, "encoding": "utf-7"}, 0, "half of a surrogate pair"),
    "gz that is none": ("a.csv.gz", ROWS, {}, 0, "its name says gzip, but its content is not"),
    "gz without its name": ("a.csv", gzip.compress(ROWS), {}, 0, "it is a gzip file, not text: name it .gz"),
    "cut gz": ("a.csv.gz", gzip.compress(ROWS * 9000)[:-30], {}, None, "a.csv.gz"),
    "damaged gz": ("a.csv.gz", gzip.compress(ROWS)[:12] + b"\0\1\2\3" * 9, {}, 0, "it cannot be read any further"),
    "zip": ("a.csv", zipped(ROWS), {}, 0, "it is a zip file"),
    "zstd": ("a.csv", b"\x28\xb5\x2f\xfd" + b"\0" * 20, {}, 0, "it is a zstd file"),
    "parquet as csv": ("a.csv", PARQUET, {}, 0, "it is a Parquet file"),
    "NUL in text": ("a.csv", b"ts,a\n1,x\n2,y\0z\n", STR, 0, "NUL byte at byte 12"),
    "NUL in a number": ("a.csv", b"ts,a\n1,1\n2,\0\n", INT, 0, "NUL byte"),
    "too many fields": ("a.csv", b"ts,a\n1,1\n2,2,3\n", {}, 1, "3 fields, but the header has 2: '2,2,3' (a.csv, line 3)"),
    "too few fields": ("a.csv", b"ts,a\n1,1\n\n2\n", {}, 1, "1 fields, but the header has 2: '2' (a.csv, line 4)"),
    "time twice": ("a.csv", b"ts,ts,a\n1,2,3\n", {}, 0, "its header has the column 'ts' twice"),
    "payload twice": ("a.csv", b"ts,a,a\n1,2,3\n", {}, 0, "its header has the column 'a' twice"),
    "other columns": ("a.csv", b"at,b\n1,2\n", {}, None, "there is no column 'ts'"),
    "blank in a name": ("a.csv", b"ts, a\n1,2\n", {}, None, "did you mean ' a'?; its columns are ts, ' a'"),
    "blank line first": ("a.csv", b"\n\nat,a\n1,2\n", {}, None, "there is no column 'ts'"),
    "header only, other columns": ("a.csv", b"at,a\n", {}, None, "there is no column 'ts'"),
    "text for int": ("a.csv", b"ts,a\n1,1\n2,x\n", INT, 1, "column 'a': invalid value 'x' does not fit the type int64 of the column"),
    "text behind ints": ("a.csv", b"ts,a\n" + b"1,1\n" * 300_000 + b"2,x\n", {}, 300_000, "(a.csv, line 300002)"),
    "float for int": ("a.csv", b"ts,a\n1,1.5\n", INT, 0, "column 'a': invalid value '1.5'"),
    "int beyond 64 bits": ("a.csv", f"ts,a\n1,{BIG}\n".encode(), INT, 0, f"column 'a': invalid value '{BIG}'"),
    "untyped int beyond 64 bits": ("a.csv", f"ts,a\n1,1\n2,{BIG}\n".encode(), {}, 1, "is beyond 64 bits, and a float would round it"),
    "int that a float would round": ("a.csv", f"ts,a\n1,1.5\n2,{2**53 + 1}\n".encode(), {}, 1, "a float would round it; say `columns: {a: str}`"),
    "time that a float would round": ("a.csv", f"ts,a\n1.0,1\n{2**53 + 1},2\n".encode(), {}, 1, "a float would round it; say `columns: {ts: int}`"),
    "time in declared floats": ("a.csv", f"ts,a\n{2**53 + 1},1\n".encode(), {"columns": {"ts": "float"}}, 0, "a float would round it; say `columns: {ts: int}`"),
    "5,000 digits": ("a.csv", b"ts,a\n1," + b"9" * 5000 + b"\n", {}, 0, "is beyond what a float holds"),
    "float beyond floats": ("a.csv", b"ts,a\n1,1e999\n", {"columns": {"a": "float"}}, 0, "is beyond what a float holds"),
    "text for bool": ("a.csv", b"ts,a\n1,maybe\n", {"columns": {"a": "bool"}}, 0, "column 'a': invalid value 'maybe'"),
    "text for datetime": ("a.csv", b"ts,a\n1,2020-01-02\n2,soon\n", {"columns": {"a": "datetime"}}, 1, "column 'a': 'soon' is not an ISO-8601 time (a.csv, line 3)"),
    "null time": ("a.csv", b"ts,a\n1,1\n,2\n", {}, 1, "the timestamp is missing or null (a.csv, line 3, column 'ts')"),
    "NaN time": ("a.csv", b"ts,a\n1.0,1\nnan,2\n", {}, 1, "timestamp nan"),
    "time beyond 64 bits": ("a.csv", f"ts,a\n{BIG},1\n".encode(), {}, 0, "beyond 64 bits"),
    "text for time": ("a.csv", b"ts,a\n2020-01-02,1\nsoon,1\n", {}, 1, "'soon' is not an ISO-8601 time (a.csv, line 3, column 'ts')"),
    "no such day": ("a.csv", b"ts,a\n2020-02-30,1\n", {}, 0, "'2020-02-30' is not an ISO-8601 time"),
    "year out of range": ("a.csv", b"ts,a\n3020-02-20,1\n", {"columns": {"ts": "str"}}, 0, "between the years 1678 and 2261"),
    "time of another form": ("a.csv", b"ts,a\n31.12.2020,1\n12/31/2020,2\n", {"ts": {"column": "ts", "format": "%d.%m.%Y"}}, 1, "'12/31/2020' is no time of the form '%d.%m.%Y' (a.csv, line 3, column 'ts')"),
    "year that fits no 64 bits": ("a.csv", b"ts,a\n31.12.9999,1\n", {"ts": {"column": "ts", "format": "%d.%m.%Y"}}, 0, "does not fit into 64 bits"),
    "open quote": ("a.csv", b'ts,a\n1,x\n2,"y\n3,z\n', STR, 0, "a quotation mark is never closed"),
    "open quote in a long file": ("a.csv", b'ts,a\n1,"x\n' + b"2,y\n" * 500_000, STR, None, "a quotation mark is never closed"),
    "open quote in 30 MB": ("a.csv", b'ts,a\n1,"x\n' + b"2,y\n" * 7_000_000, STR, None, "quotation mark"),
    "a line of 3 MB": ("a.csv", b"ts,a\n1," + b"x" * 3_000_000 + b"\n", STR, 0, "a line of more than"),
    "a header of 3 MB": ("a.csv", b"ts,a," + b"x," * 1_500_000 + b"\n", STR, 0, "a line of more than"),
    "quoted line breaks before": ("a.csv", b'ts,a\n1,"x\n\ny"\n\n2,z,z\n', STR, 1, "(a.csv, line 6)"),
    "no header": ("a.csv", b"1,1\n2,x\n", {**INT, "header": ["ts", "a"]}, 1, "(a.csv, line 2)"),
}  # fmt: skip

JSONL = {
    "latin-1": ("a.jsonl", '{"ts": 1, "a": "é"}\n'.encode("latin-1"), {}, 0, "is not utf-8: byte 0xe9 at byte 16"),
    "utf-16 as utf-8": ("a.jsonl", LINES.decode().encode("utf-16"), {}, 0, "NUL byte"),
    "utf-8 as utf-16": ("a.jsonl", LINES, {"encoding": "utf-16"}, 0, "encoding: utf-8"),
    "half a pair of an escape": ("a.jsonl", b'{"ts": 1, "a": "\\udc80"}\n', {"encoding": "unicode_escape"}, 0, "half of a surrogate pair"),
    "gz that is none": ("a.jsonl.gz", LINES, {}, 0, "its name says gzip"),
    "gz without its name": ("a.jsonl", gzip.compress(LINES), {}, 0, "it is a gzip file"),
    "zip": ("a.jsonl", zipped(LINES), {}, 0, "it is a zip file"),
    "not JSON": ("a.jsonl", LINES + b'{"ts": 3,\n', {}, 2, "the line is not JSON: "),
    "no object": ("a.jsonl", LINES + b"[1]\n", {}, 2, "the line is not a JSON object (a.jsonl, line 3)"),
    "two objects": ("a.jsonl", b'{"ts": 1, "a": 1} {"ts": 2}\n', {}, 0, "Extra data"),
    "deep": ("a.jsonl", b'{"ts": 1, "a": ' + b"[" * 99_999 + b"\n", {}, 0, "nested too deeply"),
    "deep enough to be parsed": ("a.jsonl", b'{"ts": 1, "a": ' + b"[" * 150 + b"]" * 150 + b"}\n", {}, 0, "more than 100 levels"),
    "5,000 digits": ("a.jsonl", b'{"ts": 1, "a": ' + b"9" * 5000 + b"}\n", {}, 0, "holds a number of more than 4,300 digits"),
    "NaN": ("a.jsonl", b'{"ts": 1, "a": NaN}\n', {}, 0, "holds NaN, which is not JSON"),
    "Infinity": ("a.jsonl", b'{"ts": 1, "a": [-Infinity]}\n', {}, 0, "holds -Infinity, which is not JSON"),
    "float beyond floats": ("a.jsonl", b'{"ts": 1, "a": 1e999}\n', {}, 0, "a number that no float holds: 1e999"),
    "raw NUL": ("a.jsonl", b'{"ts": 1, "a": "\0"}\n', {}, 0, "NUL byte"),
    "lone surrogate": ("a.jsonl", b'{"ts": 1, "a": "\\ud800"}\n', {}, 0, "half of a surrogate pair"),
    "field twice": ("a.jsonl", b'{"ts": 1, "ts": 2}\n', {}, 0, "the line has the field 'ts' twice"),
    "null time": ("a.jsonl", b'{"ts": 1, "a": 1}\n\n{"ts": null, "a": 1}\n', {}, 1, "(a.jsonl, line 3, column 'ts')"),
    "time beyond 64 bits": ("a.jsonl", f'{{"ts": {BIG}, "a": 1}}\n'.encode(), {}, 0, f"{BIG} is not a timestamp"),
    "bool time": ("a.jsonl", b'{"ts": true, "a": 1}\n', {}, 0, "true and false are not timestamps"),
    "number for a form": ("a.jsonl", b'{"ts": 20200102, "a": 1}\n', {"ts": {"column": "ts", "format": "%Y%m%d"}}, 0, "is a number, and `format:` reads text"),
    "a line of 20 MB": ("a.jsonl", b'{"ts": 1, "a": "' + b"x" * 20_000_000 + b'"}\n', {}, 0, "the line is longer than"),
}  # fmt: skip

YEARS = pa.array([0, 10**13])
FINER = "beyond the years 1 to 9999"
NOWHERE = pa.array([5, 6], pa.timestamp("us", "Mars/Base"))
NO_TEXT = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xff\xfe")]
)
PARQUETS = {
    "late year": ("a.parquet", table(a=YEARS.cast(pa.timestamp("s"))), {}, 1, FINER),
    "late year in a list": ("a.parquet", table(a=pa.array([[], [10**13]], pa.list_(pa.timestamp("s")))), {}, 1, FINER),
    "late day": ("a.parquet", table(a=pa.array([0, 10**8], pa.int32()).cast(pa.date32())), {}, 1, FINER),
    "long duration": ("a.parquet", table(a=pa.array([0, 2**62]).cast(pa.duration("s"))), {}, 1, FINER),
    "late year as ts": ("a.parquet", table(ts=YEARS.cast(pa.timestamp("s")), a=[1, 2]), {}, 1, "does not fit into 64 bits"),
    "duration as ts": ("a.parquet", table(ts=pa.array([2**62, 2**62]).cast(pa.duration("s")), a=[1, 2]), {}, 0, "is not a timestamp"),
    "no text": ("a.parquet", table(a=NO_TEXT), {}, 1, "the value is text that is not UTF-8"),
    "no text as ts": ("a.parquet", table(ts=NO_TEXT[1:], a=[1]), {}, 0, "a value that Python does not hold is not a timestamp"),
    "unknown zone": ("a.parquet", table(a=NOWHERE), {}, 0, "whose time zone is not known"),
    "unknown zone in a list": ("a.parquet", table(a=pa.array([[5], [6]], pa.list_(NOWHERE.type))), {}, 0, "or in an unknown zone"),
    "text": ("a.parquet", b"no parquet at all", {}, 0, "cannot be read as Parquet"),
    "empty": ("a.parquet", b"", {}, 0, "cannot be read as Parquet"),
    "cut": ("a.parquet", PARQUET[: len(PARQUET) // 2], {}, 0, "cannot be read as Parquet"),
    "damaged page": ("a.parquet", PARQUET[:4] + b"\xff" * 30 + PARQUET[34:], {}, 0, "cannot be read as Parquet"),
    "damaged footer": ("a.parquet", PARQUET[:-60] + b"\xff" * 40 + PARQUET[-20:], {}, 0, "cannot be read as Parquet"),
    "encrypted columns": ("a.parquet", with_encrypted_columns(), {}, 0, "cannot be read as Parquet: Cannot decrypt"),
    "wrong checksum": ("a.parquet", with_wrong_checksum(), {}, 0, "CRC checksum verification failed"),
    "other columns": ("a.parquet", table(b=[1, 2]), {}, None, "there is no column 'a'"),
    "decimal time": ("a.parquet", table(ts=[decimal.Decimal(1)], a=[1]), {}, 0, "of type decimal"),
    "nested time": ("a.parquet", table(ts=[{"x": 1}], a=[1]), {}, 0, "of type struct"),
    "time of day": ("a.parquet", table(ts=[dt.time(5)], a=[1]), {}, 0, "of type time64"),
    "null time": ("a.parquet", table(ts=[1, None], a=[1, 2]), {}, 1, "the timestamp is missing or null (a.parquet, row 2, column 'ts')"),
    "time beyond 64 bits": ("a.parquet", table(ts=pa.array([1, 2**63], pa.uint64()), a=[1, 2]), {}, 1, "(a.parquet, row 2"),
}  # fmt: skip

CASES = [
    pytest.param(form, *case, id=f"{form}: {name}")
    for form, cases in (("csv", CSV), ("jsonl", JSONL), ("parquet", PARQUETS))
    for name, case in cases.items()
]


def source(form, name, options):
    return stream({form: {"path": name, **options}}, payload="a")


@pytest.mark.parametrize(("form", "name", "data", "options", "row", "said"), CASES)
def test_wrong_input_is_an_error_with_its_place(tmp_path, *, form, name, data, options, row, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidError) as caught:
        events(source(form, name, options), base_dir=tmp_path)
    error = caught.value
    assert said in str(error)
    assert error.exit_code == 3
    assert name in str(error)
    if row is not None:
        assert (type(error), error.row, error.file) == (MalformedRowError, row, name)


@pytest.mark.parametrize(
    ("ts", "said"), [(NOWHERE, "whose time zone is not known"), (YEARS.cast(pa.timestamp("s")), FINER)]
)
def test_a_time_that_programs_cannot_see_is_refused_in_the_payload_alone(tmp_path, ts, said):
    (tmp_path / "a.parquet").write_bytes(table(ts=ts, a=[1, 2]))
    one = stream({"parquet": {"path": "a.parquet"}}, payload="a")
    assert len(events(one, base_dir=tmp_path, unit="s")) == 2
    with pytest.raises(MalformedRowError, match=said):
        events(stream({"parquet": {"path": "a.parquet"}}, payload=["ts", "a"]), base_dir=tmp_path, unit="s")


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
@pytest.mark.parametrize(("form", "place"), [("csv", "line 5"), ("jsonl", "line 4"), ("parquet", "row 4")])
def test_rows_of_a_second_file_are_counted_on_and_placed_in_their_own(tmp_path, form, place, batch_rows):
    for number in (0, 1):
        times = [number, number, number, None if number else 0]
        text = {
            "csv": "ts,a\n" + "".join(f"{'' if ts is None else ts},1\n" for ts in times),
            "jsonl": "".join(json.dumps({"ts": ts, "a": 1}) + "\n" for ts in times),
        }
        data = text[form].encode() if form in text else table(ts=times, a=[1] * 4)
        (tmp_path / f"{number}.{form}").write_bytes(data)
    with pytest.raises(MalformedRowError, match=rf"row 7: .* \(1\.{form}, {place}, column 'ts'\)"):
        events(source(form, f"*.{form}", {}), base_dir=tmp_path, batch_rows=batch_rows)


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("bad", [0, 1, 40, 99])
def test_a_wrong_cell_is_named_at_its_line_and_column(tmp_path, monkeypatch, *, block, gz, header, bad):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", block)
    rows = [[str(i), "x", f'"{i}\n\n"' if i % 7 == 3 else "y", str(i)] for i in range(100)]
    rows[bad][3] = "wrong"
    text = "ts,b,c,d\n" * header
    lines = []
    for i, row in enumerate(rows):
        text += "\n" * (i % 5 == 2)
        lines.append(text.count("\n") + 1)
        text += ",".join(row) + "\n"
    pack = gzip.compress if gz else bytes
    (tmp_path / f"a.csv{'.gz' * gz}").write_bytes(pack(text.encode()))
    names = {} if header else {"header": ["ts", "b", "c", "d"]}
    options = {"path": f"a.csv{'.gz' * gz}", "columns": {"d": "int"}, **names}
    with pytest.raises(MalformedRowError) as caught:
        events(stream({"csv": options}, payload=["c", "d"]), base_dir=tmp_path)
    assert (caught.value.row, caught.value.line) == (bad, lines[bad])
    assert caught.value.problem.startswith("column 'd': invalid value 'wrong'")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_pipe_among_the_inputs_is_named_and_not_waited_for(tmp_path, form):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidError, match=r"pipe: it is a pipe, .*; copy what it gives into a file"):
        events(stream({form: {"path": "pipe"}}), base_dir=tmp_path)


@pytest.mark.parametrize("target", ["nothing", "link"])
def test_a_link_to_nothing_among_the_inputs_is_named(tmp_path, target):
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(InvalidError, match=r"link: it is a link to a file that is not there"):
        events(stream({"csv": {"path": "link"}}), base_dir=tmp_path)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("path", ["folder", "*", "fo*"])
def test_a_directory_among_the_inputs_is_named(tmp_path, form, path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidError, match=r"folder: it is a directory; name its files, such as .*folder/\*"):
        events(stream({form: {"path": path}}), base_dir=tmp_path)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_file_that_may_not_be_read_is_named(tmp_path, form, monkeypatch):
    (tmp_path / "a").write_bytes(b"")

    def refused(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(InvalidError, match=r"/a that can be read \(Permission denied\)"):
        events(stream({form: {"path": "a"}}), base_dir=tmp_path)


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("date.csv", "data.csv"), ("dir/date.csv", "dir/data.csv"), ("dri/data.csv", "dir/data.csv")],
)
def test_a_wrong_path_comes_with_the_nearest_name(tmp_path, path, nearest):
    (tmp_path / "dir").mkdir()
    for folder in (tmp_path, tmp_path / "dir"):
        (folder / "data.csv").write_bytes(ROWS)
    with pytest.raises(InvalidError) as caught:
        events(stream({"csv": {"path": path}}), base_dir=tmp_path)
    assert f"no file at {tmp_path / path}; did you mean {str(tmp_path / nearest)!r}?" in str(caught.value)


def test_times_before_1970_and_without_a_zone_are_what_they_say(tmp_path):
    (tmp_path / "a.csv").write_text("ts,a\n1969-12-31T23:59:59,1\n1970-01-01,2\n")
    found = events(stream({"csv": {"path": "a.csv"}}, payload="a"), base_dir=tmp_path, unit="s")
    assert [(ts, a) for _, ts, a in found] == [(-1, 1), (0, 2)]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_empty_file_is_an_empty_stream(tmp_path, form):
    (tmp_path / "a").write_bytes(b"")
    assert events(stream({form: {"path": "a"}}), base_dir=tmp_path) == []


def test_stray_quotation_marks_in_a_long_file_are_text(tmp_path):
    rows = 1_200_000
    (tmp_path / "a.csv").write_bytes(b'ts,a\n1,5" pipe\n' + b"2,y\n" * rows)
    config = stream({"csv": {"path": "a.csv"}}, payload="a")
    found = [
        len(batch) for reading in readings(opened(config, base_dir=tmp_path)) for batch in reading.batches
    ]
    assert sum(found) == rows + 1


NOTHING = """\
    def init(self):
        return 0

    def update(self, state, event, emit):
        return state
"""


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_row_of_a_csv_file_with_too_few_fields_that_is_no_text_is_named(tmp_path):
    (tmp_path / "program.py").write_text("import dgs\n\n\nclass Nothing(dgs.Program):\n" + NOTHING)
    (tmp_path / "a.csv").write_bytes(b"ts,x,y\n1,2,3\n2,\xed\xa0\n")
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nname: p\nprogram: {ref: 'program.py:Nothing'}\nruntime: {kind: local}\n"
        "streams: [{id: a, tags: {kind: value}, source: {csv: {path: a.csv}}, payload: [x, y]}]\n"
    )
    with pytest.raises(MalformedRowError, match=r"not UTF-8|utf-8"):
        dgs.run(tmp_path / "plan.yaml")
