"""The most memory that this process ever had."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_megabytes() -> float:
    """Resident memory at its highest. On Linux not from getrusage, which counts the parent's too."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
