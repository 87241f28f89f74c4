"""Contexts: the file, and which cluster a command uses."""

import json
import stat
import tempfile
from pathlib import Path

import pytest
from support.fleet import Called, Shell, manifest

SERVER = "http://127.0.0.1:9"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


def call(config: Path, *arguments: str, url: str | None = None, **variables: str) -> Called:
    shell = Shell(config.parent, url)
    return shell(*arguments, XDG_CONFIG_HOME=str(config), **variables)


def set_context(config: Path, name: str, *arguments: str) -> None:
    done = call(config, "context", "set", name, *arguments)
    assert done.code == 0, done.err


def test_a_context_is_stored_so_that_only_its_owner_reads_it(config: Path) -> None:
    set_context(config, "prod", "--server", SERVER, "--token-env", "PROD_TOKEN")
    file = config / "tenantcron" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = json.loads(call(config, "context", "list", "--format", "json").out)["contexts"]
    assert [(found["name"], found["server"], found["current"]) for found in listed] == [
        ("prod", SERVER, True)
    ]


def test_a_context_is_used_shown_and_deleted(config: Path) -> None:
    set_context(config, "prod", "--server", SERVER)
    set_context(config, "local", "--database-url-env", "LOCAL_URL")
    assert "commands use local" in call(config, "context", "use", "local").out
    assert "the database in LOCAL_URL" in call(config, "context", "show").out
    assert call(config, "context", "delete", "local").code == 0
    assert "no current context" in call(config, "context", "show").err
    missing = call(config, "context", "use", "prodd")
    assert (missing.code, "did you mean prod?" in missing.err) == (1, True)


def test_all_problems_of_a_context_are_reported_and_nothing_is_written(config: Path) -> None:
    called = call(
        config, "context", "set", "No Name", "--database-url-env", "A", "--token-env", "B"
    )
    assert called.code == 2
    assert "is not a name" in called.err
    assert "a database needs no token" in called.err
    assert not config.exists()


def uses_server(called: Called) -> bool:
    return f"{SERVER}: cannot connect" in called.err


def test_the_nearest_choice_wins(config: Path, database_url: str) -> None:
    set_context(config, "prod", "--server", SERVER)
    set_context(config, "local", "--database-url-env", "LOCAL_URL")
    health = ("limits", "--format", "json")
    assert uses_server(call(config, *health)), "the current context"
    assert call(config, *health, url=database_url).code == 0, "the settings before it"
    by_variable = call(config, *health, url=database_url, TENANTCRON_CONTEXT="prod")
    assert uses_server(by_variable), "the variable before the settings"
    by_option = (*health, "--context", "local")
    chosen = call(config, *by_option, TENANTCRON_CONTEXT="prod", LOCAL_URL=database_url)
    assert chosen.code == 0, "the option before the variable"
    server = call(config, *health, url=database_url, TENANTCRON_SERVER=SERVER)
    assert uses_server(server), "the server of the environment before the settings"
    over = call(config, *by_option, TENANTCRON_SERVER=SERVER, LOCAL_URL=database_url)
    assert over.code == 0, "the option before the server of the environment"
    both = call(config, *by_option, "--server", SERVER)
    assert (both.code, "--server and --context are given: give one" in both.err) == (2, True)
    both = call(config, *health, TENANTCRON_SERVER=SERVER, TENANTCRON_CONTEXT="prod")
    assert (both.code, "give one" in both.err) == (2, True)


def test_a_token_without_a_server_creates_no_database(config: Path) -> None:
    (config.parent / "acme.yaml").write_text(manifest("acme", {}), encoding="utf-8")
    for command in (("limits",), ("plan", "."), ("apply-manifest", ".", "--create-tenants")):
        called = call(config, *command, TENANTCRON_TOKEN="tc_secret")  # noqa: S106 -- not one
        assert called.code == 2
        assert "use --server URL, set TENANTCRON_SERVER" in called.err
    assert not (config.parent / ".tenantcron").exists()


def test_a_new_embedded_database_is_reported_once(run_folder: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=run_folder))
    first, second = (call(folder / "config", "limits") for _ in range(2))
    assert (first.code, second.code) == (0, 0), first.err
    assert f"created an embedded database in {folder / '.tenantcron'}" in first.err
    assert second.err == ""


def test_the_embedded_database_can_be_chosen_by_name(run_folder: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=run_folder))
    config = folder / "config"
    set_context(config, "prod", "--server", SERVER)
    called = call(
        config,
        *("limits", "--context", "embedded"),
        url="postgresql://127.0.0.1:9/nowhere",
        TENANTCRON_SERVER=SERVER,
        TENANTCRON_TOKEN="tc_secret",  # noqa: S106 -- not one
        TENANTCRON_EMBEDDED_LINGER="0s",
    )
    assert (called.code, called.err) == (0, "")
    taken = call(config, "context", "set", "embedded", "--server", SERVER)
    assert (taken.code, "use another name" in taken.err) == (2, True)


@pytest.mark.parametrize("command", ["migrate", "uninstall", "run", "serve"])
def test_commands_that_need_a_database_say_so(config: Path, command: str) -> None:
    set_context(config, "prod", "--server", SERVER)
    called = call(config, command)
    assert called.code == 2
    assert "works on a database, not on the server of context prod" in called.err


def test_a_command_that_removes_something_names_the_current_context(config: Path) -> None:
    set_context(config, "prod", "--server", SERVER)
    called = call(config, "webhook", "remove", "ops")
    assert f"using context prod: {SERVER}" in called.err


def test_an_unknown_context_is_wrong_usage(config: Path) -> None:
    called = call(config, "health", "--context", "prod")
    assert (called.code, "there is no context" in called.err) == (2, True)


def test_an_unknown_context_is_answered_with_the_known_names(config: Path) -> None:
    set_context(config, "prod", "--server", SERVER)
    called = call(config, "context", "use", "zzz")
    assert (called.code, called.err) == (
        1,
        "error: there is no context 'zzz': the known names are prod\n",
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--database-url-env", "postgresql://u:hunter2@h/db"),
        ("--token-env", f"tc_{'a' * 12}_{'B' * 43}"),
    ],
)
def test_a_secret_in_place_of_a_variable_is_refused_and_not_shown(
    config: Path, option: str, value: str
) -> None:
    place = ["--server", SERVER] if option == "--token-env" else []

    called = call(config, "context", "set", "prod", *place, option, value)

    assert (called.code, "the name of a variable" in called.err) == (2, True)
    assert not any(secret in called.err for secret in ("hunter2", "B" * 43))
    assert "prod" not in call(config, "context", "list").out
