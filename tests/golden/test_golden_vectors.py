"""Deletion vectors that the reference wrote: we read them, and would have written the same bytes."""

import json

import pytest

from tahoe.protocol.log.actions import Add, decode_action
from tahoe.protocol.log.deletion_vector import decode_stored, encode_bitmap, vector_location
from tests.golden import tables

pytestmark = pytest.mark.golden


def stored_vectors():
    """The bytes of every vector that a commit of a golden table names, with its descriptor."""
    for log in sorted(tables.FOLDER.glob("*/delta/_delta_log/*.json")):
        for line in log.read_text().splitlines():
            action = decode_action(json.loads(line))
            if isinstance(action, Add) and action.deletion_vector is not None:
                found = vector_location(action.deletion_vector, str(log.parents[1]))
                if found is not None:
                    url, offset, length = found
                    with open(url, "rb") as file:
                        file.seek(offset)
                        yield action.deletion_vector, file.read(length)


def test_vectors_of_the_reference_are_read_and_written_byte_for_byte():
    tables.require_folder()
    vectors = list(stored_vectors())
    assert vectors, "there is no vector in the golden tables"
    for descriptor, data in vectors:
        assert encode_bitmap(decode_stored(data, descriptor, table="t", file="f")) == data[4:-4]
