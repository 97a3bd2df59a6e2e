"""The columns by which a clustered table is laid out.

Protocol: "Clustered Table". They stand in a domain, by physical names; knows nothing of files.
"""

from __future__ import annotations

import json

from tahoe.protocol.actions import DomainMetadata
from tahoe.protocol.column_mapping import Mode, physical_path
from tahoe.protocol.schema import Struct

DOMAIN = "delta.clustering"
_COLUMNS = "clusteringColumns"


def clustering_columns(domain: DomainMetadata | None, schema: Struct, mode: Mode | str) -> tuple[tuple[str, ...], ...]:
    """Logical paths of the columns that a domain names; physical ones of columns that the schema does not have."""
    if domain is None:
        return ()
    logical = {physical_path(schema, path, mode): path for path, _ in schema.leaves()}
    stored = [tuple(column) for column in json.loads(domain.configuration).get(_COLUMNS, ())]
    return tuple(logical.get(column, column) for column in stored)


def clustering_domain(columns: tuple[tuple[str, ...], ...], schema: Struct, mode: Mode | str) -> DomainMetadata | None:
    """The domain that names columns by their logical paths; None where the schema lacks one of them."""
    stored = [physical_path(schema, path, mode) for path in columns]
    if any(path is None for path in stored):
        return None
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({_COLUMNS: stored}, separators=(",", ":")))
