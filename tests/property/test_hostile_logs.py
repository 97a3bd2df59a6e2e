"""Law: all bytes of a log are hostile until they are checked.

Whatever is done to one file of a log, opening the table, listing its files and reading its rows works or raises a
DeltaError; and where the file only repeats what the commits say, the rows are those of the commits.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.property.hostile import corpus, damaged, look_around, opened, read_rows, renamed

# Mutations of each example; `TAHOE_MUTATIONS=5000` is for a night.
MUTATIONS = int(os.environ.get("TAHOE_MUTATIONS", "24"))
SEED = int(os.environ.get("TAHOE_MUTATIONS_SEED", "0"))

# A checkpoint that can be read and lacks an action is no accident. One whose statistics, which are read last, are
# damaged is an error.
REFUSED = ("MissingActionError", "CorruptCheckpointError")


@pytest.mark.parametrize("number", range(6), ids=lambda number: str(number))
def test_a_damaged_file_is_read_right_or_refused(number):
    example = corpus()[number]
    for seed in range(SEED, SEED + MUTATIONS):
        chance = random.Random(f"{number} {seed}")
        key = chance.choice(example.log)
        env = opened({**example.files, key: damaged(example.files[key], key, chance)})
        told = f"{example.name}, seed {seed}, {key}"
        try:
            outcome = read_rows(env)
            look_around(env)
        except BaseException as error:
            error.add_note(told)
            raise
        if example.derived(key):
            assert outcome == ("rows", example.rows) or outcome[1][0] in REFUSED, told


@pytest.mark.parametrize("number", range(6), ids=lambda number: str(number))
def test_a_file_under_a_hostile_name_is_read_right_or_refused(number):
    example = corpus()[number]
    for seed in range(SEED, SEED + MUTATIONS // 4):
        chance = random.Random(f"{number} {seed}")
        key = chance.choice(example.log)
        env = opened({**example.files, renamed(key, chance): chance.choice([b"", example.files[key]])})
        try:
            read_rows(env)
            look_around(env)
        except BaseException as error:
            error.add_note(f"{example.name}, seed {seed}, {key}")
            raise


def test_the_examples_are_read_from_all_that_they_have():
    """Checkpoints, checksums, compacted files and vectors are in them, and say what the commits say."""
    names = [key for example in corpus() for key in example.log]
    for part in (".checkpoint.", ".crc", "_last_checkpoint", ".compacted.", "_sidecars/", ".bin"):
        assert any(part in name for name in names), part
    for example in corpus():
        assert read_rows(opened(example.files)) == ("rows", example.rows)
