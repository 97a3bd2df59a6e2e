"""Partition values as text and as typed values, and the paths of files in the log.

Protocol: "Partition Value Serialization", and `path` of "Add File and Remove File". URLs are only text here.
Typed values are int, float, bool, str, bytes, `Decimal`, `date`, and `datetime` (aware in UTC for timestamp, naive for timestamp_ntz).
Dates and timestamps outside Python's calendar (years before 1 and after 9999, which Spark can write) are the ints that Arrow and Parquet
store: days, or microseconds, since 1970-01-01.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as PyDecimal
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from tahoe.errors import InvalidPartitionValueError, InvalidPathError, PathOutsideTableError, UnsupportedOperationError
from tahoe.protocol.json_text import is_text
from tahoe.protocol.schema import BINARY, DECIMAL_PRECISION_MAX, STRING, DataType, Decimal, Primitive
from tahoe.protocol.time_zones import zone_of

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

INTEGER_BITS: Mapping[str, int] = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DAY_MICROS = 86_400_000_000

# The Gregorian calendar repeats every 400 years, so a year outside Python's range is mapped to one inside it.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_EARLY_CYCLE, _LATE_CYCLE = 400, 9200

_DATE = re.compile(r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})")
_TIMESTAMP = re.compile(_DATE.pattern + r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*([A-Za-z+-].*)?")
_ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")


# --- values


def parse_partition_value(text: str | None, data_type: DataType, *, zone: tzinfo = UTC, table: str = "the table") -> Any:
    """The typed value of one entry of `partitionValues`; None for null and, for every type, the empty string.

    Args:
        zone: the writer's time zone, for timestamps without one.

    Raises:
        InvalidPartitionValueError: the text is not a value of that type.
    """
    if text is None or text == "":
        return None
    try:
        if isinstance(data_type, Decimal):
            return parse_decimal(text, data_type)
        if isinstance(data_type, Primitive) and data_type.name in _PARSERS:
            return _PARSERS[data_type.name](text, zone)
    except (ValueError, InvalidOperation, ArithmeticError) as error:
        raise InvalidPartitionValueError(table=table, value=text, type=data_type) from error
    raise InvalidPartitionValueError(table=table, value=text, type=data_type)


def format_partition_value(value: Any, data_type: DataType, *, table: str = "the table") -> str | None:
    """The text for `partitionValues`. As the protocol requires, the empty string and the empty binary become null.

    Timestamps are written in UTC as ISO 8601 with microseconds. The inverse of `parse_partition_value`.

    Raises:
        UnsupportedOperationError: a binary value that not every reader could read back from text.
    """
    if value is None or value == "" or value == b"":
        return None
    if isinstance(data_type, Decimal):
        return f"{_quantized(value, data_type):f}"
    match data_type.name if isinstance(data_type, Primitive) else None:
        case "boolean":
            return "true" if value else "false"
        case "float" | "double":
            return _float_text(value)
        case "date":
            return _date_text(value)
        case "timestamp":
            return _timestamp_text(to_micros(value), "T", always_fraction=True) + "Z"
        case "timestamp_ntz":
            return _timestamp_text(to_micros(value), " ", always_fraction=False)
        case "binary":
            return _binary_text(value, table)
        case _:
            return str(value)


def may_be_stored_as_null(data_type: DataType) -> bool:
    """Whether a partition column of that type has values (the empty ones) that are stored as null."""
    return data_type in (STRING, BINARY)


def parse_boolean(text: str) -> bool:
    """`true` or `false`, case-insensitively.

    Raises:
        ValueError: any other text.
    """
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(text)
    return word == "true"


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _number_text(text: str) -> str:
    """The text of a number, without spaces around it. Python also takes digits of other scripts, and underscores between digits."""
    return text.strip() if text.isascii() and "_" not in text else _refuse(text)


def _integer_parser(bits: int) -> Callable[[str, tzinfo], int]:
    limit = 1 << (bits - 1)

    def parse(text: str, _: tzinfo) -> int:
        value = int(_number_text(text))
        return value if -limit <= value < limit else _refuse(text)

    return parse


def parse_decimal(text: str, data_type: Decimal) -> PyDecimal:
    """A decimal with exactly the type's scale; excess fractional digits are rounded half up, as in Spark's cast.

    Raises:
        ValueError, InvalidOperation: not a number, or too large for the type.
    """
    return _quantized(PyDecimal(_number_text(text)), data_type)


def _quantized(value: PyDecimal, data_type: Decimal) -> PyDecimal:
    context = Context(prec=DECIMAL_PRECISION_MAX + 1, rounding=ROUND_HALF_UP)
    rounded = PyDecimal(value).quantize(PyDecimal(1).scaleb(-data_type.scale), context=context)
    if rounded.adjusted() >= data_type.precision - data_type.scale and rounded != 0:
        raise ValueError(f"{value} has more than {data_type.precision - data_type.scale} integer digits")
    return rounded


def single_precision(value: float) -> float:
    """The nearest 4-byte float, which is what a column of type float stores."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, repr(float(value)))


def _parse_binary(text: str) -> bytes:
    """Spark writes the bytes as UTF-8 text; other writers write each byte as an escape of six characters, \\u0001."""
    if _ESCAPED_BYTES.fullmatch(text):
        return bytes(int(text[i + 2 : i + 6], 16) for i in range(0, len(text), 6))
    return text.encode("utf-8", "surrogatepass")


def _binary_text(value: bytes, table: str) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if _parse_binary(text) != value:
        raise UnsupportedOperationError(
            operation="Partitioning by a binary column",
            table=table,
            detail=f"the value {value!r} is not valid UTF-8, but partition values are strings",
            remedy="Encode the column first, with hex() or base64(), or partition by another column.",
        )
    return text


# --- dates and timestamps


def parse_date(text: str) -> date | int:
    """A date from `yyyy-MM-dd`, or its days since 1970 if Python's calendar does not include it.

    Raises:
        ValueError: not a date.
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        # Spark casts the text of a timestamp to its date.
        found = _TIMESTAMP.fullmatch(text.strip()) or _refuse(text)
    return from_days(_days_since_epoch(int(found[1]), int(found[2]), int(found[3])))


def parse_timestamp(text: str, zone: tzinfo) -> datetime | int:
    """An aware datetime in UTC, or its microseconds since 1970. A time zone in the text takes precedence over `zone`.

    Raises:
        ValueError: not a timestamp.
    """
    naive, suffix = _local_micros(text)
    return from_micros(naive - _offset_micros(naive, zone_of(suffix) if suffix else zone), UTC)


def parse_timestamp_ntz(text: str) -> datetime | int:
    """A naive datetime, or its microseconds since 1970. A time zone in the text is ignored, as in Spark's cast.

    Raises:
        ValueError: not a timestamp.
    """
    return from_micros(_local_micros(text)[0], None)


def has_zone(text: str) -> bool:
    """Whether the text of a timestamp has a time zone, so that it is the same moment for all readers."""
    found = _TIMESTAMP.fullmatch(text.strip())
    return found is not None and found[8] is not None


def _local_micros(text: str) -> tuple[int, str | None]:
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    micros = int((found[7] or "")[:6].ljust(6, "0"))
    return ((_days_since_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + micros, found[8]


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, for any year."""
    if 1 <= year <= 9999:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    inside = year % _CYCLE_YEARS + _EARLY_CYCLE
    return date(inside, month, day).toordinal() - _EPOCH_DAY + (year - inside) // _CYCLE_YEARS * _CYCLE_DAYS


def _offset_micros(naive_micros: int, zone: tzinfo) -> int:
    """The UTC offset of local time. As in Java, a gap uses the offset before it, and an overlap the earlier instant."""
    local = from_micros(naive_micros, None)
    if isinstance(local, int):
        local = _calendar_twin(naive_micros)
    offset = local.replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else offset // _MICROSECOND


def _calendar_twin(micros: int) -> datetime:
    """The same month, day, weekday and time in a year that Python's calendar includes."""
    cycle = _CYCLE_DAYS * _DAY_MICROS
    base = _days_since_epoch(_LATE_CYCLE if micros > 0 else _EARLY_CYCLE, 1, 1) * _DAY_MICROS
    return _EPOCH + timedelta(microseconds=base + (micros - base) % cycle)


def from_days(days: int) -> date | int:
    """A date from its days since 1970, or the days themselves if Python's calendar does not include it."""
    ordinal = days + _EPOCH_DAY
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else days


def from_micros(micros: int, zone: tzinfo | None) -> datetime | int:
    """A datetime from its microseconds since 1970, or the microseconds if Python's calendar does not include it."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone)
    except OverflowError:
        return micros


def to_micros(value: datetime | int) -> int:
    """Microseconds since 1970: in UTC for an aware value, in local time for a naive one."""
    if isinstance(value, int):
        return value
    offset = value.utcoffset()
    micros = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return micros if offset is None else micros - offset // _MICROSECOND


def _date_text(value: date | int) -> str:
    return value.isoformat()[:10] if isinstance(value, date) else _far_date_text(value)


def _far_date_text(days: int) -> str:
    cycles, inside = divmod(days + _EPOCH_DAY - date(_EARLY_CYCLE, 1, 1).toordinal(), _CYCLE_DAYS)
    twin = date.fromordinal(date(_EARLY_CYCLE, 1, 1).toordinal() + inside)
    year = twin.year + cycles * _CYCLE_YEARS
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{twin.month:02d}-{twin.day:02d}"


def _timestamp_text(micros: int, separator: str, *, always_fraction: bool) -> str:
    days, of_day = divmod(micros, _DAY_MICROS)
    seconds, fraction = divmod(of_day, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = f".{fraction:06d}" if always_fraction else f".{fraction:06d}".rstrip("0").rstrip(".")
    return f"{_date_text(from_days(days))}{separator}{clock}{digits}"


_PARSERS: Mapping[str, Callable[[str, tzinfo], Any]] = {
    **{name: _integer_parser(bits) for name, bits in INTEGER_BITS.items()},
    "string": lambda text, _: text,
    "boolean": lambda text, _: parse_boolean(text),
    "float": lambda text, _: single_precision(float(_number_text(text))),
    "double": lambda text, _: float(_number_text(text)),
    "binary": lambda text, _: _parse_binary(text),
    "date": lambda text, _: parse_date(text),
    "timestamp": parse_timestamp,
    "timestamp_ntz": lambda text, _: parse_timestamp_ntz(text),
}


# --- folders

# The characters that Hive and Spark escape in partition folder names.
_FOLDER_ESCAPED = frozenset(map(chr, range(0x01, 0x20))) | frozenset("\"#%'*/:=?\\\x7f{[]^")


def partition_folder(columns: Iterable[str], values: Mapping[str, str | None]) -> str:
    """The folder of a partition, relative to the table and not URI-encoded: `a=1/b=x%3Ay`; "" without partition columns.

    Args:
        columns: in the table's order.
        values: the entries of `partitionValues`.
    """
    return "/".join(f"{_escape_folder(name)}={_escape_folder(values[name] or HIVE_NULL)}" for name in columns)


def timestamp_in_folder(text: str) -> str:
    """A timestamp of `partitionValues` as Hive spells it in the names of folders, in UTC. Without a time zone it is spelled so already."""
    return _timestamp_text(to_micros(parse_timestamp(text, UTC)), " ", always_fraction=False) if has_zone(text) else text


def _escape_folder(name: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _FOLDER_ESCAPED else c for c in name)


# --- paths

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?")
# RFC 2396: the characters that a path need not escape. Java's URI, which writers use, does not escape non-ASCII characters either.
_PATH_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-!.~'()*,;:$&+=@/")
# Different schemes for the same storage.
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}


def encode_path(relative: str) -> str:
    """The URI for `add.path` of a path relative to the table."""
    encoded = "".join(c if c in _PATH_CHARACTERS or _is_kept(c) else _percent(c) for c in relative)
    first, slash, rest = encoded.partition("/")
    return first.replace(":", "%3A") + slash + rest  # otherwise it would be parsed as a scheme


def encode_url(url: str) -> str:
    """The URI of an absolute, unescaped url, for a path in the log: spelled as Hadoop's Path prints it, `file:/x` for `file:///x`, because
    the reference compares such texts."""
    found = _SCHEME.match(url)
    if found is None:
        return encode_path(url)
    authority = f"//{found[2]}" if found[2] else ""
    return f"{found[1]}:{authority}{encode_path(url[found.end() :])}"


def _is_kept(character: str) -> bool:
    return ord(character) > 0x9F and not character.isspace() and not 0xD800 <= ord(character) <= 0xDFFF


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


def decode_path(uri: str) -> str:
    """The path that a URI in the log denotes. A percent sign outside an escape is kept, because old writers did not escape it."""
    return unquote(uri, errors="surrogateescape") if "%" in uri else uri


def resolve_path(add_path: str, table_url: str) -> str:
    """The absolute, unescaped url of a file in the log.

    A relative path is below the table; `/abs/path` is in the table's own storage; `file:/x` becomes `file:///x`. An absolute path may
    point anywhere, as shallow clones need: the writers of a log decide what its readers open with their credentials.

    Raises:
        PathOutsideTableError: a relative path points outside the table's folder.
        InvalidPathError: the unescaped path is not valid UTF-8 or contains a null character.
    """
    if is_canonical(add_path):
        return f"{table_url}/{add_path}"
    folder, name = _split_name(add_path)
    resolved = _resolved_folder(folder, table_url) if name else None
    return _resolve(add_path, table_url) if resolved is None else resolved + name


def _resolve(add_path: str, table_url: str) -> str:
    scheme, authority, path = _absolute(add_path, table_url)
    if "\0" in path or not is_text(path):
        raise InvalidPathError(table=table_url, path=add_path, detail="it contains a null character" if "\0" in path else "it is not UTF-8")
    if scheme is not None:
        return f"{scheme}://{authority}{path}"
    if path == ".." or path.startswith("../"):
        raise PathOutsideTableError(path=add_path, table=table_url)
    return f"{table_url}/{path}"


# A relative path without escapes and without segments that begin with a dot.
_CANONICAL = re.compile(r"[\w=-][\w=.-]*(?:/[\w=-][\w=.-]*)*")


def is_canonical(add_path: str) -> bool:
    """Whether a path is surely relative and has one spelling only, with and without escapes."""
    return _CANONICAL.fullmatch(add_path) is not None


def canonical_key(add_path: str, table_url: str) -> str:
    """The canonical spelling of a file's path: unescaped and relative to the table, or an absolute url for a file elsewhere."""
    if is_canonical(add_path):
        return add_path
    folder, name = _split_name(add_path)
    return _folder_key(folder, table_url) + name if name else _key(add_path, table_url)


def _key(add_path: str, table_url: str) -> str:
    scheme, authority, path = _absolute(add_path, table_url)
    if scheme is None:
        return path
    home_scheme, home_authority, home = _split(table_url)
    scheme = _SAME_SCHEME.get(scheme, scheme)
    if (scheme, authority) == (_SAME_SCHEME.get(home_scheme, home_scheme), home_authority) and path.startswith(home + "/"):
        return path[len(home) + 1 :]
    return f"{scheme}://{authority}{path}"


# The files of a shallow clone have absolute paths, and are in few folders.
_FOLDERS_KEPT = 4096


def _split_name(add_path: str) -> tuple[str, str]:
    """The folder of a path and the name in it; the name is empty unless it can be appended to any spelling of the folder."""
    folder, _, name = add_path.rpartition("/")
    return folder, name if folder and not folder.endswith("/") and is_canonical(name) else ""


@lru_cache(_FOLDERS_KEPT)
def _resolved_folder(folder: str, table_url: str) -> str | None:
    """`resolve_path` of every name in a folder, without the name; None if it raises."""
    try:
        return _resolve(f"{folder}/_", table_url)[:-1]
    except (PathOutsideTableError, InvalidPathError):
        return None


@lru_cache(_FOLDERS_KEPT)
def _folder_key(folder: str, table_url: str) -> str:
    """`canonical_key` of every name in a folder, without the name."""
    return _key(f"{folder}/_", table_url)[:-1]


def _absolute(add_path: str, table_url: str) -> tuple[str | None, str, str]:
    """Scheme, authority and normalised path; the scheme is None for a path relative to the table."""
    if found := _SCHEME.match(add_path):
        scheme, authority = _home(found)
        return scheme, authority, "/" + _normal(decode_path(add_path[found.end() :]))
    if add_path.startswith("/"):
        scheme, authority, _ = _split(table_url)
        return scheme, authority, "/" + _normal(decode_path(add_path))
    return None, "", _normal(decode_path(add_path))


@lru_cache(maxsize=16)
def _split(table_url: str) -> tuple[str, str, str]:
    """Scheme, authority and path of a table's unescaped url; without a scheme it is a local path."""
    found = _SCHEME.match(table_url)
    if found is None:
        return "file", "", table_url.rstrip("/")
    return (*_home(found), table_url[found.end() :].rstrip("/"))


def _home(found: re.Match[str]) -> tuple[str, str]:
    scheme, authority = found[1].lower(), found[2] or ""
    return scheme, "" if scheme == "file" and authority.lower() == "localhost" else authority


def _normal(path: str) -> str:
    """The path without empty and `.` segments, and with `..` resolved.

    In a relative path, leading `..` segments remain.
    """
    rooted = path.startswith("/")
    if is_canonical(path.removeprefix("/")):
        return path.removeprefix("/")
    segments: list[str] = []
    for segment in path.split("/"):
        if segment in ("", ".") or (segment == ".." and rooted and not segments):
            continue
        if segment == ".." and segments and segments[-1] != "..":
            segments.pop()
        else:
            segments.append(segment)
    return "/".join(segments)
