"""From the `storage_options` of a user to the commit service that they ask for, if any. Dictionaries in: nothing is opened here.

Two spellings are understood. That of delta-rs, as options or in the environment, in any case: `AWS_S3_LOCKING_PROVIDER=dynamodb`,
`DELTA_DYNAMO_TABLE_NAME`, and `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_REGION_DYNAMODB`, `AWS_ACCESS_KEY_ID_DYNAMODB`,
`AWS_SECRET_ACCESS_KEY_DYNAMODB`, `AWS_SESSION_TOKEN_DYNAMODB`, without which those of S3 hold. And that of the reference, as settings of a
Spark session: `spark.delta.logStore.<scheme>.impl` (or `spark.delta.logStore.class` for all schemes) set to
`io.delta.storage.S3DynamoDBLogStore`, and `spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName` and `.ddb.region`, with credentials
from where AWS's own tools find them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.errors import InvalidOptionError
from tahoe.storage.cloud_options import cloud_config
from tahoe.storage.commit_service import CommitService
from tahoe.storage.dynamodb import DEFAULT_REGION, DEFAULT_TABLE_NAME, DynamoDBCommitService
from tahoe.storage.locations import S3_SCHEMES, split_url

_PROVIDER = "aws_s3_locking_provider"
_TABLE_NAME = "delta_dynamo_table_name"
_OWN_OF_DYNAMODB = {
    "endpoint": "aws_endpoint_url_dynamodb",
    "region": "aws_region_dynamodb",
    "access_key_id": "aws_access_key_id_dynamodb",
    "secret_access_key": "aws_secret_access_key_dynamodb",
    "session_token": "aws_session_token_dynamodb",
}
# What obstore calls the same things of S3, after the storage's name was taken off.
_OF_S3 = {
    "endpoint": ("endpoint", "endpoint_url"),
    "region": ("region", "default_region"),
    "access_key_id": ("access_key_id",),
    "secret_access_key": ("secret_access_key",),
    "session_token": ("session_token", "token"),
}
# Two more of delta-rs, which say how it creates its table and how long it waits, have no meaning here.
_DELTA_RS = frozenset(
    {_PROVIDER, _TABLE_NAME, *_OWN_OF_DYNAMODB.values(), "delta_dynamo_billing_mode", "delta_dynamo_max_elapsed_request_time"}
)

REFERENCE_PREFIXES = ("delta.logStore.", "io.delta.storage.S3DynamoDBLogStore.")
_REFERENCE_CLASS = "io.delta.storage.S3DynamoDBLogStore"


def commit_service(url: str, options: Mapping[str, str], environment: Mapping[str, str]) -> CommitService | None:
    """The service that decides who commits to the table at a url; None where the storage does.

    Raises:
        InvalidOptionError: there is no such provider.
    """
    scheme = split_url(url)[0]
    if scheme not in S3_SCHEMES:
        return None
    known = {name.lower(): value for name, value in environment.items() if name.lower() in _DELTA_RS}
    known.update({name.lower(): str(value) for name, value in options.items() if name.lower() in _DELTA_RS})
    provider = known.get(_PROVIDER)
    if provider:
        if provider.lower() != "dynamodb":
            detail = "the only provider there is is dynamodb"
            raise InvalidOptionError(option=_PROVIDER.upper(), value=provider, table=url, detail=detail)
        return _as_delta_rs(url, known, options, environment)
    reference = {_bare(name): str(value) for name, value in options.items()}
    stores = {reference.get(f"delta.logStore.{known}.impl", reference.get("delta.logStore.class")) for known in S3_SCHEMES}
    if _REFERENCE_CLASS not in stores:  # one scheme stands for another: under Spark all are s3a
        return None
    return DynamoDBCommitService(
        table_name=reference.get(f"{_REFERENCE_CLASS}.ddb.tableName", DEFAULT_TABLE_NAME),
        region=reference.get(f"{_REFERENCE_CLASS}.ddb.region", DEFAULT_REGION),
    )


def without_service(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are not about a commit service."""
    return {
        name: value for name, value in options.items() if name.lower() not in _DELTA_RS and not _bare(name).startswith(REFERENCE_PREFIXES)
    }


def _as_delta_rs(url: str, known: Mapping[str, str], options: Mapping[str, str], environment: Mapping[str, str]) -> DynamoDBCommitService:
    scheme, authority, _ = split_url(url)
    s3 = cloud_config(without_service(options), scheme, authority).storage

    def setting(name: str) -> str | None:
        return known.get(_OWN_OF_DYNAMODB[name]) or next((s3[key] for key in _OF_S3[name] if key in s3), None)

    # A key pair of its own has a token of its own, or none.
    token = known.get(_OWN_OF_DYNAMODB["session_token"]) if known.get(_OWN_OF_DYNAMODB["access_key_id"]) else setting("session_token")
    return DynamoDBCommitService(
        table_name=known.get(_TABLE_NAME) or DEFAULT_TABLE_NAME,
        region=setting("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION,
        endpoint=setting("endpoint"),
        access_key_id=setting("access_key_id"),
        secret_access_key=setting("secret_access_key"),
        session_token=token,
    )


def _bare(name: str) -> str:
    """A setting of Spark or Hadoop without what may be before it."""
    return name.removeprefix("spark.").removeprefix("hadoop.")
