"""Splits SQL text into tokens as Spark's lexer does, with their offsets. No keyword is reserved.

Must not import Spark. Characters that Spark's lexer would reject become symbols.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["word", "quoted", "text", "number", "symbol", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a statement.

    Attributes:
        kind: `word` is an identifier or a keyword, `quoted` an identifier in backticks, `text` a string literal, `end`
            the end of the text.
        text: the verbatim text.
        start: the offset of its first character in the statement.
        value: the text of a word; a quoted identifier or a string without quotes and escapes.
    """

    kind: Kind
    text: str
    start: int
    value: str = ""

    @property
    def end(self) -> int:
        """The offset after its last character."""
        return self.start + len(self.text)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, given in upper case."""
        return self.kind == "word" and self.value.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        return self.kind == "symbol" and self.text == symbol


# A line comment continues after a backslash at the end of the line. Bracketed comments nest, so `_after_comment` finds
# their end.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\n|[^\r\n])*)
  | (?P<comment>/\*(?!\+)|/\*\+)
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDF])?(?![\w])|\d+(?![\w]))
  | (?P<word>\w+)
  | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a statement without whitespace and comments, followed by an `end` token."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None  # every character matches `symbol`
        kind = str(match.lastgroup)
        if kind == "comment":
            place = _after_comment(text, place)
            continue
        if kind != "space":
            found.append(_token(kind, match[0], place))
        place = match.end()
    return [*found, Token("end", "", len(text))]


def _token(kind: str, text: str, start: int) -> Token:
    """A token with the value that its text stands for: without quotes, and with escapes resolved, except in raw
    strings.
    """
    match kind:
        case "raw":
            return Token("text", text, start, text[2:-1])
        case "text":
            return Token("text", text, start, unescaped(text[1:-1].replace(text[0] * 2, text[0])))
        case "quoted":
            return Token("quoted", text, start, text[1:-1].replace("``", "`"))
        case "number":
            return Token("number", text, start, text)
        case "word":
            return Token("word", text, start, text)
        case _:
            return Token("symbol", text, start, text)


def _after_comment(text: str, start: int) -> int:
    """The offset after a bracketed comment, which may contain others; an unterminated one extends to the end of the
    text.
    """
    depth, place = 0, start
    while place < len(text):
        if text.startswith("/*", place):
            depth, place = depth + 1, place + 2
        elif text.startswith("*/", place):
            depth, place = depth - 1, place + 2
            if depth == 0:
                return place
        else:
            place += 1
    return place


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unescaped(inside: str) -> str:
    """The value of the text between a string's quotes, with escapes resolved as in Spark."""
    return _ESCAPE.sub(lambda found: _character(found[1]), inside)


def _character(escape: str) -> str:
    if len(escape) > 1 and escape[0] in "uU":
        code = int(escape[1:], 16)
        return chr(code) if code <= 0x10FFFF else escape
    if len(escape) == 3:
        return chr(int(escape, 8))
    return _ESCAPED.get(escape, escape)
