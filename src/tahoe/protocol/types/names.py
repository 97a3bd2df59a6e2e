"""Names of columns in texts, which are SQL, table properties and messages; and counts in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tahoe.errors import InvalidArgumentError

# Control characters, line ends, marks of text direction, and surrogates: characters that could steer a terminal or hide
# other text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_COLUMN_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s][^`.,]*?))\s*(\.|,|$)")


def quoted(name: str) -> str:
    """A name in backticks, as SQL takes it whatever it holds: without them `true` would be a constant."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str) -> str:
    """A string as SQL takes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def counted(count: int, name: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def sql_path(path: Sequence[str]) -> str:
    """A column, or a field of one, as SQL names it."""
    return ".".join(map(quoted, path))


def unused_name(name: str, names: Iterable[str]) -> str:
    """The name, with underscores at its end so that it is none of some names, in whatever case."""
    taken = {other.lower() for other in names}
    while name.lower() in taken:
        name += "_"
    return name


def check_column_name(name: str, *, table: str) -> None:
    """
    Raises:
        InvalidArgumentError: the name is empty, so that no statement could use it.
    """
    if not name:
        remedy = "Give the column a name of at least one character."
        raise InvalidArgumentError(
            argument="name", table=table, found="empty", expected="the name of a column", remedy=remedy
        )


def dotted(path: Sequence[str]) -> str:
    """A path for users: names with characters other than letters, digits and _ are quoted."""
    return ".".join(name if name.replace("_", "a").isalnum() else quoted(name) for name in path)


def parse_column_list(text: str) -> tuple[tuple[str, ...], ...]:
    """Comma-separated columns, each a dotted path; names with a dot or a comma are quoted with backticks.

    Raises:
        ValueError: a name is empty, or a backtick is not closed.
    """
    columns: list[tuple[str, ...]] = []
    path: list[str] = []
    position = 0
    while position < len(text) or path:
        part = _COLUMN_PART.match(text, position)
        if part is None:
            raise ValueError(text)
        path.append(part[1].replace("``", "`") if part[1] else part[2])
        position = part.end()
        if part[3] != ".":
            columns.append(tuple(path))
            path = []
    if text.rstrip().endswith(","):
        raise ValueError(text)
    return tuple(columns)


def visible(text: str, *, lines: bool = False) -> str:
    """Text from a table as it can be shown: characters that could steer a terminal or hide other text are escapes.

    Args:
        lines: leave line ends as they are.
    """
    return _UNPRINTABLE.sub(lambda found: found[0] if lines and found[0] == "\n" else ascii(found[0])[1:-1], text)
