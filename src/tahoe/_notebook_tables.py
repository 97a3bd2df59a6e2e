"""Shows what `Table.inspect` answers as tables in notebooks. All other Arrow tables look as they always do."""

from __future__ import annotations

from typing import Any

from tahoe._notebook_errors import notebook_shell

# The key in the metadata of an Arrow schema that marks an answer of ours.
MARK = b"tahoe.shown"


def show_tables() -> None:
    """Have IPython show marked Arrow tables in HTML, if this is a notebook or IPython's shell."""
    formatter = getattr(notebook_shell(), "display_formatter", None)
    if formatter is None:
        return
    formatter = formatter.formatters["text/html"]
    others = formatter.for_type_by_name("pyarrow.lib", "Table")
    if getattr(others, "__module__", None) == __name__:
        return

    def show(table: Any) -> str | None:
        if MARK in (table.schema.metadata or {}):
            from tahoe.table.reading.notebook import arrow_as_html  # noqa: PLC0415 - nothing was shown yet

            return arrow_as_html(table)
        return None if others is None else others(table)

    formatter.for_type_by_name("pyarrow.lib", "Table", show)
