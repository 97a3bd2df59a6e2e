"""The table of cases of Spark's methods: what each answers for a table of ours.

A case without `instead` must answer as for a table of Parquet files with the same rows that has a name, also where ours
is named by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tests.spark.places import Ask, Place, Refusal, answer

REFUSED = Refusal()

# Statistics of Spark's catalog are those of a name.
BY_NAME_ALONE = Refusal("DELTA_UNSUPPORTED_OPERATION")


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked of a table.

    Attributes:
        instead: what a table of ours answers: by the kind of the table; else by whether it is "partitioned" or "whole",
            then by whether it is given by "name" or "path"; "" stands for all others. What is not in it is answered as
            by Parquet.
        changes: whether the case changes its table, which no other case sees then.
    """

    ask: Ask
    instead: Mapping[str, Any] = field(default_factory=dict)
    changes: bool = False

    def instead_of_parquet(self, kind: str) -> Any:
        """What is expected of a table of this kind; `AS_PARQUET` if its answer is Parquet's."""
        for key in (kind, kind.rpartition(" ")[0] or "whole", kind.rpartition(" ")[2], ""):
            if key in self.instead:
                return self.instead[key]
        return AS_PARQUET


AS_PARQUET = object()


def _frame(at: Place) -> DataFrame:
    """A row for the table."""
    return at.spark.sql("SELECT 9L AS id, 'z' AS s, 1 AS p")


def _read(at: Place) -> Any:
    return sorted(at.spark.read.format(at.form).load(at.path).select("id", "s", "p").collect())


def _after(write: Callable[[Place], Any]) -> Callable[[Place], Any]:
    """The rows of the table after a write."""

    def ask(at: Place) -> Any:
        write(at)
        return at.rows()

    return ask


def _made(write: Callable[[Place], Any], *, at_path: bool = False) -> Callable[[Place], Any]:
    """The rows of the new table that a call makes, and by which columns it is partitioned."""

    def ask(at: Place) -> Any:
        write(at)
        table = f"{at.form}.`{at.beside}`" if at_path else at.new
        return at.rows(table)

    return ask


def _all(at: Place) -> DataFrame:
    return at.spark.table(at.table).select("id", "s", "p")


def _stream(at: Place) -> Any:
    """A reader of streams; a stream of files needs a schema."""
    reader = at.spark.readStream.format(at.form)
    return reader if at.form == "delta" else reader.schema("id BIGINT, s STRING, p INT")


def _ran(at: Place, frame: DataFrame) -> Any:
    """The rows of a stream that is read to its end."""
    name = f"{at.fresh}_seen"
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
        return at.rows(name)
    finally:
        query.stop()
        at.spark.catalog.dropTempView(name)


def _source(at: Place) -> DataFrame:
    """A stream of one row for the table, from files."""
    folder = f"{at.beside}_source"
    _frame(at).write.mode("overwrite").json(folder)
    return at.spark.readStream.schema("id BIGINT, s STRING, p INT").json(folder)


def _written(at: Place, start: Callable[[Any], Any]) -> Any:
    """The rows of the table after a stream was written into it; `start` gets the writer."""
    writer = _source(at).writeStream.option("checkpointLocation", f"{at.beside}_checkpoint").trigger(availableNow=True)
    query = start(writer.format(at.form))
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return at.rows()


def _into(at: Place) -> Callable[[Any], Any]:
    """Starts a writer of a stream into the table, by its name or its path."""
    writer_of = (lambda w: w.partitionBy("p")) if at.is_partitioned else (lambda w: w)
    if at.is_named:
        return lambda writer: writer_of(writer).toTable(at.table)
    return lambda writer: writer_of(writer).start(at.path)


def _views(at: Place, make: Callable[[str], Any]) -> list[str]:
    """The names of temporary views after one was made and dropped."""
    make("view_of_case")
    at.spark.catalog.dropTempView("view_of_case")
    return [view.name for view in at.spark.catalog.listTables() if view.isTemporary]


def _named(reader: Any) -> Any:
    """A source of a stream with a name, on a Spark that has such."""
    return reader.name("orders") if hasattr(reader, "name") else reader


def _as_other(at: Place, form: str) -> Any:
    """A write of files of another format into the table's folder."""
    writer = _frame(at).select("s").write.mode("append")
    return writer.xml(at.path, rowTag="r") if form == "xml" else getattr(writer, form)(at.path)


FOUND = [(1, "a", 0), (2, "b", 1), (3, "c", 0)]

# --- readers

READER: dict[str, Case] = {
    "format load": Case(_read),
    "table": Case(lambda at: at.rows()),
    "schema": Case(
        lambda at: at.spark.read.schema("id BIGINT, s STRING, p INT").format(at.form).load(at.path).count(),
        {"": REFUSED},
    ),
    "option options": Case(
        lambda at: at.spark.read.format(at.form).option("pathGlobFilter", "*").options(path=at.path).load().count()
    ),
    "parquet": Case(lambda at: at.spark.read.parquet(at.path).count(), {"": Refusal("DELTA_INVALID_FORMAT")}),
    "orc": Case(lambda at: at.spark.read.schema("id BIGINT").orc(at.path).count(), {"": REFUSED}),
    "jdbc": Case(lambda at: at.spark.read.jdbc("jdbc:none:x", "there").count()),
    "csv": Case(lambda at: at.spark.read.schema("id BIGINT").csv(f"{at.path}/nothing").count()),
    "json": Case(lambda at: at.spark.read.schema("id BIGINT").json(f"{at.path}/nothing").count()),
    "text": Case(lambda at: at.spark.read.text(f"{at.path}/nothing").count()),
    "xml": Case(lambda at: at.spark.read.schema("id BIGINT").xml(f"{at.path}/nothing", rowTag="r").count()),
    "changes": Case(lambda at: at.spark.read.option("startingVersion", 0).changes(at.table).count()),
}

STREAM_READER: dict[str, Case] = {
    "format load name option options": Case(
        lambda at: _ran(
            at, _named(_stream(at)).option("maxFilesPerTrigger", 1).options(ignoreDeletes="true").load(at.path)
        )
    ),
    "table": Case(lambda at: _ran(at, at.spark.readStream.table(at.table))),
    "schema": Case(lambda at: _ran(at, _stream(at).schema("id BIGINT, s STRING, p INT").load(at.path)), {"": REFUSED}),
    "parquet": Case(
        lambda at: _ran(at, at.spark.readStream.schema("id BIGINT, s STRING, p INT").parquet(at.path)), {"": REFUSED}
    ),
    "changes": Case(lambda at: _ran(at, at.spark.readStream.option("startingVersion", 0).changes(at.table))),
    "csv json orc text xml": Case(
        lambda at: [
            answer(
                lambda at, form=form: getattr(at.spark.readStream.schema("id BIGINT"), form)(f"{at.path}/nothing"), at
            )
            for form in ("csv", "json", "orc", "text", "xml")
        ]
    ),
}

# --- writers


def _saver(at: Place) -> Any:
    return _frame(at).write.format(at.form).mode("append").partitionBy(*at.partitions)


WRITER: dict[str, Case] = {
    "format save": Case(_after(lambda at: _saver(at).save(at.path)), changes=True),
    "mode option options": Case(
        _after(lambda at: _saver(at).mode("overwrite").option("compression", "snappy").options(path=at.path).save()), changes=True
    ),
    "partitionBy": Case(
        _made(lambda at: _all(at).write.format(at.form).partitionBy("p").save(at.beside), at_path=True), changes=True
    ),
    "bucketBy sortBy": Case(
        _made(lambda at: _all(at).write.format(at.form).bucketBy(2, "id").sortBy("id").saveAsTable(at.new)), {"": REFUSED}, changes=True
    ),
    "clusterBy": Case(_made(lambda at: _all(at).write.format(at.form).clusterBy("id").saveAsTable(at.new)), changes=True),
    "insertInto": Case(_after(lambda at: _frame(at).write.insertInto(at.table)), changes=True),
    "saveAsTable": Case(_made(lambda at: _all(at).write.format(at.form).saveAsTable(at.new)), changes=True),
    "csv json orc parquet text xml": Case(
        lambda at: [answer(lambda at, form=form: _as_other(at, form), at) for form in ("csv", "json", "orc", "parquet", "text", "xml")],
        {"": [REFUSED] * 6}, changes=True
    ),
    "jdbc": Case(lambda at: _all(at).write.jdbc("jdbc:none:x", "there")),
}  # fmt: skip

ADDED, REPLACED = [*FOUND, (9, "z", 1)], [(9, "z", 1)]
IN_PLACE = [(1, "a", 0), (3, "c", 0), (9, "z", 1)]

WRITER_V2: dict[str, Case] = {
    "append option options": Case(
        _after(lambda at: _frame(at).writeTo(at.table).option("userMetadata", "x").options(txnAppId="a", txnVersion=1).append()),
        {"": ADDED}, changes=True
    ),
    "overwrite": Case(_after(lambda at: _frame(at).writeTo(at.table).overwrite(F.col("p") == 1)), {"": IN_PLACE}, changes=True),
    "overwritePartitions": Case(
        _after(lambda at: _frame(at).writeTo(at.table).overwritePartitions()), {"whole": REPLACED, "": IN_PLACE}, changes=True
    ),
    "create using tableProperty": Case(
        _made(lambda at: _all(at).writeTo(at.new).using(at.form).tableProperty("a", "b").create()), changes=True
    ),
    "createOrReplace": Case(
        _made(lambda at: _all(at).writeTo(at.new).using(at.form).createOrReplace()), {"": FOUND}, changes=True
    ),
    "replace": Case(_after(lambda at: _frame(at).writeTo(at.table).using(at.form).replace()), {"": REPLACED}, changes=True),
    "partitionedBy": Case(
        _made(lambda at: _all(at).writeTo(at.new).using(at.form).partitionedBy(F.col("p")).create()), changes=True
    ),
    "clusterBy": Case(_made(lambda at: _all(at).writeTo(at.new).using(at.form).clusterBy("id").create()), changes=True),
}  # fmt: skip

# Parquet's files that no stream has written are not read beside those of a stream.
STREAM_WRITER: dict[str, Case] = {
    "format option options outputMode partitionBy queryName start toTable trigger": Case(
        lambda at: _written(
            at, lambda w: _into(at)(w.option("maxRecordsPerFile", 1).options(compression="snappy").outputMode("append").queryName(f"{at.fresh}_q"))
        ), {"": ADDED}, changes=True
    ),
    "clusterBy": Case(
        lambda at: _written(at, lambda w: w.clusterBy("id").start(at.path)), {"": ADDED}, changes=True
    ),
    "foreachBatch": Case(
        lambda at: _written(at, lambda w: w.foreachBatch(lambda rows, _: rows.write.insertInto(at.table)).start()),
        {"": ADDED}, changes=True
    ),
    "foreach": Case(
        lambda at: _stream(at).load(at.path).writeStream.foreach(lambda row: None)
        .option("checkpointLocation", f"{at.beside}_checkpoint").trigger(availableNow=True).start().awaitTermination()
    ),
}  # fmt: skip

# --- the catalog


def _cached(at: Place) -> list[bool]:
    catalog = at.spark.catalog
    catalog.cacheTable(at.table)
    found = [catalog.isCached(at.table)]
    catalog.uncacheTable(at.table)
    found.append(catalog.isCached(at.table))
    catalog.cacheTable(at.table)
    catalog.clearCache()
    return [*found, catalog.isCached(at.table)]


def _created(at: Place, *, external: bool) -> Any:
    catalog = at.spark.catalog
    make = catalog.createExternalTable if external else catalog.createTable
    make(at.fresh, path=at.path, source=at.form)
    return at.rows(at.fresh)


def _of_table(at: Place, call: Callable[[str], Any]) -> Any:
    call(at.table)
    return at.rows()


def _dropped(at: Place) -> bool:
    at.spark.catalog.dropTable(at.table)
    return at.spark.catalog.tableExists(at.table)


CATALOG: dict[str, Case] = {
    "tableExists": Case(lambda at: at.spark.catalog.tableExists(at.table)),
    "getTable": Case(lambda at: at.spark.catalog.getTable(at.table).isTemporary),
    "listTables": Case(lambda at: at.table in [table.name for table in at.spark.catalog.listTables()], {"path": False}),
    "listColumns": Case(
        lambda at: [(c.name, c.dataType, c.nullable, c.isPartition) for c in at.spark.catalog.listColumns(at.table)]
    ),
    "listPartitions": Case(lambda at: sorted(p.partition for p in at.spark.catalog.listPartitions(at.table))),
    "getTableProperties": Case(
        lambda at: "delta.minReaderVersion" in at.spark.catalog.getTableProperties(at.table), {"": True}
    ),
    "getCreateTableString": Case(lambda at: at.spark.catalog.getCreateTableString(at.table).split()[:2]),
    "truncateTable": Case(lambda at: _of_table(at, at.spark.catalog.truncateTable), {"": []}, changes=True),
    "analyzeTable": Case(
        lambda at: _of_table(at, at.spark.catalog.analyzeTable), {"path": BY_NAME_ALONE}, changes=True
    ),
    "dropTable": Case(_dropped, {"path": REFUSED}, changes=True),
    "createTable": Case(lambda at: _created(at, external=False), {"": FOUND}, changes=True),
    "createExternalTable": Case(lambda at: _created(at, external=True), {"": FOUND}, changes=True),
    "cacheTable clearCache isCached uncacheTable": Case(_cached),
    "refreshTable": Case(lambda at: _of_table(at, at.spark.catalog.refreshTable)),
    "refreshByPath": Case(lambda at: (at.spark.catalog.refreshByPath(at.path), at.rows())),
    "recoverPartitions": Case(lambda at: _of_table(at, at.spark.catalog.recoverPartitions), {"": REFUSED}),
    "dropTempView": Case(lambda at: _views(at, lambda name: at.spark.table(at.table).createTempView(name))),
    "dropView": Case(lambda at: at.spark.catalog.dropView(at.table)),
    "listViews": Case(lambda at: at.table in [view.name for view in at.spark.catalog.listViews()]),
}

NOT_ABOUT_TABLES = frozenset(
    f"Catalog.{name}"
    for name in (
        "currentCatalog", "setCurrentCatalog", "listCatalogs", "createDatabase", "dropDatabase", "currentDatabase",
        "setCurrentDatabase", "listDatabases", "getDatabase", "databaseExists", "listFunctions", "functionExists", "getFunction",
        "dropGlobalTempView", "registerFunction",
    )
)  # fmt: skip

METHODS: Mapping[str, Case] = {
    " ".join(f"{of}.{name}" for name in names.split()): case
    for of, cases in {
        "Catalog": CATALOG,
        "DataFrameReader": READER,
        "DataFrameWriter": WRITER,
        "DataFrameWriterV2": WRITER_V2,
        "DataStreamReader": STREAM_READER,
        "DataStreamWriter": STREAM_WRITER,
    }.items()
    for names, case in cases.items()
}
"""The cases by the methods that they ask for."""
