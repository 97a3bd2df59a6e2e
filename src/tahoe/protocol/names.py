"""Names of columns in texts: SQL, table properties and messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quoted(name: str) -> str:
    """A name in backticks, as SQL takes it whatever it holds: without them `true` would be a constant."""
    return "`" + name.replace("`", "``") + "`"


def sql_path(path: Sequence[str]) -> str:
    """A column, or a field of one, as SQL names it."""
    return ".".join(map(quoted, path))


def unused_name(name: str, names: Iterable[str]) -> str:
    """The name, with underscores at its end so that it is none of some names, in whatever case."""
    taken = {other.lower() for other in names}
    while name.lower() in taken:
        name += "_"
    return name


def dotted(path: Sequence[str]) -> str:
    """A path for users: names with characters other than letters, digits and _ are quoted."""
    return ".".join(name if name.replace("_", "a").isalnum() else quoted(name) for name in path)
