"""The methods of `DeltaTable` whose operations are not supported yet: they check their arguments, and say so."""

# ruff: noqa: N802, N803, TRY004  the reference's names and errors

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from tahoe.errors import InvalidOptionError
from tahoe.spark.api.table_handle import TableHandle
from tahoe.spark.jvm.failures import for_user


class NotYetSupported:
    """Operations that raise `OperationNotYetSupportedError`."""

    _handle: TableHandle

    def generate(self, mode: str) -> None:
        """Write manifests for other engines. Not supported yet.

        Raises:
            InvalidOptionError: the mode is not `symlink_format_manifest`.
            OperationNotYetSupportedError
        """
        if str(mode).lower() != "symlink_format_manifest":
            detail = "the only mode is symlink_format_manifest"
            raise for_user(InvalidOptionError(option="mode", value=mode, table=self._handle.table.url, detail=detail))
        raise self._handle.not_yet("GENERATE")

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to a version. Not supported yet.

        Raises:
            ValueError: the version is not an int.
            OperationNotYetSupportedError
        """
        verify(version, int, "version", "an int")
        raise self._handle.not_yet("RESTORE")

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the table to a timestamp. Not supported yet.

        Raises:
            ValueError: the timestamp is not a str.
            OperationNotYetSupportedError
        """
        verify(timestamp, str, "timestamp", "a string")
        raise self._handle.not_yet("RESTORE")

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> NotYetSupported:
        """Clone the table to another location. Not supported yet.

        Raises:
            ValueError: an argument has the wrong type.
            OperationNotYetSupportedError
        """
        _verify_clone(target, isShallow, replace, properties)
        raise self._handle.not_yet("CLONE")

    def cloneAtVersion(
        self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> NotYetSupported:
        """Clone a version of the table to another location. Not supported yet.

        Raises:
            as `clone`
        """
        verify(version, int, "version", "an int")
        return self.clone(target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> NotYetSupported:
        """Clone the table as of a timestamp to another location. Not supported yet.

        Raises:
            as `clone`
        """
        verify(timestamp, str, "timestamp", "a string")
        return self.clone(target, isShallow, replace, properties)


def verify(value: object, kind: type, name: str, wanted: str) -> None:
    """Check an argument's type, with the reference's error message."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} needs to be {wanted} but got '{type(value)}'.")


def _verify_clone(target: object, is_shallow: object, replace: object, properties: Mapping[str, str] | None) -> None:
    verify(target, str, "target", "a string")
    verify(is_shallow, bool, "isShallow", "a boolean")
    verify(replace, bool, "replace", "a boolean")
    if properties is not None:
        verify(properties, dict, "properties", "a dict")
        for name, value in properties.items():
            verify(name, str, f"All property keys including {name}", "a string")
            verify(value, str, f"All property values including {value}", "a string")
