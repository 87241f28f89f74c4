"""`tenantcron token`: tokens by id and by name."""

import json
from pathlib import Path

import pytest
from support.fleet import Shell, query


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def created(shell: Shell, name: str) -> str:
    made = shell("token", "create", name, "--role", "viewer", "--format", "json")
    return str(json.loads(made.out)["id"])


def valid(database_url: str) -> list[str]:
    found = query(database_url, "SELECT name FROM tenantcron.api_token WHERE revoked_at IS NULL")
    return sorted(row["name"] for row in found)


def test_a_token_is_revoked_by_its_name_or_its_id(shell: Shell, database_url: str) -> None:
    created(shell, "laptop")
    assert shell("token", "revoke", "laptop").code == 0
    laptop, _ = created(shell, "laptop"), created(shell, "pipeline")
    assert valid(database_url) == ["laptop", "pipeline"]

    revoked = shell("token", "revoke", "laptop")

    assert revoked.out == f"token {laptop} (laptop) is revoked\n"
    assert valid(database_url) == ["pipeline"]
    unknown = shell("token", "revoke", "laptop")
    assert (unknown.code, "`tenantcron token list` shows all" in unknown.err) == (1, True)
    assert shell("token", "revoke", laptop).code == 0
    again = shell("token", "revoke", "pipeline")
    assert shell("token", "revoke", "pipeline").err.startswith("error: all tokens named 'pipeline'")
    assert again.code == 0


def test_a_leaked_token_is_revoked_as_it_is_and_never_printed(
    shell: Shell, database_url: str
) -> None:
    text = json.loads(shell("token", "create", "x", "--role", "viewer", "--format", "json").out)
    secret = text["token"].rpartition("_")[2]

    for command in (["why"], ["execution", "show"], ["schedule", "show"], ["token", "create"]):
        rest = ["--role", "viewer"] if command[0] == "token" else []
        refused = shell(*command, text["token"], *rest)
        assert (refused.code, secret in refused.out + refused.err) == (2, False)
    revoked = shell("token", "revoke", text["token"])

    assert (revoked.code, secret in revoked.out + revoked.err) == (0, False)
    assert valid(database_url) == []
