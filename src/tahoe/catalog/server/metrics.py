"""Counts calls, for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter


class Metrics:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        with self._lock:
            self._calls[endpoint, status] += 1
            self._seconds[endpoint] += seconds  # type: ignore[assignment]  # a counter of floats

    def as_text(self) -> str:
        with self._lock:
            calls, seconds = sorted(self._calls.items()), sorted(self._seconds.items())
        lines = ["# TYPE tahoe_catalog_requests_total counter"]
        for (endpoint, status), number in calls:
            lines.append(f'tahoe_catalog_requests_total{{endpoint="{endpoint}",status="{status}"}} {number}')
        lines.append("# TYPE tahoe_catalog_request_seconds_total counter")
        for endpoint, spent in seconds:
            lines.append(f'tahoe_catalog_request_seconds_total{{endpoint="{endpoint}"}} {spent:.6f}')
        return "\n".join(lines) + "\n"
