"""What all sides share: a line of JSON comes in with what to do, and one goes out with the seconds and the rows."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers stay numbers, so that they can be compared with a tolerance."""
    if value is None or isinstance(value, bool | int):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value).rstrip()


def serve(deeds: Mapping[str, Callable[..., Any]], ready: Callable[[], str]) -> None:
    """Answer until the input ends. `ready` starts the engine and tells its version."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an engine prints is no answer
    print(json.dumps({"version": ready()}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.perf_counter()
        try:
            if asked["do"] not in deeds:
                raise NotImplementedError("it has no such operation")
            rows = deeds[asked["do"]](**asked["with"])
            seconds = time.perf_counter() - began
            answer = {"seconds": seconds, "rows": [[plain(value) for value in row] for row in rows or []]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), file=out, flush=True)
