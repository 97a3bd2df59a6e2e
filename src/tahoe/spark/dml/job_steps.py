"""Names Spark's jobs after the steps of a command, for Spark's UI and its listeners: `tahoe MERGE: find rows`."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession

from tahoe.spark.jvm.gateway import JVM_ERRORS

# Spark's local property of a thread, which `setJobDescription` sets.
_DESCRIPTION = "spark.job.description"


class JobSteps:
    """The steps of one command. The user's own description of the thread's jobs stays in front, and alone at the
    end.
    """

    def __init__(self, spark: SparkSession, command: str) -> None:
        self._context, self._command = spark.sparkContext, command
        self._users: str | None = self._context.getLocalProperty(_DESCRIPTION)

    def begin(self, step: str) -> None:
        """The jobs that this thread starts from now on belong to a step."""
        users = "" if self._users is None else f"{self._users}: "
        self._context.setLocalProperty(_DESCRIPTION, f"{users}tahoe {self._command}: {step}")

    def end(self) -> None:
        # If the JVM or its context is gone, the command's own error is what the user needs. A stopped context lacks
        # attributes.
        with suppress(*JVM_ERRORS, AttributeError):
            self._context.setLocalProperty(_DESCRIPTION, self._users)  # type: ignore[arg-type]  # None removes it
