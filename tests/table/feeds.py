"""Tables whose commits are made by hand, with change data files and deletion vectors as other writers make them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from tahoe.protocol.configuration.column_mapping import assign_mapping, column_id, stored_name
from tahoe.protocol.log.actions import Action, Add, Cdc, DeletionVectorDescriptor, Metadata, Protocol, Remove
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.schema import STRING, Field, Struct
from tahoe.storage.env import Env
from tahoe.table.arrow.types import arrow_type
from tests.table.builders import put_commit

ENABLED = {"delta.enableChangeDataFeed": "true"}
FEATURES = ("deletionVectors", "columnMapping", "timestampNtz")
WRITER_FEATURES = (*FEATURES, "changeDataFeed", "inCommitTimestamp", "appendOnly", "invariants")
PROTOCOL = Protocol(
    reader_version=3, writer_version=7, reader_features=frozenset(FEATURES), writer_features=frozenset(WRITER_FEATURES)
)


def metadata(schema: Struct, *, by: Sequence[str] = (), mode: str = "none", **properties: str) -> Metadata:
    """Metadata with the feed enabled. Two underscores in a property's name stand for a dot."""
    mapped, _ = assign_mapping(schema, mode, lambda field: f"col-{field.name}", 0)
    given = {f"delta.{name.replace('__', '.')}": value for name, value in properties.items()}
    mapping = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    return Metadata(
        id="fed",
        schema_string=mapped.to_json(),
        partition_columns=tuple(by),
        configuration={**ENABLED, **mapping, **given},
    )


class Fed:
    """A table with a change feed. Rows are lists of columns by their logical names; partition columns are given
    apart.
    """

    def __init__(self, env: Env, given: Metadata) -> None:
        self.env = env
        self.metadata = given
        self.version = -1
        self.commit(PROTOCOL, given)

    @property
    def table(self) -> tahoe.Table:
        return tahoe.Table(self.env.store.url, env=self.env)

    @property
    def mode(self) -> str:
        return self.metadata.configuration.get("delta.columnMapping.mode", "none")

    def commit(self, *actions: Action) -> int:
        """Put the next commit."""
        self.version += 1
        put_commit(self.env, self.version, actions)
        self.metadata = next((a for a in actions if isinstance(a, Metadata)), self.metadata)
        return self.version

    def add(
        self,
        path: str,
        rows: Mapping[str, Sequence[object]],
        vector: Iterable[int] | None = None,
        **partition: str | None,
    ) -> Add:
        """Write a data file."""
        size = self._write(path, rows)
        values = self._values(partition)
        return Add(
            path=encode_path(path),
            size_bytes=size,
            modification_time_ms=1,
            partition_values=values,
            deletion_vector=_descriptor(vector),
        )

    def cdc(self, path: str, rows: Mapping[str, Sequence[object]], **partition: str | None) -> Cdc:
        """Write a change data file; `rows` has a column `_change_type`."""
        return Cdc(path=encode_path(path), size_bytes=self._write(path, rows), partition_values=self._values(partition))

    def _write(self, path: str, rows: Mapping[str, Sequence[object]]) -> int:
        by_name = {f.name: f for f in self.metadata.schema}
        columns = [
            self._stored(by_name.get(name) or Field(name=name, type=STRING), values) for name, values in rows.items()
        ]
        out = io.BytesIO()
        pq.write_table(
            pa.table([values for _, values in columns], schema=pa.schema([field for field, _ in columns])), out
        )
        self.env.store.put(path, out.getvalue())
        return len(out.getvalue())

    def _stored(self, field: Field, values: Sequence[object] | pa.Array) -> tuple[pa.Field, pa.Array]:
        """A column as files have it: with the stored names and the ids of its fields."""
        array = pa.array(values, arrow_type(field.type)) if not isinstance(values, pa.Array) else values
        if isinstance(field.type, Struct):
            inner = [self._stored(f, array.field(i)) for i, f in enumerate(field.type)]
            array = pa.StructArray.from_arrays(
                [v for _, v in inner], fields=[f for f, _ in inner], mask=array.is_null()
            )
        number = column_id(field)
        named = {} if number is None else {"PARQUET:field_id": str(number)}
        return pa.field(stored_name(field, self.mode), array.type, metadata=named), array

    def _values(self, partition: Mapping[str, str | None]) -> dict[str, str | None]:
        by_name = {f.name: f for f in self.metadata.schema}
        return {stored_name(by_name[name], self.mode): value for name, value in partition.items()}


def _descriptor(rows: Iterable[int] | None) -> DeletionVectorDescriptor | None:
    return None if rows is None else inline_descriptor(rows)


def gone(add: Add, **fields: object) -> Remove:
    """The tombstone of a file."""
    given = {
        "partition_values": add.partition_values,
        "size_bytes": add.size_bytes,
        "deletion_vector": add.deletion_vector,
    }
    return Remove(path=add.path, deletion_timestamp_ms=1, **{**given, **fields})  # type: ignore[arg-type]


_COMMITS, _KEYS = 9, 30


def random_life(table: tahoe.Table, seed: int, properties: Mapping[str, str]) -> tahoe.Table:
    """The table, whose rows have been inserted, updated and deleted, and whose files were rewritten, at random."""
    draw = random.Random(seed)
    table.create(
        pa.schema([("id", pa.int64()), ("v", pa.int64()), ("part", pa.int64())]),
        partition_by=["part"],
        properties=properties,
    )
    for number in range(_COMMITS):
        low = draw.randrange(_KEYS)
        condition = f"id >= {low} AND id < {low + draw.randrange(1, _KEYS // 2)}"
        match draw.choice(["append", "append", "update", "update", "delete", "optimize", "move"]):
            case "append":
                keys = (
                    [number * _KEYS + key for key in range(draw.randrange(1, _KEYS // 2))] if number else range(_KEYS)
                )
                table.append(pa.table({"id": [*keys], "v": [number for _ in keys], "part": [key % 2 for key in keys]}))
            case "update":
                table.update({"v": "v + 100"}, condition)
            case "move":  # to another partition
                table.update({"part": "1 - part"}, condition)
            case "delete":
                table.delete(condition)
            case _:
                table.optimize()
    return table


def net_of(table: tahoe.Table, start: int) -> list[dict[str, object]]:
    """What remains of the changes since a version, by the key `id`: the difference of two versions, in those rows that
    the feed has.
    """
    before, after = (
        {row["id"]: row for row in table.snapshot(version).to_arrow().to_pylist()}
        for version in (start - 1, table.version)
    )
    net = []
    for key in sorted({*table.changes(start_version=start, columns=["id"])["id"].to_pylist()}):
        is_update = key in before and key in after
        if key in before:
            net.append({**before[key], "_change_type": "update_preimage" if is_update else "delete"})
        if key in after:
            net.append({**after[key], "_change_type": "update_postimage" if is_update else "insert"})
    return net
