"""The record of loaded files: its domain, how its parts grow, and which parts nothing needs any more."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from tahoe.errors import InvalidActionError
from tahoe.protocol.log.actions import DomainMetadata
from tahoe.protocol.log.copied_files import DOMAIN, CopiedFiles, CopiedPart, copied_files, superseded, taken_over


def part(first: int, last: int, files: int = 1, name: str = "a") -> CopiedPart:
    return CopiedPart(name=f"{first:020d}-{last:020d}.{name}.parquet", files=files)


def grown(record: CopiedFiles, files: int) -> CopiedFiles:
    joined = record.joined_with(files)
    name = record.part_name(joined, "b")
    return record.after(joined, CopiedPart(name=name, files=files + sum(p.files for p in joined)))


RECORD = CopiedFiles(table_id="t", parts=(part(0, 3, 100), part(4, 4, 2)), next_run=5)


def test_the_domain_has_the_record() -> None:
    assert copied_files({DOMAIN: RECORD.domain}, "t") == RECORD
    assert copied_files({}, "t") == CopiedFiles(table_id="t")
    assert copied_files({DOMAIN: RECORD.domain.replace(removed=True)}, "t") == CopiedFiles(table_id="t")


def test_a_table_that_was_replaced_has_loaded_nothing() -> None:
    assert copied_files({DOMAIN: RECORD.domain}, "another") == CopiedFiles(table_id="another", next_run=5)


@pytest.mark.parametrize(
    "body",
    ["x", "[]", "{}", '{"tableId":"t","next":-1,"parts":[]}', '{"tableId":"t","next":1,"parts":[{"name":"../x"}]}'],
)
def test_a_malformed_domain_is_an_error_and_not_an_empty_record(body: str) -> None:
    with pytest.raises(InvalidActionError, match=DOMAIN):
        copied_files({DOMAIN: DomainMetadata(domain=DOMAIN, configuration=body)}, "t")


def test_fields_of_later_versions_are_passed_over() -> None:
    body = json.loads(RECORD.domain.configuration) | {"new": 1}
    domain = DomainMetadata(domain=DOMAIN, configuration=json.dumps(body))
    assert copied_files({DOMAIN: domain}, "t") == RECORD


def test_a_small_part_is_joined_and_a_large_one_is_not() -> None:
    assert RECORD.joined_with(1) == (part(4, 4, 2),)
    assert RECORD.joined_with(50) == RECORD.parts
    assert grown(RECORD, 1).parts == (part(0, 3, 100), part(4, 5, 3, "b"))
    assert grown(RECORD, 50).parts == (part(0, 5, 152, "b"),)


@pytest.mark.parametrize("files", [1, 7, 1000])
def test_many_runs_have_few_parts_and_each_run_is_in_one(files: int) -> None:
    record, written = CopiedFiles(table_id="t"), 0
    for run in range(5000):
        record = grown(record, files)
        written += record.parts[-1].files
        assert record.parts[0].runs[0] == 0
        assert record.parts[-1].runs[1] == run
        runs = [p.runs for p in record.parts]
        assert all(after[0] == before[1] + 1 for before, after in pairwise(runs))
    assert sum(p.files for p in record.parts) == 5000 * files
    assert len(record.parts) <= 8
    assert written <= 5000 * files * 14


def test_what_an_old_part_covers_is_superseded() -> None:
    settled = part(0, 9)
    names = [part(0, 9).name, part(0, 3).name, part(4, 4).name, part(4, 10).name, part(10, 10).name, "other.parquet"]
    assert superseded(names, [settled], [settled]) == [part(0, 3).name, part(4, 4).name]
    assert superseded(names, [settled], [settled, part(4, 4)]) == [part(0, 3).name]
    assert superseded(names, [], [settled]) == []


def test_a_restore_brings_the_record_back_and_its_runs_go_on() -> None:
    early = replace(RECORD, parts=RECORD.parts[:1], next_run=4)
    assert taken_over({}, CopiedFiles(table_id="t"), table_id="t") == {}
    assert taken_over({DOMAIN: RECORD.domain}, RECORD, table_id="t") == {}
    assert taken_over({DOMAIN: RECORD.domain}, early, table_id="t") == {DOMAIN: replace(early, next_run=5).domain}
    assert taken_over({}, RECORD, table_id="u") == {DOMAIN: replace(RECORD, table_id="u").domain}
    emptied = CopiedFiles(table_id="t", next_run=5)
    assert taken_over({DOMAIN: RECORD.domain}, CopiedFiles(table_id="t"), table_id="t") == {DOMAIN: emptied.domain}
