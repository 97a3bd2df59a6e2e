"""Calls of a catalog's server from a client: requests, and its refusals as errors of tahoe. Knows only the standard
library.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tahoe.errors import (
    CatalogNameTakenError,
    CatalogRefusedError,
    CatalogTableNotFoundError,
    CatalogUnavailableError,
    SchemaNotEmptyError,
    SchemaNotFoundError,
)

_PREFIX = "/api/2.1/unity-catalog"
_TIMEOUT_SECONDS = 60

# A server that restarts is back after a few attempts. All calls may be repeated: a commit that is ratified is known
# again.
_ATTEMPTS = 4
_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class ServerCalls:
    """A server, and the token by which it knows the caller."""

    url: str
    token: str | None = field(default=None, repr=False)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> dict[str, Any]:
        """What the server answers.

        Raises:
            CatalogUnavailableError: it did not, several times.
            CatalogRefusedError: it refused the call.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._ask(method, path, body, query)
            except CatalogUnavailableError:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str]) -> dict[str, Any]:
        at = f"{self.url}{_PREFIX}{urllib.parse.quote(path)}"
        request = urllib.request.Request(f"{at}?{urllib.parse.urlencode(query)}" if query else at, method=method)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise self._refused(error) from error
        except (OSError, ValueError) as error:
            raise CatalogUnavailableError(url=self.url, detail=str(error)) from error

    def _refused(self, error: urllib.error.HTTPError) -> CatalogRefusedError | CatalogUnavailableError:
        try:
            told = json.load(error)
            code, message = str(told["error_code"]), str(told["message"])
        except (ValueError, KeyError, TypeError):
            code, message = str(error.code), error.reason
        if error.code in (502, 503, 504):
            return CatalogUnavailableError(url=self.url, detail=message)
        return CatalogRefusedError(url=self.url, code=code, detail=message.rstrip("."))

    def pages(self, path: str, key: str, **query: str) -> Iterator[dict[str, Any]]:
        """The entries of all pages of a list."""
        token = ""
        while True:
            page = self.call("GET", path, None, **query, page_token=token, max_results="1000")
            yield from page[key]
            token = page.get("next_page_token", "")
            if not token:
                return

    def named(self, name: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A call about a schema or a table.

        Raises:
            CatalogTableNotFoundError, SchemaNotFoundError, CatalogNameTakenError, SchemaNotEmptyError: as a catalog of
                a database says it.
        """
        try:
            return self.call(method, path, body)
        except CatalogRefusedError as error:
            match error.parameters["code"]:
                case "TABLE_NOT_FOUND":
                    raise CatalogTableNotFoundError(url=self.url, name=name) from error
                case "SCHEMA_NOT_FOUND":
                    raise SchemaNotFoundError(url=self.url, name=name, known="others, or none") from error
                case "TABLE_ALREADY_EXISTS" | "SCHEMA_ALREADY_EXISTS":
                    raise CatalogNameTakenError(url=self.url, name=name) from error
                case "SCHEMA_NOT_EMPTY":
                    raise SchemaNotEmptyError(url=self.url, name=name, tables="some") from error
            raise
