"""The storage servers of this area, one of each for the whole run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest

from tests.storage.servers import S3_SERVER, NotInstalledError, Server, azure_server, s3_server


@pytest.fixture(scope="session")
def aws() -> Iterator[Server]:
    """moto: S3, and DynamoDB at the same endpoint."""
    with s3_server("moto") as server:
        yield server


@pytest.fixture(scope="session")
def s3(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The S3 server of this run."""
    if S3_SERVER == "moto":
        yield request.getfixturevalue("aws")
        return
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def coordinated_s3(aws: Server) -> Server:
    """S3 without conditional puts, and DynamoDB beside it."""
    options = {**aws.options, "aws_conditional_put": "disabled", "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    return Server(aws.url, options, aws.endpoint)


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
