"""Auto compaction in a Spark session: it follows each command that has added files, in the command's thread.

The command is over by then: its result stands, whatever happens to the compaction. Running in the same thread, it is
finished when the user's next command begins, and does not conflict with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tahoe.errors import DeltaError
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.cancellation import cancellable
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, author_of
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.layout.optimize import rewriter_of
from tahoe.spark.writing.file_sizes import auto_compaction
from tahoe.table.commit.new_files import NewFiles, is_noting, noted
from tahoe.table.layout.auto_compaction import compact_after
from tahoe.table.versions.table_reader import TableReader

_logger = logging.getLogger("tahoe")


@contextmanager
def writing_command(gateway: Gateway) -> Iterator[None]:
    """Run the block as a command that can be cancelled, and then auto compaction of what it has written. A nested
    command is part of the outer one.

    Raises:
        CommandCancelledError, KeyboardInterrupt: as `cancellable`.
    """
    if is_noting():
        yield
        return
    with noted() as found, cancellable(gateway):
        yield
    if found:
        _compact(gateway, found)


def _compact(gateway: Gateway, found: Sequence[NewFiles]) -> None:
    """Auto compaction as a command of its own, so that Ctrl-C ends it at once."""
    try:
        settings = gateway.settings()
        with cancellable(gateway):
            for new in found:
                table = TableReader.knowing(new.log, new.base)
                target = DmlTarget(spark=gateway.spark, table=table)
                asked = auto_compaction(settings, table=table.url)
                report = compact_after(table, new, asked, rewriter=rewriter_of(target), **author_of(gateway.spark))
                if report is not None and report.version is not None:
                    recache(gateway, table.url)
    except (DeltaError, *JVM_ERRORS) as error:  # the command was cancelled, or the session was stopped
        _logger.warning(
            "%s: the write is committed, but auto compaction did not run after it: %s", found[0].log.url, error
        )
