"""What a session is set to reaches the storage."""

from __future__ import annotations

from tahoe.spark.jvm.table_cache import open_table
from tahoe.storage.cloud import CloudStore
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.dynamodb import DynamoDBCommitService


def test_the_commit_service_of_the_reference_is_chosen_by_its_settings(spark):
    """A session that was set up for the reference would else write past its other writers."""
    settings = {
        "spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore",
        "spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName": "mine",
        "spark.io.delta.storage.S3DynamoDBLogStore.ddb.region": "eu-west-1",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        store = open_table(spark, "s3a://bucket/served").env.store
        assert isinstance(store, CoordinatedStore)
        assert store.service == DynamoDBCommitService(table_name="mine", region="eu-west-1")
        assert isinstance(open_table(spark, "s3://bucket/served").env.store, CoordinatedStore), "s3 is s3a under Spark"
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert isinstance(open_table(spark, "s3a://bucket/plain").env.store, CloudStore)
