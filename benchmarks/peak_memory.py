"""Peak memory and processor time of this process and of those that it started. Needs only the standard library."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def peak_megabytes() -> float:
    """Peak resident memory. On Linux it is not taken from getrusage, which also counts the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def resident_bytes() -> int:
    """Resident memory of this process now. Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_megabytes_of_all() -> float:
    """Peak resident memory of this process and of all that it started, such as Spark's JVM and its workers. Linux
    only.
    """
    parents: dict[int, int] = {}
    peaks: dict[int, float] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue  # it has ended meanwhile
        number = int(fields["Pid"])
        parents[number] = int(fields["PPid"])
        peaks[number] = int(fields.get("VmHWM", "0 kB").split()[0]) / 1024
    return sum(peak for number, peak in peaks.items() if _is_from(number, os.getpid(), parents))


def processor_seconds_of_all() -> float:
    """Processor time of this process and of all that it started and that still run. Linux only."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(taken for number, taken in seconds.items() if _is_from(number, os.getpid(), parents))


def _is_from(number: int, ancestor: int, parents: dict[int, int]) -> bool:
    while number != ancestor and number in parents:
        number = parents[number]
    return number == ancestor
