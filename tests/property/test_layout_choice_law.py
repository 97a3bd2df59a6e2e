"""OPTIMIZE chooses from a large version, which it sees in pieces, what it would choose with all files before its eyes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Add, DeletionVectorDescriptor, Metadata, Remove
from tahoe.protocol.log.cubes import CUBE_COLUMNS, CUBE_ID, PROVIDER, cube_tags, joining_cubes, zorder_tags
from tahoe.protocol.types.schema import INTEGER, LONG, TIMESTAMP, Field, Struct
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.layout.clustering import CubeBin, Order, OrderRequest, plan_cubes
from tahoe.table.layout.compaction import CompactionSettings, bins_of, plan_bins
from tahoe.table.log.delta_log import Log
from tahoe.table.log.grouped_part import GroupedPart
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot, load_snapshot, refresh
from tests.property.numbered_logs import PROTOCOL, numbered_log, small
from tests.table.builders import add, memory_env, put_commit

SCHEMA = Struct(
    (
        Field(name="a", type=LONG),
        Field(name="b", type=LONG),
        Field(name="p", type=INTEGER),
        Field(name="t", type=TIMESTAMP),
    )
)

# Some are other spellings of one value; a moment without a zone is a partition of its own.
INTEGERS = {"1": 1, "01": 1, "2": 2, "": None, None: None}
MOMENTS = {"2020-01-01 00:00:00": "no zone", "2020-01-01T00:00:00.000000Z": "zone", "2020-01-01T01:00:00+01:00": "zone"}

ROWS, TARGET_BYTES = 100, 40
VECTORS = [
    None,
    *(DeletionVectorDescriptor(storage_type="i", path_or_inline=f"v{n}", size_bytes=1, cardinality=n) for n in (1, 60)),
]
ORDER = ("a", "b")
TAGS = [
    (None, None),
    (cube_tags("x", ORDER), PROVIDER),
    (cube_tags("y", ORDER), PROVIDER),
    (cube_tags("z", ("b",)), PROVIDER),
    (cube_tags("z", ("b",)), None),
    (zorder_tags("x", ORDER, TARGET_BYTES), None),
    (cube_tags("x", ORDER), "somebody"),
    ({"other": "1"}, None),
]
NAMES = [f"f{n}" for n in range(12)]


@st.composite
def versions(draw: st.DrawFn) -> Log:
    """A log with a checkpoint and commits behind it."""
    env, few_tags = memory_env(), draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=4))
    partitions = draw(st.sampled_from([(), ("p",), ("p", "t")]))
    configuration = {"delta.checkpointPolicy": draw(st.sampled_from(["classic", "v2"]))}
    metadata = Metadata(
        id="t", schema_string=SCHEMA.to_json(), partition_columns=partitions, configuration=configuration
    )

    def file(name: str) -> Add:
        tags, provider = draw(st.sampled_from(few_tags))
        values = {"p": draw(st.sampled_from([*INTEGERS])), "t": draw(st.sampled_from([*MOMENTS]))}
        return add(
            name,
            size_bytes=draw(st.integers(0, 60)),
            modification_time_ms=draw(st.integers(0, 3)),
            stats=draw(st.sampled_from([f'{{"numRecords":{ROWS}}}', None])),
            deletion_vector=draw(st.sampled_from(VECTORS)),
            partition_values={name: values[name] for name in partitions},
            tags=tags,
            clustering_provider=provider,
        )

    live = {name: file(name) for name in draw(st.lists(st.sampled_from(NAMES), unique=True))}
    put_commit(env, 0, [PROTOCOL, metadata, *live.values()])
    write_checkpoint(load_snapshot(Log(env)))
    for version in range(1, draw(st.integers(1, 3))):
        actions = list[Add | Remove]()
        for name in draw(st.lists(st.sampled_from([*NAMES, "g"]), unique=True, max_size=4)):
            if name in live:
                actions.append(Remove(path=name, deletion_vector=live.pop(name).deletion_vector))
            else:
                actions.append(live.setdefault(name, file(name)))
        put_commit(env, version, actions)
    return Log(env)


def opened(log: Log, *, from_before: bool) -> Snapshot:
    return refresh(load_snapshot(log, 0)) if from_before else load_snapshot(log)


def is_worn(file: Add) -> bool:
    deleted = 0 if file.deletion_vector is None else file.deletion_vector.cardinality
    return deleted > 0 and (file.stats is None or deleted > 0.05 * ROWS)


def live_bytes(file: Add) -> int:
    deleted = 0 if file.deletion_vector is None or file.stats is None else file.deletion_vector.cardinality
    return int(np.rint(file.size_bytes * (1 - deleted / ROWS)))


def by_partition(files: Iterable[Add]) -> Iterable[list[Add]]:
    found: dict[object, list[Add]] = {}
    for file in files:
        values = file.partition_values
        found.setdefault((INTEGERS[values.get("p")], MOMENTS.get(values.get("t") or "")), []).append(file)
    return found.values()


def packed(files: Iterable[Add], capacity: int) -> list[list[Add]]:
    """In the first of sixteen open bins that has room."""
    bins = list[list[Add]]()
    for file in files:
        fitting = [one for one in bins if sum(map(live_bytes, one)) + live_bytes(file) <= capacity]
        (fitting[0] if fitting else bins.append([]) or bins[-1]).append(file)
    assert len(bins) <= 16
    return bins


SETTINGS = st.builds(CompactionSettings, max_file_bytes=st.integers(20, 100), min_file_bytes=st.integers(0, 50))


@given(versions(), SETTINGS, st.booleans(), st.booleans(), st.integers(1, 3))
def test_bins(log: Log, settings: CompactionSettings, from_before: bool, is_listed: bool, group_files: int) -> None:
    with small(group_files):
        snapshot = opened(log, from_before=from_before)
        if is_listed:
            list(snapshot.live.adds())
        bins = plan_bins(snapshot.full_scan, settings)
        files = list(snapshot.full_scan.adds())
    expected = [
        [file.path for file in one]
        for some in by_partition(files)
        for one in packed(
            sorted(
                (file for file in some if live_bytes(file) < settings.min_file_bytes or is_worn(file)),
                key=lambda file: file.modification_time_ms,
            ),
            settings.max_file_bytes,
        )
        if len(one) > 1 or is_worn(one[0])
    ]
    assert sorted([files[number].path for number in one.numbers] for one in bins) == sorted(expected)
    for one in bins:
        assert one.live_bytes == sum(live_bytes(files[number]) for number in one.numbers)


@given(versions(), st.integers(1, 3))
def test_a_bin_for_each_chosen_file(log: Log, group_files: int) -> None:
    with small(group_files):
        snapshot = load_snapshot(log)
        bins = bins_of(snapshot.full_scan, lambda scan: np.asarray(scan.column("size_bytes")) > 30)
        files = list(snapshot.full_scan.adds())
    assert [files[number].path for one in bins for number in one.numbers] == [
        file.path for file in files if file.size_bytes > 30
    ]
    assert [one.live_bytes for one in bins] == [live_bytes(file) for file in files if file.size_bytes > 30]


def cube(file: Add) -> str | None:
    """As an implementation that looks at one file after the other has it."""
    tags: Mapping[str, str | None] = file.tags or {}
    if is_worn(file) or (CUBE_ID not in tags and file.clustering_provider in (None, PROVIDER)):
        return ""
    if file.clustering_provider not in (None, PROVIDER):
        return None
    if tags.get(CUBE_COLUMNS) == cube_tags("", ORDER)[CUBE_COLUMNS]:
        return tags[CUBE_ID]
    return None if file.clustering_provider == PROVIDER else ""


def clustered(files: Sequence[Add], *, is_full: bool, closed_bytes: int) -> list[Add]:
    cubes = [cube(file) for file in files]
    if is_full:
        return [] if len(set(cubes)) == 1 and cubes[0] else list(files)
    sizes = {name: sum(f.size_bytes for f, c in zip(files, cubes, strict=True) if c == name) for name in cubes if name}
    added = sum(file.size_bytes for file, name in zip(files, cubes, strict=True) if name == "")
    joining = {"", *joining_cubes(added, sizes, closed_bytes=closed_bytes)}
    return [file for file, name in zip(files, cubes, strict=True) if name in joining]


def ordered(files: Sequence[Add]) -> list[Add]:
    wanted = zorder_tags("x", ORDER, TARGET_BYTES).items()
    is_done = all(not is_worn(file) and wanted <= (file.tags or {}).items() for file in files)
    return [] if is_done else list(files)


@given(versions(), st.sampled_from(["zorder", "full", "new"]), st.integers(1, 100), st.integers(1, 3))
def test_cubes(log: Log, how: str, closed_bytes: int, group_files: int) -> None:
    request = OrderRequest(is_full=how == "full", closed_bytes=closed_bytes)
    order = Order(columns=(("a",), ("b",)), is_clustered=how != "zorder", request=request)
    with small(group_files):
        snapshot = load_snapshot(log)
        bins = plan_cubes(snapshot.full_scan, order, CompactionSettings(max_file_bytes=TARGET_BYTES), repeat("new"))
        files = list(snapshot.full_scan.adds())
    partitions = [
        ordered(some) if how == "zorder" else clustered(some, is_full=how == "full", closed_bytes=closed_bytes)
        for some in by_partition(files)
    ]
    expected = [[file.path for file in some] for some in partitions if some]
    assert sorted([files[number].path for number in one.numbers] for one in bins) == sorted(expected)
    for one in bins:
        assert isinstance(one, CubeBin)
        inside = [files[number] for number in one.numbers]
        assert one.live_bytes == sum(map(live_bytes, inside))
        assert one.rows == int(sum(file.size_bytes / 50 if file.stats is None else ROWS for file in inside))


def test_files_that_stay_are_not_kept_in_memory() -> None:
    with small(4):
        snapshot = load_snapshot(numbered_log())
        bins = plan_bins(snapshot.full_scan, CompactionSettings(min_file_bytes=0))
        assert bins == []
        assert len(snapshot.live) == 40
        part = snapshot.live.parts[1]
        assert isinstance(part, GroupedPart)
        assert "whole" not in part.__dict__


@pytest.mark.parametrize("at", [1, 3, 11])
def test_a_checkpoint_that_is_deleted_meanwhile_costs_only_time(at: int) -> None:
    with small(4):
        log = numbered_log()
        snapshot = load_snapshot(log)
        key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(0)}"
        calls = list[int]()

        def also(scan: Scan) -> np.ndarray:
            calls.append(scan.kept_files)
            if len(calls) == at:
                log.env.store.delete(key)
            return np.array([path in ("f17", "f23", "new") for path in scan.column("path").to_pylist()])

        bins = plan_bins(snapshot.full_scan, CompactionSettings(min_file_bytes=0), also)
        paths = snapshot.live.column("path").to_pylist()
        assert sorted(paths[number] for one in bins for number in one.numbers) == ["f17", "f23", "new"]
