"""Changes or refuses the commands on Delta tables that a Spark Connect client sends.

Spark passes a Python data source only two save modes, no partition columns and none of the session's settings. A write
is therefore sent as a write that Spark accepts, with the rest in options, which the source (`connect`) reads. Commands
that would add a name to the catalog are refused: Spark would add the name, but no statement could use it. `watch` wraps
the two methods of one session's client that send commands. This module must not know a JVM.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from pyspark.sql.connect.proto import Command, WriteOperation

from tahoe._version import VERSION
from tahoe.errors import DeltaError, OperationNotYetSupportedError, UnsupportedOperationError
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.writing.write_options import CLUSTERING_COLUMNS, MODE, PARTITION_COLUMNS, SETTINGS, is_setting
from tahoe.sql.tokens import Token, tokens_of

SOURCE = "delta"

# Modes that Spark does not pass to a Python data source, with their names in the option.
_MODES_SENT_AS_OPTION = {
    WriteOperation.SAVE_MODE_UNSPECIFIED: "error",
    WriteOperation.SAVE_MODE_ERROR_IF_EXISTS: "error",
    WriteOperation.SAVE_MODE_IGNORE: "ignore",
}

Message: TypeAlias = Any
"""A message of Spark Connect's protocol. Its classes are generated at import, so that they have no static types."""


def watch(spark: Any) -> None:
    """Install the checks of this module in a session. A second call changes nothing."""
    client = spark.client
    if getattr(client.execute_command, "knows_delta", False):
        return
    client.execute_command = _after(lambda command: as_sent(command, spark), client.execute_command)
    client.to_table = _after(_check_catalog_call, client.to_table)


def _after(look: Callable[[Message], Message], send: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of the client so that `look` checks or replaces its first argument."""

    @functools.wraps(send)
    def looked_at(message: Message, *further: Any, **named: Any) -> Any:
        try:
            message = look(message)
        except DeltaError as error:
            raise for_user(error) from None
        return send(message, *further, **named)

    looked_at.knows_delta = True  # type: ignore[attr-defined]
    return looked_at


def as_sent(command: Message, spark: Any) -> Message:
    """The command to send to the server instead of the client's command.

    Raises:
        UnsupportedOperationError: the command would add a name that no statement can use, or it buckets or sorts the
            rows.
        OperationNotYetSupportedError: the command starts a stream.
    """
    kind = command.WhichOneof("command_type")
    if kind == "write_operation" and command.write_operation.source.lower() == SOURCE:
        return _encoded_write(command, _settings(spark))
    if kind == "write_operation_v2" and command.write_operation_v2.provider.lower() == SOURCE:
        raise _name_error(f"writeTo(...).using({SOURCE!r})", command.write_operation_v2.table_name)
    if kind == "write_stream_operation_start" and command.write_stream_operation_start.format.lower() == SOURCE:
        stream = command.write_stream_operation_start
        raise OperationNotYetSupportedError(
            operation="writeStream", table=stream.path or stream.table_name, tahoe_version=VERSION
        )
    if kind == "sql_command":
        name = _table_made_by(command.sql_command.input.sql.query or command.sql_command.sql)
        if name is not None:
            raise _name_error("CREATE TABLE ... USING delta", name)
    return command


def _check_catalog_call(plan: Message) -> Message:
    """Refuse a plan of `spark.catalog` that would add the name of a Delta table; return any other plan."""
    if plan.WhichOneof("op_type") != "root" or plan.root.WhichOneof("rel_type") != "catalog":
        return plan
    kind = plan.root.catalog.WhichOneof("cat_type")
    if kind in ("create_table", "create_external_table"):
        table = getattr(plan.root.catalog, kind)
        if table.source.lower() == SOURCE:
            raise _name_error("spark.catalog.createTable", table.table_name)
    return plan


def _settings(spark: Any) -> dict[str, str]:
    return {name: value for name, value in spark.conf.getAll.items() if is_setting(name)}


def _encoded_write(command: Message, settings: Mapping[str, str]) -> Message:
    """The write, with everything in options that Spark does not pass to a Python data source. A mode that Spark does
    not pass is sent as append; the source reads the mode itself from the option.
    """
    if command.write_operation.WhichOneof("save_type") == "table":
        raise _name_error("saveAsTable", command.write_operation.table.table_name)
    sent = Command()
    sent.CopyFrom(command)
    write = sent.write_operation
    if write.HasField("bucket_by") or write.sort_column_names:
        raise UnsupportedOperationError(
            operation="bucketBy or sortBy",
            table=write.path or write.options.get("path", ""),
            detail="Delta tables have no buckets",
            remedy="Leave them out, and use clusterBy instead.",
        )
    for option, columns in (
        (PARTITION_COLUMNS, write.partitioning_columns),
        (CLUSTERING_COLUMNS, write.clustering_columns),
    ):
        if columns:
            write.options[option] = json.dumps(list(columns))
            del columns[:]
    if write.mode in _MODES_SENT_AS_OPTION:
        write.options[MODE] = _MODES_SENT_AS_OPTION[write.mode]
        write.mode = WriteOperation.SAVE_MODE_APPEND
    if settings:
        write.options[SETTINGS] = json.dumps(settings)
    return sent


def _name_error(operation: str, name: str) -> UnsupportedOperationError:
    """The error for a table by name on a server that has not enabled tahoe."""
    return UnsupportedOperationError(
        operation=operation,
        table=name,
        detail=(
            "the server of this Spark Connect session has not enabled tahoe, so no statement could use the table's name"
        ),
        remedy=(
            'Write to a path, df.write.format("delta").save(path), or create the table by name in a session with its '
            "own JVM."
        ),
    )


# --- statements that create a Delta table


def _table_made_by(text: str) -> str | None:
    """The name of the Delta table that a statement would create; None if it would create none."""
    tokens = [token for token in tokens_of(text) if token.kind != "end"]
    words = iter(tokens)
    if not _begins_with_create(words):
        return None
    using = next(
        (i for i, token in enumerate(tokens) if token.is_word("USING") and _is_source(tokens[i + 1 : i + 2])), None
    )
    if using is None:
        return None
    name = [token for token in words if not token.is_word("IF", "NOT", "EXISTS")]
    return text[name[0].start : _end_of_name(name)] if name else None


def _begins_with_create(words: Iterator[Token]) -> bool:
    """Whether a statement starts with CREATE TABLE or REPLACE TABLE. Consumes these words, up to the name."""
    first = next(words, None)
    if first is None or not first.is_word("CREATE", "REPLACE"):
        return False
    for word in words:
        if word.is_word("TABLE"):
            return True
        if not word.is_word("OR", "REPLACE", "EXTERNAL"):
            return False
    return False


def _is_source(tokens: list[Token]) -> bool:
    return any(token.value.lower() == SOURCE for token in tokens)


def _end_of_name(tokens: list[Token]) -> int:
    """The end of a name, whose parts are separated by dots."""
    end = 0
    while end + 2 < len(tokens) and tokens[end + 1].is_symbol("."):
        end += 2
    return tokens[end].end
