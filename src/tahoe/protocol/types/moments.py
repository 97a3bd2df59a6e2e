"""Times of a log as `datetime`. Clocks are wrong and logs are untrusted, so a time may be one that no calendar has.

Protocol: "Commit Provenance Information".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(timestamp_ms: int) -> datetime:
    """A time in UTC; the first or the last one that `datetime` has, if it is before or after it.

    Args:
        timestamp_ms: in milliseconds since 1970.
    """
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return (datetime.max if timestamp_ms > 0 else datetime.min).replace(tzinfo=UTC)
