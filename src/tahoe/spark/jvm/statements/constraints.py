"""Declared keys and CHECK constraints as Spark's `Constraint`s, and Spark's as ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tahoe.protocol.configuration.declared_keys import FOREIGN, PRIMARY, UNIQUE, Key
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.catalog_entries import identifier, qualified_parts

_KINDS: Mapping[str, str] = {"PrimaryKey": PRIMARY, "Unique": UNIQUE, "ForeignKey": FOREIGN}


def key_of(gateway: Gateway, constraint: JavaObject) -> Key | None:
    """A key that is not enforced; None for any other constraint. The name of a referenced table gets its catalog."""
    kind = _KINDS.get(kind_of(constraint))
    if kind is None or constraint.enforced():
        return None
    columns, rely = _columns(constraint.columns()), bool(constraint.rely())
    key = Key(name=str(constraint.name()), kind=kind, columns=columns, rely=rely)
    if kind != FOREIGN:
        return key
    other = constraint.referencedTable()
    parts = [*map(str, other.namespace()), str(other.name())]
    return replace(
        key,
        references=qualified_parts(gateway, parts),
        referenced_columns=_columns(constraint.referencedColumns()),
    )


def _columns(references: JavaObject) -> tuple[str, ...]:
    return tuple(".".join(map(str, reference.fieldNames())) for reference in references)


def constraint_of_key(gateway: Gateway, key: Key) -> JavaObject:
    """A key as a `Constraint`."""
    make = _constraints(gateway)
    columns = _references(gateway, key.columns)
    if key.kind == PRIMARY:
        builder = make.primaryKey(key.name, columns)
    elif key.kind == UNIQUE:
        builder = make.unique(key.name, columns)
    else:
        other = identifier(gateway, key.references[:-1], key.references[-1])
        builder = make.foreignKey(key.name, columns, other, _references(gateway, key.referenced_columns))
    return builder.rely(key.rely).enforced(False).build()


def _references(gateway: Gateway, columns: Iterable[str]) -> JavaObject:
    make = gateway.module("org.apache.spark.sql.connector.expressions.FieldReference")
    kind = gateway.java_class("org.apache.spark.sql.connector.expressions.NamedReference")
    return gateway.array(kind, (make.column(name) for name in columns))


def check_constraint(gateway: Gateway, name: str, expression: str) -> JavaObject:
    """A CHECK constraint as a `Constraint`."""
    return _constraints(gateway).check(name).predicateSql(expression).enforced(True).build()


def constraint_array(gateway: Gateway, constraints: Iterable[JavaObject]) -> JavaObject:
    return gateway.array(_constraints(gateway), constraints)


def _constraints(gateway: Gateway) -> JavaObject:
    return gateway.java_class("org.apache.spark.sql.connector.catalog.constraints.Constraint")
