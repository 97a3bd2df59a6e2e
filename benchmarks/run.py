"""Runs the benchmarks, prints the results, and keeps them in benchmarks/results: `make bench`, or `make bench
ONLY="scan load"`.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import HEADINGS, ROUNDS, SCALE_FACTOR, Comparison, cells, grid, screen

QUESTIONS = (
    "scan",
    "load",
    "open_million",
    "list_files",
    "point_query",
    "ten_million",
    "past_driver",
    "partitions",
    "change_planning",
    "bloom_filters",
    "tpch",
    "tpcds",
    "native",
    "append",
    "copy_into",
    "arrow_rows",
    "commits",
    "events",
    "beside_reference",
    "dml",
    "auto_cdc",
    "statements",
    "wide_statements",
    "layouts",
    "zorder",
    "compaction",
    "compaction_beside_writers",
    "beside_a_writer",
    "file_sizes",
    "how_many_files",
    "streams",
    "vacuum",
    "convert",
    "restore_clone",
    "answers",
    "joins",
    "join_thresholds",
    "limits",
    "connect",
    "caches",
    "local_cache",
    "growth",
    "growth_spark",
)
ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tahoe", "pyspark", "pyarrow", "deltalake", "obstore")


def main() -> int:
    chosen = sys.argv[1:] or QUESTIONS
    console = screen()
    unknown = sorted(set(chosen) - set(QUESTIONS))
    if unknown:
        console.print(f"Unknown benchmarks: {', '.join(unknown)}. Choose from {', '.join(QUESTIONS)}.")
        return 2
    found: list[Comparison] = []
    failed: list[str] = []
    for question in chosen:
        console.rule(question, align="left")
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            done = subprocess.run(
                [sys.executable, "-m", f"benchmarks.{question}", "--out", out.name], cwd=ROOT, check=False
            )
            if done.returncode:
                failed.append(question)
            else:
                found.extend(Comparison(**comparison) for comparison in json.loads(Path(out.name).read_text()))
    console.rule("summary", align="left")
    console.print(grid(found))
    if found:
        console.print(f"Written to {keep(found)}")
    if failed:
        console.print(f"[red]Failed: {', '.join(failed)}")
    return 1 if failed else 0


def keep(found: list[Comparison]) -> Path:
    """Write one run as a Markdown page and as JSON. Returns the path of the page, relative to the project."""
    now = datetime.datetime.now(datetime.UTC)
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    page = folder / f"{now:%Y-%m-%d-%H%M}.md"
    machine = describe_machine()
    lines = [
        f"# {now:%Y-%m-%d %H:%M} UTC",
        "",
        *(f"- {name}: {value}" for name, value in machine.items()),
        "",
        f"Medians of {ROUNDS} rounds after a warm-up, minimum and maximum in brackets; both sides took turns in "
        f"one run.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + " --- |" * len(HEADINGS),
        *("| " + " | ".join(cells(comparison)) + " |" for comparison in found),
        "",
        *sorted({f"{comparison.what}." for comparison in found if comparison.what}),
    ]
    page.write_text("\n".join(lines).rstrip() + "\n")
    numbers = [{**vars(comparison), "ratio": comparison.ratio} for comparison in found]
    page.with_suffix(".json").write_text(
        json.dumps({"at": now.isoformat(timespec="seconds"), "machine": machine, "found": numbers}, indent=1)
    )
    return page.relative_to(ROOT)


def describe_machine() -> dict[str, str]:
    java = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "machine": (
            f"{os.cpu_count()} cores ({processor()}), {memory_gib():.0f} GiB, {platform.system()} {platform.machine()}"
        ),
        "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES) + f", Python {platform.python_version()}",
        "java": java[0] if java else "unknown",
        "commit": commit or "unknown",
        "lineitem": f"TPC-H scale factor {SCALE_FACTOR}",
    }


def java_command() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


if __name__ == "__main__":
    sys.exit(main())
