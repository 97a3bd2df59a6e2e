"""`spark_internals.toml` is all that the package calls in Spark's JVM by name, and the Spark that is installed here has
it. No session is started: the JARs are read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.class_files import CONSTRUCTOR, Jars, Member, jars_of_spark
from tests.package import java_calls
from tests.package.java_calls import NEW, Touch

pytestmark = pytest.mark.every_spark

LIST = Path(__file__).with_name("spark_internals.toml")
OLDEST = "4.1"
HERE = tuple(map(int, version("pyspark").split(".")[:2]))

# What Python calls of classes of the JDK, which no JAR of Spark has.
OF_THE_JDK = frozenset({
    "getClass", "getName", "getSimpleName", "getSuperclass", "getMethods", "getParameterCount", "getField", "isInstance",
    "hasNext", "next", "iterator", "add", "put", "currentThread", "getContextClassLoader", "getParent", "getResource",
    "getProtectionDomain", "getCodeSource", "getLocation", "getPath", "openConnection", "getJarFileURL", "toURI", "toURL",
    "toString", "getMessage", "getCause", "deleteOnExit", "fromString", "load", "forName", "write", "name", "orElse",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """What the list says of a class.

    Attributes:
        members: methods and fields that are called; `new` is a constructor.
        hidden: fields that Java reaches by reflection, whoever may see them.
        since, until: the first and the last Spark that has all of this.
    """

    name: str
    members: tuple[str, ...]
    hidden: tuple[str, ...]
    since: tuple[int, ...]
    until: tuple[int, ...] | None

    @property
    def is_here(self) -> bool:
        return self.since <= HERE and (self.until is None or self.until >= HERE)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def entries() -> Iterator[Entry]:
    for row in tomllib.loads(LIST.read_text(encoding="utf-8"))["class"]:
        check_row(row)
        for name in row["names"]:
            yield Entry(
                name=f"{row['package']}.{name}",
                members=tuple(row.get("members", ())),
                hidden=tuple(row.get("hidden", ())),
                since=_version(row.get("since", OLDEST)),
                until=_version(row["until"]) if "until" in row else None,
            )


def check_row(row: dict[str, Any]) -> None:
    """Every row says why, and nothing that is not read here."""
    assert set(row) <= {"package", "names", "members", "hidden", "since", "until", "why"}, row
    assert row["why"], row


LISTED = tuple(entries())


@cache
def jars() -> Jars:
    return jars_of_spark()


@cache
def of_class(name: str) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    for member in jars().members(name):
        found.setdefault(NEW if member.name == CONSTRUCTOR else member.name, []).append(member)
    return found


def missing(entry: Entry) -> list[str]:
    """What the JARs lack of an entry."""
    if jars().find(entry.name) is None:
        return [entry.name]
    found = of_class(entry.name)
    public = {name for name, members in found.items() if any(member.is_public for member in members)}
    lacks = [name for name in entry.members if name not in public]
    return [f"{entry.name}: {name}" for name in [*lacks, *(name for name in entry.hidden if name not in found)]]


def test_the_spark_that_is_here_has_what_is_listed() -> None:
    assert [text for entry in LISTED if entry.is_here for text in missing(entry)] == []


def test_another_spark_has_what_is_listed_for_it_alone() -> None:
    """An entry that says too little would hide when Spark drops what older Sparks have."""
    for entry in LISTED:
        if not entry.is_here and jars().find(entry.name) is not None:
            assert len(missing(entry)) == len(entry.members) + len(entry.hidden) > 0, entry


def members_listed() -> dict[str, list[str]]:
    """The classes by the members that they have on some Spark."""
    found: dict[str, list[str]] = {}
    for entry in LISTED:
        for member in (*entry.members, *entry.hidden):
            found.setdefault(member, []).append(entry.name)
    return found


def is_listed(touch: Touch, members: dict[str, list[str]], ours: frozenset[str]) -> bool:
    if touch.owner is None:
        return touch.member in members or touch.member in ours or touch.member in OF_THE_JDK | OF_PYTHON
    if touch.owner.startswith(("java.", "delta.", "org.apache.spark.sql.delta.", "org.apache.comet.")):
        return True
    if touch.member is None:
        return any(entry.name.rstrip("$") == touch.owner.rstrip("$") for entry in LISTED)
    return touch.owner in members.get(touch.member, ())


def test_python_calls_nothing_that_is_not_listed() -> None:
    """Add what is new to `spark_internals.toml`, with why."""
    members, ours = members_listed(), java_calls.members_of_ours()
    touches = [*java_calls.calls_of_python(), *java_calls.named_in_java()]
    assert len(touches) > 300
    assert [touch for touch in touches if not is_listed(touch, members, ours)] == []


def test_python_calls_methods_with_as_many_arguments_as_they_have() -> None:
    members, ours, wrong = members_listed(), java_calls.members_of_ours(), list[Touch]()
    for touch in java_calls.calls_of_python():
        owners = members.get(touch.member or "", []) if touch.owner is None else [touch.owner]
        of_spark = [owner for owner in owners if jars().find(owner) is not None]
        if touch.arguments is None or not of_spark or touch.member in ours | OF_THE_JDK:
            continue
        found = [member for owner in of_spark for member in of_class(owner).get(touch.member or "", ())]
        is_constant = any(member.parameters == 0 for member in found)  # a function that a method returns is applied
        if found and not is_constant and not any(member.parameters == touch.arguments for member in found):
            wrong.append(touch)
    assert wrong == []


# Texts that are the simple name of a class of Spark's too, but mean something else.
NO_CLASSES = frozenset(
    {"AnalysisException", "Assignment", "Call", "Column", "Complete", "Scan", "AddConstraint", "DropConstraint"}
)

# Attributes of Python's own objects that the search takes for Java's.
OF_PYTHON = frozenset(
    {"_gateway_client", "agg", "asDict", "fpp", "head", "new_array", "num_items", "select", "typeName"}
)


def test_classes_that_are_known_by_their_simple_names_are_listed() -> None:
    """A statement would no longer be refused, or a plan no longer be understood, if Spark renamed its class."""
    spark = {
        name.rpartition(".")[2]
        for name in jars().names()
        if name.startswith("org.apache.spark.sql.") and "$" not in name
    }
    listed = {entry.name.rstrip("$").rpartition(".")[2].rpartition("$")[2] for entry in LISTED}
    assert {word: place for place, word in java_calls.words() if word in spark - listed - NO_CLASSES} == {}


def test_what_is_listed_is_called() -> None:
    """What nothing calls any more would be looked after in vain."""
    called = {touch.member for touch in [*java_calls.calls_of_python(), *java_calls.named_in_java()]}
    assert {
        (entry.name, member)
        for entry in LISTED
        for member in entry.members
        if member not in called | java_calls.METHODS_OF_PYTHON
    } == set()
