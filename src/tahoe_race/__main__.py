"""The command line of the race."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tahoe_race.engines import DATA, ENGINES
from tahoe_race.page import page, picture
from tahoe_race.questions import GROUPS
from tahoe_race.race import Race, Result

DEFAULT = ("tahoe", "delta-spark", "parquet", "delta-rs", "duckdb", "sail")


def main(arguments: Sequence[str] | None = None) -> int:
    """Race, write the page, the picture and the numbers, and tell where they are."""
    asked = _parser().parse_args(arguments)
    race = Race(
        engines=_chosen(asked.engines, ENGINES, "engine"),
        groups=_chosen(asked.only, GROUPS, "kind of question"),
        scale=asked.scale,
        rounds=asked.rounds,
        folder=asked.folder.resolve(),
        pythons=_pairs(asked.python, [*ENGINES, "data"], "--python"),
        jars=_pairs(asked.jars, ENGINES, "--jars"),
    )
    race.run(lambda results, versions: _write(race, results, versions, asked.output))
    print(f"{asked.output / 'race.html'}, race.json with all numbers, race.svg")
    return 0


def _write(race: Race, results: Sequence[Result], versions: Mapping[str, str], folder: Path) -> None:
    """The page, the picture and the numbers so far: a race that is stopped has raced for something."""
    told = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "command": _command(race),
        "scale": race.scale,
        "rounds": race.rounds,
        "engines": list(race.engines),
        "versions": dict(versions),
        "data": DATA.requirements,
        "writer": race.writer(),
        "results": [asdict(result) for result in results],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "race.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    (folder / "race.html").write_text(page(told), encoding="utf-8")
    (folder / "race.svg").write_text(picture(told), encoding="utf-8")


def _command(race: Race) -> str:
    """What repeats a race on another machine, without the places of this one."""
    chosen = ["--engines", ",".join(race.engines), "--only", ",".join(race.groups)]
    return shlex.join(["python", "-m", "tahoe_race", *chosen, "--scale", race.scale, "--rounds", str(race.rounds)])


def machine() -> str:
    """The machine in a line."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (OSError, StopIteration, ValueError):
        memory = ""
    return f"{os.cpu_count()} cores ({name}){memory}, {platform.system()}, Python {platform.python_version()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tahoe_race", description=__doc__)
    parser.add_argument("--engines", default=",".join(DEFAULT), help=f"who races, of {', '.join(ENGINES)}")
    parser.add_argument("--only", default=",".join(g for g in GROUPS if g != "tpcds"), help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--scale", type=_scale, default="0.1", help="the scale factor; 1 is a gigabyte")
    parser.add_argument("--rounds", type=_rounds, default=3, help="rounds that count, after a warm-up")
    parser.add_argument(
        "--folder", type=Path, default=Path.home() / ".cache" / "tahoe-race", help="tables, environments"
    )
    parser.add_argument("--output", type=Path, default=Path("race"), help="the folder of the page and the numbers")
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="where it is installed")
    parser.add_argument(
        "--jars", action="append", default=[], metavar="ENGINE=FOLDER", help="its JARs, instead of Maven's"
    )
    return parser


def _scale(text: str) -> str:
    if not 0 < float(text) <= 1000:
        raise ValueError
    return text


def _rounds(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _chosen(text: str, known: Collection[str], what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise SystemExit(f"There is no {what} {name}. There are: {', '.join(known)}")
    if not names:
        raise SystemExit(f"Name at least one {what}, of: {', '.join(known)}")
    return names


def _pairs(texts: Sequence[str], known: Collection[str], option: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known or not Path(value).exists():
            raise SystemExit(
                f"{option} {text}: expected ENGINE=PATH of an engine ({', '.join(known)}) and what is there"
            )
        found[name] = str(Path(value).absolute())
    return found


if __name__ == "__main__":
    sys.exit(main())
