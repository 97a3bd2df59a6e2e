"""Large sets of texts, as 64-bit hashes: eight bytes for each text. Knows nothing of Delta."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tahoe.table.arrow.chunks import text_bytes

Hashes = npt.NDArray[np.uint64]

# Texts are hashed in pieces of this size, which bounds the memory.
_PIECE_TEXTS = 1 << 16

_WORD_BYTES = 8
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class HashedTexts:
    """A set of texts. It never denies one of its texts; another text is taken for one of them with a chance of one in
    2^64 for each text of the set.
    """

    def __init__(self, texts: Iterable[pa.ChunkedArray]) -> None:
        self._hashes = np.concatenate([np.zeros(0, np.uint64), *map(text_hashes, texts)])
        self._hashes.sort()

    def has(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """For each text, whether it is in the set."""
        hashes = text_hashes(texts)
        if not len(self._hashes):
            return pa.chunked_array([np.zeros(len(hashes), bool)])
        order = np.argsort(hashes)  # neighbours are looked up one after the other
        places = np.searchsorted(self._hashes, hashes[order])
        found = np.empty(len(hashes), bool)
        found[order] = self._hashes[np.minimum(places, len(self._hashes) - 1)] == hashes[order]
        return pa.chunked_array([found])


def text_hashes(texts: pa.ChunkedArray) -> Hashes:
    """A hash of each text, of which none is null. Two texts that differ in eight aligned bytes have different ones."""
    pieces = (
        chunk.slice(start, _PIECE_TEXTS) for chunk in texts.chunks for start in range(0, len(chunk), _PIECE_TEXTS)
    )
    return np.concatenate([np.zeros(0, np.uint64), *map(_hashes, pieces)])


def _hashes(texts: pa.StringArray) -> Hashes:
    starts, data = text_bytes(texts)
    lengths = np.diff(starts)
    hashes = lengths.astype(np.uint64) * _FACTOR
    order = np.argsort(lengths, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1) if len(order) else ():
        if length := int(lengths[rows[0]]):
            hashes[rows] = _mixed(hashes[rows], _words(data, starts[rows], length))
    return hashes


def _words(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32], length: int) -> Hashes:
    """Texts of one length as rows of words, filled up with zeros."""
    padded = np.zeros((len(starts), -(-length // _WORD_BYTES) * _WORD_BYTES), np.uint8)
    padded[:, :length] = np.lib.stride_tricks.sliding_window_view(data, length)[starts]
    return padded.view(np.uint64)


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    for column in words.T:
        hashes = (hashes ^ column) * _FACTOR
        hashes ^= hashes >> _HALF
    return hashes
