"""A program of Unity Catalog's Python SDK: `unity_sdk.py URL TOKEN FOLDER`. It makes a schema and an external table,
and prints as JSON what it has read. Runs in `.venv-unity`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import unitycatalog.client as unity
from unitycatalog.client import models


async def told(client: unity.ApiClient, folder: str) -> dict[str, Any]:
    schemas, tables, grants = unity.SchemasApi(client), unity.TablesApi(client), unity.GrantsApi(client)
    await schemas.create_schema(models.create_schema.CreateSchema(name="sdk", catalog_name="lake", comment="a schema"))
    column = models.column_info.ColumnInfo(name="id", type_name="LONG", type_text="bigint", position=0)
    await tables.create_table(
        models.create_table.CreateTable(
            name="other",
            catalog_name="lake",
            schema_name="sdk",
            table_type="EXTERNAL",
            data_source_format="DELTA",
            columns=[column],
            storage_location=folder,
        )
    )
    change = models.permissions_change.PermissionsChange(principal="bob", add=["SELECT"], remove=[])
    await grants.update("table", "lake.sdk.other", models.update_permissions.UpdatePermissions(changes=[change]))
    orders = await tables.get_table("lake.shop.orders")
    asked = models.generate_temporary_table_credential.GenerateTemporaryTableCredential(
        table_id=orders.table_id, operation="READ"
    )
    return {
        "catalogs": [each.name for each in (await unity.CatalogsApi(client).list_catalogs()).catalogs],
        "metastore": (await unity.MetastoresApi(client).summary()).metastore_id,
        "schemas": [each.name for each in (await schemas.list_schemas("lake")).schemas],
        "tables": [each.name for each in (await tables.list_tables("lake", "sdk")).tables],
        "orders": json.loads(orders.to_json()),
        "grants": json.loads((await grants.get("table", "lake.sdk.other")).to_json()),
        "credentials": (await unity.TemporaryCredentialsApi(client).generate_temporary_table_credentials(asked)).url,
        "refused": await refused(tables),
    }


async def refused(tables: unity.TablesApi) -> list[int]:
    found = []
    for name in ("lake.shop.none", "lake.none.orders", "orders"):
        try:
            await tables.get_table(name)
        except unity.ApiException as error:
            found.append(error.status)
    return found


async def committed(client: unity.ApiClient, orders: dict[str, Any], commit: dict[str, Any]) -> None:
    body = {"table_id": orders["table_id"], "table_uri": orders["storage_location"], "commit_info": commit}
    await unity.DeltaCommitsApi(client).commit(models.delta_commit.DeltaCommit.from_dict(body))


async def main() -> None:
    url, token, folder, commit = sys.argv[1:]
    client = unity.ApiClient(unity.Configuration(host=f"{url}/api/2.1/unity-catalog"))
    client.set_default_header("Authorization", f"Bearer {token}")
    async with client:
        found = await told(client, folder)
        await committed(client, found["orders"], json.loads(Path(commit).read_text()))
    print(json.dumps(found))


asyncio.run(main())
