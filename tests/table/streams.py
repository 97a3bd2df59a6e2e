"""Reading a stream to its end in tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tahoe.protocol.streams.stream_offset import StreamOffset
from tahoe.table.streams.stream import AdmissionLimit, Stream


def ends_of(
    stream: Stream[Any],
    begin: StreamOffset,
    limits: Sequence[AdmissionLimit],
    wanted: Callable[[StreamOffset, AdmissionLimit], StreamOffset],
) -> list[StreamOffset]:
    """The offsets between the batches of a stream, the first of them `begin`. Each must be the one that `wanted`
    returns.

    Args:
        limits: of the batches, in turn.
        wanted: the end of the batch after an offset.
    """
    offsets = [begin]
    for turn in range(100):
        limit = limits[turn % len(limits)]
        expected = wanted(offsets[-1], replace(limit))
        found = stream.first_end(replace(limit)) if len(offsets) == 1 else stream.next_end(offsets[-1], replace(limit))
        assert (found or begin) == expected
        if expected == offsets[-1]:
            return offsets
        offsets.append(expected)
    raise AssertionError("the stream does not come to an end")
