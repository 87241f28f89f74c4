"""Lists as CSV (RFC 4180): a header, and a row for each item.

The columns are the keys of the response's type, so they do not depend on the items. A nested type
has a column for each of its keys (`actor.id`); lists and mappings are JSON. A text that a
spreadsheet would run as a formula is prefixed with an apostrophe.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from typing import IO, get_args, get_type_hints

from typing_extensions import is_typeddict

from tenantcron.service.responses import platform_shapes, shapes, task_shapes

SHAPES: dict[str, type] = {
    "executions": shapes.ExecutionResponse,
    "tasks": task_shapes.TaskResponse,
    "schedules": shapes.TenantScheduleResponse,
    "tenants": shapes.TenantResponse,
    "audit_records": shapes.ClusterAuditRecordResponse,
    "tokens": platform_shapes.TokenResponse,
    "webhooks": platform_shapes.WebhookResponse,
    "keys": platform_shapes.SigningKeyResponse,
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CsvRows:
    """Writes rows; the header comes with the first one, or at the end of an empty list."""

    def __init__(self, stream: IO[str], shape: type | None) -> None:
        self._writer = csv.writer(stream, lineterminator="\r\n")
        self._columns = list(_columns(shape)) if shape else []
        self._has_header = False

    def row(self, item: Mapping[str, object]) -> None:
        """Write a row."""
        # Types that are not known have the columns of the first item.
        self._columns = self._columns or list(item)
        self._header()
        self._writer.writerow(_cell(_value(item, column)) for column in self._columns)

    def end(self) -> None:
        """Write the header of an empty list."""
        self._header()

    def _header(self) -> None:
        if not self._has_header and self._columns:
            self._writer.writerow(self._columns)
        self._has_header = True


def _columns(shape: type, prefix: str = "") -> Iterator[str]:
    for key, hint in get_type_hints(shape).items():
        nested = next((kind for kind in (hint, *get_args(hint)) if is_typeddict(kind)), None)
        if nested is not None and not str(hint).startswith("list"):
            yield from _columns(nested, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _value(item: Mapping[str, object], column: str) -> object:
    key, _, rest = column.partition(".")
    value = item.get(key)
    if rest:
        return _value(value, rest) if isinstance(value, Mapping) else None
    return value


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return json.dumps(value, ensure_ascii=False)
