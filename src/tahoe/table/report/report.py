"""`Table.report` and `tahoe report`: the figures of a table, what to do about them, and the page that shows both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tahoe._cached import cached_property
from tahoe.table.report.advice import Advice, advice
from tahoe.table.report.figures import Figures
from tahoe.table.report.measure import measure
from tahoe.table.report.page import page
from tahoe.table.versions.table_reader import TableReader


@dataclass(frozen=True, kw_only=True)
class TableReport:
    """A report of one version of a table. A notebook shows it as a page.

    Attributes:
        figures: what was measured.
    """

    figures: Figures

    def __repr__(self) -> str:
        return f"TableReport({self.figures.table!r}, version={self.figures.version})"

    @cached_property
    def advice(self) -> Sequence[Advice]:
        """What is worth doing, with the statements to run, the most useful first."""
        return advice(self.figures)

    @cached_property
    def html(self) -> str:
        """The page: one HTML document without scripts, which asks for nothing from a network."""
        return page(self.figures, self.advice)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a local file, replacing an existing one.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 80vh; border: 0" title="Report of a '
            f'table"></iframe>'
        )


def report(table: TableReader, version: int | str | None = None) -> TableReport:
    """The report of a version, of the newest one if None. See `measure` for errors."""
    return TableReport(figures=measure(table, version))
