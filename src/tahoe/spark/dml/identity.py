"""SYNC IDENTITY: after writes with explicit values, sets an identity column to continue after the farthest value.

Protocol: "Identity Columns".
"""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import NotAnIdentityColumnError
from tahoe.protocol.changes.column_values import identity_columns
from tahoe.protocol.types.names import quoted
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.gateway import author_of
from tahoe.table.transactions.transaction_builder import TransactionBuilder


def sync_identity(target: DmlTarget, column: str) -> None:
    """Advance an identity column's high-water mark to the farthest value in the table. The mark never moves back.

    Raises:
        NotAnIdentityColumnError: the column is not an identity column.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    table, spark = target.table, target.spark
    with TransactionBuilder(table, **author_of(spark)) as changes:
        columns = dict(identity_columns(changes.snapshot.schema, table=table.url))
        name = next((name for name in columns if name.lower() == column.lower()), None)
        if name is None:
            raise NotAnIdentityColumnError(table=table.url, column=column)
        farthest = F.max if columns[name].step > 0 else F.min
        rows = spark.read.format("delta").option("versionAsOf", changes.snapshot.version).load(table.url)
        row = rows.agg(farthest(quoted(name))).head()
        changes.sync_identity(name, None if row is None else row[0])
