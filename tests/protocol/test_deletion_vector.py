"""Deletion vectors: a wrong one brings deleted rows back, or loses rows."""

import pytest

from tahoe.errors import DeletionVectorError
from tahoe.protocol.log.actions import DeletionVectorDescriptor
from tahoe.protocol.log.deletion_vector import (
    decode_bitmap,
    decode_inline,
    decode_stored,
    encode_bitmap,
    encode_vector_file,
    inline_descriptor,
    stored_descriptor,
    vector_location,
    z85_decode,
    z85_encode,
)

# The three examples of the protocol.
ON_DISK = DeletionVectorDescriptor(
    storage_type="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_bytes=40, cardinality=6
)
ABSOLUTE = DeletionVectorDescriptor(
    storage_type="p",
    path_or_inline="s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
    offset=4,
    size_bytes=40,
    cardinality=6,
)
INLINE = DeletionVectorDescriptor(
    storage_type="i", path_or_inline="wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", size_bytes=40, cardinality=6
)

# A whole vector file that the reference wrote, with its descriptor's numbers.
REFERENCE_FILE = bytes.fromhex(
    "0100000026d1d339640100000000000000000000003a300000010000000000020010000000000001000200748ad0d0"
)


def test_a_relative_vector_is_below_the_table_in_the_folder_of_its_prefix():
    assert vector_location(ON_DISK, "s3://mytable") == (
        "s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        4,
        48,
    )
    bare = ON_DISK.replace(path_or_inline="^-aqEH.-t@S}K{vb[*k^")
    assert vector_location(bare, "/t") == ("/t/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", 4, 48)


def test_an_absolute_vector_is_where_it_says():
    assert vector_location(ABSOLUTE, "file:///elsewhere") == (ABSOLUTE.path_or_inline, 4, 48)
    escaped = ABSOLUTE.replace(path_or_inline="file:/a%20b/v.bin")
    assert vector_location(escaped, "file:///t") == ("file:///a b/v.bin", 4, 48)


def test_an_offset_left_out_is_the_first_vector_of_the_file():
    assert vector_location(ABSOLUTE.replace(offset=None), "s3://mytable") == (ABSOLUTE.path_or_inline, 1, 48)


def test_the_inline_example_holds_the_rows_that_the_protocol_names():
    assert vector_location(INLINE, "s3://mytable") is None
    assert list(decode_inline(INLINE, table="t", file="f")) == [3, 4, 7, 11, 18, 29]


def test_the_older_format_is_read_in_both_byte_orders_and_with_several_buckets():
    bucket = encode_bitmap([3, 9])[16:]
    for order in ("little", "big"):
        sized = len(bucket).to_bytes(4, order) + bucket
        data = (1681511376).to_bytes(4, order) + (2).to_bytes(4, order) + sized + sized
        assert list(decode_bitmap(data)) == [3, 9, (1 << 32) + 3, (1 << 32) + 9]


def test_a_file_of_the_reference_is_read_and_written_byte_for_byte():
    descriptor = stored_descriptor("", bytes(16), 1, REFERENCE_FILE[5:-4], 3)
    rows = decode_stored(REFERENCE_FILE[1:], descriptor, table="t", file="f")
    assert list(rows) == [0, 1, 2]
    assert encode_vector_file([encode_bitmap(rows)]) == (REFERENCE_FILE, [1])


def test_several_vectors_share_a_file():
    bitmaps = [encode_bitmap(rows) for rows in ([1], [], range(100_000), [1 << 40])]
    data, offsets = encode_vector_file(bitmaps)
    for bitmap, offset, rows in zip(bitmaps, offsets, ([1], [], range(100_000), [1 << 40]), strict=True):
        descriptor = stored_descriptor("x", bytes(range(16)), offset, bitmap, len(rows))
        url, start, length = vector_location(descriptor, "/t") or ("", 0, 0)
        assert url == "/t/x/deletion_vector_00010203-0405-0607-0809-0a0b0c0d0e0f.bin"
        assert list(decode_stored(data[start : start + length], descriptor, table="t", file="f")) == list(rows)


@pytest.mark.parametrize(
    ("data", "size", "cardinality", "said"),
    [
        (REFERENCE_FILE[1:-1], 38, 2, "too short"),
        (REFERENCE_FILE[1:], 37, 2, "too short"),
        (b"\0\0\0\x25" + REFERENCE_FILE[5:], 38, 2, "its size is 38 in the log but 37 in its file"),
        (REFERENCE_FILE[1:-5] + b"\7" + REFERENCE_FILE[-4:], 38, 2, "checksum"),
        (REFERENCE_FILE[1:], 38, 2, "its cardinality is 2 in the log, but it contains 3"),
    ],
)
def test_a_damaged_stored_vector_is_refused_with_what_differs(data, size, cardinality, said):
    descriptor = DeletionVectorDescriptor(
        storage_type="p", path_or_inline="/v", size_bytes=size, cardinality=cardinality
    )
    with pytest.raises(DeletionVectorError, match=said) as raised:
        decode_stored(data, descriptor, table="the-table", file="the-file")
    assert raised.value.parameters["file"] == "the-file"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cardinality": 5}, "its cardinality is 5 in the log, but it contains 6"),
        ({"size_bytes": 36}, "its size is 36 in its descriptor, but it has 40"),
        ({"path_or_inline": INLINE.path_or_inline[:-1]}, "multiple of 5"),
        ({"path_or_inline": "~" + INLINE.path_or_inline[1:]}, "not a Z85 character"),
        ({"path_or_inline": "#####" + INLINE.path_or_inline[5:]}, "does not fit in four bytes"),
        ({"path_or_inline": "00000" + INLINE.path_or_inline[5:]}, "starts with 00000000"),
    ],
)
def test_a_damaged_inline_vector_is_refused_with_what_differs(change, said):
    with pytest.raises(DeletionVectorError, match=said):
        decode_inline(INLINE.replace(**change), table="t", file="f")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xd1\xd3", encode_bitmap([1, 2, 3])[:-1], encode_bitmap([1, 2, 3])[:6], b"\xd0\xd3\x39\x64\x01\0\0\0"],
)
def test_bytes_that_end_early_are_refused(data):
    with pytest.raises(ValueError, match=r"."):
        decode_bitmap(data)


def test_a_row_index_beyond_javas_is_refused():
    with pytest.raises(ValueError, match="exceeds the largest"):
        decode_bitmap(encode_bitmap([1 << 63]))


@pytest.mark.parametrize("change", [{"storage_type": "x"}, {"path_or_inline": "short"}, {"path_or_inline": "~" * 20}])
def test_a_descriptor_without_meaning_is_refused(change):
    with pytest.raises(DeletionVectorError):
        vector_location(ON_DISK.replace(**change), "/t")


def test_z85_is_the_one_of_its_rfc():
    assert z85_encode(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"
    assert z85_decode("HelloWorld").hex() == "864fd26fb559f75b"


def test_an_inline_descriptor_says_its_size_before_padding():
    vector = inline_descriptor([1, 5])
    assert (vector.size_bytes, vector.cardinality, len(vector.path_or_inline)) == (36 + 2 - 2, 2, 45)
    assert list(decode_inline(inline_descriptor([1, 5, 7]), table="t", file="f")) == [1, 5, 7]
