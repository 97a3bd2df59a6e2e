"""The table of cases of Spark's statements: what each answers for a table of ours, by the labels of Spark's grammar.

A case without `instead` must answer as for a table of Parquet files with the same rows that has a name, also where ours
is named by its path. `;; ` ends a statement before the one whose rows are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from tests.spark.method_cases import BY_NAME_ALONE, REFUSED, Case
from tests.spark.places import Refusal

ROWS = "SELECT id, s, p FROM {t} ORDER BY id"


def _then(statement: str, show: str = ROWS) -> str:
    return f"{statement};; {show}"


def _changed(statement: str, rows: object, show: str = ROWS) -> Case:
    """A change that Parquet refuses."""
    return Case(_then(statement, show), {"": rows}, changes=True)


A, B, C = (1, "a", 0), (2, "b", 1), (3, "c", 0)
Z = (9, "z", 1)

# Both parts of a statement read the table as it was.
BOTH = [(1, "a", 0), (11, "a", 0), (12, "b", 1), (13, "c", 0), (2, "b", 1), (22, "b", 1), (3, "c", 0)]

SPARK = version("pyspark")[:3]

# Where Spark replaces a part of a plan by a relation, it looks for a format of this name before it looks for a catalog.
AS_A_PATH_OF_FILES = {"path": Refusal("UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY")}

STATEMENTS: Mapping[str, Sequence[Case]] = {
    # --- queries
    "StatementDefault": [
        Case("SELECT * FROM {t}"),
        Case(
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT r.n, t.s FROM r JOIN {t} t ON t.id = r.n"
        ),
        Case("FROM {t} |> WHERE p = 0 |> AGGREGATE count(*) AS n GROUP BY p |> EXTEND n + 1 AS m"),
        Case("SELECT s COLLATE UTF8_LCASE = 'A' FROM {t}"),
        Case("SELECT variant_get(parse_json('{{\"a\": ' || id || '}}'), '$.a', 'INT') FROM {t}"),
        Case("SELECT * FROM IDENTIFIER('{t}')", AS_A_PATH_OF_FILES if SPARK == "4.1" else {}),
        Case("SELECT * FROM IDENTIFIER('' || '{t}')", AS_A_PATH_OF_FILES),
        Case("SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT)"),
        Case("SELECT * FROM {t} PIVOT (max(s) FOR p IN (0, 1))"),
    ],
    "VisitExecuteImmediate": [Case("EXECUTE IMMEDIATE 'SELECT s FROM {t} WHERE id = ?' USING 2")],
    "TableName": [
        Case("SELECT * FROM {t} AS a JOIN {t} AS b USING (id)"),
        Case("SELECT * FROM {t} VERSION AS OF 0", {"": [A, B, C]}),
    ],
    "AliasedQuery": [Case("SELECT * FROM (SELECT id FROM {t}) AS q")],
    "AliasedRelation": [Case("SELECT q.id FROM ({t} AS x JOIN {t} AS y USING (id)) AS q")],
    "TableValuedFunction": [Case("SELECT count(*) FROM table_changes('{t}', 0)", {"": REFUSED})],
    "ChangelogTableName": [Case("SELECT id, _change_type FROM {t} CHANGES FROM VERSION 0", {"": REFUSED})],
    "StreamRelation": [Case("SELECT * FROM STREAM {t}")],
    "StreamTableName": [Case("SELECT * FROM STREAM({t})")],
    "Table": [Case("TABLE {t}")],
    "FromStmt": [Case("FROM {t} SELECT id WHERE p = 0")],
    "Subquery": [Case("(SELECT max(id) FROM {t}) UNION ALL (SELECT min(id) FROM {t})")],
    "Explain": [Case("EXPLAIN DELETE FROM {t};; SELECT count(*) FROM {t}")],
    "DescribeQuery": [Case("DESCRIBE QUERY SELECT * FROM {t}")],
    # --- rows
    "DmlStatement": [Case(_then("WITH w AS (SELECT 9L, 'z', 1) INSERT INTO {t} SELECT * FROM w"), changes=True)],
    "SingleInsertQuery": [Case(_then("INSERT INTO {t} TABLE {t}"), changes=True)],
    "MultiInsertQuery": [
        Case(
            _then("FROM {t} INSERT INTO {t} SELECT id + 10, s, p INSERT INTO {t} SELECT id + 20, s, p WHERE p = 1"),
            {"": BOTH},
            changes=True,
        )
    ],
    "InsertIntoTable": [
        Case(_then("INSERT INTO {t} VALUES (9, 'z', 1)"), changes=True),
        Case(_then("INSERT INTO {t} (p, id) VALUES (1, 9)"), changes=True),
        Case(_then("INSERT INTO {t} BY NAME SELECT 1 AS p, 9L AS id, 'z' AS s"), changes=True),
        Case(_then("INSERT INTO {t} PARTITION (p = 1) VALUES (9, 'z')"), changes=True),
    ],
    "InsertOverwriteTable": [
        Case(_then("INSERT OVERWRITE {t} VALUES (9, 'z', 1)"), changes=True),
        Case(_then("INSERT OVERWRITE {t} PARTITION (p = 1) VALUES (9, 'z')"), changes=True),
    ],
    "InsertIntoReplaceWhere": [_changed("INSERT INTO {t} REPLACE WHERE p = 1 VALUES (9, 'z', 1)", [A, C, Z])],
    "InsertIntoReplaceBooleanCond": [
        _changed("INSERT INTO {t} REPLACE WHERE p = 1 VALUES (9, 'z', 1)", [A, C, Z]),
        _changed(
            "INSERT INTO {t} AS t REPLACE ON t.id = v.id SELECT * FROM VALUES (2L, 'z', 1) AS v(id, s, p)",
            [A, (2, "z", 1), C],
        ),
    ],
    "InsertIntoReplaceUsing": [_changed("INSERT INTO {t} REPLACE USING (p) VALUES (9, 'z', 1)", [A, C, Z])],
    "InsertOverwriteDir": [
        Case("INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT 1 AS x", {"": REFUSED}, changes=True)
    ],
    "InsertOverwriteHiveDir": [
        Case("INSERT OVERWRITE DIRECTORY '{path}' STORED AS parquet SELECT 1 AS x", {"": REFUSED}, changes=True)
    ],
    "DeleteFromTable": [_changed("DELETE FROM {t} WHERE id = 2", [A, C])],
    "UpdateTable": [_changed("UPDATE {t} SET s = 'x' WHERE p = 1", [A, (2, "x", 1), C])],
    "MergeIntoTable": [
        _changed(
            "MERGE INTO {t} t USING (SELECT id + 1 AS id, s, p FROM {t}) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET s = u.s "
            "WHEN NOT MATCHED THEN INSERT *",
            [A, (2, "a", 1), (3, "b", 0), (4, "c", 0)],
        )
    ],
    "TruncateTable": [_changed("TRUNCATE TABLE {t}", [])],
    "LoadData": [Case("LOAD DATA INPATH '{path}' INTO TABLE {t}", {"": REFUSED}, changes=True)],
    # --- definitions
    "CreateTable": [
        Case(
            _then("CREATE TABLE {new} USING {form} {partitioned} AS SELECT * FROM {t}", "SELECT * FROM {new}"),
            changes=True,
        ),
        Case(
            _then("CREATE TABLE {fresh} USING {form} LOCATION '{path}'", "SELECT count(*) FROM {fresh}"),
            {"": [(3,)]},
            changes=True,
        ),
        Case(_then("CREATE TABLE {new} (id BIGINT, p INT) USING {form}", "SELECT * FROM {new}"), changes=True),
    ],
    "CreateTableLike": [Case(_then("CREATE TABLE {fresh} LIKE {t}", "SELECT * FROM {fresh}"), changes=True)],
    "ReplaceTable": [_changed("CREATE OR REPLACE TABLE {t} USING {form} AS SELECT 9L AS id, 'z' AS s, 1 AS p", [Z])],
    "DropTable": [Case("DROP TABLE {t}", {"path": REFUSED}, changes=True)],
    "AddTableColumns": [
        _changed("ALTER TABLE {t} ADD COLUMNS (n INT COMMENT 'new')", [(None,)] * 3, "SELECT n FROM {t}")
    ],
    "RenameTableColumn": [_changed("ALTER TABLE {t} RENAME COLUMN s TO x", REFUSED)],
    "DropTableColumns": [_changed("ALTER TABLE {t} DROP COLUMN s", REFUSED)],
    "RenameTable": [
        Case(
            _then("ALTER TABLE {t} RENAME TO {fresh}", "SELECT count(*) FROM {fresh}"), {"path": REFUSED}, changes=True
        )
    ],
    "SetTableProperties": [
        _changed("ALTER TABLE {t} SET TBLPROPERTIES (a = 'b')", [("a", "b")], "SHOW TBLPROPERTIES {t} (a)")
    ],
    "UnsetTableProperties": [Case("ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS (a)", {"": []}, changes=True)],
    "AlterTableAlterColumn": [
        _changed("ALTER TABLE {t} ALTER COLUMN s COMMENT 'text'", [A, B, C]),
        _changed("ALTER TABLE {t} ALTER COLUMN id SET NOT NULL", [A, B, C]),
        _changed("ALTER TABLE {t} ALTER COLUMN s FIRST", [("id",), ("p",), ("s",)], "SHOW COLUMNS IN {t}"),
    ],
    "HiveChangeColumn": [_changed("ALTER TABLE {t} CHANGE COLUMN s s STRING COMMENT 'text'", [A, B, C])],
    "HiveReplaceColumns": [Case("ALTER TABLE {t} REPLACE COLUMNS (x INT)", {"": REFUSED}, changes=True)],
    "SetTableSerDe": [Case("ALTER TABLE {t} SET SERDEPROPERTIES ('a' = 'b')", {"": REFUSED}, changes=True)],
    "AddTablePartition": [Case("ALTER TABLE {t} ADD PARTITION (p = 7)", {"": REFUSED}, changes=True)],
    "RenameTablePartition": [
        Case("ALTER TABLE {t} PARTITION (p = 1) RENAME TO PARTITION (p = 7)", {"": REFUSED}, changes=True)
    ],
    "DropTablePartitions": [Case("ALTER TABLE {t} DROP PARTITION (p = 1)", {"": REFUSED}, changes=True)],
    "RecoverPartitions": [Case("ALTER TABLE {t} RECOVER PARTITIONS", {"": REFUSED}, changes=True)],
    "RepairTable": [Case("MSCK REPAIR TABLE {t}", {"": REFUSED}, changes=True)],
    "SetTableLocation": [Case("ALTER TABLE {t} SET LOCATION '{beside}'", {"": REFUSED}, changes=True)],
    "AlterClusterBy": [Case("ALTER TABLE {t} CLUSTER BY (id)", {"whole": [], "": REFUSED}, changes=True)],
    "AlterTableCollation": [Case("ALTER TABLE {t} DEFAULT COLLATION UTF8_LCASE", {"": []}, changes=True)],
    "AddTableConstraint": [_changed("ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)", [A, B, C])],
    "DropTableConstraint": [_changed("ALTER TABLE {t} DROP CONSTRAINT IF EXISTS c", [A, B, C])],
    "CommentTable": [_changed("COMMENT ON TABLE {t} IS 'about it'", [A, B, C])],
    "CommentColumn": [_changed("COMMENT ON COLUMN {t}.s IS 'text'", [A, B, C])],
    "CreateIndex": [Case("CREATE INDEX i ON {t} (id)", {"": REFUSED})],
    "DropIndex": [Case("DROP INDEX i ON {t}", {"": REFUSED})],
    # --- views
    "CreateView": [
        Case(
            _then("CREATE OR REPLACE TEMPORARY VIEW view_of_case AS SELECT id FROM {t}", "SELECT * FROM view_of_case")
        ),
        Case(
            _then(
                "CREATE VIEW {fresh}_view AS SELECT id FROM {t};; CREATE OR REPLACE TEMPORARY VIEW view_of_case AS SELECT * FROM {fresh}_view;; "
                "CACHE TABLE view_of_case;; UNCACHE TABLE view_of_case;; DROP VIEW {fresh}_view",
                "SELECT 1",
            )
        ),
    ],
    "CreateTempViewUsing": [
        Case(
            _then(
                "CREATE OR REPLACE TEMPORARY VIEW view_of_case USING {form} OPTIONS (path '{path}')",
                "SELECT id FROM view_of_case",
            )
        )
    ],
    "AlterViewQuery": [Case("ALTER VIEW {t} AS SELECT 1")],
    "AlterViewSchemaBinding": [Case("ALTER VIEW {t} WITH SCHEMA EVOLUTION")],
    "DropView": [Case("DROP VIEW {t}")],
    "CreateMetricView": [
        Case(
            "DROP VIEW IF EXISTS metric_view_of_case;; CREATE VIEW metric_view_of_case WITH METRICS LANGUAGE YAML AS $$\nversion: 0.1\nsource: {t}\n"
            "dimensions:\n- name: p\n  expr: p\nmeasures:\n- name: n\n  expr: count(*)\n$$;; "
            "SELECT p, MEASURE(n) FROM metric_view_of_case GROUP BY p",
            AS_A_PATH_OF_FILES,
        )
    ],
    # --- what is told
    "DescribeRelation": [
        Case(lambda at: [row[:2] for row in at.spark.sql(f"DESCRIBE TABLE {at.table}").collect()[:2]]),
        Case("DESCRIBE TABLE {t} s"),
        Case("DESCRIBE TABLE EXTENDED {t} AS JSON", {"": REFUSED}),
    ],
    "ShowTblProperties": [
        Case("SHOW TBLPROPERTIES {t} (delta.minReaderVersion)", {"": [("FORM.minReaderVersion", "1")]})
    ],
    "ShowColumns": [Case("SHOW COLUMNS IN {t}")],
    "ShowPartitions": [Case("SHOW PARTITIONS {t}", {"partitioned": [(0,), (1,)], "": REFUSED})],
    "ShowCreateTable": [Case("SHOW CREATE TABLE {t};; SELECT 1", {"": [(1,)]})],
    "ShowTables": [Case("SHOW TABLES LIKE 'no_such'")],
    "ShowTableExtended": [Case("SHOW TABLE EXTENDED LIKE 'no_such'")],
    "ShowViews": [Case("SHOW VIEWS LIKE 'no_such'")],
    # --- caches and statistics
    "Analyze": [
        Case("ANALYZE TABLE {t} COMPUTE STATISTICS", {"path": BY_NAME_ALONE}, changes=True),
        Case("ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS", {"path": BY_NAME_ALONE}, changes=True),
    ],
    "CacheTable": [Case("CACHE TABLE {t};; SELECT count(*) FROM {t};; UNCACHE TABLE {t};; SELECT count(*) FROM {t}")],
    "UncacheTable": [Case("UNCACHE TABLE IF EXISTS {t};; SELECT 1")],
    "RefreshTable": [Case("REFRESH TABLE {t};; SELECT count(*) FROM {t}")],
    "RefreshResource": [Case("REFRESH '{path}';; SELECT count(*) FROM {t}")],
}

NOT_ABOUT_TABLES = frozenset({
    "AnalyzeTables", "Call", "ClearCache", "CloseCursorStatement", "DeclareCursorStatement", "FetchCursorStatement", "OpenCursorStatement",
     "CommentNamespace", "CreateFunction", "CreateNamespace", "CreateUserDefinedFunction",
    "CreateVariable", "DescribeFunction", "DescribeNamespace", "DescribeProcedure", "DropFunction", "DropNamespace", "DropVariable",
    "FailNativeCommand", "FailSetRole", "InlineTable", "InlineTableDefault1", "InlineTableDefault2", "JsonTableRelation", "ManageResource", "QueryPrimaryDefault", "RefreshFunction",
    "SetCatalog", "SetNamespaceCollation", "SetNamespaceLocation", "SetNamespaceProperties", "ShowCatalogs", "ShowCollations",
    "ShowCurrentNamespace", "ShowFunctions", "ShowNamespaces", "ShowProcedures", "StreamTableValuedFunction", "UnnestTable", "UnsetNamespaceProperties", "Use",
    "UseNamespace",
})  # fmt: skip

VIEWS = ("view_of_case", "metric_view_of_case")
"""The views that cases make."""

FEATURES: Mapping[str, Sequence[Case]] = {
    "parameters": [Case(lambda at: at.spark.sql(f"SELECT s FROM {at.table} WHERE id = :n", args={"n": 2}))],
    "a name as a parameter": [
        Case(
            lambda at: at.spark.sql("SELECT s FROM IDENTIFIER(:t) WHERE id = 2", args={"t": at.table}),
            AS_A_PATH_OF_FILES if SPARK == "4.1" else {},
        )
    ],
    "session variables": [
        Case("DECLARE OR REPLACE VARIABLE wanted INT DEFAULT 2;; SELECT s FROM {t} WHERE id = wanted")
    ],
    "a script": [
        Case("BEGIN DECLARE n INT DEFAULT 2; SELECT s FROM {t} WHERE id = n; END"),
        _changed("BEGIN DELETE FROM {t} WHERE id = 2; INSERT INTO {t} VALUES (9, 'z', 1); END", [A, C, Z]),
    ],
    "real-time mode": [
        Case(
            lambda at: (
                at.spark.readStream.table(at.table)
                .writeStream.format("noop")
                .option("checkpointLocation", f"{at.beside}_real_time")
                .trigger(realTime="5 seconds")
                .start()
            ),
            {"": REFUSED},
        )
    ],
}
"""What is in no rule of the grammar."""

# Statements of declarative pipelines, which Spark runs in a program of its own: tests/programs/test_pipelines.py.
OF_PIPELINES = frozenset(
    {"AutoCdcCommand", "CreateFlowAutoCdc", "CreatePipelineDataset", "CreatePipelineInsertIntoFlow"}
)
