"""Who calls: the principal of a token, or anyone on this machine; and how often a caller may."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from tahoe.catalog.grants import Rights, principal_of, rights_of
from tahoe.catalog.server.refusals import Refusal, too_many, unauthenticated
from tahoe.catalog.server.service import Service

# So many callers are known at a time; one who is forgotten begins anew.
_CALLERS_MAX = 10_000


class Rate:
    """How many calls a second each caller may make; those of one second may come at once.

    Args:
        per_second: more than 0.
        clock: seconds that only grow.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._burst = max(per_second, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count a call.

        Raises:
            Refusal: it is one too many, and when to come back.
        """
        with self._lock:
            now = self._clock()
            left, since = self._left.get(caller, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_second)
            self._left[caller] = (left - 1 if left >= 1 else left), now
            self._left.move_to_end(caller)
            if len(self._left) > _CALLERS_MAX:
                self._left.popitem(last=False)
        if left < 1:
            raise too_many(self._per_second, math.ceil((1 - left) / self._per_second))


def rights_of_caller(service: Service, headers: Mapping[str, str], rate: Rate | None) -> Rights:
    """What a caller may do.

    Args:
        rate: None for a call that does not count.

    Raises:
        Refusal: the server does not know the caller, or it calls too often.
    """
    if not service.needs_token:
        _check_host(headers.get("host", ""))
        if rate is not None:
            rate.take("")
        return Rights(principal=None)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    with service.begin() as connection:
        principal = principal_of(connection, token) if scheme.lower() == "bearer" else None
        if principal is None:
            raise unauthenticated("A valid token is needed: Authorization: Bearer TOKEN.")
        if rate is not None:
            rate.take(hashlib.sha256(token.encode()).hexdigest())
        return rights_of(connection, principal)


def _check_host(host: str) -> None:
    """Without tokens, a page in a browser of this machine could call the server, if a name of its own stood for the
    loopback address: then the browser takes the server for the page's own.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if not is_loopback(name):
        message = "Without tokens, only calls to localhost or a loopback address are answered, by that name."
        raise Refusal(403, "PERMISSION_DENIED", message)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
