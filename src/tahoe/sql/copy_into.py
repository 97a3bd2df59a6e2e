"""COPY INTO: how it is parsed, and how a call is written as a statement.

    COPY INTO table [BY POSITION | (column, ...)]
      FROM 'path' | (SELECT expressions FROM 'path')
      FILEFORMAT = format
      [VALIDATE [ALL | n ROWS]] [FILES = ('name', ...) | PATTERN = 'glob']
      [FORMAT_OPTIONS ('name' = 'value', ...)] [COPY_OPTIONS ('name' = 'value', ...)]

The grammar is that of Databricks, without WITH (CREDENTIAL ...): the session has the credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tahoe.protocol.types.names import quoted
from tahoe.sql.statements import CopyInto, Expression, Name
from tahoe.sql.token_parser import TokenParser

_CLAUSES = "VALIDATE|FILES|PATTERN|FORMAT_OPTIONS|COPY_OPTIONS"


class CopyIntoParser(TokenParser):
    """The part of the parser of statements that is about COPY INTO."""

    def copy_into(self) -> CopyInto:
        self.place += 2
        table = self.name()
        by_position = self.takes("BY", "POSITION")
        columns: list[str] = []
        if not by_position and self.token.is_symbol("("):
            self.listed(lambda: columns.append(self.identifier("a column")))
        self.require("FROM")
        select, source = self._source()
        if self.sees("WITH"):
            self.fail("FILEFORMAT: the credentials for the source are those of the session")
        self.require("FILEFORMAT")
        self.require_symbol("=")
        is_text = self.token.kind == "text"
        file_format = self.next().value if is_text else self.identifier("a format, such as CSV")
        return CopyInto(
            table=table,
            by_position=by_position,
            columns=tuple(columns) or None,
            select=select,
            source=source,
            format=file_format,
            **self._clauses(),
        )

    def _source(self) -> tuple[tuple[str, ...] | None, Expression]:
        """`'path'`, or `(SELECT expressions FROM 'path')`."""
        if not self.takes_symbol("("):
            return None, self.expression("a path in quotes", lambda: self.sees("WITH|FILEFORMAT"))
        self.require("SELECT")
        select = [self._selected()]
        while self.takes_symbol(","):
            select.append(self._selected())
        self.require("FROM")
        source = self.expression(
            "a path in quotes", lambda: self.token.is_symbol(")") or self.sees("WHERE|GROUP|HAVING|ORDER|LIMIT")
        )
        if not self.token.is_symbol(")"):
            self.fail("')', because COPY INTO loads all rows of a file; filter them behind it")
        self.require_symbol(")")
        return tuple(select), source

    def _selected(self) -> str:
        return self.expression("an expression", lambda: self.token.is_symbol(",") or self._ends_select()).text

    def _ends_select(self) -> bool:
        """Whether FROM and a path, or a parameter for it, come next."""
        path = self.ahead(1)
        return self.sees("FROM") and (path.kind == "text" or path.is_symbol(":") or path.is_symbol("?"))

    def _clauses(self) -> dict[str, Any]:
        """What follows the format, in any order, each at most once."""
        found: dict[str, Any] = {}
        while self.sees(_CLAUSES):
            word = self.next().value.lower()
            if word in found or {word, *found} >= {"files", "pattern"}:
                self.place -= 1
                self.fail("each clause once, and either FILES or PATTERN")
            found[word] = getattr(self, f"_{word}")()
        validate = found.pop("validate", False)
        return {**found, "validate": validate is not False, "validate_rows": validate or None}

    def _validate(self) -> int | None:
        """The number of rows; None for all."""
        if self.token.kind != "number":
            self.takes("ALL")
            return None
        number = self.next()
        if not number.text.isdigit() or int(number.text) == 0:
            self.fail("a positive number of rows", number)
        self.require("ROWS")
        return int(number.text)

    def _files(self) -> tuple[str, ...]:
        names: list[str] = []
        self.require_symbol("=")
        self.listed(lambda: names.append(self.text_value("the name of a file in quotes")))
        return tuple(names)

    def _pattern(self) -> str:
        self.require_symbol("=")
        return self.text_value("a pattern in quotes")

    def _format_options(self) -> tuple[tuple[str, str], ...]:
        options: list[tuple[str, str]] = []
        self.takes_symbol("=")
        self.listed(lambda: options.append(self.property()))
        return tuple(options)

    _copy_options = _format_options

    def property(self) -> tuple[str, str]:
        """`'name' = value`"""
        name = self.next().value if self.token.kind == "text" else ".".join(self.path("a property name"))
        self.takes_symbol("=")
        if self.token.kind in ("text", "number") or self.sees("TRUE|FALSE"):
            token = self.next()
            return name, token.value.lower() if token.kind == "word" else token.value
        self.fail("a property value")


def written(
    *,
    table: Name,
    format: str,
    select: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    by_position: bool = False,
    files: Sequence[str] | None = None,
    pattern: str | None = None,
    format_options: Mapping[str, str] | None = None,
    copy_options: Mapping[str, str] | None = None,
    validate: bool | int = False,
) -> str:
    """The statement of a call; its parameter `:source` is the path."""
    target = f"delta.{quoted(table.path)}" if table.path is not None else ".".join(map(quoted, table.parts))
    positions = " BY POSITION" if by_position else ""
    if columns is not None:
        positions = f" ({', '.join(map(quoted, columns))})"
    parts = [
        f"COPY INTO {target}{positions}",
        "FROM :source" if select is None else f"FROM (SELECT {', '.join(select)} FROM :source)",
        f"FILEFORMAT = {_text(format)}",
    ]
    if validate:
        parts.append("VALIDATE ALL" if validate is True else f"VALIDATE {validate} ROWS")
    if files is not None:
        parts.append(f"FILES = ({', '.join(map(_text, files))})")
    if pattern is not None:
        parts.append(f"PATTERN = {_text(pattern)}")
    for clause, options in (("FORMAT_OPTIONS", format_options), ("COPY_OPTIONS", copy_options)):
        if options:
            parts.append(
                f"{clause} ({', '.join(f'{_text(name)} = {_text(value)}' for name, value in options.items())})"
            )
    return " ".join(parts)


def _text(value: str) -> str:
    """A string literal, as `tokens` reads it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
