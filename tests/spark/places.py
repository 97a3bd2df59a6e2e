"""Tables by name and by path, partitioned and not, of Delta and of Parquet, with the same rows: what a case asks of."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tahoe.storage.background import finish_background

ROWS = "VALUES (1L, 'a', 0), (2L, 'b', 1), (3L, 'c', 0) AS v(id, s, p)"

# In a short run a case takes every other of them.
KINDS = ("name", "partitioned name", "partitioned path", "path")

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Refusal:
    """That a statement or a call is refused; two refusals are equal if one of them does not say with which condition.

    Attributes:
        condition: how the condition begins, or the class of an error without one.
    """

    condition: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Refusal):
            return NotImplemented
        first, second = sorted((self.condition, other.condition), key=len)
        return second.startswith(first)

    __hash__ = None  # type: ignore[assignment]


@dataclass(kw_only=True)
class Place:
    """A table, and names and folders that are free.

    Attributes:
        table: the table in SQL.
        path: its folder.
        fresh: a name that no table has.
        beside: a folder that does not exist.
    """

    spark: SparkSession
    form: str
    kind: str
    table: str
    path: str
    beside: str
    fresh: str
    made: list[str] = field(default_factory=list)

    @property
    def is_named(self) -> bool:
        return self.kind.endswith("name")

    @property
    def is_partitioned(self) -> bool:
        return self.kind.startswith("partitioned")

    @property
    def partitions(self) -> list[str]:
        return ["p"] if self.is_partitioned else []

    @property
    def new(self) -> str:
        """A table in SQL that does not exist, named as this one is: by a name or by a path."""
        return self.fresh if self.is_named else f"{self.form}.`{self.beside}`"

    def rows(self, table: str | None = None) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.table(table or self.table).select("id", "s", "p").collect())

    def text(self, template: str) -> str:
        return template.format(
            t=self.table, path=self.path, new=self.new, fresh=self.fresh, beside=self.beside, form=self.form,
            partitioned="PARTITIONED BY (p)" if self.is_partitioned else "",
        )  # fmt: skip

    def told(self, value: Any) -> Any:
        """A value without what differs between two places."""
        if isinstance(value, DataFrame):
            value = value.collect()
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.told, value)) if type(value) in (list, tuple) else tuple(map(self.told, value))
        if isinstance(value, str):
            for known, word in (
                (self.path, "PATH"),
                (self.beside, "BESIDE"),
                (self.fresh, "NEW"),
                (self.table, "TABLE"),
                (self.form, "FORM"),
            ):
                value = value.replace(known, word)
            return re.sub(r"#\d+L?", "#", value)
        return value


Ask: TypeAlias = str | Callable[[Place], Any]


def answer(ask: Ask, place: Place) -> Any:
    """What a statement or a call answers, in the order of the rows' texts; or that it is refused."""
    try:
        if callable(ask):
            return place.told(ask(place))
        *before, last = ask.split(";; ")
        for statement in before:
            place.spark.sql(place.text(statement)).collect()
        return sorted((place.told(tuple(row)) for row in place.spark.sql(place.text(last)).collect()), key=repr)
    except PySparkException as error:
        return Refusal(error.getCondition() or type(error).__name__)
    except Exception as error:
        return Refusal(type(error).__name__)


class Places:
    """Makes tables: copies of folders that are written once."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self._folder = spark, folder
        self._originals: dict[tuple[str, bool], Path] = {}

    def _original(self, form: str, *, is_partitioned: bool) -> Path:
        key = (form, is_partitioned)
        if key not in self._originals:
            path = self._folder / f"original-{form}-{is_partitioned}"
            frame = self.spark.sql(f"SELECT /*+ COALESCE(1) */ * FROM {ROWS}")
            frame.write.format(form).partitionBy(*(["p"] if is_partitioned else [])).save(str(path))
            finish_background()  # nothing comes to the log while it is copied
            self._originals[key] = path
        return self._originals[key]

    def make(self, form: str, kind: str) -> Place:
        number = next(_numbers)
        path, name = self._folder / f"t{number}", f"case_{number}"
        is_partitioned = kind.startswith("partitioned")
        shutil.copytree(self._original(form, is_partitioned=is_partitioned), path)
        place = Place(
            spark=self.spark, form=form, kind=kind, path=str(path), beside=f"{path}_beside", fresh=f"{name}_new",
            table=name if kind.endswith("name") else f"{form}.`{path}`",
        )  # fmt: skip
        if place.is_named:
            columns = "" if form == "delta" else "(id BIGINT, s STRING, p INT)"
            partitioning = "PARTITIONED BY (p)" if columns and is_partitioned else ""
            self.spark.sql(f"CREATE TABLE {name} {columns} USING {form} {partitioning} LOCATION '{path}'")
            if partitioning:
                self.spark.sql(f"MSCK REPAIR TABLE {name}")
        return place

    def drop(self, place: Place) -> None:
        for name in (place.table, place.fresh) if place.is_named else (place.fresh,):
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
