"""Walks over the tokens of a statement, and reads the parts that statements have in common: names, texts, expressions,
lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tahoe.errors import StatementSyntaxError
from tahoe.sql.statements import Expression, Name
from tahoe.sql.tokens import Token, tokens_of


class TokenParser:
    """The tokens of a statement, and the parts that statements have in common."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.place = 0

    # --- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def ahead(self, count: int) -> Token:
        return self.tokens[min(self.place + count, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.place += 1
        return token

    def fail(self, expected: str, at: Token | None = None) -> NoReturn:
        token = self.token if at is None else at
        raise StatementSyntaxError.at(self.text, token.start, token.text, expected)

    def sees(self, *words: str, after: int = 0) -> bool:
        """Whether these keywords come next, in this order. `A|B` means either keyword."""
        return all(self.ahead(after + n).is_word(*word.split("|")) for n, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Consume these keywords if they come next."""
        found = self.sees(*words)
        if found:
            self.place += len(words)
        return found

    def require(self, *words: str) -> None:
        for word in words:
            if not self.takes(word):
                self.fail(word.replace("|", " or "))

    def takes_symbol(self, symbol: str) -> bool:
        found = self.token.is_symbol(symbol)
        if found:
            self.place += 1
        return found

    def require_symbol(self, symbol: str) -> None:
        if not self.takes_symbol(symbol):
            self.fail(f"'{symbol}'")

    def at_end(self) -> None:
        """Fail unless only semicolons follow."""
        while self.takes_symbol(";"):
            pass
        if self.token.kind != "end":
            self.fail("the end of the statement")

    # --- parts

    def identifier(self, what: str) -> str:
        if self.token.kind not in ("word", "quoted"):
            self.fail(what)
        return self.next().value

    def path(self, what: str) -> tuple[str, ...]:
        """An identifier of one or more parts, separated by dots."""
        parts = [self.identifier(what)]
        while self.takes_symbol("."):
            parts.append(self.identifier("the next part of the name"))
        return tuple(parts)

    def name(self) -> Name:
        """A table name, IDENTIFIER(...), or a quoted path."""
        if self.token.kind == "text":
            return Name(path=self.next().value)
        if self.sees("IDENTIFIER") and self.ahead(1).is_symbol("("):
            self.place += 2
            name = Name(expression=self.expression("an expression for the name", lambda: self.token.is_symbol(")")))
            self.require_symbol(")")
            return name
        return Name(parts=self.path("a table name or a quoted path"))

    def text_value(self, what: str) -> str:
        if self.token.kind != "text":
            self.fail(what)
        return self.next().value

    def expression(self, what: str, ends: Callable[[], bool] = lambda: False) -> Expression:
        """The text up to the first token outside parentheses where `ends` is true, or up to the end of the
        statement.
        """
        first, depth = self.token, 0
        last = None
        while self.token.kind != "end" and not (depth == 0 and (ends() or self.token.is_symbol(";"))):
            last = self.next()
            depth += (last.kind == "symbol") * ((last.text in "([") - (last.text in ")]"))
            if depth < 0:
                self.fail(what, last)
        if last is None:
            self.fail(what)
        if depth > 0:
            self.fail("')'")
        return Expression(self.text[first.start : last.end], first.start)

    def listed(self, read: Callable[[], None]) -> None:
        """Comma-separated items in parentheses."""
        self.require_symbol("(")
        read()
        while self.takes_symbol(","):
            read()
        if not self.takes_symbol(")"):
            self.fail("',' or ')'")
