"""Plan files: YAML 1.2 without surprises, and problems that name their line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import PlanFileError, UsageError
from dgs.job.document import MAX_BYTES, dump, parse, read
from dgs.job.schema import PlanFile, RuntimeConfig
from dgs.job.schema_runtime import SqliteSink
from dgs.job.settings import Given, resolve, set_flag

MINIMAL = """\
version: 1
name: job
program: {ref: "p.py:P"}
streams:
  - id: clicks
    tags: [view]
    source: {memory: clicks}
"""

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=12).filter(lambda t: "${env:" not in t),
    st.sampled_from(
        [
            "no",
            "on",
            "1:30",
            "2020-01-01",
            "0o7",
            "1e3",
            ".5",
            "~",
            "null",
            "true",
            "1_000",
            "- a",
            "a: b",
            "#",
        ]
    ),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abn: -#'7", max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


def problem(text: str, **environ: str) -> str:
    with pytest.raises(PlanFileError) as caught:
        parse(text, "plan.yaml", environ)
    return str(caught.value)


def complaints(text: str, given: dict[str, Given] | None = None, **environ: str) -> list[str]:
    with pytest.raises(PlanFileError) as caught:
        resolve(parse(text, "plan.yaml", {}), given or {}, environ)
    return [f"{where}: {what}" for where, what in caught.value.problems]


@given(DATA)
def test_dump_is_read_back_as_equal(data):
    again = parse(dump(data), "x", {}).data
    assert repr(again) == repr(data)


@pytest.mark.parametrize(
    "text", ["no", "on", "yes", "1:30", "2020-01-01", "2020-01-01T10:00:00Z", "1_000", "0b1", "<<"]
)
def test_plain_words_stay_text(text):
    assert parse(f"a: {text}", "x", {}).data == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("~", None),
        ("", None),
        (".inf", math.inf),
    ],
)
def test_plain_numbers_and_words_have_their_type(text, value):
    got = parse(f"a: {text}", "x", {}).data["a"]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x", "plan.yaml:1:4: anchors and aliases are not allowed"),
        ("b: *x", "plan.yaml:1:4: anchors and aliases are not allowed"),
        ("a: *.csv", "write the value out, and put text that begins with * or & in quotes"),
        ("a: {b: *}", "but found '}': put text that begins with * or & in quotes"),
        ("a: 1\nb: 2\na: 3", "plan.yaml:3:1: duplicate key 'a', first given in line 1"),
        ("a: !!python/object:os.system x", "plan.yaml:1:4: tags such as"),
        ("7: a", "plan.yaml:1:1: keys are text"),
        (
            "a:\n\t- b",
            "plan.yaml:2:1: not valid YAML: found character '\\t' that cannot start any token: indent with blanks",
        ),
        (
            "a: 1\nb: [1\n",
            "plan.yaml:2:4: not valid YAML: expected ',' or ']', but got '<stream end>': close this bracket",
        ),
        (
            "a: 1\nb: 'x\nc: 2\n",
            "plan.yaml:2:4: not valid YAML: found unexpected end of stream: close this quotation mark",
        ),
        (
            "a: 1\n b: 2\n",
            "plan.yaml:2:3: not valid YAML: mapping values are not allowed here: put text with ': '",
        ),
        (
            "a: 1\nb: x\x07",
            "plan.yaml:2:5: not valid YAML: the character '\\x07' may stand there only as an escape",
        ),
        (
            "a: @x",
            "plan.yaml:1:4: not valid YAML: found character '@' that cannot start any token: put text that begins so",
        ),
        ("a: 1\n---\nb: 2", "plan.yaml:2:1: a second document"),
        ("a: " + "[" * 300 + "]" * 300, "nested deeper than 200 levels"),
        ("a: ${env:NOPE}", "plan.yaml:1:4: the environment variable 'NOPE' is not set"),
    ],
)
def test_parse_refuses_with_the_place(text, message):
    assert message in problem(text)


def test_interpolation_takes_the_variable_and_its_type():
    data = parse('a: ${env:N}\nb: "${env:N}"\nc: x-${env:N}\nd: ${HOME}', "x", {"N": "7"}).data
    assert data == {"a": 7, "b": "7", "c": "x-7", "d": "${HOME}"}


def test_read_refuses_large_missing_and_binary_files(tmp_path):
    large, binary = tmp_path / "large.yaml", tmp_path / "binary.yaml"
    large.write_text("a: " + "x" * MAX_BYTES)
    binary.write_bytes(b"a: 1\nb: \xff\n")
    for path, message in [
        (large, "larger than 4 MiB"),
        (binary, ":2: is not UTF-8"),
        (tmp_path / "no", "no such file"),
        (tmp_path, "is a directory, not a plan file"),
    ]:
        with pytest.raises(PlanFileError, match=message):
            read(path)


def test_all_problems_are_reported_at_once_with_their_places():
    text = (
        MINIMAL.replace("memory: clicks", "memry: clicks")
        + "optimiser: {}\nruntime: {kind: locl, linger: 5}\n"
    )
    assert complaints(text) == [
        "plan.yaml:7:14: streams[0].source: unknown key 'memry'; did you mean 'memory'?",
        "plan.yaml:9:17: runtime.kind: expected 'ray', 'local' or 'spark', got 'locl'; did you mean 'local'?",
        "plan.yaml:9:31: runtime.linger: expected a duration with a unit, such as 10ms, 5s or 2h, got 5",
        "plan.yaml:8:1: unknown key 'optimiser'; did you mean 'optimizer'?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1\n", "", "plan.yaml:1:1: missing key 'version'"),
        ("tags: [view]", "tags: 7", "plan.yaml:6:11: streams[0].tags: expected {kind: ...} or a list, got 7"),
        (
            "tags: [view]",
            "tags: {kind: {colum: k}}",
            "plan.yaml:6:19: streams[0].tags.kind: unknown key 'colum'; did you mean 'column'?",
        ),
        ("id: clicks", "id: 7", "plan.yaml:5:9: streams[0].id: expected text, got 7: put it in quotes"),
        ("id: clicks", "id: -a", "plan.yaml:5:9: streams[0].id: '-a' must start with a letter"),
        ("{memory: clicks}", "{}", "plan.yaml:7:13: streams[0].source: exactly one of csv, jsonl"),
        (
            "tags: [view]",
            "tags: [view]\n    split: 0",
            "plan.yaml:7:12: streams[0].split: must be at least 1, got 0",
        ),
        (
            "tags: [view]",
            "tags: [view]\n    rate: 3",
            "plan.yaml:7:11: streams[0].rate: expected a rate such as",
        ),
        (
            "tags: [view]",
            "tags: [view]\n    on_disorder: {sort_within: 3s}",
            "plan.yaml:7:18: streams[0].on_disorder: a duration needs the unit of ts",
        ),
        (
            "version: 1",
            "version: 1\nsinks: [stdot]",
            "plan.yaml:2:9: sinks[0]: expected one of stdout, memory, none",
        ),
    ],
)
def test_problem_suggests_the_right_value(old, new, message):
    found = complaints(MINIMAL.replace(old, new))
    assert any(line.startswith(message) for line in found), found


def test_flags_win_over_environment_over_file():
    text = MINIMAL + "runtime: {kind: ray, hosts: 3}\noptimizer: {seed: 4}\n"
    given = {"runtime.kind": Given("local", "--runtime")}
    environ = {"DGS_RUNTIME": "ray", "DGS_HOSTS": "2", "DGS_OPTIMIZER__SEED": "5", "DGS_OTHER": "x"}
    settings = resolve(parse(text, "plan.yaml", {}), given, environ)
    assert (settings.config.runtime.kind, settings.config.runtime.hosts, settings.config.optimizer.seed) == (
        "local",
        2,
        5,
    )
    assert settings.origin(("runtime", "kind")) == "--runtime"
    assert settings.origin(("runtime", "hosts")) == "environment variable DGS_HOSTS"
    assert settings.origin(("name",)) == "plan.yaml:2:7"
    assert settings.origin(("runtime", "linger")) == "default"


def test_wrong_flag_is_blamed_on_the_flag():
    path, item = set_flag("runtime.linger=5")
    assert complaints(MINIMAL, {path: item}) == [
        "--set runtime.linger: runtime.linger: expected a duration with a unit, such as 10ms, 5s or 2h, got 5"
    ]
    assert complaints(MINIMAL, DGS_HOSTS="many")[0].startswith(
        "environment variable DGS_HOSTS: runtime.hosts: expected"
    )


def test_set_finds_list_elements_by_id_even_with_dots():
    text = MINIMAL.replace("clicks", "web.clicks")
    for name in ("web.clicks", "0"):
        path, item = set_flag(f"streams.{name}.source={{csv: {{path: a.csv}}}}")
        config = resolve(parse(text, "x", {}), {path: item}, {}).config
        assert config.streams[0].source.details.path == "a.csv"


def test_set_lists_the_existing_elements():
    path, item = set_flag("streams.click.rate=3/h")
    with pytest.raises(UsageError, match="there is no 'click' here; did you mean 'clicks'"):
        resolve(parse(MINIMAL, "x", {}), {path: item}, {})


@pytest.mark.parametrize("text", ["runtime.kind", "=3", ""])
def test_set_without_path_and_value_is_refused(text):
    with pytest.raises(UsageError, match="--set PATH=VALUE"):
        set_flag(text)


@given(st.integers(0, 10**15), st.integers(1, 10**12), st.floats(1e-6, 1e9))
def test_resolved_file_reads_back_as_the_same_configuration(linger, size, rate):
    data = parse(MINIMAL + "runtime: {}\n", "x", {}).data
    data["runtime"] = {"linger": f"{linger}ns", "buffer_bytes": f"{size}B"}
    data["streams"][0]["rate"] = f"{rate!r}/s"
    config = PlanFile.model_validate(data)
    assert config.runtime.linger == linger
    again = parse(dump(config.model_dump(exclude_none=True)), "x", {}).data
    assert PlanFile.model_validate(again) == config


def test_units_are_written_as_people_write_them():
    config = RuntimeConfig.model_validate({"buffer_bytes": "256MiB", "linger": "1.5s", "stop_timeout": "0"})
    dumped = config.model_dump()
    assert (dumped["buffer_bytes"], dumped["linger"], dumped["stop_timeout"]) == ("256MiB", "1500ms", "0ns")


@pytest.mark.parametrize("delimiter", ["", ";;", "é", '"', "\n", "\0"])
def test_delimiter_is_one_character_that_cannot_mean_anything_else(delimiter):
    source = {"csv": {"path": "a.csv", "delimiter": delimiter}}
    with pytest.raises(PlanFileError, match=r"source\.csv\.delimiter: .* is no delimiter"):
        resolve(with_source(source), {}, {})


@pytest.mark.parametrize("path", ["x" * 256, "é" * 128, "a/" * 2500, "a\0b"])
def test_path_that_no_file_system_takes_is_refused(path):
    for kind in ("csv", "log"):
        with pytest.raises(PlanFileError, match=r"is longer than a path in a file system can be|a NUL byte"):
            resolve(with_source({kind: {"path": path}}), {}, {})
    resolve(with_source({"csv": {"path": "x" * 255 + "/y"}}), {}, {})


def with_source(source):
    return parse(
        dump(
            {
                "version": 1,
                "name": "job",
                "program": {"ref": "p.py:P"},
                "streams": [{"id": "s", "tags": ["a"], "source": source}],
            }
        ),
        "p",
        {},
    )


@pytest.mark.parametrize("table", ["dgs_marks", "DGS_x", "sqlite_x"])
def test_table_of_a_database_has_no_name_of_our_own_ones(table):
    with pytest.raises(ValueError, match="may not begin with dgs_ or sqlite_"):
        SqliteSink.model_validate({"path": "o.db", "table": table})
