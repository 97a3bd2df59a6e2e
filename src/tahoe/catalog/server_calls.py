"""Calls of a catalog's server from a client: requests, and its refusals as errors of tahoe. Knows only the standard
library.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from tahoe.errors import (
    CatalogNameTakenError,
    CatalogRefusedError,
    CatalogTableNotFoundError,
    CatalogUnavailableError,
    SchemaNotEmptyError,
    SchemaNotFoundError,
)
from tahoe.events.listeners import told_retry

UNITY = "/api/2.1/unity-catalog"
_TIMEOUT_SECONDS = 60

# A server that restarts is back after a few attempts. All calls may be repeated: a commit that is ratified is known
# again. But if an answer was lost, and the server then refuses the repetition for another reason, such as a token that
# has expired, nobody knows whether the first call was done.
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.25

# So long a call waits in all for a server that has had too many.
_WAIT_SECONDS_MAX = 120.0


class _Refused(Exception):
    """What a server told when it refused a call."""

    def __init__(self, code: str, message: str, told: dict[str, Any]) -> None:
        super().__init__(message)
        self.code, self.message, self.told = code, message, told


class _TooMany(Exception):
    """A server has had too many calls, and has not done this one."""

    def __init__(self, message: str, retry_seconds: float) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


@dataclass(frozen=True, slots=True)
class ServerCalls:
    """A server, and the token by which it knows the caller.

    Attributes:
        prefix: of the paths of an interface.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    prefix: str = UNITY

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        outcomes: Collection[str] = (),
        **query: str,
    ) -> dict[str, Any]:
        """What the server answers.

        Args:
            outcomes: codes of refusals that are answers, and hold for a repeated call, too.

        Raises:
            CatalogUnavailableError: it did not, several times, or not to a call that it has refused to repeat.
            CatalogRefusedError: it refused the call, which had no effect.
        """
        lost, waited = 0, 0.0
        while True:
            try:
                return self._ask(method, path, body, query)
            except _TooMany as busy:
                waited += busy.retry_seconds
                if waited > _WAIT_SECONDS_MAX:
                    raise CatalogUnavailableError(url=self.url, detail=str(busy)) from busy
                time.sleep(busy.retry_seconds)
                told_retry("catalog", self.url, lost + 1, busy.retry_seconds, "TOO_MANY_REQUESTS")
            except _Refused as refused:
                if refused.code in outcomes:
                    return refused.told
                if lost and method != "GET":
                    detail = f"an answer was lost, and the repeated call was refused: {refused.message}"
                    raise CatalogUnavailableError(url=self.url, detail=detail) from refused
                raise CatalogRefusedError(url=self.url, code=refused.code, detail=refused.message) from refused
            except CatalogUnavailableError as error:
                lost += 1
                if lost == _ATTEMPTS:
                    raise
                pause_seconds = _PAUSE_SECONDS * 2 ** (lost - 1)
                time.sleep(pause_seconds)
                told_retry("catalog", self.url, lost, pause_seconds, error)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str]) -> dict[str, Any]:
        at = f"{self.url}{self.prefix}{urllib.parse.quote(path)}"
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
        except (OSError, ValueError, HTTPException) as error:
            raise CatalogUnavailableError(url=self.url, detail=str(error)) from error

    def _refused(self, error: urllib.error.HTTPError) -> _Refused | _TooMany | CatalogUnavailableError:
        told: dict[str, Any] = {"error_code": str(error.code), "message": error.reason}
        try:
            told |= json.load(error)
        except (ValueError, TypeError):
            pass
        except (OSError, HTTPException) as cut:
            return CatalogUnavailableError(url=self.url, detail=f"its answer was cut off: {cut}")
        refused = _Refused(str(told["error_code"]), str(told["message"]).rstrip("."), told)
        if error.code == 429:
            told_seconds = error.headers.get("Retry-After", "")
            return _TooMany(refused.message, max(1.0, float(told_seconds) if told_seconds.isdecimal() else 0.0))
        if error.code in (502, 503, 504):
            return CatalogUnavailableError(url=self.url, detail=refused.message)
        return refused

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
