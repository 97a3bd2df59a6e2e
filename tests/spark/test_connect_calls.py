"""What clients of Spark Connect ask for, and what a server may be. No server is asked."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any as Packed
from pyspark.sql.connect import proto
from pyspark.sql.connect.plan import LogicalPlan

from tahoe.errors import ConcurrentAppendException, ConnectServerError, WriteAlreadyRecordedError
from tahoe.spark.api.connect.calls import Call, Expression, Relation, calls_of_command, calls_of_relation
from tahoe.spark.api.connect.messages import Calls, DeltaCommand, DeltaRelation, unpacked
from tahoe.spark.api.connect.server import Serving
from tahoe.spark.api.connect.table import RemoteDeltaTable, _RemoteCalls, _RemoteMergeBuilder, _RemoteTableBuilder
from tahoe.spark.jvm.failures import class_for_clients


def named(name: str) -> bytes:
    return bytes(proto.Expression(unresolved_attribute={"unparsed_identifier": name}).SerializeToString())


def scan(alias: str | None = None) -> bytes:
    """A table as the target of a statement, as the reference's client sends it."""
    relation = proto.Relation(common={"plan_id": 7})
    relation.extension.Pack(DeltaRelation(scan={"table": {"table_or_view_name": "t"}}))
    if alias is not None:
        relation = proto.Relation(common={"plan_id": 8}, subquery_alias={"input": relation, "alias": alias})
    return bytes(relation.SerializeToString())


def test_a_target_is_its_table_under_its_alias():
    found = calls_of_relation(DeltaRelation(delete_from_table={"target": scan("a"), "condition": named("x")}))
    assert (found.name, found.alias, found.plan_ids) == ("t", "a", {7, 8})
    assert found.calls == (Call("delete", (), {"condition": Expression(named("x"))}),)


def test_a_target_that_is_no_table_is_refused():
    with pytest.raises(ValueError, match="not a Delta table"):
        calls_of_relation(
            DeltaRelation(delete_from_table={"target": proto.Relation(range={"end": 3, "step": 1}).SerializeToString()})
        )


def test_a_merge_keeps_the_order_of_its_clauses():
    merge = DeltaRelation(
        merge_into_table={
            "target": scan(),
            "source": b"source",
            "condition": named("c"),
            "with_schema_evolution": True,
            "matched_actions": [
                {
                    "condition": named("m"),
                    "update_action": {"assignments": [{"field": named("a.b"), "value": named("v")}]},
                },
                {"delete_action": {}},
            ],
            "not_matched_actions": [{"insert_star_action": {}}],
            "not_matched_by_source_actions": [{"update_action": {"assignments": []}}],
        }
    )
    assert calls_of_relation(merge).calls == (
        Call("merge", (Relation(b"source"), Expression(named("c")))),
        Call("withSchemaEvolution"),
        Call("whenMatchedUpdate", (), {"condition": Expression(named("m")), "set": {"a.b": Expression(named("v"))}}),
        Call("whenMatchedDelete"),
        Call("whenNotMatchedInsertAll"),
        Call("whenNotMatchedBySourceUpdate", (), {"set": {}}),
        Call("execute"),
    )


def test_version_zero_is_a_version():
    """A field that is set to its default is not a field that is not set."""
    table = {"path": {"path": "/t", "hadoop_conf": [{"key": "fs.a", "value": "b"}]}}
    restored = calls_of_relation(DeltaRelation(restore_table={"table": table, "version": 0}))
    assert (restored.path, restored.storage, restored.calls) == ("/t", {"fs.a": "b"}, (Call("restoreToVersion", (0,)),))
    cloned = calls_of_command(
        DeltaCommand(clone_table={"table": table, "target": "c", "version": 0, "is_shallow": True})
    )
    assert cloned.calls == (Call("cloneAtVersion", (0, "c", True, False, {})),)


def test_a_message_of_others_is_left_to_them():
    packed = Packed()
    packed.Pack(proto.Relation(range={"end": 3, "step": 1}))
    assert unpacked(packed.SerializeToString(), DeltaRelation) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"host": "0.0.0.0", "settings": {}}, "token"),
        ({"token": "", "settings": {}}, "empty"),
        ({"settings": {"spark.connect.grpc.binding.port": "1"}}, "--port"),
        ({"settings": {"spark.plugins": "a.B,org.apache.spark.sql.connect.SparkConnectPlugin"}}, "SparkConnectPlugin"),
    ],
)
def test_what_would_be_open_to_all_is_refused(asked, said):
    with pytest.raises(ConnectServerError, match=said):
        Serving(**asked)


def test_the_users_plugins_stay():
    settings = Serving(port=0, settings={"spark.connect.extensions.relation.classes": "a.B"}).spark_settings()
    assert settings["spark.connect.extensions.relation.classes"] == "a.B,delta.connect.Relations"
    assert (settings["spark.connect.grpc.binding.address"], settings["spark.ui.enabled"]) == ("localhost", "false")


def test_a_conflict_has_the_name_that_the_references_client_knows():
    assert class_for_clients(ConcurrentAppendException) == "io.delta.exceptions.ConcurrentAppendException"
    assert class_for_clients(WriteAlreadyRecordedError) == "io.delta.exceptions.ConcurrentTransactionException"


def test_what_a_client_has_tells_its_table_without_asking():
    table = RemoteDeltaTable(_RemoteCalls(None, Calls(path="/t", alias="a")), LogicalPlan(None))
    assert (repr(table), table._repr_html_()) == ("DeltaTable('/t', alias='a')", None)
    assert repr(table.optimize().where("x = 1")) == "DeltaOptimizeBuilder('/t', alias='a', optimize, where)"
    merge = _RemoteMergeBuilder(table._remote).whenMatchedDelete("x = 1").whenNotMatchedInsertAll()
    assert repr(merge) == "DeltaMergeBuilder('/t', alias='a', whenMatchedDelete, whenNotMatchedInsertAll)"
    assert repr(_RemoteTableBuilder(None, "create").tableName("t")) == "DeltaTableBuilder(create, tableName)"
