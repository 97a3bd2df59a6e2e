"""TPC-DS: its tables, made by a generator that Maven fetches, and its queries, from Spark's own tests. Neither is kept
with the sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZipFile

from benchmarks.measure import CACHE, SCALE_FACTOR, link_data_files

JARS = CACHE / "tpcds-jars"
FOLDER = CACHE / "tpcds" / f"sf{SCALE_FACTOR}"

# As Spark's own benchmark partitions them.
PARTITIONED_BY = {
    "store_sales": "ss_sold_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "web_sales": "ws_sold_date_sk",
    "store_returns": "sr_returned_date_sk",
    "catalog_returns": "cr_returned_date_sk",
    "web_returns": "wr_returned_date_sk",
    "inventory": "inv_date_sk",
}

# A column that the generator names otherwise than the queries.
_RENAMED = {"c_last_review_date_sk": "c_last_review_date"}

# Prints a line for each column: its table, name and type in SQL. The generator's command line does not tell the types.
_SCHEMAS = """
import io.trino.tpcds.Table;
import io.trino.tpcds.column.*;
for (Table t : Table.getBaseTables()) for (Column c : t.getColumns()) {
  ColumnType type = c.getType();
  String sql = switch (type.getBase()) {
    case INTEGER, IDENTIFIER -> "int";
    case DATE -> "date";
    case DECIMAL -> "decimal(" + type.getPrecision().get() + "," + type.getScale().get() + ")";
    default -> "string";
  };
  System.out.println("column " + t.getName() + " " + c.getName() + " " + sql);
}
/exit
"""


def queries() -> dict[str, str]:
    """The queries by their names, in order: q1, q2, ..., q14a, q14b, ..., q99."""
    (tests,) = JARS.glob("spark-sql_*-tests.jar")
    with ZipFile(tests) as jar:
        found = {
            Path(name).stem: jar.read(name).decode()
            for name in jar.namelist()
            if name.startswith("tpcds/q") and name.endswith(".sql")
        }
    return dict(sorted(found.items(), key=lambda query: (int(query[0].strip("qab")), query[0])))


def schemas() -> dict[str, str]:
    """The schema of each table as DDL."""
    command = ["jshell", "--class-path", _class_path(), "-s", "-"]
    told = subprocess.run(command, input=_SCHEMAS, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for line in told.splitlines():
        if line.startswith("column "):
            _, table, name, sql = line.split(maxsplit=3)
            found.setdefault(table, []).append(f"{_RENAMED.get(name, name)} {sql}")
    found.pop("dbgen_version", None)
    return {table: ", ".join(columns) for table, columns in found.items()}


def make(load: Callable[[str, str, str, str], object]) -> Path:
    """The folder with the tables at `SCALE_FACTOR`, made once: `delta/TABLE`, and the same data files without a log as
    `parquet/TABLE`.

    Args:
        load: writes a Delta table, from a pattern of paths of texts with columns between bars, a schema as DDL, the
            partition column or "", and the path of the table.
    """
    if not (FOLDER / "done").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        texts = FOLDER / "texts"
        texts.mkdir(parents=True)
        _generate(texts)
        for table, schema in schemas().items():
            load(f"{texts}/{table}_[0-9]*.dat", schema, PARTITIONED_BY.get(table, ""), str(FOLDER / "delta" / table))
            link_data_files(FOLDER / "delta" / table, FOLDER / "parquet" / table)
        shutil.rmtree(texts)
        (FOLDER / "done").touch()
    return FOLDER


def _generate(folder: Path) -> None:
    """All tables, in two pieces each: the generator makes a table of returns beside its sales, or makes the sales once
    more for it.
    """
    arguments = [
        "--scale",
        SCALE_FACTOR,
        "--parallelism",
        "2",
        "--directory",
        str(folder),
        "--do-not-terminate",
        "--overwrite",
    ]
    subprocess.run(["java", "-cp", _class_path(), "io.trino.tpcds.Driver", *arguments], check=True)


def _class_path() -> str:
    if not (JARS / "installed").exists():
        raise SystemExit(f"TPC-DS's generator is not there. Run: make {JARS.relative_to(CACHE.parent)}/installed")
    return os.pathsep.join(str(jar) for jar in sorted(JARS.glob("*.jar")) if not jar.name.endswith("-tests.jar"))


def only(names: str) -> Mapping[str, str]:
    """The queries of these names, separated by spaces; all of them for an empty text."""
    found = queries()
    return {name: found[name] for name in names.split()} if names.strip() else found
