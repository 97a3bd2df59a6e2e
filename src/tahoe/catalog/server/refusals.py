"""How the server refuses a call, in the form of Unity Catalog's errors, and what each error of tahoe is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tahoe.errors import (
    CatalogManagedTableError,
    CatalogNameError,
    CatalogNameTakenError,
    CatalogTableNotFoundError,
    CatalogUnavailableError,
    CatalogUrlError,
    DeltaConcurrentModificationException,
    DeltaError,
    ExternalTableError,
    InvalidArgumentError,
    InvalidOptionError,
    NewerCatalogError,
    PrincipalNotFoundError,
    PrivilegeError,
    SchemaNotEmptyError,
    SchemaNotFoundError,
    StorageUnavailableError,
    TableNotManagedError,
    UnsupportedStorageError,
)


class Refusal(Exception):
    """Ends a call.

    Attributes:
        status: of HTTP.
        code: the `error_code` of Unity Catalog.
        table_id: the table because of which a call about several is refused.
        retry_seconds: when the call may be repeated; None tells nothing.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        table_id: str | None = None,
        retry_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.table_id, self.retry_seconds = table_id, retry_seconds

    def as_json(self) -> Mapping[str, Any]:
        details = [] if self.table_id is None else [{"table_id": self.table_id}]
        return {"error_code": self.code, "message": self.message, "details": details}

    def as_delta_json(self) -> Mapping[str, Any]:
        """The form of errors of the Delta tables API."""
        return self._typed(_DELTA_TYPES, _DELTA_TYPES_OF_STATUS)

    def as_iceberg_json(self) -> Mapping[str, Any]:
        """The form of errors of Iceberg's REST catalog."""
        return self._typed(_ICEBERG_TYPES, _ICEBERG_TYPES_OF_STATUS)

    def _typed(self, of_code: Mapping[str, str], of_status: Mapping[int, str]) -> Mapping[str, Any]:
        kind = of_code.get(self.code) or of_status.get(self.status, "BadRequestException")
        return {"error": {"message": self.message, "type": kind, "code": self.status}}


_DELTA_TYPES = {
    "INVALID_ARGUMENT": "InvalidParameterValueException",
    "CATALOG_NOT_FOUND": "NoSuchCatalogException",
    "SCHEMA_NOT_FOUND": "NoSuchSchemaException",
    "TABLE_NOT_FOUND": "NoSuchTableException",
    "COMMIT_VERSION_CONFLICT": "CommitVersionConflictException",
    "REQUIREMENT_CONFLICT": "UpdateRequirementConflictException",
}
_DELTA_TYPES_OF_STATUS = {
    401: "NotAuthorizedException",
    403: "PermissionDeniedException",
    404: "NotFoundException",
    409: "AlreadyExistsException",
    429: "TooManyRequestsException",
    500: "InternalServerErrorException",
    501: "NotImplementedException",
    503: "InternalServerErrorException",
}


_ICEBERG_TYPES = {
    "CATALOG_NOT_FOUND": "NoSuchWarehouseException",
    "SCHEMA_NOT_FOUND": "NoSuchNamespaceException",
    "TABLE_NOT_FOUND": "NoSuchTableException",
}
_ICEBERG_TYPES_OF_STATUS = {
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    405: "UnsupportedOperationException",
    429: "TooManyRequestsException",
    500: "InternalServerError",
    501: "UnsupportedOperationException",
    503: "ServiceUnavailableException",
}


def invalid(message: str) -> Refusal:
    return Refusal(400, "INVALID_ARGUMENT", message)


def unauthenticated(message: str) -> Refusal:
    return Refusal(401, "UNAUTHENTICATED", message)


def denied(privilege: str, name: str) -> Refusal:
    return Refusal(403, "PERMISSION_DENIED", f"This needs {privilege} on {name}.")


def too_many(per_second: float, retry_seconds: int) -> Refusal:
    message = f"More than {per_second:g} calls a second; come back in {retry_seconds} seconds."
    return Refusal(429, "RESOURCE_EXHAUSTED", message, retry_seconds=retry_seconds)


def not_found(kind: str, name: str) -> Refusal:
    """What does not exist, or may not be seen by who asks."""
    return Refusal(404, f"{kind.upper()}_NOT_FOUND", f"There is no {kind} {name}.")


def taken(kind: str, name: str) -> Refusal:
    return Refusal(409, f"{kind.upper()}_ALREADY_EXISTS", f"There is already a {kind} {name}.")


def conflict(message: str, table_id: str | None = None) -> Refusal:
    return Refusal(409, "COMMIT_VERSION_CONFLICT", message, table_id=table_id)


def unimplemented(message: str) -> Refusal:
    return Refusal(501, "UNIMPLEMENTED", message)


def unavailable(message: str) -> Refusal:
    return Refusal(503, "UNAVAILABLE", message)


# The first class that fits counts.
_OF_ERRORS: tuple[tuple[type[DeltaError], int, str], ...] = (
    (CatalogNameError, 400, "INVALID_ARGUMENT"),
    (CatalogNameTakenError, 409, "ALREADY_EXISTS"),
    (SchemaNotEmptyError, 409, "FAILED_PRECONDITION"),
    (CatalogTableNotFoundError, 404, "TABLE_NOT_FOUND"),
    (TableNotManagedError, 404, "TABLE_NOT_FOUND"),
    (SchemaNotFoundError, 404, "SCHEMA_NOT_FOUND"),
    (PrincipalNotFoundError, 404, "USER_NOT_FOUND"),
    (PrivilegeError, 400, "INVALID_ARGUMENT"),
    (UnsupportedStorageError, 400, "INVALID_ARGUMENT"),
    (InvalidOptionError, 400, "INVALID_ARGUMENT"),
    (InvalidArgumentError, 400, "INVALID_ARGUMENT"),
    (ExternalTableError, 400, "FAILED_PRECONDITION"),
    (CatalogManagedTableError, 400, "FAILED_PRECONDITION"),
    (DeltaConcurrentModificationException, 409, "ABORTED"),
    (StorageUnavailableError, 503, "UNAVAILABLE"),
    (CatalogUnavailableError, 503, "UNAVAILABLE"),
    (NewerCatalogError, 503, "UNAVAILABLE"),
    (CatalogUrlError, 503, "UNAVAILABLE"),
    (DeltaError, 400, "FAILED_PRECONDITION"),
)


def refusal_of(error: DeltaError) -> Refusal:
    status, code = next((status, code) for kind, status, code in _OF_ERRORS if isinstance(error, kind))
    if status == 503:
        return Refusal(status, code, "The database or the storage did not answer. Try again later.")
    return Refusal(status, code, str(error))
