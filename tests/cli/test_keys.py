"""`tenantcron keys`, and identities and keys in the output of other commands."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.fleet import Shell, footprint, query

from tenantcron.actor.keys import Algorithm, generate

MASTER, OTHER = os.urandom(32).hex(), os.urandom(32).hex()


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def json_of(shell: Shell, *arguments: str, master: str = MASTER) -> Any:
    called = shell("keys", *arguments, "--format", "json", TENANTCRON_MASTER_KEY=master)
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)


def key_set(shell: Shell, **variables: str) -> list[str]:
    called = shell("keys", "jwks", **({"TENANTCRON_MASTER_KEY": MASTER} | variables))
    assert (called.code, called.err) == (0, "")
    return [key["kid"] for key in json.loads(called.out)["keys"]]


def test_a_rotation_is_announced_before_it_signs(shell: Shell) -> None:
    first = json_of(shell, "rotate")
    second = json_of(shell, "rotate", "--algorithm", "ES256", "--lead", "2h")

    listed = json_of(shell, "list")["keys"]
    assert [(item["kid"], item["state"], item["algorithm"]) for item in listed] == [
        (first["kid"], "active", "EdDSA"),
        (second["kid"], "next", "ES256"),
    ]
    assert listed[0]["until"] == second["active_from"]
    assert key_set(shell) == [first["kid"], second["kid"]]
    text = shell("keys", "list").out
    assert [line.split()[:3] for line in text.splitlines()[1:]] == [
        [first["kid"], "EdDSA", "active"],
        [second["kid"], "ES256", "next"],
    ]


def test_the_text_shows_when_a_new_key_signs(shell: Shell) -> None:
    shown = shell("keys", "rotate", TENANTCRON_MASTER_KEY=MASTER)
    assert "is active: it signs from" in shown.out
    assert "no keys yet" not in shell("keys", "list").out


def test_without_keys_the_list_explains_how_to_create_one(shell: Shell, database_url: str) -> None:
    before = footprint(database_url)
    assert "the first token or `keys rotate` creates one" in shell("keys", "list").out
    assert key_set(shell) == []
    assert footprint(database_url) == before


def test_a_leaked_key_is_replaced_and_retired_by_the_recorded_actor(
    shell: Shell, database_url: str
) -> None:
    old = json_of(shell, "rotate")["kid"]
    new = json_of(shell, "rotate", "--now")["kid"]
    gone = json_of(shell, "retire", old, "--actor", "maria")

    assert gone["state"] == "retired"
    assert key_set(shell) == [new]
    records = query(
        database_url,
        "SELECT * FROM tenantcron.audit_record WHERE entity_type = 'signing_key' ORDER BY id",
    )
    assert records[-1]["changed_by"] == "maria"
    assert MASTER not in str(records)


def test_a_new_master_key_takes_over(shell: Shell) -> None:
    kid = json_of(shell, "rotate")["kid"]
    assert json_of(shell, "rewrap", master=f"{OTHER},{MASTER}") == {"rewrapped": 1}
    assert key_set(shell, TENANTCRON_MASTER_KEY=OTHER) == [kid]
    refused = shell("keys", "jwks", TENANTCRON_MASTER_KEY=MASTER)
    assert (refused.code, "add the missing key" in refused.err) == (1, True)


def test_a_key_of_the_settings_is_shown_as_the_one_that_signs(shell: Shell) -> None:
    own = generate(Algorithm.EDDSA)
    pem = own.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (shell.folder / "own.pem").write_bytes(pem)
    given = {"TENANTCRON_SIGNING_KEY_FILE": "own.pem"}

    assert key_set(shell, **given) == [own.public.kid]
    shown = shell("keys", "list", **given).out
    assert f"{own.public.kid} of the settings signs" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rotate"], "set TENANTCRON_MASTER_KEY"),
        (["retire", "unknown"], "there is no key unknown"),
        (["rewrap"], "set TENANTCRON_MASTER_KEY"),
    ],
)
def test_an_impossible_operation_exits_with_1_and_changes_nothing(
    shell: Shell, database_url: str, arguments: list[str], words: str
) -> None:
    before = footprint(database_url)
    called = shell("keys", *arguments)
    assert (called.code, words in called.err) == (1, True)
    assert footprint(database_url) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["rotate", "--lead", "soon"],
        ["rotate", "--lead", "0s"],
        ["rotate", "--lead", "8d"],
        ["rotate", "--algorithm", "HS256"],
        ["rotate", "--now", "--lead", "1h"],
        ["retire"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(shell: Shell, arguments: list[str]) -> None:
    assert shell("keys", *arguments, TENANTCRON_MASTER_KEY=MASTER).code == 2


def test_a_master_key_in_the_settings_file_is_a_usage_error(shell: Shell) -> None:
    text = f'[settings]\nmaster_key = "{MASTER}"\n'
    (shell.folder / "tenantcron.toml").write_text(text, encoding="utf-8")
    called = shell("keys", "list")
    assert (called.code, "is a secret" in called.err, MASTER in called.err) == (2, True, False)


def test_a_scheduler_does_not_start_with_a_secret_that_cannot_be_read(shell: Shell) -> None:
    missing = shell("run", "--once", TENANTCRON_MASTER_KEY_FILE="missing")
    assert (missing.code, "the file of TENANTCRON_MASTER_KEY_FILE" in missing.err) == (
        2,
        True,
    )
    (shell.folder / "own.pem").write_text("words", encoding="utf-8")
    wrong = shell("run", "--once", TENANTCRON_SIGNING_KEY_FILE="own.pem")
    assert (wrong.code, "own.pem: there is no private key in it" in wrong.err) == (2, True)


def test_a_tenant_is_shown_with_its_identity(shell: Shell) -> None:
    shell("tenant", "create", "acme")
    shell("tenant", "suspend", "acme", "--reason", "unpaid")

    (shown,) = json.loads(shell("tenant", "show", "acme", "--format", "json").out)["tenants"]
    identity = {"id": "system:scheduler:scheduler", "role": "service", "status": "suspended"}
    assert shown["identities"] == [identity]
    assert "system:scheduler:scheduler  service  suspended" in shell("tenant", "show", "acme").out
    (listed,) = json.loads(shell("tenant", "list", "--format", "json").out)["tenants"]
    assert "identities" not in listed


def test_health_finds_a_key_that_does_not_open_only_where_keys_are_set_up(shell: Shell) -> None:
    def codes(**variables: str) -> list[str]:
        answer = json.loads(shell("health", "--format", "json", **variables).out)
        return [finding["code"] for finding in answer["findings"]]

    json_of(shell, "rotate")
    assert "signing-key-unusable" not in codes()
    assert "signing-key-unusable" not in codes(TENANTCRON_MASTER_KEY=MASTER)
    assert "signing-key-unusable" in codes(TENANTCRON_MASTER_KEY=OTHER)
    assert "signing-key-unusable" in codes(TENANTCRON_SIGNING_KEY_FILE="missing.pem")
