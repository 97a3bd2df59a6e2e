"""The options of readers and writers by name, and those of streams, without Spark."""

from __future__ import annotations

import warnings

import pytest

from tahoe.errors import DeltaError, InvalidOptionError
from tahoe.spark.configuration.option_names import OptionContext, unknown_options
from tahoe.spark.streams.options import parse_source_options

MESSAGES = [
    (
        OptionContext.READ_STREAM,
        "maxFilePerTrigger",
        "the option maxFilePerTrigger has no effect on spark.readStream; did you mean maxFilesPerTrigger?",
    ),
    (OptionContext.READ_STREAM, "endingVersion", "has no effect on spark.readStream; it is an option of spark.read"),
    (
        OptionContext.READ,
        "MAXFILESPERTRIGGER",
        "it is an option of spark.readStream and spark.readStream with readChangeFeed",
    ),
    (
        OptionContext.READ_STREAM_OF_FEED,
        "ignoreDeletes",
        "has no effect on spark.readStream with readChangeFeed; it is an option of spark.readStream",
    ),
    (OptionContext.WRITE, "mergeShema", "did you mean mergeSchema?"),
    (OptionContext.WRITE_STREAM, "clusterOnWrite", "it is an option of df.write"),
    (OptionContext.WRITE_STREAM, "ignoreDeletes", "it is an option of spark.readStream"),
    (OptionContext.READ, "colour", "Delta tables have no option of this name"),
]


@pytest.mark.parametrize(
    ("place", "name", "message"), MESSAGES, ids=[f"{name} of {place.value}" for place, name, _ in MESSAGES]
)
def test_an_option_without_effect_is_named(place: OptionContext, name: str, message: str) -> None:
    (found,) = unknown_options([name], place, table="/t")
    assert found.startswith("/t: ")
    assert message in found


# Those of the storage, of Parquet and of Spark, and properties of the table.
OF_OTHERS = ["PATH", "fs.s3a.access.key", "parquet.block.size", "delta.appendOnly"]
OF_OTHERS += ["__partition_columns", "serialization.format"]
OF_FILES = ["ignoreMissingFiles", "IGNORECORRUPTFILES", "datetimeRebaseMode", "int96RebaseMode"]
READS = [OptionContext.READ, OptionContext.READ_STREAM, OptionContext.READ_STREAM_OF_FEED]
WITH_EFFECT = {
    **{f"of others in {place.value}": (OF_OTHERS, place) for place in OptionContext},
    **{f"of the reader of files in {place.value}": (OF_FILES, place) for place in READS},
}


@pytest.mark.parametrize(("names", "place"), WITH_EFFECT.values(), ids=WITH_EFFECT)
def test_options_that_have_an_effect_elsewhere_are_not_named(names: list[str], place: OptionContext) -> None:
    assert unknown_options(names, place, table="/t") == []


def test_a_stream_warns_once_about_each_text() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            parse_source_options({"path": "/t", "startVersion": "1"}, table="/t")
    assert [str(warning.message).rpartition("; ")[2] for warning in told] == ["did you mean startingVersion?"]


CONFLICTS: list[tuple[dict[str, str], type[DeltaError], str]] = [
    (
        {"schemaTrackingLocation": "/a", "schemaLocation": "/b"},
        InvalidOptionError,
        "schemaLocation cannot be /b.*schemaTrackingLocation is /a",
    ),
    ({"withEventTimeOrder": "yes"}, InvalidOptionError, "withEventTimeOrder cannot be yes"),
]


@pytest.mark.parametrize(
    ("options", "error", "match"), CONFLICTS, ids=["-".join(options) for options, _, _ in CONFLICTS]
)
def test_what_a_stream_cannot_do_is_refused(options: dict[str, str], error: type[DeltaError], match: str) -> None:
    with pytest.raises(error, match=match):
        parse_source_options(options, table="/t")


def test_one_place_for_the_schema_may_be_given_twice() -> None:
    given = {"schemaTrackingLocation": "/a", "schemaLocation": "/a", "withEventTimeOrder": "false"}
    assert parse_source_options(given, table="/t").schema_location == "/a"
