"""A program cannot be run as it is, or the name `delta` is taken."""

from __future__ import annotations

from tahoe._version import DISTRIBUTION
from tahoe.errors.root import DeltaError


class DeltaProgramError(DeltaError):
    condition = "DELTA_PROGRAM_ERROR"
    sqlstate = "0A000"


class DeltaAlreadyImportedError(DeltaProgramError):
    condition = "DELTA_ALREADY_IMPORTED"
    what = (
        "tahoe.install_as_delta() was called after another module delta was imported ({location}), whose classes are "
        "already in use."
    )
    todo = "Call it before anything imports delta, or start the program with `tahoe run`."


class OwnDeltaModuleError(DeltaProgramError):
    condition = "DELTA_OWN_MODULE"
    what = "This program has a module of its own with the name delta ({location}), which is not delta-spark's."
    todo = "Rename it, or import tahoe.tables and tahoe.exceptions instead of delta.tables and delta.exceptions."


class ProgramNotFoundError(DeltaProgramError):
    condition = "DELTA_PROGRAM_NOT_FOUND"
    what = "There is no program {program}: not in {scripts}, and not on the path."
    todo = (
        "Check the name, or write the program's path. A Python file ends in .py; a module is run by `tahoe run -m "
        "MODULE`."
    )


class ProgramNotExecutableError(DeltaProgramError):
    condition = "DELTA_PROGRAM_NOT_EXECUTABLE"
    what = "{program} is there, but {reason}."
    todo = "Name the program that runs it: `tahoe run python {program}`, `tahoe run bash {program}`."


class ProgramWithoutTahoeError(DeltaProgramError):
    condition = "DELTA_PROGRAM_WITHOUT_TAHOE"
    what = (
        "{program} runs in another Python ({interpreter}), which has no tahoe, so its Spark sessions would have no "
        "Delta tables."
    )
    todo = (
        f'Install tahoe there: {{interpreter}} -m pip install "{DISTRIBUTION}[spark]". Or install the program beside '
        "tahoe."
    )


class ProgramWithoutPythonError(DeltaProgramError):
    condition = "DELTA_PROGRAM_WITHOUT_PYTHON"
    what = "{program} starts Spark without Python, in which tahoe runs."
    todo = "Use spark-submit or pyspark with a Python program, or Spark Connect."


class PythonOptionError(DeltaProgramError):
    condition = "DELTA_PYTHON_OPTION"
    what = (
        "With the option {option}, Python ignores what `tahoe run` adds to it, so its Spark sessions would have no "
        "Delta tables."
    )
    todo = "Leave the option out, or call tahoe.enable(spark) in the program."


class ClusterModeError(DeltaProgramError):
    condition = "DELTA_CLUSTER_MODE"
    what = "In cluster mode the driver starts on another machine, where `tahoe run` cannot enable its Spark sessions."
    todo = "Use --deploy-mode client, or send tahoe with the program and call tahoe.enable(spark) there."
