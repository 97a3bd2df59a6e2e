"""What a statement that runs knows: its session, the values of its expressions, and the tables that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column
from pyspark.sql.types import IntegralType, NumericType, StringType, TimestampType

from tahoe.errors import InvalidOptionError
from tahoe.protocol.log.tags import version_or_tag
from tahoe.protocol.types.names import quoted
from tahoe.spark.api.delta_table import DeltaTable
from tahoe.spark.ddl.catalog import name_parts, path_in
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.statements.time_travel import moment_of_micros, session_moment
from tahoe.spark.jvm.values import Value
from tahoe.sql.statements import AsOf, Expression, Name


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The context of a statement that runs: its session, the values of its expressions, and its condition."""

    gateway: Gateway
    values: Mapping[Expression, Value]
    condition: Column | None = None

    def table(self, name: Name) -> DeltaTable:
        """The table that a statement names.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no such Delta table.
        """
        if name.path is not None:
            return DeltaTable.forPath(self.gateway.spark, name.path)
        text = self.name(name)
        path = None if name.expression is not None else path_in(text)
        return (
            DeltaTable.forName(self.gateway.spark, text)
            if path is None
            else DeltaTable.forPath(self.gateway.spark, path)
        )

    def name(self, name: Name) -> str:
        """A name or path as it can be parsed again."""
        if name.path is not None:
            return name.path
        if name.expression is not None:
            return self.text(name.expression, "IDENTIFIER")
        return ".".join(part if part.isidentifier() else quoted(part) for part in name.parts)

    def parts(self, name: Name) -> list[str]:
        """The parts of a name that need not be that of a Delta table."""
        if name.expression is not None:
            return name_parts(self.gateway, self.text(name.expression, "IDENTIFIER"))
        return [name.path] if name.path is not None else list(name.parts)

    def text(self, expression: Expression, what: str) -> str:
        """The value of a string expression.

        Raises:
            InvalidOptionError: it is not a string, or it is null.
        """
        result = self.values[expression]
        if not isinstance(result.type, StringType) or result.value is None:
            raise InvalidOptionError(
                option=what, value=expression.text, table="the statement", detail="it must be a string, not null"
            )
        return str(result.value)

    def count(self, expression: Expression, what: str) -> int:
        """The value of an integer expression that is not negative.

        Raises:
            InvalidOptionError: it is not an integer, it is negative, or it is null.
        """
        result = self.values[expression]
        if not isinstance(result.type, IntegralType) or result.value is None or result.value < 0:
            raise InvalidOptionError(
                option=what, value=expression.text, table="the statement", detail="it must be a non-negative integer"
            )
        return int(result.value)

    def number(self, expression: Expression, what: str) -> float:
        """The value of a numeric expression.

        Raises:
            InvalidOptionError: it is not a number, or it is null.
        """
        result = self.values[expression]
        if not isinstance(result.type, NumericType) or result.value is None:
            raise InvalidOptionError(
                option=what, value=expression.text, table="the statement", detail="it must be a number, not null"
            )
        return float(result.value)

    def as_of(self, time_travel: AsOf, table: str) -> tuple[int | str | None, datetime | None]:
        """The version (or its tag) or the timestamp of a time travel; a timestamp without a zone is in the session's
        time zone.

        Raises:
            InvalidOptionError: the version is neither a non-negative integer nor a string.
            InvalidTimeTravelError: the timestamp is null or not a timestamp, or the string is neither a version nor a
                tag.
        """
        if time_travel.version is not None:
            if isinstance(self.values[time_travel.version].type, StringType):
                return version_or_tag(self.text(time_travel.version, "VERSION AS OF"), table=table), None
            return self.count(time_travel.version, "VERSION AS OF"), None
        return None, None if time_travel.timestamp is None else self.moment(time_travel.timestamp, table)

    def moment(self, expression: Expression, table: str) -> datetime:
        """The value of a timestamp expression; without a zone it is in the session's time zone.

        Raises:
            InvalidTimeTravelError: it is null, not a timestamp, or outside the calendar.
        """
        result = self.values[expression]
        if isinstance(result.type, TimestampType) and result.value is not None:
            return moment_of_micros(result.value, expression.text, table)
        return session_moment(self.gateway)(str(result.value), table)
