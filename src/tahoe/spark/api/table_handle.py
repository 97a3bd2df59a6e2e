"""What the methods of `DeltaTable` do with their table: how conditions refer to it, and how commands run on it and
answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession

from tahoe.protocol.types.names import quoted
from tahoe.spark.api.dml_arguments import condition_column, own_columns
from tahoe.spark.ddl.catalog import qualified_name
from tahoe.spark.ddl.creation import named_or_path
from tahoe.spark.dml.resolved_plans import COUNT, counts_frame
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.table import Table
from tahoe.table.transactions.transaction_builder import TransactionBuilder

# Conditions may use the columns of this many of the newest DataFrames of a table.
_FRAMES_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A Delta table in a session.

    Attributes:
        name: its name in the session's catalog; None for a table that is addressed by path.
        alias: qualifies columns in conditions and values, instead of the name.
        frames: the newest DataFrames that `DeltaTable.toDF` returned. Conditions may use their columns.
    """

    spark: SparkSession
    table: Table
    name: str | None = None
    alias: str | None = None
    frames: deque[DataFrame] = field(default_factory=lambda: deque(maxlen=_FRAMES_MAX))

    def target(self) -> DmlTarget:
        """The table as the target of a DML command."""
        parts = self._qualifier()
        alias = parts[-1] if parts else None
        return DmlTarget(
            spark=self.spark, table=self.table, alias=alias, qualifier=tuple(parts[:-1]), frames=tuple(self.frames)
        )

    def _qualifier(self) -> Sequence[str]:
        """What qualifies the table's columns. That of a path is as in SQL; columns of DataFrames need one beside the
        source of a MERGE.
        """
        if self.alias is not None:
            return [self.alias]
        if self.name is not None:
            return qualified_name(self.spark, self.name)
        return ["delta", self.table.url] if self.frames else []

    def condition(self, given: str | Column | None) -> Column | None:
        return None if given is None else own_columns(self.target(), condition_column(given))

    def affected(self, command: Callable[[], int]) -> DataFrame:
        """Run a DML command. Returns one row with the number of affected rows."""
        count = run_for_user(self.spark, command)
        return counts_frame(self.spark, COUNT, [count])

    def define(self, change: Callable[[TransactionBuilder], None]) -> None:
        """Change the table's definition in one commit."""

        def run() -> None:
            with self.table.transaction(**author_of(self.spark)) as changes:
                change(changes)

        run_for_user(self.spark, run)

    def full_name(self) -> str | None:
        """The name with its catalog and database; None for a table that is addressed by path."""
        if self.name is None:
            return None
        name, _ = named_or_path(Gateway(self.spark), self.name)
        return None if name is None else name.text

    def identifier(self) -> str:
        """How SQL and `forName` name the table: its name, or its path as in ``delta.`/data/t` ``."""
        return self.name or f"delta.{quoted(self.table.url)}"
