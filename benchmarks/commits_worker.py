"""A process of one side of `benchmarks.commits`: SIDE JOB PATH [COUNT]. It prints its measurements as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.peak_memory import peak_megabytes

ROW = pa.table({"id": pa.array([1], pa.int64())})


def main() -> None:
    side, job, path, *rest = sys.argv[1:]
    answer = (_tahoe if side == "tahoe" else _delta_rs)(job, path, int(rest[0]) if rest else 0)
    print(json.dumps(answer))


def _wait() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _tahoe(job: str, path: str, count: int) -> dict[str, float]:
    import tahoe  # noqa: PLC0415
    from tahoe.storage.background import finish_background  # noqa: PLC0415

    table = tahoe.Table(path)
    match job:
        case "create":
            table.append(ROW)
        case "append" | "append unsynced":
            if job == "append unsynced":
                os.fsync = lambda _: None  # what delta-rs leaves out
            _wait()
            for _ in range(count):
                table.append(ROW)
            finish_background()
        case "open":
            began = time.perf_counter()
            files = len(table.snapshot().live)
            cold = time.perf_counter() - began
            return {"cold": cold, "warm": _warm(path, files, lambda: len(table.snapshot().live))}
        case "checkpoint":
            table.snapshot()
            began = time.perf_counter()
            table.create_checkpoint()
            return {"time": time.perf_counter() - began, "memory": peak_megabytes()}
    return {}


def _delta_rs(job: str, path: str, count: int) -> dict[str, float]:
    import deltalake  # noqa: PLC0415

    match job:
        case "create":
            deltalake.write_deltalake(path, ROW)
        case "append" | "append unsynced":
            table = deltalake.DeltaTable(path)
            patient = deltalake.CommitProperties(
                max_commit_retries=1000
            )  # with its default of 15, commits of several processes fail
            _wait()
            for _ in range(count):
                deltalake.write_deltalake(table, ROW, mode="append", commit_properties=patient)
        case "open":
            began = time.perf_counter()
            table = deltalake.DeltaTable(path)
            files = len(table.file_uris())
            cold = time.perf_counter() - began

            def newest() -> int:
                table.update_incremental()
                return len(table.file_uris())

            return {"cold": cold, "warm": _warm(path, files, newest)}
        case "checkpoint":
            table = deltalake.DeltaTable(path)
            began = time.perf_counter()
            table.create_checkpoint()
            return {"time": time.perf_counter() - began, "memory": peak_megabytes()}
    return {}


def _warm(path: str, files: int, ask: object) -> float:
    """The time of a query after another writer's commit, which is removed afterwards."""
    log = Path(path, "_delta_log")
    newest = max(log.glob("0*.json"))
    version = int(newest.stem)
    added = log / f"{version + 1:020}.json"
    shutil.copyfile(newest, added)
    added.write_text(added.read_text().replace("part-", "part-again-"))
    began = time.perf_counter()
    found = ask()  # type: ignore[operator]
    taken = time.perf_counter() - began
    assert found == files + 1
    added.unlink()
    return taken


if __name__ == "__main__":
    main()
