"""A table needs more than this version of tahoe supports."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


class DeltaProtocolError(DeltaError):
    condition = "DELTA_PROTOCOL_ERROR"
    sqlstate = "0A000"


class UnsupportedReaderFeatureError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    sqlstate = "56038"
    what = "{table} cannot be read: it uses {features}, which tahoe {tahoe_version} does not know."
    todo = "Upgrade tahoe, or drop the feature with a writer that knows it."


class UnsupportedFileFormatError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FILE_FORMAT"
    sqlstate = "0A000"
    what = "{table} cannot be read or written: its metadata says that its data files are {provider}, and tahoe knows only Parquet."
    todo = "Read it with the engine that made it, and copy the rows to a new table."


class UnsupportedWriterFeatureError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    sqlstate = "56038"
    what = "{table} can be read but not written: it uses {features}, which tahoe {tahoe_version} does not know."
    todo = "Upgrade tahoe, or write with a writer that knows the feature."


class UnsupportedProtocolVersionError(DeltaProtocolError):
    condition = "DELTA_INVALID_PROTOCOL_VERSION"
    sqlstate = "KD004"
    what = "{table} asks for reader version {reader}, writer version {writer}; tahoe {tahoe_version} knows readers 1 to 3, writers 1 to 7."
    todo = "Upgrade tahoe."


class UnsupportedTypeChangeError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_PREVIEW"
    sqlstate = "0AKDC"
    what = "{table} cannot be read: column {column} was changed from {from_type} to {to_type}, which type widening does not allow."
    todo = "Read it with the writer that made the change, or upgrade tahoe."


class WriteNotImplementedError(DeltaProtocolError):
    condition = "DELTA_WRITE_NOT_IMPLEMENTED"
    sqlstate = "0A000"
    what = "{table} cannot be written: {rule} ({feature}) is active on it, and tahoe {tahoe_version} does not enforce it yet."
    todo = "Write with a writer that does, or upgrade tahoe; reading is not affected."
