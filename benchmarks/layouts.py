"""How many files, and pages inside a file, a query for one value of a column must read, by layout: tables of 100 files,
without Spark.

The first data set is that of Figure 5 of the paper (Armbrust et al., VLDB 2020). Z-order and the Hilbert curve are
computed as the reference does: for each column the number of a value's range among 1000 ranges of equal size, ten bits
each, interleaved; files of equal size by the result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from benchmarks.measure import Comparison, report, screen
from tahoe.protocol.log.cubes import cube_leaves, joining_cubes
from tahoe.table.arrow.layout import Assigner, plan_layout, row_order
from tahoe.table.arrow.sort_keys import Ranked, ranked

SEEDS = 10
APPEND_SEEDS = 3
ROWS = 100_000
FILES = 100
SAMPLE_ROWS = 20_000
QUERIES = 500
PAGES = 50

# What the paper measured for Z-order, average and worst column, and what is to be reached: files skipped.
PAPER = (54, 43)
GOALS = (65, 60)

Numbers = npt.NDArray[np.integer]
Layouts = Mapping[str, Callable[[pa.Table, Sequence[Ranked]], list[Numbers]]]


# --- data


def uniform(random: np.random.Generator) -> dict[str, object]:
    sizes = {"sourceIP": 32, "sourcePort": 16, "destIP": 32, "destPort": 16}
    return {name: random.integers(0, 1 << bits, ROWS) for name, bits in sizes.items()}


def skewed(random: np.random.Generator) -> dict[str, object]:
    return {f"zipf {power}": np.minimum(random.zipf(power, ROWS), 1_000_000) for power in (1.2, 1.5, 2.0)}


def skewed_and_uniform(random: np.random.Generator) -> dict[str, object]:
    return {"zipf 1.2": np.minimum(random.zipf(1.2, ROWS), 1_000_000), "uniform": random.integers(0, 1 << 32, ROWS)}


def correlated(random: np.random.Generator) -> dict[str, object]:
    first = random.normal(size=ROWS)
    return {"first": first, "nearly first": first + 0.1 * random.normal(size=ROWS), "other": random.normal(size=ROWS)}


def strings(random: np.random.Generator) -> dict[str, object]:
    users = np.minimum(random.zipf(1.2, ROWS) - 1, 4999)
    return {
        "user": [f"user {number:05d}" for number in users],
        "url": [f"http://www.example.com/{number:06x}" for number in random.integers(0, 1 << 24, ROWS)],
        "city": [f"city {number}" for number in random.integers(0, 3000, ROWS)],
    }


def few_values(random: np.random.Generator) -> dict[str, object]:
    """As in lineitem: a day, a later day, one of fifty quantities, and a flag."""
    day = random.integers(0, 2500, ROWS)
    return {
        "day": day,
        "later day": day + random.integers(1, 120, ROWS),
        "quantity": random.integers(0, 50, ROWS),
        "flag": random.random(ROWS) < 0.1,
    }


DATA = {
    "uniform": uniform,
    "skewed": skewed,
    "skewed and uniform": skewed_and_uniform,
    "correlated": correlated,
    "strings": strings,
    "few values": few_values,
}


# --- layouts: the row numbers of each file


def tahoe_files(table: pa.Table, _: Sequence[Ranked], files: int = FILES) -> list[Numbers]:
    sample = table.take(
        pa.array(
            np.sort(np.random.default_rng(0).choice(table.num_rows, min(SAMPLE_ROWS, table.num_rows), replace=False))
        )
    )
    leaves = Assigner(plan_layout(sample, files)).leaves(table)
    return [rows for leaf in range(files) if len(rows := np.flatnonzero(leaves == leaf))]


def z_order(_: pa.Table, columns: Sequence[Ranked]) -> list[Numbers]:
    return by_key(interleaved(range_numbers(columns)))


def hilbert(_: pa.Table, columns: Sequence[Ranked]) -> list[Numbers]:
    return by_key(interleaved(transposed(range_numbers(columns))))


def by_first_column(_: pa.Table, columns: Sequence[Ranked]) -> list[Numbers]:
    return by_key(columns[0].ranks)


LAYOUTS: Layouts = {"tahoe": tahoe_files, "Z-order": z_order, "Hilbert": hilbert, "sorted": by_first_column}


def by_key(keys: Numbers) -> list[Numbers]:
    """Files of equal size by ascending keys; equal keys are in any order."""
    noise = np.random.default_rng(0).random(len(keys))
    return np.array_split(np.lexsort((noise, keys)), FILES)


def range_numbers(columns: Sequence[Ranked], ranges: int = 1000) -> list[npt.NDArray[np.uint64]]:
    found = []
    for column in columns:
        bounds = np.unique(np.sort(column.ranks)[np.arange(1, ranges) * len(column.ranks) // ranges])
        found.append(np.searchsorted(bounds, column.ranks).astype(np.uint64))
    return found


def interleaved(numbers: Sequence[npt.NDArray[np.uint64]], bits: int = 10) -> npt.NDArray[np.uint64]:
    found = np.zeros(len(numbers[0]), np.uint64)
    for bit in reversed(range(bits)):
        for number in numbers:
            found = (found << np.uint64(1)) | ((number >> np.uint64(bit)) & np.uint64(1))
    return found


def transposed(numbers: Sequence[npt.NDArray[np.uint64]], bits: int = 10) -> list[npt.NDArray[np.uint64]]:
    """The index on the Hilbert curve, its bits distributed over the columns (Skilling, 2004)."""
    axes = [number.copy() for number in numbers]
    for bit in reversed(range(1, bits)):
        low = np.uint64((1 << bit) - 1)
        for axis in axes:
            is_set = (axis >> np.uint64(bit)) & np.uint64(1) == 1
            change = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & low)
            axes[0] ^= np.where(is_set, low, change)
            if axis is not axes[0]:
                axis ^= change
    for before, axis in pairwise(axes):
        axis ^= before
    last = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        last ^= np.where((axes[-1] >> np.uint64(bit)) & np.uint64(1) == 1, np.uint64((1 << bit) - 1), np.uint64(0))
    return [axis ^ last for axis in axes]


# --- what a query reads


def share_read(
    columns: Sequence[Ranked], files: Sequence[Numbers], queries: Sequence[Numbers]
) -> npt.NDArray[np.float64]:
    """For each column the percentage of files whose minimum and maximum do not exclude a value, over all queries."""
    found = []
    for column, asked in zip(columns, queries, strict=True):
        low = np.array([column.ranks[rows].min() for rows in files])
        high = np.array([column.ranks[rows].max() for rows in files])
        found.append(100 * ((low <= asked[:, None]) & (asked[:, None] <= high)).mean())
    return np.array(found)


def queries_for_rows(columns: Sequence[Ranked], random: np.random.Generator) -> list[Numbers]:
    """Values of random rows."""
    return [column.ranks[random.integers(0, len(column.ranks), QUERIES)] for column in columns]


def queries_for_values(columns: Sequence[Ranked], random: np.random.Generator) -> list[Numbers]:
    """Random ones of the distinct values: of skewed columns mostly rare values."""
    return [random.integers(1, len(column.values) + 1, QUERIES) for column in columns]


def measure_data(
    name: str,
) -> tuple[dict[str, list[npt.NDArray[np.float64]]], dict[str, list[npt.NDArray[np.float64]]], list[str]]:
    """For each layout, and each seed, the share of files read of each column, by both kinds of queries."""
    for_rows: dict[str, list[npt.NDArray[np.float64]]] = {layout: [] for layout in LAYOUTS}
    for_values: dict[str, list[npt.NDArray[np.float64]]] = {layout: [] for layout in LAYOUTS}
    names: list[str] = []
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        table = pa.table(DATA[name](random))
        names = table.column_names
        columns = [ranked(column) for column in table.columns]
        by_row, by_value = queries_for_rows(columns, random), queries_for_values(columns, random)
        for layout, files_of in LAYOUTS.items():
            files = files_of(table, columns)
            for_rows[layout].append(share_read(columns, files, by_row))
            for_values[layout].append(share_read(columns, files, by_value))
    return for_rows, for_values, names


def compare_data(name: str) -> list[Comparison]:
    for_rows, for_values, names = measure_data(name)
    show(f"{name}: files skipped (%), values of random rows", for_rows, names)
    show(f"{name}: files skipped (%), random distinct values", for_values, names)
    ours = for_rows["tahoe"]
    found = []
    for peer in ("Z-order", "Hilbert"):
        average = {side: [float(seed.mean()) for seed in for_rows[side]] for side in ("tahoe", peer)}
        question = f"files read by an equality: {name}, average of columns"
        goal = 1.0 if peer == "Z-order" else None
        found.append(
            Comparison(question=question, peer=peer, ours=average["tahoe"], theirs=average[peer], unit="%", goal=goal)
        )
    if name == "uniform":
        sides = {"average": [float(seed.mean()) for seed in ours], "worst column": [float(mean_worst(ours))]}
        for (part, percent), paper, goal in zip(sides.items(), PAPER, GOALS, strict=True):
            limit = round((100 - goal) / (100 - paper), 2)
            question = f"Figure 5, files read: {part}"
            found.append(
                Comparison(
                    question=question, peer="the paper", ours=percent, theirs=[100 - paper], unit="%", goal=limit
                )
            )
    return found


def mean_worst(shares: Sequence[npt.NDArray[np.float64]]) -> float:
    return float(np.mean(shares, axis=0).max())


def show(title: str, shares: Mapping[str, Sequence[npt.NDArray[np.float64]]], names: Sequence[str]) -> None:
    found = Grid("layout", "average", *names, title=title, box=SIMPLE_HEAD, pad_edge=False)
    for layout, seeds in shares.items():
        skipped = 100 - np.mean(seeds, axis=0)
        found.add_row(layout, f"{skipped.mean():.1f}", *(f"{column:.1f}" for column in skipped))
    screen().print(found)


# --- inside a file


def compare_pages() -> Comparison:
    """Pages of one file of a table: rows in the layout's order, or sorted by the first column."""
    shares: dict[str, list[npt.NDArray[np.float64]]] = {"tahoe": [], "sorted": []}
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        table = pa.table(uniform(random))
        columns = [ranked(column) for column in table.columns]
        sample = table.take(pa.array(np.sort(random.choice(ROWS, 50 * PAGES, replace=False))))
        parts = Assigner(plan_layout(sample, 1, PAGES)).leaves(table)
        orders = {"tahoe": row_order(table, parts), "sorted": np.argsort(columns[0].ranks, kind="stable")}
        queries = queries_for_rows(columns, random)
        for layout, order in orders.items():
            shares[layout].append(share_read(columns, np.array_split(order, PAGES), queries))
    show("pages skipped (%) inside a file", shares, list(uniform(np.random.default_rng(0))))
    average = {side: [float(seed.mean()) for seed in seeds] for side, seeds in shares.items()}
    question = "pages read by an equality inside a file: uniform, average of columns"
    return Comparison(
        question=question, peer="sorted by the first", ours=average["tahoe"], theirs=average["sorted"], unit="%"
    )


# --- appends to a clustered table

UNIT_ROWS = 1000
# The size before, the appends, and how often a byte may be rewritten.
APPENDS = {"20 of 5 %": (0, [5] * 20, 4), "80 of 1 %, on 20 %": (20, [1] * 80, 6)}


def compare_appends() -> list[Comparison]:
    """Bytes rewritten for each byte appended, and files read in the end, compared with laying out everything."""
    found = []
    for name, (before, appends, limit) in APPENDS.items():
        runs = [append_and_cluster(before, appends, seed) for seed in range(APPEND_SEEDS)]
        rewritten = [run[0] for run in runs]
        question = f"clustered, appends: {name}: bytes rewritten over bytes appended"
        found.append(Comparison(question=question, peer="limit", ours=rewritten, theirs=[limit], unit="x", goal=1.0))
        question = f"clustered, appends: {name}: files read by an equality"
        ours, full = [run[1] for run in runs], [run[2] for run in runs]
        goal = round(1 + 3 / statistics.median(full), 3)
        found.append(Comparison(question=question, peer="OPTIMIZE FULL", ours=ours, theirs=full, unit="%", goal=goal))
        screen().print(f"{name}: {statistics.median(run[3] for run in runs):.2f} times as many files")
    return found


def append_and_cluster(before: int, appends: Sequence[int], seed: int) -> tuple[float, float, float, float]:
    """Cluster after each append. Sizes are given in files of `UNIT_ROWS` rows, one byte each."""
    random = np.random.default_rng(seed)
    total = before + sum(appends)
    rows = pa.table({f"c{n}": random.random(total * UNIT_ROWS) for n in range(4)})
    written, stop = 0, before * UNIT_ROWS
    cubes = {"before": tahoe_files(rows.slice(0, stop), (), before)} if before else {}
    for number, append in enumerate(appends):
        added = np.arange(stop, stop := stop + append * UNIT_ROWS)
        sizes = {cube: sum(map(len, files)) for cube, files in cubes.items()}
        joined = np.concatenate(
            [added, *(rows_of for cube in joining_cubes(len(added), sizes) for rows_of in cubes.pop(cube))]
        )
        written += len(joined)
        files = tahoe_files(rows.take(pa.array(joined)), (), cube_leaves(len(joined), stop, UNIT_ROWS))
        cubes[str(number)] = [joined[found] for found in files]
    columns = [ranked(column) for column in rows.columns]
    queries = queries_for_rows(columns, random)
    ours, full = [rows_of for files in cubes.values() for rows_of in files], tahoe_files(rows, (), total)
    read = [float(share_read(columns, files, queries).mean()) for files in (ours, full)]
    return written / (sum(appends) * UNIT_ROWS), read[0], read[1], len(ours) / len(full)


def main() -> None:
    report(*compare_appends(), compare_pages(), *(comparison for name in DATA for comparison in compare_data(name)))


if __name__ == "__main__":
    main()
