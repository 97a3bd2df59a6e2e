"""Law 6: deletion vectors are sets of row indexes, with one byte form whoever writes them."""

import struct
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tahoe.errors import DeletionVectorError
from tahoe.protocol.log.deletion_vector import (
    decode_bitmap,
    decode_stored,
    encode_bitmap,
    encode_vector_file,
    stored_descriptor,
    vector_location,
)

# Rows of one container, of several, and beyond 32 bits, dense and sparse.
ROWS = st.frozensets(st.integers(0, 200) | st.integers(65_500, 65_600) | st.integers(0, 1 << 40), max_size=60)
RANGES = st.builds(
    lambda start, length: frozenset(range(start, start + length)), st.integers(0, 1 << 34), st.integers(0, 10_000)
)


def coded(rows):
    return decode_bitmap(encode_bitmap(rows))


@given(one=ROWS | RANGES, other=ROWS | RANGES)
def test_coded_vectors_obey_the_algebra_of_sets(one, other):
    left, right = coded(one), coded(other)
    assert set(left | right) == one | other
    assert set(left & right) == one & other
    assert set(left - right) == one - other
    assert len(left) + len(right) == len(left | right) + len(left & right)
    assert (left == right) is (one == other)


@given(rows=st.lists(st.integers(0, 1 << 40), max_size=40), data=st.data())
def test_equal_sets_have_equal_bytes(rows, data):
    shuffled = data.draw(st.permutations(rows + rows[:3]))
    assert encode_bitmap(shuffled) == encode_bitmap(sorted(set(rows)))
    assert encode_bitmap(BitMap64(rows)) == encode_bitmap(rows)


@given(
    rows=st.frozensets(
        st.integers(0, 1 << 18).map(lambda n: 2 * n) | st.integers(0, 1 << 38).map(lambda n: 2 * n), max_size=60
    )
)
def test_the_bytes_are_those_of_the_roaring_specification(rows):
    # Rows that are not side by side make array containers only, which are easily written by hand.
    assert encode_bitmap(rows) == by_hand(rows)


def by_hand(rows):
    buckets = {key: list(values) for key, values in groupby(sorted(rows), lambda row: row >> 32)}
    data = struct.pack("<iq", 1681511377, len(buckets))
    return data + b"".join(
        struct.pack("<I", key) + bucket([row & 0xFFFFFFFF for row in values]) for key, values in buckets.items()
    )


def bucket(values):
    containers = {key: [value & 0xFFFF for value in group] for key, group in groupby(values, lambda value: value >> 16)}
    header = struct.pack("<II", 12346, len(containers))
    header += b"".join(struct.pack("<HH", key, len(found) - 1) for key, found in containers.items())
    start = len(header) + 4 * len(containers)
    offsets = b""
    body = b""
    for found in containers.values():
        offsets += struct.pack("<I", start + len(body))
        body += struct.pack(f"<{len(found)}H", *found)
    return header + offsets + body


@given(
    sets=st.lists(ROWS | RANGES, max_size=5),
    prefix=st.sampled_from(["", "ab"]),
    uuid=st.binary(min_size=16, max_size=16),
)
def test_every_vector_of_a_file_is_read_by_its_descriptor(sets, prefix, uuid):
    bitmaps = [encode_bitmap(rows) for rows in sets]
    data, offsets = encode_vector_file(bitmaps)
    for rows, bitmap, offset in zip(sets, bitmaps, offsets, strict=True):
        descriptor = stored_descriptor(prefix, uuid, offset, bitmap, len(rows))
        location = vector_location(descriptor, "/t")
        assert location is not None
        _, start, length = location
        assert set(decode_stored(data[start : start + length], descriptor, table="t", file="f")) == rows


@given(rows=ROWS, position=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_vector_file_is_never_read_as_another_set(rows, position, bit):
    bitmap = encode_bitmap(rows)
    data, (offset,) = encode_vector_file([bitmap])
    descriptor = stored_descriptor("", bytes(16), offset, bitmap, len(rows))
    broken = bytearray(data[offset:])
    broken[position % len(broken)] ^= 1 << bit
    with pytest.raises(DeletionVectorError):
        decode_stored(bytes(broken), descriptor, table="t", file="f")
