"""What tests of COPY INTO share: a table, files, and the statement."""

from __future__ import annotations

JSON = '{{"id": {0}, "name": "{1}"}}'
HEADER = "FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"


def id_and_name(spark, path):
    """A table with two columns, as statements name it."""
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, name STRING) USING delta")
    return f"delta.`{path}`"


def put(folder, name, *lines):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(line + "\n" for line in lines))


def copy(spark, table, source, rest="FILEFORMAT = JSON"):
    return spark.sql(f"COPY INTO {table} FROM '{source}' {rest}").first()


def rows(spark, table):
    return sorted(tuple(row) for row in spark.table(table).collect())


def put_frame(folder, name, file_format, frame):
    """One file with the rows of a DataFrame."""
    made = folder.parent / f"{folder.name}-made"
    frame.coalesce(1).write.mode("overwrite").format(file_format).save(str(made))
    [file] = made.glob("part-*")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    file.rename(folder / name)
