"""The names of deltalake and of delta-spark that we do not have, and what is written in their place.

Knows no class: `calls` looks names up. The tables have nothing that a class of ours has itself, or that `calls` finds
on an object of ours.
"""

from __future__ import annotations

from collections.abc import Mapping

_CHANGES = "with table.transaction() as changes: changes"
_NO_OBJECT = "arguments of the method that writes"

MODULE: Mapping[str, str] = {
    # deltalake
    "write_deltalake": 'tahoe.Table(path).append(data), or .overwrite(data) for mode="overwrite"',
    "convert_to_deltalake": "tahoe.Table(path).convert()",
    "QueryBuilder": "tahoe.Table(path).to_arrow(columns, filter), duckdb over to_pyarrow_dataset(), or spark.sql",
    "Schema": "a pyarrow.Schema",
    "Field": "a pyarrow.Field",
    "DataType": "a pyarrow.DataType",
    "VariantType": "Spark's VariantType",
    "Metadata": "tahoe.Table(path).snapshot().metadata",
    "Transaction": "txn=(app_id, version) of table.append and of table.overwrite",
    "CommitProperties": f"user_metadata and the other {_NO_OBJECT}",
    "PostCommitHookProperties": "the properties of the table, such as delta.checkpointInterval",
    "WriterProperties": "the properties of the table, such as delta.parquet.compression.codec",
    "ColumnProperties": "the properties of the table, such as delta.dataSkippingStatsColumns",
    "BloomFilterProperties": "CREATE BLOOMFILTER INDEX in spark.sql",
    "TableFeatures": "the name of the feature as text, as in table.drop_feature(name)",
    "enable_nanosecond_timestamps": "not needed: the timestamps of Delta tables are microseconds",
    "init_tracing": 'logging.getLogger("tahoe")',
    "rust_core_version": "tahoe.__version__",
    # delta-spark
    "configure_spark_with_delta_pip": "tahoe.configure(builder), or tahoe.enable(spark) for a session that exists",
    "DeltaMergeBuilder": "tahoe.tables.DeltaMergeBuilder",
    "DeltaOptimizeBuilder": "tahoe.tables.DeltaOptimizeBuilder",
    "IdentityGenerator": "tahoe.tables.IdentityGenerator",
}

TABLE: Mapping[str, str] = {
    "write": 'table.append(data), table.overwrite(data), or in Spark rows.write.format("delta").save(path)',
    # deltalake
    "alter": f"{_CHANGES}.add_columns(...), .add_constraint(...), .set_properties(...), and others",
    "create_write_transaction": "table.transaction(), whose changes are one commit",
    "deletion_vectors": "table.inspect.vectors()",
    "file_uris": "table.scan(filter).urls",
    "is_deltatable": "tahoe.Table(path).exists()",
    "get_add_actions": "table.files(), or table.inspect.statistics()",
    "load_as_version": "table.snapshot(version)",
    "load_with_datetime": "table.snapshot(timestamp=time)",
    "load_cdf": "table.changes(start_version=version)",
    "optimize.compact": "table.optimize()",
    "optimize.z_order": "table.optimize(z_order_by=columns)",
    "table_config": "table.properties",
    "table_uri": "table.url",
    "to_pyarrow_table": "table.to_arrow(columns, filter)",
    "transaction_version": "table.snapshot().txn_version(app_id)",
    "update_incremental": "not needed: every call sees the newest version",
    # delta-spark
    "addFeatureSupport": f"{_CHANGES}.upgrade_protocol(features=[name])",
    "alias": "source_alias and target_alias of table.merge",
    "cloneAtTimestamp": "table.clone(target, timestamp=time)",
    "cloneAtVersion": "table.clone(target, version=version)",
    "convertToDelta": "tahoe.Table(path).convert()",
    "createIfNotExists": "table.create(schema, if_not_exists=True)",
    "createOrReplace": "table.overwrite(data, overwrite_schema=True)",
    "detail": "table.snapshot(), table.properties and table.inspect.sizes()",
    "dropFeatureSupport": "table.drop_feature(name)",
    "forName": "tahoe.DeltaTable.forName(spark, name) in Spark, or tahoe.Table(path)",
    "forPath": "tahoe.Table(path), or tahoe.DeltaTable.forPath(spark, path) in Spark",
    "isDeltaTable": "tahoe.Table(path).exists()",
    "reorg": "table.optimize(max_deleted_share=0)",
    "restoreToTimestamp": "table.restore(timestamp=time)",
    "restoreToVersion": "table.restore(version)",
    "syncIdentity": f"{_CHANGES}.sync_identity(column, None)",
    "toDF": "table.to_arrow() or table.to_pandas(), and tahoe.DeltaTable.forPath(spark, path).toDF() in Spark",
    "upgradeTableProtocol": f"{_CHANGES}.upgrade_protocol(reader_version, writer_version)",
}

DELTA_TABLE: Mapping[str, str] = {
    "write": 'rows.write.format("delta").mode("append").save(path), or tahoe.Table(path).append(data)',
    "alter": "ALTER TABLE in spark.sql",
    "create_write_transaction": "tahoe.Table(path).transaction()",
    "deletion_vectors": "tahoe.Table(path).inspect.vectors()",
    "file_uris": "table.toDF().inputFiles()",
    "is_deltatable": "DeltaTable.isDeltaTable(spark, path), or tahoe.Table(path).exists()",
    "get_add_actions": "delta_files(path) in spark.sql, or tahoe.Table(path).files()",
    "load_as_version": 'spark.read.format("delta").option("versionAsOf", version).load(path)',
    "load_cdf": (
        'spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version).load(path)'
    ),
    "metadata": "table.detail()",
    "optimize.compact": "table.optimize().executeCompaction()",
    "optimize.z_order": "table.optimize().executeZOrderBy(*columns)",
    "partitions": "delta_partitions(path) in spark.sql, or tahoe.Table(path).inspect.partitions()",
    "protocol": "table.detail()",
    "restore": "table.restoreToVersion(version) or table.restoreToTimestamp(time)",
    "table_config": 'table.detail().select("properties")',
    "table_uri": 'table.detail().select("location")',
    "to_pandas": "table.toDF().toPandas()",
    "to_pyarrow_dataset": "tahoe.Table(path).to_pyarrow_dataset()",
    "to_pyarrow_table": "table.toDF().toArrow(), or tahoe.Table(path).to_arrow(columns, filter)",
    "transaction_version": "tahoe.Table(path).snapshot().txn_version(app_id)",
    "update_incremental": "not needed: every call sees the newest version",
    "version": 'table.history(1).first()["version"]',
}

MERGE_BUILDER: Mapping[str, str] = {"withSchemaEvolution": "table.merge(source, on, merge_schema=True)"}

OPTIMIZE_BUILDER: Mapping[str, str] = {
    "compact": "executeCompaction()",
    "execute": "executeCompaction(), or executeZOrderBy(*columns)",
    "z_order": "executeZOrderBy(*columns)",
    "zorderBy": "executeZOrderBy(*columns)",
}
