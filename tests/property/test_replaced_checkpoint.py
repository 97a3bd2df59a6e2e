"""A checkpoint that another process replaces with one in another order while threads read a version: no file is taken
for another one.
"""

from __future__ import annotations

import io
import threading
import traceback
from contextlib import suppress
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest

from tahoe.protocol.log import log_files
from tahoe.table.log.delta_log import Log
from tahoe.table.reading import scan as scan_module
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tests import sample
from tests.property.numbered_logs import numbered_log, small

CHECKPOINT = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(0)}"


def replace_checkpoint(log: Log, turn: int) -> None:
    """The same files in another order, in other row groups."""
    table = pq.read_table(io.BytesIO(log.env.store.get(CHECKPOINT)))
    out = io.BytesIO()
    pq.write_table(table.take(np.roll(np.arange(len(table)), turn)), out, row_group_size=4)
    log.env.store.put(CHECKPOINT, out.getvalue())


def paths(snapshot: Snapshot, text: str) -> list[str]:
    """The files of a scan, and that its positions are those of these files in the version."""
    scan = snapshot.scan(text)
    found: list[str] = scan.column("path").to_pylist()
    if scan.file_positions is not None:
        assert snapshot.live.column("path").take(scan.file_positions).to_pylist() == found
    return found


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["over all row groups", "over some row groups"])
def test_between_the_choice_of_files_and_their_names(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with small(4), patch("tahoe.table.reading.scan.NARROW_SHARE_MAX", share):
        log = numbered_log()
        snapshot, choose = load_snapshot(log), scan_module.file_mask

        def and_replace(*asked: object, **options: object) -> object:
            chosen = choose(*asked, **options)
            replace_checkpoint(log, 17)
            return chosen

        monkeypatch.setattr(scan_module, "file_mask", and_replace)
        assert paths(snapshot, "l = 17") == ["f17"]


def test_between_the_batches_of_all_files() -> None:
    with small(4):
        log = numbered_log()
        live = load_snapshot(log).live
        batches = live.batches()
        found = next(batches)["path"].to_pylist()  # of the commit behind the checkpoint
        replace_checkpoint(log, 17)
        found += [path for batch in batches for path in batch["path"].to_pylist()]
        assert sorted(found) == sorted(["new", *(f"f{number}" for number in range(40) if number != 3)])


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["over all row groups", "over some row groups"])
def test_beside_threads_that_load_it_again(share: float) -> None:
    with small(4), patch("tahoe.table.reading.scan.NARROW_SHARE_MAX", share):
        log, wrong, is_over = numbered_log(), list[object](), threading.Event()
        shared = [load_snapshot(log)]

        def read(first: int) -> None:
            with suppress(StopIteration):
                for number in range(first, 10**6):
                    if is_over.is_set():
                        return
                    value = number * 7 % 39 + 1
                    try:
                        found = paths(shared[0], f"l = {value}")
                    except Exception as error:
                        found = traceback.format_exception(error)
                    if found != ([] if value == 3 else [f"f{value}"]):
                        wrong.append((value, found))

        threads = [threading.Thread(target=read, args=(first,)) for first in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(40 // sample.step(2)):
            replace_checkpoint(log, turn % 7 + 1)
            if turn % 5 == 0:
                shared[0] = load_snapshot(log)
        is_over.set()
        for thread in threads:
            thread.join()
        assert wrong == []
