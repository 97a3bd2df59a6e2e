"""Partition values: as text, as typed values, and as names of folders.

Protocol: "Partition Value Serialization".
Typed values are int, float, bool, str, bytes, `Decimal`, `date`, and `datetime` (aware in UTC for timestamp, naive for
timestamp_ntz). Dates and timestamps outside Python's calendar (years before 1 and after 9999, which Spark can write)
are the ints that Arrow and Parquet store: days, or microseconds, since 1970-01-01.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as PyDecimal
from typing import Any

from tahoe.errors import InvalidPartitionValueError, UnsupportedOperationError
from tahoe.protocol.types.schema import BINARY, DECIMAL_PRECISION_MAX, STRING, DataType, Decimal, Primitive
from tahoe.protocol.types.time_zones import zone_of

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

INTEGER_BITS: Mapping[str, int] = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
DAY_MICROS = 86_400_000_000

# The Gregorian calendar repeats every 400 years, so a year outside Python's range is mapped to one inside it.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_EARLY_CYCLE, _LATE_CYCLE = 400, 9200

# What Spark leaves out around a value in a text: blanks and control characters of ASCII.
BLANKS = "".join(map(chr, [*range(33), 127]))

# As in Spark's casts, a month or a day that is left out is the first one, and a date may have anything after a blank or
# a T.
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_CLOCK = r"[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?\s*([A-Za-z+-].*)?)?"
_TIMESTAMP = re.compile(rf"([+-]?\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:{_CLOCK})?)?)?", re.ASCII)
_ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")


# --- values


def parse_partition_value(
    text: str | None, data_type: DataType, *, zone: tzinfo = UTC, table: str = "the table"
) -> Any:
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

    A timestamp is written in UTC as ISO 8601 with microseconds; a timestamp_ntz as Spark prints it, with a blank and
    without zeros at the end of the fraction. `parse_partition_value` is the inverse.

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


def cast_boolean(text: str) -> bool:
    """A boolean, as Spark casts it from a text: also `t`, `yes`, `y` and `1`, and their opposites.

    Raises:
        ValueError: any other text.
    """
    word = text.strip(BLANKS).lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return word in _TRUE


_TRUE, _FALSE = frozenset(("true", "t", "yes", "y", "1")), frozenset(("false", "f", "no", "n", "0"))


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _number_text(text: str) -> str:
    """The text of a number, without spaces around it. Python also takes digits of other scripts, and underscores
    between digits.
    """
    return text.strip(BLANKS) if text.isascii() and "_" not in text else _refuse(text)


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
    value = PyDecimal(_number_text(text))
    return _quantized(value, data_type) if value.is_finite() else _refuse(text)


def _quantized(value: PyDecimal, data_type: Decimal) -> PyDecimal:
    context = Context(prec=DECIMAL_PRECISION_MAX + 1, rounding=ROUND_HALF_UP)
    rounded = PyDecimal(value).quantize(PyDecimal(1).scaleb(-data_type.scale), context=context)
    if rounded.adjusted() >= data_type.precision - data_type.scale and rounded != 0:
        raise ValueError(f"{value} has more than {data_type.precision - data_type.scale} integer digits")
    return rounded or rounded.copy_abs()  # a decimal has no negative zero


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
    """The bytes as the text of a partition value. They are refused if readers would not get the same bytes from it."""
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
    """A date from `yyyy-MM-dd`, `yyyy-MM` or `yyyy`, or its days since 1970 if Python's calendar does not include it.

    Raises:
        ValueError: not a date.
    """
    found = _DATE.fullmatch(text.strip(BLANKS)) or _refuse(text)
    return from_days(_days_since_epoch(*(int(part or 1) for part in found.groups())))


def parse_timestamp(text: str, zone: tzinfo) -> datetime | int:
    """An aware datetime in UTC, or its microseconds since 1970. A time zone in the text takes precedence over `zone`.

    Raises:
        ValueError: not a timestamp.
    """
    naive, suffix = _local_micros(text)
    return from_local(naive, zone_of(suffix) if suffix else zone)


def parse_timestamp_ntz(text: str) -> datetime | int:
    """A naive datetime, or its microseconds since 1970. A time zone in the text is ignored, as in Spark's cast.

    Raises:
        ValueError: not a timestamp.
    """
    return from_micros(_local_micros(text)[0], None)


def has_zone(text: str) -> bool:
    """Whether the text of a timestamp has a time zone, so that it is the same moment for all readers."""
    found = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    return found is not None and found[8] is not None


def _local_micros(text: str) -> tuple[int, str | None]:
    """The microseconds since 1970 that a timestamp's text shows, in its own time zone, and that zone, if it has one."""
    found = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if found is None:
        raise ValueError(text)
    year, month, day = (int(part or 1) for part in found.groups()[:3])
    hour, minute, second = (int(part or 0) for part in found.groups()[3:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    micros = int((found[7] or "")[:6].ljust(6, "0"))
    return (
        (_days_since_epoch(year, month, day) * 24 + hour) * 60 + minute
    ) * 60_000_000 + second * 1_000_000 + micros, found[8]


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, for any year."""
    if 1 <= year <= 9999:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    inside = year % _CYCLE_YEARS + _EARLY_CYCLE
    return date(inside, month, day).toordinal() - _EPOCH_DAY + (year - inside) // _CYCLE_YEARS * _CYCLE_DAYS


def from_local(naive_micros: int, zone: tzinfo) -> datetime | int:
    """The timestamp of a local time in a zone, which is given in microseconds."""
    return from_micros(naive_micros - _offset_micros(naive_micros, zone), UTC)


def to_local(moment: datetime | int, zone: tzinfo) -> int:
    """The local time in a zone at a timestamp, in microseconds."""
    micros = to_micros(moment)
    known = from_micros(micros, None)
    utc = (_calendar_twin(micros) if isinstance(known, int) else known).replace(tzinfo=UTC)
    try:
        offset = utc.astimezone(zone).utcoffset()
    except OverflowError:
        offset = _calendar_twin(micros).replace(tzinfo=UTC).astimezone(zone).utcoffset()
    return micros + (0 if offset is None else offset // _MICROSECOND)


def _offset_micros(naive_micros: int, zone: tzinfo) -> int:
    """The UTC offset of local time. As in Java, a gap uses the offset before it, and an overlap the earlier instant."""
    local = from_micros(naive_micros, None)
    if isinstance(local, int):
        local = _calendar_twin(naive_micros)
    offset = local.replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else offset // _MICROSECOND


def _calendar_twin(micros: int) -> datetime:
    """The same month, day, weekday and time in a year that Python's calendar includes."""
    cycle = _CYCLE_DAYS * DAY_MICROS
    base = _days_since_epoch(_LATE_CYCLE if micros > 0 else _EARLY_CYCLE, 1, 1) * DAY_MICROS
    return _EPOCH + timedelta(microseconds=base + (micros - base) % cycle)


def from_days(days: int) -> date | int:
    """A date from its days since 1970, or the days themselves if Python's calendar does not include it."""
    ordinal = days + _EPOCH_DAY
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else days


def to_days(value: date | int) -> int:
    """Days since 1970."""
    return value if isinstance(value, int) else value.toordinal() - _EPOCH_DAY


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
    days, of_day = divmod(micros, DAY_MICROS)
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


# File systems allow names of 255 bytes.
_FOLDER_BYTES_MAX = 255


def partition_folder(columns: Iterable[str], values: Mapping[str, str | None]) -> str:
    """The folder of a partition, relative to the table and not URI-encoded: `a=1/b=x%3Ay`; "" without partition
    columns.

    Args:
        columns: in the table's order.
        values: the entries of `partitionValues`.
    """
    return "/".join(f"{_escape_folder(name)}={_escape_folder(values[name] or HIVE_NULL)}" for name in columns)


def ascii_folder(columns: Iterable[str], values: Mapping[str, str | None]) -> str:
    """The folder of a partition for new files: `partition_folder` with escapes for the bytes of other characters, too.

    A URI may have such a character as it is or escaped. Readers that compare URIs as texts would take the two spellings
    for two files. Names that no file system has are changed too, since only the log tells the values of a file: zero
    characters are escaped, and what is too long is cut.
    """
    return "/".join(_ascii_name(name) for name in partition_folder(columns, values).split("/"))


def _ascii_name(name: str) -> str:
    if name.isascii() and "\0" not in name:
        return name[:_FOLDER_BYTES_MAX]
    escaped = "".join(c if c.isascii() and c != "\0" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name)
    return escaped[:_FOLDER_BYTES_MAX]


def timestamp_in_folder(text: str) -> str:
    """A timestamp of `partitionValues` as Hive spells it in the names of folders, in UTC. Without a time zone it is
    spelled so already.
    """
    return (
        _timestamp_text(to_micros(parse_timestamp(text, UTC)), " ", always_fraction=False) if has_zone(text) else text
    )


def _escape_folder(name: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _FOLDER_ESCAPED else c for c in name)
