"""The `_last_checkpoint` file: a hint to the newest checkpoint, with a JSON checksum.

Protocol: "Last Checkpoint File", "JSON checksum". An invalid hint is ignored: it costs a longer listing, never
correctness.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tahoe.protocol.types.json_text import load_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    version: int
    size: int
    parts: int | None = None
    size_bytes: int | None = None
    num_of_add_files: int | None = None


class _Number(str):
    """The verbatim text of a number, which is its canonical form."""

    __slots__ = ()


def parse_last_checkpoint(data: bytes) -> LastCheckpoint | None:
    """The hint; None if the JSON is invalid, has no version, or does not match its checksum."""
    try:
        value = _parse_numbers_exactly(data)
        if "checksum" in value and value["checksum"] != checksum(value):
            return None
        return LastCheckpoint(
            version=int(value["version"]),
            size=int(value.get("size") or -1),
            parts=_integer(value.get("parts")),
            size_bytes=_integer(value.get("sizeInBytes")),
            num_of_add_files=_integer(value.get("numOfAddFiles")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def encode_last_checkpoint(hint: LastCheckpoint) -> bytes:
    """The file's content, including the checksum."""
    fields = {
        "version": hint.version,
        "size": hint.size,
        "parts": hint.parts,
        "sizeInBytes": hint.size_bytes,
        "numOfAddFiles": hint.num_of_add_files,
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(
        {**present, "checksum": checksum(_parse_numbers_exactly(json.dumps(present)))}, separators=(",", ":")
    ).encode()


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _parse_numbers_exactly(text: str | bytes) -> Any:
    return load_json(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate keys")
    return found


def checksum(value: Mapping[str, Any]) -> str:
    """The MD5 digest of the canonical form, without the checksum's own key."""
    return hashlib.md5(canonical_form(value).encode(), usedforsecurity=False).hexdigest()


def canonical_form(value: Mapping[str, Any] | str) -> str:
    """The canonical text of a JSON object, given as text or as `json` loads it."""
    loaded = _parse_numbers_exactly(value) if isinstance(value, str) else value
    leaves = [leaf for key, item in loaded.items() if key != "checksum" for leaf in _leaves(item, _quoted(key))]
    return ",".join(f"{path}={text}" for path, text in sorted(leaves, key=lambda leaf: leaf[0].encode()))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _leaves(item, f"{path}+{_quoted(key)}")
        case list():
            for position, item in enumerate(value):
                yield from _leaves(item, f"{path}+{position}")
        case _:
            yield path, _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return value if isinstance(value, _Number) else _quoted(value)


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'
