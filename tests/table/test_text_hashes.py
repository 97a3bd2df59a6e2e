"""A set of hashed texts has its texts, and no others that a test could find."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.table.arrow.spool import Pages
from tahoe.table.cleanup import text_hashes
from tahoe.table.cleanup.text_hashes import HashedTexts

TEXTS = st.lists(st.text(alphabet="a/é\0b%", max_size=20), max_size=30)


def column(*chunks: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(["before", *chunk])[1:] for chunk in chunks], pa.string())


@given(TEXTS, TEXTS, TEXTS)
def test_a_set_has_its_texts(first: list[str], second: list[str], others: list[str]) -> None:
    known = HashedTexts([column(first), column(second, first)])
    assert known.has(column(first, others, second)).to_pylist() == [
        text in {*first, *second} for text in (*first, *others, *second)
    ]


@pytest.mark.parametrize("piece", [1, 3, 1 << 16])
def test_texts_have_the_same_hash_wherever_they_are(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"p={n % 7}/part-{n}" for n in range(100)]
    alone = [text_hashes.text_hashes(column([text]))[0] for text in texts]
    monkeypatch.setattr(text_hashes, "_PIECE_TEXTS", piece)
    assert text_hashes.text_hashes(column(texts[:40], [], texts[40:])).tolist() == alone
    assert len(set(alone)) == len(texts)


def test_paths_that_differ_little_have_different_hashes() -> None:
    """A hash that adds up words would confuse texts that differ at the ends of two words."""
    texts = [f"day=2024-01-01/part-{a:05}-{b:08}.parquet" for a in range(300) for b in range(300)]
    assert len(set(text_hashes.text_hashes(column(texts)).tolist())) == len(texts)


@pytest.mark.parametrize("page_bytes", [1, 100, 1 << 20])
def test_pages_are_read_as_often_as_asked_for(page_bytes: int) -> None:
    pages = Pages(page_bytes)
    for start in range(0, 50, 10):
        pages.add(pa.table({"n": list(range(start, start + 10))}))
    for _ in range(2):
        assert [n for page in pages for n in page["n"].to_pylist()] == list(range(50))
    pages.add(pa.table({"n": [50]}))
    assert sum(page.num_rows for page in pages) == 51
