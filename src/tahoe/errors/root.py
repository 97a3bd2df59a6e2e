"""The root of all errors: a condition, an SQLSTATE, and two templates: what happened, and what to do next."""

from __future__ import annotations

import string
from typing import Any, ClassVar


class DeltaError(Exception):
    """The root of the tree. Catch it to catch whatever tahoe raises.

    Attributes:
        condition: the error's name, stable between versions (``DELTA_TABLE_NOT_FOUND``).
        sqlstate: five characters of the SQL standard.
        pyspark_class: the class of `pyspark.errors` that it is as well where it is raised under Spark; the reference's where it has one.
        parameters: the values that the message was made from, by name.
        next_step: what the reader of the message can do now.
    """

    condition: ClassVar[str] = "DELTA_ERROR"
    sqlstate: ClassVar[str] = "XXKDS"
    pyspark_class: ClassVar[str] = "PySparkException"
    what: ClassVar[str] = "{detail}"
    todo: ClassVar[str] = "Please report this with the table's log."

    def __init_subclass__(cls) -> None:
        """Users know all errors by one module."""
        if cls.__module__.startswith("tahoe.errors."):
            cls.__module__ = "tahoe.errors"

    def __init__(self, **parameters: Any) -> None:
        expected = self.parameter_names()
        if set(parameters) != expected:
            raise TypeError(f"{type(self).__name__} takes {sorted(expected)}, got {sorted(parameters)}")
        self.parameters: dict[str, Any] = parameters
        self.next_step: str = self.todo.format(**parameters)
        super().__init__(f"[{self.condition}] {self.what.format(**parameters)} {self.next_step} SQLSTATE: {self.sqlstate}")

    @classmethod
    def parameter_names(cls) -> set[str]:
        """The names that the two templates use, which are the keywords that the constructor takes."""
        used = string.Formatter().parse(cls.what + cls.todo)
        return {name.split(".")[0].split("[")[0] for _, name, _, _ in used if name}

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.parameters))


def _rebuild(kind: type[DeltaError], parameters: dict[str, Any]) -> DeltaError:
    return kind(**parameters)


class DeltaAnalysisError(DeltaError):
    condition = "DELTA_ANALYSIS_ERROR"
    sqlstate = "42000"
    pyspark_class = "AnalysisException"
