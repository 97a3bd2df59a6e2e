"""What a change of the table means to writes that were planned before it: `RULES`, as a table of changes and kinds of
writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tahoe.protocol.changes.conflict import EVERYTHING, Intent, Isolation
from tahoe.protocol.changes.conflict_rules import RULES, Does, Outcome, changes, conflict_of
from tahoe.protocol.configuration import properties
from tahoe.protocol.configuration.feature_upgrade import upgrade
from tahoe.protocol.configuration.features import FEATURES
from tahoe.protocol.configuration.properties import FeatureProperty
from tahoe.protocol.log.actions import Add, Metadata, Protocol

LEGACY = Protocol(reader_version=1, writer_version=2)
ALL = upgrade(LEGACY, {f.name for f in FEATURES if f.name != "catalogManaged"})


def column(name: str, kind: object = "integer", *, nullable: bool = True, **metadata: object) -> dict[str, object]:
    return {
        "name": name,
        "type": kind,
        "nullable": nullable,
        "metadata": {key.replace("__", "."): v for key, v in metadata.items()},
    }


def table(*columns: dict[str, object], **configuration: str) -> Metadata:
    schema = {"type": "struct", "fields": list(columns) or [column("a"), column("b")]}
    return Metadata(
        id="t",
        schema_string=json.dumps(schema),
        configuration={k.replace("__", "."): v for k, v in configuration.items()},
    )


ADD = Add(path="new", size_bytes=1, modification_time_ms=1)
WRITES: Mapping[str, Intent] = {
    "append": Intent(added=(ADD,)),
    "delete through vectors": Intent(reads=EVERYTHING, row_deletions={"f": None}),  # type: ignore[dict-item]
    "delete of whole files": Intent(reads=EVERYTHING, removed_paths={"f"}),
    "update": Intent(reads=EVERYTHING, added=(ADD,), row_deletions={"f": None}),  # type: ignore[dict-item]
    "rewrite": Intent(reads=EVERYTHING, added=(ADD,), removed_paths={"f"}),
    "update with a feed": Intent(reads=EVERYTHING, added=(ADD,), removed_paths={"f"}, records_changes=True),
    "optimize": Intent(added=(ADD.replace(data_change=False),), removed_paths={"f"}, isolation=Isolation.SNAPSHOT),
    "tag": Intent(domains={"d"}),
}
A, F, O, U = "append", "update with a feed", "optimize", "update"  # noqa: E741
VECTORS, WHOLE, REWRITE = "delete through vectors", "delete of whole files", "rewrite"
CHANGES = {U, REWRITE, F}
EVERY_FILE = {A, VECTORS, WHOLE, O, *CHANGES}
SAME = (ALL, table())


def with_protocol(*names: str) -> tuple[Protocol, Metadata]:
    return upgrade(LEGACY, set(names)), table()


# change: before, after, the writes that are run again, the writes that are refused. All others go on.
CASES: Mapping[str, tuple[tuple[Protocol, Metadata], tuple[Protocol, Metadata], set[str], set[str]]] = {
    **{
        f"the feature {f.name}": (
            with_protocol(),
            with_protocol(f.name),
            {A, O, *CHANGES} if "materialize" in f.name else set(),
            set(),
        )
        for f in FEATURES
        if f.name != "catalogManaged"
    },
    "an unknown feature": (
        with_protocol(),
        (with_protocol("domainMetadata")[0].replace(writer_features={"x"}), table()),
        set(),
        set(WRITES),
    ),
    "a catalog": (with_protocol(), with_protocol("catalogManaged"), set(), set(WRITES)),
    "a dropped feature": (
        with_protocol("deletionVectors"),
        with_protocol("domainMetadata"),
        {*EVERY_FILE, "tag"},
        set(),
    ),
    "append-only": (SAME, (ALL, table(delta__appendOnly="true")), set(), {VECTORS, WHOLE, *CHANGES}),
    "vectors on": (SAME, (ALL, table(delta__enableDeletionVectors="true")), set(), set()),
    "vectors off": ((ALL, table(delta__enableDeletionVectors="true")), SAME, {VECTORS, U}, set()),
    "shredding on": (SAME, (ALL, table(delta__enableVariantShredding="true")), set(), set()),
    "shredding off": ((ALL, table(delta__enableVariantShredding="true")), SAME, {A, O, *CHANGES}, set()),
    "feed on": (SAME, (ALL, table(delta__enableChangeDataFeed="true")), CHANGES, set()),
    "feed off": ((ALL, table(delta__enableChangeDataFeed="true")), SAME, {F}, set()),
    "stamps on": (SAME, (ALL, table(delta__enableInCommitTimestamps="true")), set(), set()),
    "row ids on": (SAME, (ALL, table(delta__enableRowTracking="true")), {O, *CHANGES}, set()),
    "Iceberg 1": (SAME, (ALL, table(delta__enableIcebergCompatV1="true")), EVERY_FILE, set()),
    "Iceberg 2": (SAME, (ALL, table(delta__enableIcebergCompatV2="true")), EVERY_FILE, set()),
    "Iceberg 3": (SAME, (ALL, table(delta__enableIcebergCompatV3="true")), EVERY_FILE, set()),
    "a property of a feature that the protocol lacks": (
        with_protocol(),
        (LEGACY, table(delta__enableRowTracking="true")),
        set(),
        set(),
    ),
    "mapping": (
        SAME,
        (
            ALL,
            table(
                column("a", delta__columnMapping__id=1, delta__columnMapping__physicalName="a"),
                column("b", delta__columnMapping__id=2, delta__columnMapping__physicalName="b"),
                delta__columnMapping__mode="name",
            ),
        ),
        set(),
        set(),
    ),
    "mapping to other names": (
        SAME,
        (
            ALL,
            table(
                column("a", delta__columnMapping__physicalName="col-1"), column("b"), delta__columnMapping__mode="name"
            ),
        ),
        set(),
        EVERY_FILE,
    ),
    "a constraint": (SAME, (ALL, table(delta__constraints__c="a > 0")), {A, *CHANGES}, set()),
    "a constraint dropped": ((ALL, table(delta__constraints__c="a > 0")), SAME, set(), set()),
    "NOT NULL": (SAME, (ALL, table(column("a", nullable=False), column("b"))), {A, *CHANGES}, set()),
    "nullable": ((ALL, table(column("a", nullable=False), column("b"))), SAME, set(), set()),
    "a default": (SAME, (ALL, table(column("a", CURRENT_DEFAULT="1"), column("b"))), {A, *CHANGES}, set()),
    "a comment": (SAME, (ALL, table(column("a", comment="why"), column("b"))), set(), set()),
    "a wider type": (SAME, (ALL, table(column("a", "long"), column("b"))), EVERY_FILE - {A, O}, set()),
    "a new column": (SAME, (ALL, table(column("a"), column("b"), column("c"))), EVERY_FILE, set()),
    "another order": (SAME, (ALL, table(column("b"), column("a"))), EVERY_FILE, set()),
    "another partitioning": (SAME, (ALL, table().replace(partition_columns=("a",))), set(), EVERY_FILE),
    "another table": (SAME, (ALL, table().replace(id="other")), set(), set(WRITES)),
    "a description": (SAME, (ALL, table().replace(description="why")), set(), set()),
    "a retention": (SAME, (ALL, table(delta__logRetentionDuration="interval 9 days")), set(), set()),
    "a property of the user's": (SAME, (ALL, table(owner="me")), set(), set()),
    "the level": (SAME, (ALL, table(delta__isolationLevel="WriteSerializable")), EVERY_FILE - {A, O}, set()),
    "manifests": (SAME, (ALL, table(delta__compatibility__symlinkFormatManifest__enabled="true")), EVERY_FILE, set()),
    "a constraint and append-only": (
        SAME,
        (ALL, table(delta__constraints__c="a > 0", delta__appendOnly="true")),
        {A},
        {VECTORS, WHOLE, *CHANGES},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_change_means_what_the_table_says_to_each_write(case: str) -> None:
    before, after, again, refused = CASES[case]
    for name, write in WRITES.items():
        found = conflict_of(changes(before, after), write.does)
        expected = Outcome.AGAIN if name in again else Outcome.REFUSED if name in refused else None
        assert (None if found is None else found[1]) is expected, name


def test_every_feature_and_every_property_of_one_has_a_rule() -> None:
    """A new feature asks for a decision: what do writes do that were planned before it is there?"""
    assert {f"+{feature.name}" for feature in FEATURES} <= set(RULES)
    keys = {key.partition("=")[0] for key in RULES}
    assert {known.name for known in properties.PROPERTIES if isinstance(known, FeatureProperty)} <= keys


def test_a_rule_says_why() -> None:
    for key, rule in RULES.items():
        assert rule.why, key
        assert not rule.why.endswith("."), key
        assert rule.outcome in (Outcome.ON, Outcome.ANEW) or rule.concerns, key


def test_an_unknown_feature_is_named() -> None:
    found = conflict_of(changes(*CASES["an unknown feature"][:2]), Does.COMMITS)
    assert found is not None
    assert found[0].text == "added the feature x to the protocol"


def test_the_page_on_consistency_lists_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "consistency.md").read_text()
    for key, rule in RULES.items():
        assert f"| {rule.why} |" in page, key
        name = key.lstrip("+").partition("=")[0]
        assert f"`{name}`" in page or not (name.startswith("delta.") or key[1:] in {f.name for f in FEATURES}), key
