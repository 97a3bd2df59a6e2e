"""The ASGI application: routes, tokens, limits, the audit log, and errors in the form of Unity Catalog's."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tahoe.catalog.grants import Rights
from tahoe.catalog.server import (
    catalogs,
    commits,
    credentials,
    delta_tables,
    iceberg,
    permissions,
    tables,
    transactions,
)
from tahoe.catalog.server.callers import Rate, rights_of_caller
from tahoe.catalog.server.calls import Answer, Call, optional_text
from tahoe.catalog.server.metrics import Metrics
from tahoe.catalog.server.refusals import Refusal, invalid, refusal_of, unavailable
from tahoe.catalog.server.service import Service
from tahoe.errors import DeltaError
from tahoe.protocol.types.json_text import load_json

PREFIX = "/api/2.1/unity-catalog"

# What Unity Catalog's interface does not have.
OWN = "/api/tahoe"

# The Delta tables API, which reports errors in its own form.
_DELTA = "/delta/v1"
_DELTA_SCHEMA = f"{_DELTA}/catalogs/{{catalog}}/schemas/{{schema}}"

# Iceberg's REST catalog, with errors in its own form, too.
_ICEBERG = "/iceberg"
_NAMESPACE = f"{_ICEBERG}/v1/catalogs/{{catalog}}/namespaces/{{namespace}}"

# No legal request is longer; a table of ten thousand columns takes about two megabytes.
BODY_BYTES_MAX = 8 << 20

# So long a caller may take to send a request's body.
_BODY_SECONDS = 60

_LOGGER = logging.getLogger("tahoe.catalog.server")
_AUDIT = logging.getLogger("tahoe.catalog.audit")

Endpoint: TypeAlias = Callable[[Call], Mapping[str, Any] | Answer]

_UNITY: tuple[tuple[str, str, Endpoint], ...] = (
    ("GET", "/metastore_summary", catalogs.metastore_summary),
    ("GET", "/catalogs", catalogs.list_catalogs),
    ("POST", "/catalogs", catalogs.create_catalog),
    ("GET", "/catalogs/{name}", catalogs.get_catalog),
    ("PATCH", "/catalogs/{name}", catalogs.change_catalog),
    ("DELETE", "/catalogs/{name}", catalogs.change_catalog),
    ("GET", "/schemas", catalogs.list_schemas),
    ("POST", "/schemas", catalogs.create_schema),
    ("GET", "/schemas/{full_name}", catalogs.get_schema),
    ("PATCH", "/schemas/{full_name}", catalogs.update_schema),
    ("DELETE", "/schemas/{full_name}", catalogs.delete_schema),
    ("GET", "/tables", tables.list_tables),
    ("POST", "/tables", tables.create_table),
    ("GET", "/tables/{full_name}", tables.get_table),
    ("DELETE", "/tables/{full_name}", tables.delete_table),
    ("POST", "/staging-tables", tables.create_staging_table),
    ("POST", "/temporary-table-credentials", credentials.of_table),
    ("POST", "/temporary-path-credentials", credentials.of_path),
    ("GET", "/permissions/{kind}/{full_name}", permissions.get_permissions),
    ("PATCH", "/permissions/{kind}/{full_name}", permissions.change_permissions),
    ("GET", "/delta/preview/commits", commits.get_commits),
    ("POST", "/delta/preview/commits", commits.post_commit),
    ("GET", f"{_DELTA}/config", delta_tables.configuration),
    ("POST", f"{_DELTA_SCHEMA}/staging-tables", delta_tables.create_staging_table),
    ("POST", f"{_DELTA_SCHEMA}/tables", delta_tables.create_table),
    ("GET", f"{_DELTA_SCHEMA}/tables/{{table}}", delta_tables.load_table),
    ("POST", f"{_DELTA_SCHEMA}/tables/{{table}}", delta_tables.update_table),
    ("DELETE", f"{_DELTA_SCHEMA}/tables/{{table}}", delta_tables.delete_table),
    ("GET", f"{_DELTA_SCHEMA}/tables/{{table}}/credentials", delta_tables.table_credentials),
    ("GET", f"{_ICEBERG}/v1/config", iceberg.configuration),
    ("GET", f"{_ICEBERG}/v1/catalogs/{{catalog}}/namespaces", iceberg.list_namespaces),
    ("GET", _NAMESPACE, iceberg.get_namespace),
    ("GET", f"{_NAMESPACE}/tables", iceberg.list_tables),
    ("GET", f"{_NAMESPACE}/tables/{{table}}", iceberg.load_table),
    ("GET", f"{_NAMESPACE}/tables/{{table}}/credentials", iceberg.table_credentials),
    ("POST", f"{_NAMESPACE}/tables/{{table}}/metrics", iceberg.report_metrics),
)

ROUTES: tuple[tuple[str, str, Endpoint], ...] = (
    *((method, PREFIX + path, endpoint) for method, path, endpoint in _UNITY),
    ("GET", f"{OWN}/tables", transactions.tables_of_moment),
    ("POST", f"{OWN}/transactions", transactions.post_transaction),
    ("POST", f"{OWN}/views", tables.put_view),
    ("GET", f"{OWN}/views/{{full_name}}", tables.get_view),
    ("DELETE", f"{OWN}/views/{{full_name}}", tables.delete_view),
)


def application(service: Service) -> Starlette:
    metrics = Metrics()
    rate = None if service.calls_per_second is None else Rate(service.calls_per_second)

    def metrics_of(_: Call) -> str:
        return metrics.as_text()

    routes = [
        Route(path, _answering(service, endpoint, metrics, rate), methods=[method], name=endpoint.__name__)
        for method, path, endpoint in ROUTES
    ]
    routes.append(Route("/metrics", _answering(service, metrics_of, metrics, None), methods=["GET"], name="metrics"))
    routes.append(Route("/health", _health(service), methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_route})


def _answering(
    service: Service, endpoint: Callable[[Call], Any], metrics: Metrics, rate: Rate | None
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        started, request_id = time.perf_counter(), str(uuid.uuid4())
        caller: list[str] = []
        response: Response
        try:
            # Who is not known sends no body.
            rights = await run_in_threadpool(rights_of_caller, service, request.headers, rate)
            caller += [] if rights.principal is None else [rights.principal]
            raw = await _body(request)
            told = await run_in_threadpool(_call, service, endpoint, request, raw, rights)
            response = _response(told)
        except Exception as error:  # whoever calls learns nothing of the server from its faults
            response = _refused(_refusal(request_id, error), request.url.path)
        seconds = time.perf_counter() - started
        metrics.count(endpoint.__name__, response.status_code, seconds)
        entry = {"request": request_id, "principal": caller[0] if caller else None, "endpoint": endpoint.__name__}
        path = {"method": request.method, "path": request.url.path, "status": response.status_code}
        _AUDIT.info("%s", json.dumps({**entry, **path, "milliseconds": round(seconds * 1000, 1)}))
        response.headers["X-Request-Id"] = request_id
        return response

    return answer


def _response(told: str | Answer | Mapping[str, Any]) -> Response:
    if isinstance(told, str):
        return PlainTextResponse(told)
    if not isinstance(told, Answer):
        return JSONResponse(told)
    if told.body is None:
        return Response(status_code=told.status, headers=told.headers)
    return JSONResponse(told.body, status_code=told.status, headers=told.headers)


async def _body(request: Request) -> bytes:
    """What was sent, if it is not too long, and does not take too long."""
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > BODY_BYTES_MAX:
                    raise Refusal(413, "INVALID_ARGUMENT", f"A request has at most {BODY_BYTES_MAX} bytes.")
    except TimeoutError as error:
        raise Refusal(408, "CANCELLED", f"A request is sent in at most {_BODY_SECONDS} seconds.") from error
    return bytes(data)


def _call(service: Service, endpoint: Callable[[Call], Any], request: Request, raw: bytes, rights: Rights) -> Any:
    if raw.strip() and not request.headers.get("content-type", "").startswith("application/json"):
        # a page in a browser of this machine can send other types to a server without tokens
        raise Refusal(415, "INVALID_ARGUMENT", "The body must have the type application/json.")
    path, query = (
        {name: optional_text(given, name) or "" for name in given}
        for given in (request.path_params, dict(request.query_params))
    )
    call = Call(service=service, rights=rights, path=path, query=query, body=_object(raw), headers=request.headers)
    return endpoint(call)


def _object(raw: bytes) -> Mapping[str, Any]:
    if not raw.strip():
        return {}
    try:
        found = load_json(raw)
    except ValueError as error:
        raise invalid("The body is not JSON.") from error
    if not isinstance(found, dict):
        raise invalid("The body must be a JSON object.")
    return found


def _refused(refusal: Refusal, path: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    if refusal.retry_seconds is not None:
        headers["Retry-After"] = str(refusal.retry_seconds)
    if path.startswith(f"{PREFIX}{_DELTA}/"):
        told = refusal.as_delta_json()
    elif path.startswith(f"{PREFIX}{_ICEBERG}/"):
        told = refusal.as_iceberg_json()
    else:
        told = refusal.as_json()
    return JSONResponse(told, status_code=refusal.status, headers=headers)


def _refusal(request_id: str, error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ClientDisconnect):
        return Refusal(400, "CANCELLED", "The client is gone.")
    if isinstance(error, DeltaError):
        _LOGGER.warning("request %s: %s", request_id, error)
        return refusal_of(error)
    _LOGGER.error("request %s failed", request_id, exc_info=error)
    if isinstance(error, (OSError, sa.exc.SQLAlchemyError)):
        return unavailable("The database or the storage did not answer. Try again later.")
    return Refusal(500, "INTERNAL", f"The server failed; its log has the reason, under the request {request_id}.")


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, message = {
        404: ("NOT_FOUND", "The server has no such endpoint."),
        405: ("UNIMPLEMENTED", "The endpoint does not have this method."),
    }.get(status, ("INVALID_ARGUMENT", "The request is invalid."))
    return _refused(Refusal(status, code, message), request.url.path)


def _health(service: Service) -> Callable[[Request], Awaitable[Response]]:
    def ask() -> None:
        with service.begin() as connection:
            connection.execute(sa.select(1))

    async def health(_: Request) -> Response:
        try:
            await run_in_threadpool(ask)
        except DeltaError:
            return JSONResponse({"status": "the database does not answer"}, status_code=503)
        return JSONResponse({"status": "ok"})

    return health
