"""`tenantcron migrate --check`: compares the database with the expected schema."""

import argparse
import asyncio
import json
import sys

from tenantcron.cli.environment import current_settings
from tenantcron.cli.terminal import Palette
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import visible
from tenantcron.migrations.check import SchemaCheck, SchemaDifference, check
from tenantcron.store.connection.engine import open_database
from tenantcron.store.schema.versions import TENANT_VERSION


def run(arguments: argparse.Namespace) -> int:
    """Compare and report; return 1 if there is a difference."""
    checked = asyncio.run(_check())
    if arguments.format == "json":
        print(json.dumps(_as_json(checked), indent=2))
    else:
        _show(checked)
    return int(bool(checked.differences))


async def _check() -> SchemaCheck:
    async with open_database(current_settings()) as database:
        return await check(database)


def _as_json(checked: SchemaCheck) -> JsonObject:
    differences: list[JsonValue] = [
        {"tenant": found.tenant, "schema": found.schema, "problem": found.problem}
        for found in checked.differences
    ]
    return {
        "control": checked.control,
        "tenants": checked.tenants,
        "differences": differences,
    }


def _show(checked: SchemaCheck) -> None:
    number = len(checked.differences)
    if not number:
        versions = f"{checked.control} and {TENANT_VERSION}"
        print(f"as expected: control schema and {checked.tenants} tenants, at {versions}")
        return
    paint = Palette(sys.stdout)
    for found in checked.differences:
        print(f"{paint('error', 'differs')} {visible(_place(found))}: {visible(found.problem)}")
    print(f"{number} difference{'s' if number > 1 else ''}")
    print("`tenantcron migrate` migrates older schemas; `migrate --sql` prints the statements.")
    print("Neither restores objects that were changed or dropped manually.")


def _place(found: SchemaDifference) -> str:
    return f"tenant {found.tenant} ({found.schema})" if found.tenant else f"schema {found.schema}"
