"""The storage servers of this area, one of each for the whole run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest

from tests.storage.servers import NotInstalledError, Server, azure_server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def coordinated_s3(s3: Server) -> Server:
    """S3 without conditional puts, and DynamoDB beside it."""
    return Server(
        s3.url, {**s3.options, "aws_conditional_put": "disabled", "AWS_S3_LOCKING_PROVIDER": "dynamodb"}, s3.endpoint
    )


@pytest.fixture(scope="session")
def azure() -> Iterator[Server]:
    """Azurite. Without it the tests are skipped with a warning at the end of the run; where CI is set, they fail."""
    try:
        with azure_server() as server:
            yield server
    except NotInstalledError as error:
        if os.environ.get("CI"):
            pytest.fail(f"Azure cannot be tested: {error}")
        warnings.warn(f"AZURE WAS NOT TESTED: {error}", stacklevel=1)
        pytest.skip(f"Azurite is missing: {error}")
