"""Every number of plan.yaml: a value of another type or out of range is an error with its line."""

from typing import Annotated, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from dgs.errors import PlanFileError
from dgs.job.document import dump, parse
from dgs.job.schema import PlanFile
from dgs.job.settings import resolve

SOURCES = {
    "csv": {"path": "a"}, "jsonl": {"path": "a"}, "parquet": {"path": "a"}, "generator": {"ref": "a:b"},
    "socket": {"port": 1}, "log": {"path": "a"}, "spark": {"format": "orc", "path": "a"}, "custom": {"ref": "a:b"},
}  # fmt: skip


def plan(source="csv"):
    """Return a plan file that has every section with numbers."""
    stream = {
        "id": "s", "tags": {"kind": "a"}, "source": {source: dict(SOURCES[source])},
        "on_disorder": {"sort_within": "1s"}, "heartbeat": {"every": "1s", "max_delay": "1s"},
    }  # fmt: skip
    return {
        "version": 1, "name": "n", "time": {"unit": "ms"}, "program": {"ref": "a:b"}, "streams": [stream],
        "nodes": [{"id": "m"}], "runtime": {"restarts": {}}, "optimizer": {}, "checkpoint": {},
    }  # fmt: skip


def alternatives(annotation):
    if get_origin(annotation) is Annotated:
        yield from alternatives(get_args(annotation)[0])
    elif (
        type(None) in get_args(annotation)
        or get_origin(annotation) is Union
        or "|" in str(type(annotation))
        or isinstance(annotation, type(int | str))
    ):
        for one in get_args(annotation):
            yield from alternatives(one)
    else:
        yield annotation


def numbers(model=PlanFile, place=()):
    """Yield the places of all numbers in a section."""
    for name, field in model.model_fields.items():
        found = list(alternatives(field.annotation))
        if {int, float} & set(found) and str not in found:
            yield (*place, name)
        for one in found:
            inner = get_args(one)[0] if get_origin(one) is list else one
            step = (name, 0) if get_origin(one) is list else (name,)
            for part in alternatives(inner):
                if isinstance(part, type) and issubclass(part, BaseModel):
                    yield from numbers(part, (*place, *step))


NUMBERS = list(dict.fromkeys(numbers()))
WRONG = [
    True,
    -1,
    float("nan"),
    float("inf"),
    "-1s",
    "nan",
    "9" * 60 + "d",
    "9" * 40 + "GiB",
    "1e999/s",
    10**40,
    "x",
    [],
]


def with_value(place, value):
    source = next((part for part in place if part in SOURCES), "csv")
    data = plan(source)
    here = data
    for part in place[:-1]:
        if isinstance(here, dict) and part not in here:
            pytest.skip("a section that excludes others")
        here = here[part]
    here[place[-1]] = value
    return data


def test_all_numbers_are_found():
    assert {
        ("streams", 0, "split"), ("streams", 0, "rate"), ("streams", 0, "on_disorder", "sort_within"),
        ("streams", 0, "heartbeat", "every"), ("streams", 0, "source", "generator", "pace"),
        ("streams", 0, "source", "socket", "port"), ("streams", 0, "source", "spark", "max_delay"),
        ("streams", 0, "source", "spark", "trigger"), ("nodes", 0, "cpus"), ("runtime", "hosts"),
        ("runtime", "buffer_bytes"), ("runtime", "restarts", "backoff"), ("checkpoint", "every"), ("checkpoint", "keep"),
        ("optimizer", "max_fan_out"),
    } <= set(NUMBERS)  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=lambda value: str(value)[:12])
@pytest.mark.parametrize("place", NUMBERS, ids=lambda place: ".".join(map(str, place)))
def test_wrong_number_is_an_error_with_its_line(place, value):
    if place[-1] == "seed" and type(value) is int:
        pytest.skip("any whole number is a seed")
    text = dump(with_value(place, value))
    lines = text.splitlines()
    line = next(i for i, one in enumerate(lines, 1) if one.strip(" -").startswith(f"{place[-1]}:"))
    with pytest.raises(PlanFileError) as caught:
        resolve(parse(text, "plan.yaml", {}), {}, {})
    assert caught.value.where.startswith("plan.yaml:")
    if lines.count(lines[line - 1]) == 1 and sum(f"{place[-1]}:" in one for one in lines) == 1:
        assert caught.value.where.split(":")[1] == str(line)


@pytest.mark.parametrize(
    "place", [p for p in NUMBERS if p[-1] in ("every", "sort_within", "max_delay", "linger")]
)
def test_greatest_duration_is_taken(place):
    resolve(parse(dump(with_value(place, "53375d")), "plan.yaml", {}), {}, {})


LOOSE = [
    ("version", "true"), ("version", "1.0"), ("version", '"1"'),
    ("report", "yes"), ("report", "1"), ("report", "0"), ("report", '"on"'),
    ("streams.0.split", '"1_000"'), ("streams.0.split", '" 4"'), ("streams.0.split", "\u0663"), ("streams.0.split", "1.5"),
    ("streams.0.source.jsonl.heartbeats", "no"), ("streams.0.source.jsonl.heartbeats", "1"), ("sinks.0.stdout", "1"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), LOOSE)
def test_texts_like_numbers_or_truth_values_are_errors_with_their_line(path, value):
    data = {**plan("jsonl"), "sinks": [{"stdout": True}], "report": False}
    here, *rest = data, *path.split(".")
    for part in rest[:-1]:
        here = here[int(part) if part.isdigit() else part]
    here[rest[-1]] = "HERE"
    line = next(number for number, one in enumerate(dump(data).splitlines(), 1) if one.endswith(": HERE"))
    text = dump(data).replace("HERE", value)
    with pytest.raises(PlanFileError) as caught:
        resolve(parse(text, "plan.yaml", {}), {}, {})
    assert caught.value.where.startswith(f"plan.yaml:{line}:")


def test_environment_variables_in_quotes_may_be_numbers_and_truths():
    data = {**plan("jsonl"), "report": "${env:REPORT}"}
    data["streams"][0]["split"] = "${env:SPLIT}"
    text = dump(data).replace("${env:SPLIT}", '"${env:SPLIT}"').replace("${env:REPORT}", '"${env:REPORT}"')
    config = resolve(parse(text, "plan.yaml", {"SPLIT": "5", "REPORT": "true"}), {}, {}).config
    assert (config.streams[0].split, config.report) == (5, True)


@pytest.mark.parametrize(("path", "why"), [("", "it is empty"), ("a\0b", "NUL byte")])
def test_path_that_spark_cannot_have_is_refused_with_its_line(path, why):
    of_source = plan("spark")
    of_source["streams"][0]["source"]["spark"]["path"] = path
    of_table = {**plan(), "checkpoint": {"spark": {"path": path}}}
    for document, place in ((of_source, "source.spark.path"), (of_table, "checkpoint.spark.path")):
        with pytest.raises(PlanFileError, match=rf"plan.yaml:\d+:\d+: .*{place}: .*{why}"):
            resolve(parse(dump(document), "plan.yaml", {}), {}, {})
