"""Finds the commit service that a user's `storage_options` configure, if any. Works on dictionaries: nothing is opened
here.

Two spellings are accepted. That of delta-rs, as options or environment variables, in any case:
`AWS_S3_LOCKING_PROVIDER=dynamodb`, `DELTA_DYNAMO_TABLE_NAME`, and `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_REGION_DYNAMODB`,
`AWS_ACCESS_KEY_ID_DYNAMODB`, `AWS_SECRET_ACCESS_KEY_DYNAMODB`, `AWS_SESSION_TOKEN_DYNAMODB`, which default to those of
S3. And that of the reference, as settings of a Spark session: `spark.delta.logStore.<scheme>.impl` (or
`spark.delta.logStore.class` for all schemes) set to `io.delta.storage.S3DynamoDBLogStore`, and
`spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName` and `.ddb.region`, with AWS's default credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.errors import InvalidOptionError
from tahoe.storage.cloud_options import cloud_config
from tahoe.storage.commit_service import CommitService
from tahoe.storage.dynamodb import DEFAULT_REGION, DEFAULT_TABLE_NAME, DynamoDBCommitService
from tahoe.storage.locations import split_url
from tahoe.storage.schemes import S3_SCHEMES

_PROVIDER = "aws_s3_locking_provider"
_TABLE_NAME = "delta_dynamo_table_name"
_OWN_OF_DYNAMODB = {
    "endpoint": "aws_endpoint_url_dynamodb",
    "region": "aws_region_dynamodb",
    "access_key_id": "aws_access_key_id_dynamodb",
    "secret_access_key": "aws_secret_access_key_dynamodb",
    "session_token": "aws_session_token_dynamodb",
}
# obstore's names of the same S3 settings, without the storage's prefix.
_OF_S3 = {
    "endpoint": ("endpoint", "endpoint_url"),
    "region": ("region", "default_region"),
    "access_key_id": ("access_key_id",),
    "secret_access_key": ("secret_access_key",),
    "session_token": ("session_token", "token"),
}
# The last two, how delta-rs creates its table and how long it waits, are ignored here.
_DELTA_RS = frozenset(
    {
        _PROVIDER,
        _TABLE_NAME,
        *_OWN_OF_DYNAMODB.values(),
        "delta_dynamo_billing_mode",
        "delta_dynamo_max_elapsed_request_time",
    }
)

_LOG_STORES = "delta.logStore."
REFERENCE_PREFIXES = (_LOG_STORES, "io.delta.storage.S3DynamoDBLogStore.")
_REFERENCE_CLASS = "io.delta.storage.S3DynamoDBLogStore"

# The reference's classes whose commits our stores make at least as safely.
_KNOWN_CLASSES = frozenset(
    f"{package}.{system}LogStore"
    for package in ("io.delta.storage", "org.apache.spark.sql.delta.storage")
    for system in (
        "S3SingleDriver",
        "S3DynamoDB",
        "HDFS",
        "Azure",
        "GCS",
        "Local",
        "IBMCOS",
        "OracleCloud",
        "Delegating",
    )
)


def commit_service(url: str, options: Mapping[str, str], environment: Mapping[str, str]) -> CommitService | None:
    """The commit service of the table at a url; None if the storage itself decides who commits.

    Raises:
        InvalidOptionError: the provider is unknown.
    """
    scheme = split_url(url)[0]
    if scheme not in S3_SCHEMES:
        return None
    service_settings = {name.lower(): value for name, value in environment.items() if name.lower() in _DELTA_RS}
    service_settings.update({name.lower(): str(value) for name, value in options.items() if name.lower() in _DELTA_RS})
    provider = service_settings.get(_PROVIDER)
    if provider:
        if provider.lower() != "dynamodb":
            detail = "the only provider is dynamodb"
            raise InvalidOptionError(option=_PROVIDER.upper(), value=provider, table=url, detail=detail)
        return _as_delta_rs(url, service_settings, options, environment)
    reference = {_bare(name): str(value) for name, value in options.items()}
    stores = {
        reference.get(f"delta.logStore.{s3_scheme}.impl", reference.get("delta.logStore.class"))
        for s3_scheme in S3_SCHEMES
    }
    if _REFERENCE_CLASS not in stores:  # a setting for any S3 scheme counts: under Spark all of them are s3a
        return None
    return DynamoDBCommitService(
        table_name=reference.get(f"{_REFERENCE_CLASS}.ddb.tableName", DEFAULT_TABLE_NAME),
        region=reference.get(f"{_REFERENCE_CLASS}.ddb.region", DEFAULT_REGION),
    )


def log_store_class(url: str, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """The setting and the class by which the reference would commit in the storage of a url, if it is a class of the
    user's own; None if our stores commit at least as safely.

    Raises:
        InvalidOptionError: a setting with and without `spark.` names two classes, which the reference refuses too.
    """
    scheme, classes = split_url(url)[0], dict[str, tuple[str, str]]()
    for name, value in own_log_stores(settings).items():
        other, other_value = classes.setdefault(_bare(name), (name, value))
        if other_value.strip() != value.strip():
            detail = f"{other} names the class {other_value}"
            raise InvalidOptionError(option=name, value=value, table=url, detail=detail)
    setting, value = (
        classes.get(f"{_LOG_STORES}{scheme}.impl") or classes.get(f"{_LOG_STORES}class") or ("", _REFERENCE_CLASS)
    )
    return None if value.strip() in _KNOWN_CLASSES else (setting, value.strip())


def own_log_stores(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that name classes by which the reference would commit, if any is a class of the user's own."""
    named = {name: value for name, value in settings.items() if _bare(name).startswith(_LOG_STORES)}
    return named if any(value.strip() not in _KNOWN_CLASSES for value in named.values()) else {}


def without_service(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those of commit services."""
    return {
        name: value
        for name, value in options.items()
        if name.lower() not in _DELTA_RS and not _bare(name).startswith(REFERENCE_PREFIXES)
    }


def _as_delta_rs(
    url: str, known: Mapping[str, str], options: Mapping[str, str], environment: Mapping[str, str]
) -> DynamoDBCommitService:
    """The commit service by the options and environment variables of delta-rs; what they do not set is taken from the
    settings of S3.
    """
    scheme, authority, _ = split_url(url)
    s3 = cloud_config(without_service(options), scheme, authority).storage

    def setting(name: str) -> str | None:
        return known.get(_OWN_OF_DYNAMODB[name]) or next((s3[key] for key in _OF_S3[name] if key in s3), None)

    # With its own key pair, DynamoDB does not use the session token of S3.
    token = (
        known.get(_OWN_OF_DYNAMODB["session_token"])
        if known.get(_OWN_OF_DYNAMODB["access_key_id"])
        else setting("session_token")
    )
    return DynamoDBCommitService(
        table_name=known.get(_TABLE_NAME) or DEFAULT_TABLE_NAME,
        region=setting("region")
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or DEFAULT_REGION,
        endpoint=setting("endpoint"),
        access_key_id=setting("access_key_id"),
        secret_access_key=setting("secret_access_key"),
        session_token=token,
    )


def _bare(name: str) -> str:
    """A setting without the prefix `spark.` or `hadoop.`."""
    return name.removeprefix("spark.").removeprefix("hadoop.")
