"""The catalog of tables: its database, its names, and transactions over several tables."""

from __future__ import annotations

from tahoe.errors.conflicts import DeltaConcurrentModificationException
from tahoe.errors.root import DeltaAnalysisError, DeltaError


class DeltaCatalogError(DeltaError):
    condition = "DELTA_CATALOG_ERROR"
    sqlstate = "58000"


class CatalogUrlError(DeltaCatalogError):
    condition = "DELTA_CATALOG_URL_INVALID"
    sqlstate = "42602"
    what = "The catalog {url} cannot be opened: {detail}."
    todo = "Give the url of a database, such as sqlite:///lake.db or postgresql+psycopg://user@host/lake."


class CatalogUnavailableError(DeltaCatalogError):
    condition = "DELTA_CATALOG_UNAVAILABLE"
    sqlstate = "08000"
    what = "The catalog {url} did not answer: {detail}."
    todo = (
        "Check that its database runs and can be reached, and try again. Whether the last change was made can be read "
        "from it."
    )


class NewerCatalogError(DeltaCatalogError):
    condition = "DELTA_CATALOG_IS_NEWER"
    sqlstate = "0A000"
    what = "The catalog {url} has the schema {revision}, which a newer tahoe has made; this one knows up to {known}."
    todo = "Upgrade tahoe."


class CatalogNameError(DeltaCatalogError):
    condition = "DELTA_CATALOG_NAME_INVALID"
    sqlstate = "42602"
    what = "{name} is not the name of a table in a catalog: {detail}."
    todo = "Give a schema and a table, such as shop.orders."


class SchemaNotFoundError(DeltaCatalogError):
    condition = "DELTA_CATALOG_SCHEMA_NOT_FOUND"
    sqlstate = "42704"
    what = "The catalog {url} has no schema {name}; it has {known}."
    todo = "Make it with create_schema, or check the spelling."


class SchemaNotEmptyError(DeltaCatalogError):
    condition = "DELTA_CATALOG_SCHEMA_NOT_EMPTY"
    sqlstate = "2BP01"
    what = "The schema {name} of the catalog {url} has {tables}."
    todo = "Drop the tables first, or drop the schema with all of them (cascade)."


class CatalogTableNotFoundError(DeltaCatalogError):
    condition = "DELTA_CATALOG_TABLE_NOT_FOUND"
    sqlstate = "42P01"
    what = "The catalog {url} has no table {name}."
    todo = "Check the spelling; catalog.tables() lists the names."


class CatalogViewNotFoundError(DeltaCatalogError):
    condition = "DELTA_CATALOG_VIEW_NOT_FOUND"
    sqlstate = "42P01"
    what = "The catalog {url} has no view {name}."
    todo = "Check the spelling; catalog.views() lists the names."


class TableNotManagedError(DeltaCatalogError, FileNotFoundError):
    condition = "DELTA_CATALOG_TABLE_NOT_MANAGED"
    sqlstate = "42P01"
    what = "The catalog does not manage {table} any more: the table was dropped, or given back to its path."
    todo = "Open it again by its name."


class CatalogNameTakenError(DeltaCatalogError):
    condition = "DELTA_CATALOG_NAME_TAKEN"
    sqlstate = "42710"
    what = "The catalog {url} already has {name}."
    todo = "Choose another name, or drop what has it."


class ExternalTableError(DeltaCatalogError):
    condition = "DELTA_CATALOG_EXTERNAL_TABLE"
    sqlstate = "0A000"
    what = "The catalog {url} cannot {operation}: {name} is an external table, whose commits it does not manage."
    todo = "Use the table by itself, or make a table that the catalog manages."


class CatalogNotChosenError(DeltaCatalogError):
    condition = "DELTA_CATALOG_NOT_CHOSEN"
    sqlstate = "42704"
    what = "The transaction needs a catalog, and the session has {name}; it has attached: {known}."
    todo = "Attach one with tahoe.enable(spark, catalogs=...), make it the current one with USE, or name it."


class PrincipalNotFoundError(DeltaCatalogError):
    condition = "DELTA_CATALOG_PRINCIPAL_NOT_FOUND"
    sqlstate = "28000"
    what = "The catalog knows no principal {name!r}."
    todo = "Make a token for it first: tahoe catalog token. A name is printable text."


class PrivilegeError(DeltaCatalogError):
    condition = "DELTA_CATALOG_PRIVILEGE_INVALID"
    sqlstate = "0LP01"
    what = "{privilege} cannot be granted on a {kind}."
    todo = "Grant one of these: {fitting}."


class CatalogRefusedError(DeltaCatalogError):
    condition = "DELTA_CATALOG_REFUSED"
    sqlstate = "42501"
    what = "The catalog {url} refused: {detail} ({code})."
    todo = "Check the token and what was granted to its owner; what a server does not do, its database does."


class CatalogServerError(DeltaCatalogError):
    condition = "DELTA_CATALOG_SERVER_CONFIGURATION"
    sqlstate = "42616"
    what = "The catalog cannot be served: {detail}."
    todo = "{remedy}"


class TransactionConflictError(DeltaConcurrentModificationException):
    condition = "DELTA_CATALOG_TRANSACTION_CONFLICT"
    what = "The transaction was not committed: {table}: another writer committed first ({winner}), and {detail}."
    todo = "Nothing of the transaction is visible, in none of its tables: run the block again."


class TransactionClosedError(DeltaAnalysisError):
    condition = "DELTA_CATALOG_TRANSACTION_CLOSED"
    sqlstate = "25000"
    what = "{table} was opened in a transaction of a catalog that has ended."
    todo = "Open the table again, from the catalog or in another transaction."


class TransactionStateError(DeltaCatalogError):
    condition = "DELTA_CATALOG_TRANSACTION_STATE"
    sqlstate = "25000"
    what = "The statement is not possible here: {detail}."
    todo = "A transaction begins with BEGIN TRANSACTION, and ends with COMMIT or ROLLBACK."
