"""Options and settings that are true or false. Pure."""

from __future__ import annotations

from tahoe.errors import InvalidOptionError
from tahoe.protocol.types.partitions import parse_boolean


def parse_flag(text: str, name: str, *, table: str) -> bool:
    """The value of an option or of a setting.

    Raises:
        InvalidOptionError: it is neither true nor false.
    """
    try:
        return parse_boolean(text)
    except ValueError:
        raise InvalidOptionError(option=name, value=text, table=table, detail="it must be true or false") from None
