"""Python values as values that JSON can represent, or as text for people."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any


def cell(value: Any) -> str:
    """A value as text for people."""
    if isinstance(value, datetime):
        return moment(value)
    plain = json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def moment(value: datetime) -> str:
    """A timestamp with milliseconds, as in the log; with microseconds if it has any."""
    timespec = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(sep=" ", timespec=timespec).replace("+00:00", "Z")


def json_value(value: Any) -> Any:
    """A value that JSON can represent; other values become text."""
    match value:
        case dict():
            return {str(name): json_value(item) for name, item in value.items()}
        case list():
            return [json_value(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return (
                value
                if math.isfinite(value)
                else "NaN"
                if math.isnan(value)
                else "Infinity"
                if value > 0
                else "-Infinity"
            )
        case Decimal() if value.as_tuple().exponent == 0:
            return int(value)
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return str(value)
