"""Sealed files: they read back unchanged, and other files are refused."""

import hashlib
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import CorruptFileError, IncompatibleCheckpointError
from dgs.workers.storage.sealed_file import EVENTS, RECORD, STATE, VERSION, digest_of, pack, unpack

NAME = "state-7.dgs"
PAYLOAD = bytes(range(256)) * 15
WHOLE = pack(STATE, NAME, {"epoch": 7, "keys": [1, 2, 3]}, PAYLOAD)


def sealed(body):
    """Return bytes with a correct digest, such as an attacker or another version could write."""
    return body + hashlib.blake2b(body, digest_size=32).digest() + b"1SGD"


@given(
    st.binary(max_size=100),
    st.dictionaries(st.text(), st.integers()),
    st.sampled_from([STATE, RECORD, EVENTS]),
)
def test_frame_comes_back_as_it_was_packed(payload, header, kind):
    assert unpack(kind, "x.dgs", pack(kind, "x.dgs", header, payload)) == (header, payload)


def test_frame_is_the_layout_that_is_documented():
    assert 3900 < len(WHOLE) < 4096
    magic, version, kind, header, payload = struct.unpack_from("<4sHHIQ", WHOLE)
    assert (magic, version, kind, payload) == (b"DGS1", VERSION, STATE, len(PAYLOAD))
    assert WHOLE[20 + header : 20 + header + payload] == PAYLOAD
    assert sealed(WHOLE[: 20 + header + payload]) == WHOLE
    assert digest_of(WHOLE) == hashlib.blake2b(WHOLE[:-36], digest_size=32).hexdigest()


def test_every_truncation_is_detected():
    for length in range(len(WHOLE)):
        with pytest.raises(CorruptFileError, match=NAME):
            unpack(STATE, NAME, WHOLE[:length])


def test_every_single_bit_flip_is_detected():
    data = bytearray(WHOLE)
    for place in range(len(data)):
        for bit in range(8):
            data[place] ^= 1 << bit
            with pytest.raises(CorruptFileError):
                unpack(STATE, NAME, bytes(data))
            data[place] ^= 1 << bit
    assert unpack(STATE, NAME, bytes(data))[1] == PAYLOAD


def test_bytes_after_the_end_are_detected():
    for more in (b"\0", WHOLE, WHOLE[-36:], b"1SGD"):
        with pytest.raises(CorruptFileError):
            unpack(STATE, NAME, WHOLE + more)


def test_a_renamed_file_is_detected_and_both_names_are_reported():
    with pytest.raises(
        CorruptFileError, match=r"there/state-8.dgs is damaged: it was written as state-7.dgs"
    ):
        unpack(STATE, "there/state-8.dgs", WHOLE)


def test_a_file_of_another_kind_is_detected():
    with pytest.raises(CorruptFileError, match="of kind 1, not of kind 2"):
        unpack(RECORD, NAME, WHOLE)


def test_another_version_is_distinguished_from_damage_with_both_numbers():
    with pytest.raises(IncompatibleCheckpointError) as caught:
        unpack(STATE, NAME, sealed(WHOLE[:4] + struct.pack("<H", VERSION + 1) + WHOLE[6:-36]))
    assert (caught.value.found, caught.value.expected) == (VERSION + 1, VERSION)
    assert str(VERSION + 1) in str(caught.value)


@pytest.mark.parametrize(("header", "payload"), [(2**32 - 1, 0), (0, 2**64 - 1), (0, 0), (1, len(PAYLOAD))])
def test_lengths_that_do_not_fit_the_size_are_refused_before_anything_is_decoded(header, payload):
    with pytest.raises(CorruptFileError, match="lengths"):
        unpack(
            STATE,
            NAME,
            sealed(struct.pack("<4sHHIQ", b"DGS1", VERSION, STATE, header, payload) + WHOLE[20:-36]),
        )


@pytest.mark.parametrize("header", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x01"])
def test_a_header_that_is_none_is_refused(header):
    body = struct.pack("<4sHHIQ", b"DGS1", VERSION, STATE, len(header), 0) + header
    with pytest.raises(CorruptFileError, match="header cannot be read"):
        unpack(STATE, NAME, sealed(body))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data):
    with pytest.raises(CorruptFileError):
        unpack(STATE, NAME, data)


@given(st.binary(max_size=200))
def test_arbitrary_sealed_bytes_are_refused(body):
    with pytest.raises((CorruptFileError, IncompatibleCheckpointError)):
        unpack(STATE, NAME, sealed(b"DGS1" + body))


def test_large_payload_comes_back():
    payload = os.urandom(1 << 20)
    assert unpack(EVENTS, "e", pack(EVENTS, "e", None, memoryview(payload)))[1] == payload
