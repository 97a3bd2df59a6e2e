"""Values of commits and timestamps as text for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

_INTEGER = re.compile(r"-?(0|[1-9]\d*)")


def second(value: datetime) -> str:
    """A timestamp in seconds, for lists whose rows are lines."""
    return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def with_numbers(metrics: Mapping[str, str] | None) -> dict[str, int | str] | None:
    """Metrics of a commit, which the log keeps as text, with their numbers."""
    return (
        None
        if metrics is None
        else {name: int(text) if _INTEGER.fullmatch(text) else text for name, text in metrics.items()}
    )


def flat(value: Any) -> str:
    return (
        " ".join(f"{name}={text}" for name, text in value.items())
        if isinstance(value, dict)
        else ""
        if value is None
        else str(value)
    )
