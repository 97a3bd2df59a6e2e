import pytest

from tahoe.errors import MissingVersionError, VersionNotFoundError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.log_files import Kind, complete_checkpoints, parse_name, plan_segment, readable_versions

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def files(*names: str) -> list[log_files.LogFile]:
    found = [parse_name(name) for name in names]
    assert None not in found
    return [f for f in found if f is not None]


def commits(*versions: int) -> list[log_files.LogFile]:
    return files(*(log_files.commit_name(v) for v in versions))


@pytest.mark.parametrize(
    ("name", "kind", "version"),
    [
        (log_files.commit_name(7), Kind.COMMIT, 7),
        (log_files.classic_checkpoint_name(10), Kind.CLASSIC_CHECKPOINT, 10),
        (log_files.multi_part_checkpoint_name(10, 2, 3), Kind.MULTI_PART_CHECKPOINT, 10),
        (log_files.uuid_checkpoint_name(10, UUID, "json"), Kind.UUID_CHECKPOINT, 10),
        (log_files.uuid_checkpoint_name(10, UUID, "parquet"), Kind.UUID_CHECKPOINT, 10),
        (log_files.compacted_name(4, 6), Kind.COMPACTED, 4),
        (log_files.checksum_name(1), Kind.CHECKSUM, 1),
    ],
)
def test_every_name_is_read_as_what_it_was_built_as(name, kind, version):
    (file,) = files(name)
    assert (file.kind, file.version, file.name) == (kind, version, name)


@pytest.mark.parametrize(
    "name", ["_last_checkpoint", "1.json", f"{1:020d}.json.tmp", f".{1:020d}.json.crc", "_sidecars"]
)
def test_other_names_mean_nothing(name):
    assert parse_name(name) is None


def test_a_multi_part_checkpoint_without_one_of_its_parts_is_ignored():
    parts = [log_files.multi_part_checkpoint_name(3, n, 3) for n in (1, 3)]
    assert complete_checkpoints(files(*parts)) == []
    (whole,) = complete_checkpoints(files(*parts, log_files.multi_part_checkpoint_name(3, 2, 3)))
    assert [f.part for f in whole.files] == [1, 2, 3]


def test_the_newest_checkpoint_not_after_the_version_is_used():
    listing = commits(*range(12)) + files(log_files.classic_checkpoint_name(4), log_files.classic_checkpoint_name(10))
    assert plan_segment(listing, None, table="t").checkpoint.version == 10
    segment = plan_segment(listing, 9, table="t")
    assert segment.checkpoint.version == 4
    assert [f.version for f in segment.deltas] == [5, 6, 7, 8, 9]


def test_a_broken_checkpoint_is_passed_over():
    listing = commits(*range(12)) + files(log_files.classic_checkpoint_name(10))
    segment = plan_segment(listing, None, table="t", unusable={log_files.classic_checkpoint_name(10)})
    assert segment.checkpoint is None
    assert len(segment.deltas) == 12


def test_a_compacted_file_replaces_the_commits_it_covers():
    listing = commits(*range(8)) + files(log_files.compacted_name(2, 4), log_files.compacted_name(2, 6))
    assert [(f.version, f.end_version) for f in plan_segment(listing, None, table="t").deltas] == [
        (0, 0),
        (1, 1),
        (2, 6),
        (7, 7),
    ]
    assert [(f.version, f.end_version) for f in plan_segment(listing, 5, table="t").deltas] == [
        (0, 0),
        (1, 1),
        (2, 4),
        (5, 5),
    ]


def test_a_name_can_claim_any_number_of_parts_and_any_version():
    """Neither makes anything of that size, and a version that no reader can hold is none."""
    absurd = log_files.multi_part_checkpoint_name(1, 1, 9_999_999_999)
    assert log_files.complete_checkpoints(files(absurd)) == []
    listing = commits(0, 1) + files(absurd, log_files.compacted_name(1, 99))
    assert plan_segment(listing, None, table="t").version == 1
    assert log_files.parse_name(f"{10**20 - 1}.json") is None
    assert log_files.parse_name(log_files.commit_name((1 << 63) - 1)) is not None


def test_a_gap_in_the_commits_is_refused_with_the_missing_name():
    with pytest.raises(MissingVersionError, match=r"00000000000000000001\.json is missing.*0, 2"):
        plan_segment(commits(0, 2), None, table="t")


def test_a_log_that_starts_after_zero_needs_a_checkpoint():
    with pytest.raises(MissingVersionError, match=r"00000000000000000000\.json is missing"):
        plan_segment(commits(3, 4), None, table="t")
    listing = commits(3, 4, 5) + files(log_files.classic_checkpoint_name(4))
    assert plan_segment(listing, None, table="t").version == 5
    assert readable_versions(listing) == (4, 5)


def test_a_version_out_of_range_names_the_range():
    listing = commits(*range(3, 8)) + files(log_files.classic_checkpoint_name(4))
    for version in (2, 3, 9):
        with pytest.raises(VersionNotFoundError) as caught:
            plan_segment(listing, version, table="t")
        assert (caught.value.parameters["earliest"], caught.value.parameters["latest"]) == (4, 7)
