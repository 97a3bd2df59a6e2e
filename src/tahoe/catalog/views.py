"""The views of a catalog: queries in Spark's SQL that have names among those of the tables.

A session of Spark makes them and runs them. A catalog only keeps them.
"""

from __future__ import annotations

import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tahoe.catalog.grants import forget
from tahoe.catalog.names import one_maker, parts_of, schema_id_of
from tahoe.catalog.tables_of_database import SCHEMAS, TABLES, VIEW
from tahoe.errors import CatalogNameTakenError, CatalogViewNotFoundError, InvalidArgumentError
from tahoe.protocol.types.json_text import is_text, load_json
from tahoe.protocol.types.schema import Struct
from tahoe.table.arrow.given_rows import described
from tahoe.table.arrow.types import delta_schema

COMMENT = "comment"

# The query, its columns and the rest, as a catalog keeps them. Each session that reads the view parses all of it.
SIZE_MAX_BYTES = 1 << 20

# With others, Spark changes the view when it is read and its tables have changed, and looks for it in its own catalog.
_SCHEMA_MODES = ("BINDING", "COMPENSATION")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A query, and how it is understood.

    Attributes:
        text: the query, in Spark's SQL.
        schema: of its rows, as the JSON of a schema of Spark's.
        catalog, namespace: where names in the text are looked up that do not say it. None and nothing stand for the
            catalog and the schema of the view.
        configurations: settings of SQL with which the query was written.
        query_columns: what the query calls its columns, if the view calls them otherwise.
        schema_mode: what happens if the columns of its tables change, in Spark's words.
        properties: the comment among them.
    """

    text: str
    schema: str
    catalog: str | None = None
    namespace: tuple[str, ...] = ()
    configurations: Mapping[str, str] = field(default_factory=dict)
    query_columns: tuple[str, ...] = ()
    schema_mode: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, schema: pa.Schema | Struct, *, comment: str | None = None) -> View:
        """A view over tables of its own schema."""
        struct = schema if isinstance(schema, Struct) else delta_schema(schema, table="a view")
        return cls(text=text, schema=struct.to_json(), properties={} if comment is None else {COMMENT: comment})

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> View:
        found: dict[str, Any] = json.loads(text)
        view = cls(**found)
        return replace(view, namespace=tuple(view.namespace), query_columns=tuple(view.query_columns))


class Views(ABC):
    """The views of a catalog, see `tahoe.Catalog`."""

    url: str

    @abstractmethod
    def _begin(self) -> AbstractContextManager[sa.Connection]:
        """A transaction of the database."""

    def create_view(self, name: str, view: View, *, replace: bool = False) -> None:
        """Make a view, which sessions of Spark read by its name.

        >>> catalog.create_view("shop.large", View.of("SELECT * FROM orders WHERE pieces > 9", schema))

        Args:
            replace: put it in the place of a view of that name, if there is one. Of several writers the last one wins.

        Raises:
            SchemaNotFoundError, CatalogNameError: the name cannot be given.
            CatalogNameTakenError: a table has it, or a view that is not to be replaced.
            InvalidArgumentError: the view is one that no session could read.
        """
        check_view(view, name)
        schema, short = parts_of(name)
        with self._begin() as connection:
            schema_id = schema_id_of(connection, self.url, schema)
            if not put_view(connection, schema_id, short, view, replace=replace):
                raise CatalogNameTakenError(url=self.url, name=f"a table or a view {name}")

    def view(self, name: str) -> View:
        """A view by its name.

        Raises:
            CatalogViewNotFoundError: there is none.
        """
        with self._begin() as connection:
            return View.from_json(self._row(connection, name).view)

    def views(self, schema: str | None = None) -> list[str]:
        """The names of the views of a schema, or of all views: `shop.large`."""
        query = sa.select(SCHEMAS.c.name, TABLES.c.name).join_from(TABLES, SCHEMAS).where(TABLES.c.kind == VIEW)
        if schema is not None:
            query = query.where(SCHEMAS.c.name == schema.lower())
        with self._begin() as connection:
            found = connection.execute(query.order_by(SCHEMAS.c.name, TABLES.c.name)).all()
        return [f"{of_schema}.{name}" for of_schema, name in found]

    def drop_view(self, name: str) -> None:
        """Remove a view. Its tables stay.

        Raises:
            CatalogViewNotFoundError: there is none.
        """
        with self._begin() as connection:
            remove_view(connection, self._row(connection, name).id)

    def _row(self, connection: sa.Connection, name: str) -> sa.Row[Any, Any]:
        schema, short = parts_of(name)
        is_it = (SCHEMAS.c.name == schema) & (TABLES.c.name == short) & (TABLES.c.kind == VIEW)
        found = connection.execute(
            sa.select(TABLES.c.id, TABLES.c.view).join_from(TABLES, SCHEMAS).where(is_it)
        ).first()
        if found is None:
            raise CatalogViewNotFoundError(url=self.url, name=name)
        return found


def check_view(view: View, name: str) -> None:
    """Refuse what sessions could not even read as a view. Whether its query can be run, only they know.

    Raises:
        InvalidArgumentError: it is so.
    """
    if not isinstance(view, View):
        raise _unfit(name, "view", "a tahoe.catalog.View", view)
    pairs = [*view.configurations.items(), *view.properties.items()]
    texts = [view.text, *view.namespace, *view.query_columns, *(text for pair in pairs for text in pair)]
    if not view.text or any(not is_text(text) or "\0" in text for text in texts):
        raise _unfit(name, "view", "of texts, and its query not an empty one", view)
    size_bytes = len(view.to_json().encode())
    if size_bytes > SIZE_MAX_BYTES:
        expected = f"at most {SIZE_MAX_BYTES:,} bytes with its schema and properties"
        remedy = "Make several views of it, of which one reads another, or put values into a table."
        raise _unfit(name, "view", expected, size_bytes, remedy)
    columns = _columns(view.schema)
    if not columns:
        raise _unfit(name, "schema", "the JSON of a schema of Spark's", view.schema)
    if view.query_columns and len(view.query_columns) != len(columns):
        raise _unfit(name, "query_columns", f"as many as the columns of the schema, {len(columns)}", view.query_columns)
    if view.schema_mode is not None and view.schema_mode not in _SCHEMA_MODES:
        remedy = "Leave out WITH SCHEMA EVOLUTION, or make the view in spark_catalog."
        raise _unfit(name, "schema_mode", " or ".join(_SCHEMA_MODES), view.schema_mode, remedy)


def _columns(schema: str) -> list[str]:
    """The columns of a schema of Spark's; none if it is no such thing. There are types that tables do not have."""
    try:
        fields = load_json(schema)["fields"]
        return [field["name"] for field in fields if isinstance(field["name"], str) and field["type"]]
    except (ValueError, TypeError, KeyError):
        return []


def _unfit(
    name: str, argument: str, expected: str, found: object, remedy: str = "Make it with View.of, or in Spark."
) -> InvalidArgumentError:
    return InvalidArgumentError(table=name, argument=argument, expected=expected, found=described(found), remedy=remedy)


def put_view(
    connection: sa.Connection, schema_id: str, name: str, view: View, *, replace: bool, owner: str | None = None
) -> bool:
    """Make or replace a view. False if a table has the name, or a view that is not to be replaced.

    Args:
        owner: of a new one.
    """
    one_maker(connection)
    is_it = (TABLES.c.schema_id == schema_id) & (TABLES.c.name == name)
    found = connection.execute(sa.select(TABLES.c.id, TABLES.c.kind).where(is_it)).first()
    if found is not None:
        if found.kind != VIEW or not replace:
            return False
        connection.execute(sa.update(TABLES).where(TABLES.c.id == found.id).values(view=view.to_json()))
        return True
    view_id = str(uuid.uuid4())
    row: dict[str, object] = {
        "id": view_id,
        "schema_id": schema_id,
        "name": name,
        "kind": VIEW,
        "url": f"view:{view_id}",  # no folder
        "owner": owner,
        "created_ms": time.time_ns() // 1_000_000,
        "latest_version": -1,
        "view": view.to_json(),
    }
    try:
        connection.execute(sa.insert(TABLES).values(row))
    except IntegrityError:  # a table was made meanwhile, or the schema was dropped
        return False
    return True


def remove_view(connection: sa.Connection, view_id: str) -> None:
    connection.execute(sa.delete(TABLES).where(TABLES.c.id == view_id))
    forget(connection, view_id)
