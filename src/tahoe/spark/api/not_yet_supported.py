"""The methods of `DeltaTable` whose operations are not supported yet: they check their arguments, and say so."""

from __future__ import annotations

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
