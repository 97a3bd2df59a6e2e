"""Shows what `Table.inspect` answers as tables in notebooks. All other Arrow tables look as they always do."""

from __future__ import annotations

import sys
from typing import Any

# The key in the metadata of an Arrow schema that marks an answer of ours.
MARK = b"tahoe.shown"


def show_tables() -> None:
    """Have IPython show marked Arrow tables in HTML, if this is a notebook or IPython's shell."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None:
        return
    formatter = shell.display_formatter.formatters["text/html"]
    others = formatter.for_type_by_name("pyarrow.lib", "Table")
    if getattr(others, "__module__", None) == __name__:
        return

    def show(table: Any) -> str | None:
        if MARK in (table.schema.metadata or {}):
            from tahoe.table.reading.notebook import arrow_as_html  # noqa: PLC0415 - nothing was shown yet

            return arrow_as_html(table)
        return None if others is None else others(table)

    formatter.for_type_by_name("pyarrow.lib", "Table", show)
