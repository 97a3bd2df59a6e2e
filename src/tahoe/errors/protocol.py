"""The table requires a protocol version, feature or format that this version of tahoe does not support."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


class DeltaProtocolError(DeltaError):
    condition = "DELTA_PROTOCOL_ERROR"
    sqlstate = "0A000"


class UnsupportedReaderFeatureError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    sqlstate = "56038"
    what = "{table} cannot be read: it requires {features}, which tahoe {tahoe_version} does not support."
    todo = "Upgrade tahoe, or drop the feature with a writer that supports it."


class CatalogManagedTableError(DeltaProtocolError):
    condition = "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
    sqlstate = "KD00G"
    what = "{table} is managed by a catalog, and was opened by its path: only the catalog knows its newest commits."
    todo = "Open it by its name: tahoe.Catalog(url).table(name)."


class UnsupportedFileFormatError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FILE_FORMAT"
    sqlstate = "0A000"
    what = "{table} cannot be read or written: its data file format is {provider}, and tahoe supports only Parquet."
    todo = "Read it with the engine that created it, and copy the rows to a new table."


class UnsupportedWriterFeatureError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    sqlstate = "56038"
    what = "{table} can be read but not written: it requires {features}, which tahoe {tahoe_version} does not support."
    todo = "Upgrade tahoe, or use a writer that supports the feature."


class UnsupportedProtocolVersionError(DeltaProtocolError):
    condition = "DELTA_INVALID_PROTOCOL_VERSION"
    sqlstate = "KD004"
    what = (
        "{table} requires reader version {reader} and writer version {writer}; tahoe {tahoe_version} supports up to 3 "
        "and 7."
    )
    todo = "Upgrade tahoe."


class UnsupportedTypeChangeError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_PREVIEW"
    sqlstate = "0AKDC"
    what = (
        "{table} cannot be read: column {column} was changed from {from_type} to {to_type}, which type widening does "
        "not support."
    )
    todo = "Read it with the writer that made the change, or upgrade tahoe."


class WriteNotImplementedError(DeltaProtocolError):
    condition = "DELTA_WRITE_NOT_IMPLEMENTED"
    sqlstate = "0A000"
    what = (
        "{table} cannot be written: it requires {rule} ({feature}), which tahoe {tahoe_version} does not implement yet."
    )
    todo = "Use a writer that does, or upgrade tahoe. Reading is not affected."
