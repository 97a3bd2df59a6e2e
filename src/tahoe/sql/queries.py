"""Queries inside of a text of SQL, found by their first words and their parentheses. Knows no grammar."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tahoe.sql.tokens import Token, tokens_of

# What stands for a query whose text is not known.
UNKNOWN = "..."

_FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def only_query(text: str) -> str:
    """The query in parentheses that a text has in it, without these; `UNKNOWN` where there is none, or several that are in no other."""
    found = list(_queries(text, tokens_of(text)))
    return found[0] if len(found) == 1 else UNKNOWN


def _queries(text: str, tokens: list[Token]) -> Iterator[str]:
    start, depth = None, 0
    for token, following in pairwise(tokens):
        if start is None:
            if token.is_symbol("(") and following.is_word(*_FIRST_WORDS):
                start, depth = token.end, 1
            continue
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            yield text[start : token.start].strip()
            start = None
