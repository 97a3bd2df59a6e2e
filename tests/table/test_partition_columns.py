"""Typed partition values of many files at once equal those of single texts."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

from tahoe.errors import InvalidPartitionValueError
from tahoe.protocol.types.partitions import parse_partition_value
from tahoe.protocol.types.schema import DATE, Primitive
from tahoe.table.reading import scan
from tahoe.table.reading.scan import typed_partition_values

_TEXTS = [
    *(
        None,
        "",
        "0",
        "-0",
        "7",
        "-7",
        "007",
        "+7",
        " 7",
        "7\n",
        "7 ",
        "1_0",
        "\u0667",
        "7.0",
        "0x7",
        "1e3",
        "true",
        "-",
    ),
    *("127", "128", "-128", "-129", "32768", "2147483647", "2147483648", "-2147483649", "999999999999999999"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("2026-01-31", "2026-02-30", "2026-1-1", "2026-13-01", "0001-01-01", "0000-01-01", "1000-01-01", "1582-10-10"),
    *(
        "9999-12-31",
        "10000-01-01",
        "+12026-01-31",
        "-0001-01-01",
        "2026",
        "2026-01-31 ",
        "2026-01-31T00:00",
        "1970-01-01",
    ),
]


def _values_or_error(texts: list[str | None], data_type: Primitive) -> Any:
    column = pa.chunked_array([[[("p", text)] for text in texts]], pa.map_(pa.string(), pa.string()))
    try:
        return typed_partition_values(column, "p", data_type, UTC)
    except InvalidPartitionValueError as error:
        return error.parameters["value"]


@pytest.mark.parametrize("data_type", [*map(Primitive, ("byte", "short", "integer", "long")), DATE], ids=str)
def test_texts_that_are_parsed_together_have_the_values_that_each_has_alone(data_type: Primitive) -> None:
    """Arrow's cast must not take, refuse or change what the protocol's parser does not."""
    valid = []
    for text in _TEXTS:
        try:
            value = parse_partition_value(text, data_type)
        except InvalidPartitionValueError:
            assert _values_or_error([text], data_type) == text
            assert _values_or_error(["1970-01-01" if data_type == DATE else "1", text], data_type) == text
            continue
        valid.append(text)
        single = _values_or_error([text], data_type)
        assert single.equals(pa.chunked_array([pa.array([value], single.type)])), text
    together = _values_or_error(valid, data_type)
    assert len(valid) > 3
    assert together.equals(
        pa.chunked_array([[parse_partition_value(text, data_type) for text in valid]], together.type)
    )


@pytest.mark.parametrize(
    ("data_type", "texts"), [(Primitive("integer"), ["1", None, "-2"]), (DATE, ["2026-01-31", ""])]
)
def test_plain_texts_are_not_parsed_one_by_one(
    data_type: Primitive, texts: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million partitions took Python as long as all that Spark does to plan them."""
    monkeypatch.setattr(scan, "parse_partition_value", lambda *_, **__: pytest.fail("a text is parsed alone"))
    assert len(_values_or_error(texts, data_type)) == len(texts)
