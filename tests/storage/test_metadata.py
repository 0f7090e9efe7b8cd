"""model.json: what is written is read again, and every fault has a line and a column."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.storage.metadata import (
    LAYOUTS,
    STORED_DTYPES,
    ImageInput,
    Metadata,
    read_metadata,
    write_metadata,
)

NUMBERS = st.floats(-1e6, 1e6)
CHANNELS = st.one_of(st.tuples(NUMBERS), st.tuples(*[NUMBERS] * 3), st.tuples(*[NUMBERS] * 4))
IMAGES = st.builds(
    ImageInput, layout=st.sampled_from(LAYOUTS), scale=CHANNELS, mean=CHANNELS, invert=st.booleans()
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.builds(
        Metadata,
        labels=st.lists(NAMES).map(tuple),
        inputs=st.dictionaries(NAMES, IMAGES, max_size=3),
        machine_types=st.dictionaries(NAMES, st.sampled_from(STORED_DTYPES)),
        source_names=st.dictionaries(NAMES, NAMES),
        source_operations=st.dictionaries(NAMES, NAMES),
    )
)
def test_what_is_written_is_read_again_unchanged(metadata: Metadata) -> None:
    data = write_metadata(metadata)
    assert read_metadata(data, "model.json") == metadata
    assert write_metadata(read_metadata(data, "model.json")) == data


def test_dtypes_are_those_of_the_graph() -> None:
    assert sorted(STORED_DTYPES) == sorted(DTYPES)


def test_an_empty_object_has_the_defaults() -> None:
    assert read_metadata(b"\xef\xbb\xbf {}", "model.json") == Metadata()


def test_every_key_is_read() -> None:
    text = """{"labels": ["a", "b"],
        "inputs": {"x": {"layout": "NHWC", "scale": [1, 2, 3], "mean": 4, "invert": true}},
        "machine_types": {"main.G.x": "uint8"}, "source_names": {"main.G.x": "x:0"},
        "source_operations": {"main.G.x": "Conv n"}}"""
    assert read_metadata(text.encode(), "model.json") == Metadata(
        labels=("a", "b"),
        inputs={"x": ImageInput("NHWC", (1.0, 2.0, 3.0), (4.0,), True)},
        machine_types={"main.G.x": "uint8"},
        source_names={"main.G.x": "x:0"},
        source_operations={"main.G.x": "Conv n"},
    )


FAULTS = {
    # name: (text, what the caret is under, part of the message, part of the hint)
    "no JSON": ("{\n labels: []}", "l", "expected JSON", "double quotes"),
    "nothing": ("", "", "expected JSON", ""),
    "no object": ("[]", "[]", "the file must be an object", ""),
    "unknown key": ('{\n "label": [1]}', "[1]", "unknown key 'label'", "did you mean 'labels'"),
    "key twice": ('{"labels": [], "labels": []}', '"labels"', "is twice", ""),
    "labels no list": ('{"labels": "a"}', '"a"', "'labels' must be a list", ""),
    "label no text": ('{"labels": ["a", 7]}', "7", "'labels.1' must be a text", ""),
    "no layout": ('{"inputs": {"x": {}}}', "{}", "'inputs.x' must be an object with", ""),
    "layout misspelt": (
        '{"inputs": {"x": {"layout": "NCWH"}}}',
        '"NCWH"',
        "'inputs.x.layout' must be an image layout",
        "did you mean 'NCHW'",
    ),
    "unknown image key": (
        '{"inputs": {"x": {"layout": "HW", "means": 1}}}',
        "1",
        "unknown key 'means'",
        "did you mean 'mean'",
    ),
    "two channels": (
        '{"inputs": {"x": {"layout": "HW", "mean": [1, 2]}}}',
        "[1, 2]",
        "'inputs.x.mean' must be one number",
        "",
    ),
    "scale not a number": (
        '{"inputs": {"x": {"layout": "HW", "scale": [1, 2, true]}}}',
        "true",
        "'inputs.x.scale.2' must be a number",
        "",
    ),
    "scale infinite": (
        '{"inputs": {"x": {"layout": "HW", "scale": 1e999}}}',
        "1e999",
        "must be a number of usual size",
        "",
    ),
    "scale NaN": ('{"inputs": {"x": {"layout": "HW", "scale": NaN}}}', "NaN", "NaN is no", ""),
    "scale beyond floats": (
        f'{{"inputs": {{"x": {{"layout": "HW", "scale": 1{"0" * 400}}}}}}}',
        f"1{'0' * 400}",
        "must be a number of usual size",
        "",
    ),
    "invert no bool": (
        '{"inputs": {"x": {"layout": "HW", "invert": 1}}}',
        "1",
        "'inputs.x.invert' must be true or false",
        "",
    ),
    "dtype": (
        '{"machine_types": {"a": "bool", "b": "float31"}}',
        '"float31"',
        "'machine_types.b' must be a dtype",
        "did you mean 'float3",
    ),
    "source name": ('{"source_names": {"a": null}}', "null", "must be a text", ""),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_are_pointed_at(case: str) -> None:
    text, position, message, hint = FAULTS[case]
    with pytest.raises(NnefError) as caught:
        read_metadata(text.encode(), "model.json")
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.hint and hint in diagnostic.hint
    assert diagnostic.span and diagnostic.span.text == position
    assert diagnostic.path == "model.json"


def test_all_faults_are_reported_together() -> None:
    text = b"""{"labels": ["a", 1, "b", 2],
 "inputs": {"x": {"layout": "NCWH"}, "y": 1},
 "machine_types": {"t": "float31", "u": "float8"}}"""
    with pytest.raises(NnefError) as caught:
        read_metadata(text, "model.json")
    assert [found.line for found in caught.value.diagnostics] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("text", [
    '{"labels": ["\\ud800"]}',
    '{"source_names": {"\\udfff": "x"}}',
    '{"source_names": {"x": "a\\ud83d"}}',
    '{"\\ud800": 1}',
])  # fmt: skip
def test_halves_of_surrogate_pairs_are_refused(text: str) -> None:
    with pytest.raises(NnefError, match="must be a text of Unicode characters") as caught:
        read_metadata(text.encode(), "model.json")
    assert str(caught.value).encode()
    assert read_metadata(b'{"labels": ["\\ud83d\\ude42"]}', "model.json").labels == ("🙂",)


def test_a_doubled_key_among_many_is_found_in_one_pass() -> None:
    keys = ", ".join(f'"key{number}": "x"' for number in range(150_000))
    with pytest.raises(NnefError, match="'key149999' is twice"):
        read_metadata(f'{{"source_names": {{{keys}, "key149999": "x"}}}}'.encode(), "model.json")


def test_the_line_of_a_fault_is_counted() -> None:
    with pytest.raises(NnefError) as caught:
        read_metadata(b'{\n  "labels": [\n    "a",\n    2\n  ]\n}', "model.json")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.line, diagnostic.column, diagnostic.end_column) == (4, 5, 6)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"labels": ' + "1" * 10_000 + "}"])
def test_texts_that_exhaust_the_parser_are_refused(text: str) -> None:
    with pytest.raises(NnefError):
        read_metadata(text.encode(), "model.json")


def test_other_encodings_are_pointed_at() -> None:
    with pytest.raises(NnefError, match="UTF-8, got the byte 0xe9") as caught:
        read_metadata(b'{"labels":\n ["\xe9t\xe9"]}', "model.json")
    assert (caught.value.diagnostics[0].line, caught.value.diagnostics[0].column) == (2, 4)


@pytest.mark.slow
@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(str))
def test_no_text_crashes_the_reader(text: str) -> None:
    with contextlib.suppress(NnefError):
        read_metadata(text.encode("utf-8", "replace"), "model.json")
