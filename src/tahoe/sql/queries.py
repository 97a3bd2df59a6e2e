"""Finds the queries inside SQL text by their first keywords and parentheses, without a grammar."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tahoe.sql.tokens import Token, tokens_of

# The placeholder for a query whose text is unknown.
UNKNOWN = "..."

_FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def only_query(text: str) -> str:
    """The only parenthesised query in a text, without its parentheses; `UNKNOWN` if there is none or more than one at
    the top level.
    """
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
