"""The reference of the API at `/docs`."""

import re

from support.serving import Api


async def test_the_reference_has_all_operations_and_schemas_and_nothing_of_other_sites(
    api: Api,
) -> None:
    async with api.with_token(None) as anyone:
        page = await anyone.get("/docs")
        description = (await anyone.get("/openapi.json")).json()

    assert page.status_code == 200
    operations = [
        operation["operationId"]
        for methods in description["paths"].values()
        for operation in methods.values()
    ]
    ids = re.findall(r'<h3 id="(\w+)">', page.text)
    assert sorted(ids) == sorted([*operations, *description["components"]["schemas"]])
    links = re.findall(r'(?:href|src)="([^"]*)"', page.text)
    assert {link.removeprefix("#") for link in links if link.startswith("#")} - {"main"} <= set(ids)
    assert all(link.startswith(("#", "/")) and not link.startswith("//") for link in links)
    assert "<code>POST /v1/executions/{execution}:retry</code>" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
