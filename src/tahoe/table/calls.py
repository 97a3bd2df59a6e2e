"""What public methods share: a wrong call is told with what it probably meant, and no error of Arrow's leaves a call.

Wrong calls have names of other libraries, methods called on a class, arguments that do not fit. Knows only names and
signatures. The rules for values are in `arguments`.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, GeneratorType, MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tahoe.errors import (
    ArrowFailedError,
    CalledOnClassError,
    MissingArgumentError,
    SurplusArgumentError,
    UnknownArgumentError,
    UnknownNameError,
)

Class = TypeVar("Class", bound=type)

# Other libraries' names of arguments.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "predicate": ("filter", "where", "on"),
    "condition": ("filter", "where", "on"),
    "where": ("filter",),
    "filters": ("filter",),
    "updates": ("set",),
    "new_values": ("set",),
    "df": ("data", "source"),
    "rows": ("data",),
    "partition_columns": ("partition_by",),
    "partition_cols": ("partition_by",),
    "configuration": ("properties",),
    "table_properties": ("properties",),
    "description": ("comment",),
    "schema_mode": ("merge_schema",),
    "version_as_of": ("version",),
    "path": ("location", "target"),
    "table_uri": ("location", "target"),
}

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# So many methods are named that have an argument.
_NAMED_MAX = 3


class OtherNames(ABCMeta):
    """The class of classes that tell other libraries' names also of the class itself, as in
    `Table.is_deltatable(path)`.

    It is that of abstract classes, so that a user's class may be both.
    """

    if not TYPE_CHECKING:  # type checkers tell names that do not exist

        def __getattr__(cls, name: str) -> Any:
            raise getattr(cls, "_unknown_name", _no_name)(cls, name)


def of_objects(
    example: str, names: Mapping[str, str] = MappingProxyType({}), beside: Mapping[str, type] = MappingProxyType({})
) -> Callable[[Class], Class]:
    """Refuse calls of a class's public methods on the class, such as `Table.create("/data/t", schema)`, and say what to
    write; and tell errors of Arrow's in calls on its objects as ours.

    So are names that the class does not have, if another library has them, or an object that is reached from here.

    Args:
        example: an expression that makes such an object.
        names: what is written in the place of other libraries' names; `optimize.compact` is a name of a method.
        beside: the classes of objects that are reached from an object of this class, by the expressions for them.
    """

    def decorate(owner: Class) -> Class:
        for name, method in _methods(owner):
            setattr(owner, name, _on_objects(owner, name, method, example))
        for name, instead in names.items():
            method_name, _, of_method = name.partition(".")
            if of_method:
                setattr(getattr(owner, method_name), of_method, _refusal(owner, name, instead))

        def unknown(asked: Any, name: str) -> AttributeError:
            instead = _instead(owner, name, names, beside)
            return (
                _no_name(asked, name)
                if instead is None
                else UnknownNameError(owner=owner.__name__, name=name, instead=instead)
            )

        def of_object(self: Any, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed: its error is the one to tell
                return object.__getattribute__(self, name)
            raise unknown(self, name)

        owner._unknown_name = staticmethod(unknown)  # type: ignore[attr-defined]
        owner.__getattr__ = of_object  # type: ignore[attr-defined]
        return owner

    return decorate


def _instead(owner: type, name: str, names: Mapping[str, str], beside: Mapping[str, type]) -> str | None:
    """What is written in the place of a name that a class does not have."""
    if name.startswith("_"):
        return None
    if name in names:
        return names[name]
    same = next((each for each in dir(owner) if not each.startswith("_") and _squeezed(each) == _squeezed(name)), None)
    if same is not None:
        return f"{same}{_arguments(owner, same)}"
    reached = (
        expression
        for expression, other in beside.items()
        if name in (*dir(other), *getattr(other, "__dataclass_fields__", ()))
    )
    expression = next(reached, None)
    return None if expression is None else f"{expression}.{name}{_arguments(beside[expression], name)}"


def _arguments(owner: type, name: str) -> str:
    """How an attribute of a class is called: with the arguments that it needs, or not at all."""
    method = inspect.getattr_static(owner, name, None)
    return f"({Signature(method).needed})" if isinstance(method, FunctionType) else ""


def _squeezed(name: str) -> str:
    """A name as it is in `camelCase` and in `snake_case`."""
    return name.replace("_", "").lower()


def _no_name(asked: object, name: str) -> AttributeError:
    """Python's own error, to which Python adds a name that is spelled alike."""
    told = f"type object {asked.__name__!r}" if isinstance(asked, type) else f"{type(asked).__name__!r} object"
    return AttributeError(f"{told} has no attribute {name!r}", name=name, obj=asked)


def _refusal(owner: type, name: str, instead: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise UnknownNameError(owner=owner.__name__, name=name, instead=instead)

    return refused


def _methods(owner: type) -> Iterator[tuple[str, FunctionType]]:
    """The public methods of a class that are called on its objects."""
    for name in dir(owner):
        method = inspect.getattr_static(owner, name)
        if not name.startswith("_") and isinstance(method, FunctionType):
            yield name, method


def _on_objects(owner: type, name: str, method: FunctionType, example: str) -> Callable[..., Any]:
    """The method, with errors that name it and show its call: for a call on the class, for wrong arguments, and for
    what Arrow raises.
    """
    signature = Signature(method)

    @wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not args or not isinstance(args[0], owner):
            raise CalledOnClassError(owner=owner.__name__, method=name, instead=f"{example}.{name}({signature.needed})")
        signature.check(args[0], args[1:], kwargs)
        with _arrows_errors(args[0], name):
            found = method(*args, **kwargs)
        return _each(args[0], name, found) if isinstance(found, GeneratorType) else found

    return called


@contextmanager
def _arrows_errors(owner: object, method: str) -> Iterator[None]:
    """
    Raises:
        ArrowFailedError: Arrow refused something that no rule of ours has refused before.
    """
    try:
        yield
    except pa.ArrowException as error:
        raise ArrowFailedError(method=method, table=table_told(owner), detail=str(error).rstrip(".")) from error


def _each(owner: object, method: str, items: Generator[Any, Any, Any]) -> Iterator[Any]:
    """What a method yields while it works."""
    with _arrows_errors(owner, method):
        yield from items


class Signature:
    """What a method can be called with. `needed`: the arguments that have no default."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.parameters = list(inspect.signature(method).parameters.values())[1:]
        self._names = [parameter.name for parameter in self.parameters]
        self._is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in self.parameters)
        self._is_long = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in self.parameters)
        self.needed = ", ".join(p.name for p in self.parameters if p.default is p.empty and p.kind not in _OPEN)
        self._by_position = [p.name for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    def check(self, owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """
        Raises:
            SurplusArgumentError: more arguments by position than the method takes.
            UnknownArgumentError: an argument by a name that the method does not have.
            MissingArgumentError: an argument that has no default was not given.
        """
        called = type(owner).__name__ if self._method.__name__ == "__init__" else self._method.__name__
        if len(args) > len(self._by_position) and not self._is_long:
            value = args[len(self._by_position)]
            named = [name for name in self._names if name not in self._by_position and name not in kwargs]
            error = SurplusArgumentError(
                table=table_told(owner),
                method=called,
                taken=", ".join(self._by_position) or "no argument",
                value=_shown(value),
                remedy=f"Give it by its name: {', '.join(named)}." if named else "Leave it out.",
            )
            raise error.suggesting(self._method_meant(owner, value))
        for name, value in kwargs.items() if not self._is_open else ():
            if name not in self._names:
                unknown = UnknownArgumentError(
                    table=table_told(owner), method=called, argument=name, arguments=", ".join(self._names)
                )
                known = next((other for other in _SYNONYMS.get(name, ()) if other in self._names), None)
                hint = f"Did you mean {known}?" if known else self._method_meant(owner, value)
                is_near = unknown.next_step != unknown.todo  # it suggests an argument that is spelled alike
                raise unknown.suggesting(hint if hint or is_near else _methods_with(type(owner), name))
        missing = [
            p.name
            for p in self.parameters[len(args) :]
            if p.name not in kwargs and p.default is p.empty and p.kind not in _OPEN
        ]
        if missing:
            call = f"{called}({self.needed})"
            raise MissingArgumentError(table=table_told(owner), method=called, missing=", ".join(missing), call=call)

    def _method_meant(self, owner: Any, value: Any) -> str | None:
        """A hint, if a value is the name of a method, such as "overwrite"."""
        names = [name for name, _ in _methods(type(owner))]
        return (
            f"Did you mean {value}({', '.join(self._by_position)})?"
            if isinstance(value, str) and value in names
            else None
        )


def _methods_with(owner: type, argument: str) -> str | None:
    """A hint that names methods of a class that have an argument, those with few arguments first."""
    parameters = {name: inspect.signature(method).parameters for name, method in _methods(owner)}
    found = sorted(
        (name for name in parameters if argument in parameters[name]), key=lambda name: len(parameters[name])
    )
    others = " and others" if len(found) > _NAMED_MAX else ""
    return f"It is an argument of {', '.join(found[:_NAMED_MAX])}{others}." if found else None


def table_told(owner: object) -> str:
    """The table of a method's object, as far as it is known yet."""
    return str(getattr(owner, "url", "the table"))


def _shown(value: Any) -> str:
    return (
        repr(value) if isinstance(value, str | int | float | bool | None) else f"a value of type {type(value).__name__}"
    )
