"""Credentials for one folder and a limited time: the session of a role of AWS, from its security token service (STS).

A session may do what the role may and its policy says, so one for a table's folder reaches no other. boto3 is an
optional dependency.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tahoe.catalog.server.refusals import Refusal, unavailable
from tahoe.errors import PackageMissingError
from tahoe.storage.locations import split_url

# The field of the configuration that has a role, and the other fields that may be with it.
ROLE = "role"
_FIELDS = ("region", "sts_endpoint", "access_key_id", "secret_access_key", "session_token")

# The longest that every role allows, and a role that was assumed by a role.
_SESSION_SECONDS = 3600

_READ = ["s3:GetObject"]
_WRITE = [*_READ, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]

# What a policy does not take literally in the name of a folder, and how it does.
_WILD = re.compile(r"[*?$]")

# The name of a session, by which AWS records who it was for.
_SESSION_NAME_MAX = 64

_LOGGER = logging.getLogger("tahoe.catalog.server")


def session_credentials(
    given: Mapping[str, str], url: str, principal: str | None, *, writes: bool
) -> tuple[dict[str, str], int]:
    """Credentials for a folder, and when they expire, in milliseconds since 1970.

    Args:
        given: the configuration of the prefix: a role, and how to ask for its sessions.
        principal: for whom they are; AWS records it.

    Raises:
        Refusal: STS gave none.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra of the package

    try:
        answer = _client(tuple(given.get(name) for name in _FIELDS)).assume_role(
            RoleArn=given[ROLE],
            RoleSessionName=_session_name(principal),
            DurationSeconds=_SESSION_SECONDS,
            Policy=json.dumps(policy(url, given[ROLE], writes=writes), separators=(",", ":")),
        )
    except ClientError as error:
        _LOGGER.error("no session of the role %s: %s", given[ROLE], error)
        raise Refusal(400, "FAILED_PRECONDITION", f"The server may not hand out credentials for {url}.") from error
    except BotoCoreError as error:
        _LOGGER.error("no session of the role %s: %s", given[ROLE], error)
        raise unavailable("The service of the storage's credentials did not answer. Try again later.") from error
    found = answer["Credentials"]
    keys = {"access_key_id": "AccessKeyId", "secret_access_key": "SecretAccessKey", "session_token": "SessionToken"}
    return {name: found[key] for name, key in keys.items()}, int(found["Expiration"].timestamp() * 1000)


def _session_name(principal: str | None) -> str:
    name = re.sub(r"[^\w+=,.@-]", "-", principal or "tahoe", flags=re.ASCII)
    return name[:_SESSION_NAME_MAX].ljust(2, "-")


def policy(url: str, role: str, *, writes: bool) -> dict[str, Any]:
    """What a session may do: read a folder of a bucket, or also change it."""
    _, bucket, path = split_url(url)
    partition = role.split(":")[1] if role.count(":") > 1 else "aws"
    arn, folder = f"arn:{partition}:s3:::{bucket}", _WILD.sub(lambda found: f"${{{found[0]}}}", path.strip("/"))
    within = f"{folder}/*" if folder else "*"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": _WRITE if writes else _READ, "Resource": f"{arn}/{within}"},
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": arn,
                "Condition": {"StringLike": {"s3:prefix": [folder, within] if folder else within}},
            },
        ],
    }


@lru_cache(maxsize=64)
def _client(given: tuple[str | None, ...]) -> Any:
    import boto3  # noqa: PLC0415 - an extra of the package

    region, endpoint, key, secret, token = given
    session = boto3.session.Session(
        aws_access_key_id=key, aws_secret_access_key=secret, aws_session_token=token, region_name=region
    )
    return session.client("sts", endpoint_url=endpoint)


def check_installed(configuration: Mapping[str, Mapping[str, str]]) -> None:
    """Whether what the configuration of credentials needs is there.

    Raises:
        PackageMissingError: it is not.
    """
    prefix = next((prefix for prefix, given in configuration.items() if ROLE in given), None)
    if prefix is None:
        return
    try:
        import boto3  # noqa: F401, PLC0415 - an extra of the package
    except ImportError as error:
        raise PackageMissingError(table=prefix, what="a role for credentials", package="boto3") from error
