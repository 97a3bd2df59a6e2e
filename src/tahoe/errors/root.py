"""The root of all errors: a condition, an SQLSTATE, and two templates: what happened, and what to do next."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable
from typing import Any, ClassVar, Self


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that is like a name, if there is one."""
    whole = {each.lower(): each for each in known}
    side = "".join(name.lower().rpartition(".")[:2])  # "source." of source.id: what is compared is the name behind it
    ends = {each.removeprefix(side): spelled for each, spelled in whole.items() if each.startswith(side)}
    end, candidates = (name.lower().removeprefix(side), ends) if ends else (name.lower(), whole)
    near = difflib.get_close_matches(end, list(candidates), n=1, cutoff=0.6)
    return candidates[near[0]] if near else None


def cause_text(cause: BaseException) -> str:
    """What an error says as a part of another error about the same table: what happened alone, without naming the table
    again.
    """
    if not isinstance(cause, DeltaError):
        return str(cause)
    told = cause.what.format(
        **cause.parameters | {name: "the table" for name in cause.parameters if name in ("table", "location")}
    )
    return told.removeprefix("the table: ").rstrip(".")


class DeltaError(Exception):
    """The base class of all errors that tahoe raises.

    Attributes:
        condition: the error's name, stable across versions (``DELTA_TABLE_NOT_FOUND``).
        sqlstate: the five-character SQLSTATE.
        pyspark_class: the class of `pyspark.errors` that the error also has under Spark; the same as in the reference.
        parameters: the parameters of the message, by name.
        next_step: what the user can do about it.
    """

    condition: ClassVar[str] = "DELTA_ERROR"
    sqlstate: ClassVar[str] = "XXKDS"
    pyspark_class: ClassVar[str] = "PySparkException"
    what: ClassVar[str] = "{detail}"
    todo: ClassVar[str] = "Please report this with the table's log."

    def __init_subclass__(cls) -> None:
        """All errors appear to users as members of `tahoe.errors`."""
        if cls.__module__.startswith("tahoe.errors."):
            cls.__module__ = "tahoe.errors"

    def __init__(self, **parameters: Any) -> None:
        expected = self.parameter_names()
        if set(parameters) != expected:
            raise TypeError(f"{type(self).__name__} takes {sorted(expected)}, got {sorted(parameters)}")
        self.parameters: dict[str, Any] = parameters
        self.next_step: str = self.todo.format(**parameters)
        super().__init__(self._text())

    def _suggest(self, name: str, known: Iterable[str]) -> None:
        """Begin the next step with the one of the known names that is like a name, if there is one."""
        near = nearest(name, known)
        if near is not None:
            self._begin(f"Did you mean {near}?")

    def suggesting(self, hint: str | None) -> Self:
        """The same error, with a hint about what was meant."""
        if hint is not None:
            self._begin(hint)
        return self

    def _begin(self, hint: str) -> None:
        """Begin the next step with a hint."""
        self.restate(f"{hint} {self.todo.format(**self.parameters)}")

    def restate(self, next_step: str) -> Self:
        """The same error, with another next step."""
        self.next_step = next_step
        self.args = (self._text(),)
        return self

    def _text(self) -> str:
        return f"[{self.condition}] {self.what.format(**self.parameters)} {self.next_step} SQLSTATE: {self.sqlstate}"

    @classmethod
    def parameter_names(cls) -> set[str]:
        """The names in the two templates, which are the constructor's keyword arguments."""
        used = string.Formatter().parse(cls.what + cls.todo)
        return {name.split(".")[0].split("[")[0] for _, name, _, _ in used if name}

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.parameters, self.next_step))


def _rebuild(kind: type[DeltaError], parameters: dict[str, Any], next_step: str) -> DeltaError:
    return kind(**parameters).restate(next_step)


class DeltaAnalysisError(DeltaError):
    condition = "DELTA_ANALYSIS_ERROR"
    sqlstate = "42000"
    pyspark_class = "AnalysisException"
