"""A test on the footers of the files of a scan, for what only these tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import DataFileMissingError, InvalidDataFileError
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.reading.rows import DataFile, data_files
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot_state import SnapshotState


def footers_mask(scan: Scan, test: Callable[[pq.ParquetFile], bool]) -> npt.NDArray[np.bool_]:
    """For each file of a scan whether a test on its footer is true.

    Raises:
        DataFileMissingError, InvalidDataFileError: a file is not what the log says.
    """
    return np.fromiter(
        in_threads(lambda file: _test_file(scan.snapshot, file, test), data_files(scan)), bool, scan.kept_files
    )


def _test_file(snapshot: SnapshotState, file: DataFile, test: Callable[[pq.ParquetFile], bool]) -> bool:
    store, key = snapshot.log.locate(file.url)
    try:
        with open_parquet(store, key) as parquet:
            return test(parquet)
    except FileNotFoundError as error:
        raise DataFileMissingError.of(table=snapshot.url, file=file.path, version=snapshot.version) from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidDataFileError(table=snapshot.url, file=file.path, detail=str(error)) from error
