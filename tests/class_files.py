"""Reads what classes have from the JARs of a Spark, without starting it: their names, superclasses, methods and fields.

Specification: "The class File Format" of the Java Virtual Machine Specification.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

CONSTRUCTOR = "<init>"

_PUBLIC = 0x0001

# The bytes of a constant behind its tag. A text, tag 1, says its own length.
_TEXT = 1
_CONSTANT_BYTES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_TAKES_TWO = (5, 6)
_CLASS = 7


@dataclass(frozen=True, slots=True)
class Member:
    """A method, constructor or field.

    Attributes:
        parameters: how many it has; None for a field.
    """

    name: str
    parameters: int | None
    is_public: bool


@dataclass(frozen=True, slots=True)
class ClassFile:
    """A class or an interface.

    Attributes:
        parents: the names of its superclass and its interfaces.
        members: its own, without those that it inherits.
    """

    name: str
    is_public: bool
    parents: tuple[str, ...]
    members: tuple[Member, ...]


class Jars:
    """The classes of a folder of JARs, by names such as `java.util.Map$Entry`."""

    def __init__(self, folder: Path) -> None:
        self._files = [ZipFile(path) for path in sorted(folder.glob("*.jar"))]
        self._read: dict[str, ClassFile] = {}

    @cached_property
    def _places(self) -> Mapping[str, ZipFile]:
        places: dict[str, ZipFile] = {}
        for file in self._files:
            for entry in file.namelist():
                if entry.endswith(".class"):
                    places.setdefault(entry.removesuffix(".class").replace("/", "."), file)
        return places

    def names(self) -> Iterator[str]:
        return iter(self._places)

    def find(self, name: str) -> ClassFile | None:
        """The class of a name; None if no JAR has it."""
        if name not in self._read:
            file = self._places.get(name)
            if file is None:
                return None
            self._read[name] = parse(file.read(name.replace(".", "/") + ".class"))
        return self._read[name]

    def members(self, name: str) -> Iterator[Member]:
        """The members of a class, with those that it inherits, but for constructors and those of classes of the JDK."""
        pending, seen = [name], set[str]()
        while pending:
            found = self.find(here := pending.pop())
            if found is None or here in seen:
                continue
            seen.add(here)
            yield from (member for member in found.members if member.name != CONSTRUCTOR or here == name)
            pending += found.parents


def jars_of_spark() -> Jars:
    """The JARs of the PySpark that is installed here."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Jars(Path(os.path.dirname(spec.origin), "jars"))


def parse(data: bytes) -> ClassFile:
    """The class of a class file."""
    count, at = struct.unpack_from(">H", data, 8)[0], 10
    texts, classes = dict[int, str](), dict[int, int]()
    number = 1
    while number < count:
        tag = data[at]
        if tag == _TEXT:
            (length,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            if tag == _CLASS:
                (classes[number],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _CONSTANT_BYTES[tag]
        number += 2 if tag in _TAKES_TWO else 1

    def class_name(index: int) -> str:
        return texts[classes[index]].replace("/", ".")

    access, this, above, interfaces = struct.unpack_from(">HHHH", data, at)
    at += 8
    parents = [above, *struct.unpack_from(f">{interfaces}H", data, at)]
    at += 2 * interfaces
    members: list[Member] = []
    for is_method in (False, True):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            flags, name, descriptor, attributes = struct.unpack_from(">HHHH", data, at)
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", data, at + 2)[0]
            parameters = _parameters(texts[descriptor]) if is_method else None
            members.append(Member(texts[name], parameters, bool(flags & _PUBLIC)))
    named = tuple(class_name(index) for index in parents if index)
    return ClassFile(class_name(this), bool(access & _PUBLIC), named, tuple(members))


def _parameters(descriptor: str) -> int:
    """How many parameters a method has by its descriptor, as `(ILjava/lang/Object;[J)V`."""
    count, at = 0, 1
    while descriptor[at] != ")":
        while descriptor[at] == "[":
            at += 1
        at = descriptor.index(";", at) + 1 if descriptor[at] == "L" else at + 1
        count += 1
    return count
