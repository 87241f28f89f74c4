"""Settings from the environment and from tenantcron.toml."""

from datetime import timedelta
from pathlib import Path

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.core.settings import LogFormat, LogLevel, Settings, has_keys, load_settings

URL = "postgresql://app:secret@db/scheduler"


def settings_file(folder: Path, text: str) -> None:
    (folder / "tenantcron.toml").write_text(text, encoding="utf-8")


def test_the_default_is_the_embedded_server_and_the_default_service(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path) == Settings(folder=tmp_path)


def test_the_environment_takes_precedence_over_the_file(tmp_path: Path) -> None:
    settings_file(tmp_path, f'[settings]\ndatabase_url = "{URL}"\nservice = "nightly"\n')

    settings = load_settings({"TENANTCRON_SERVICE": "daily"}, tmp_path)

    assert (settings.database_url, settings.service) == (URL, "daily")


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert load_settings({"TENANTCRON_DATABASE_URL": ""}, tmp_path).database_url is None


def test_other_tables_and_variables_are_ignored(tmp_path: Path) -> None:
    settings_file(tmp_path, '[policy]\nminimum_interval = "5m"\n')

    assert load_settings({"TENANTCRON_TRACE": "1", "DATABASE_URL": "x"}, tmp_path).service


def test_the_password_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Settings(database_url=URL, folder=Path()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[settings]\ndatabse_url = "x"', "unknown setting 'databse_url': did you mean database_"),
        ('[settings]\ncolour = "x"', "there are database_url, embedded_linger"),
        ("[settings]\nservice = 5", "settings.service must be text$"),
        ("[settings]\nlease = 60", 'settings.lease must be text, such as "90s"'),
        ("[settings]\nmax_concurrent = true", "settings.max_concurrent must be a whole number"),
        ("[settings]\nmax_concurrent = 1.5", "settings.max_concurrent must be a whole number"),
        ("[settings]\nmax_concurrent = 0", "'0' is not a whole number from 1 to 100000"),
        ("[settings]\nmax_concurrent = -5", "'-5' is not a whole number from 1 to 100000"),
        ("[settings]\nmetrics_port = 65536", "'65536' is not a whole number from 0 to 65535"),
        ("[settings]\nmetrics_busiest_tenants = 101", "'101' is not a whole number from 0 to 100"),
        ("[settings]\nmetrics_audit_interval = 60", 'must be text, such as "90s"'),
        ('[settings]\nlog_level = "loud"', "is not one of debug, info, warning, error"),
        ('[settings]\nschedules = "nightly"', "settings.schedules must be an array of tables"),
        ("[settings]\nschedules = [1]", "settings.schedules must be an array of tables"),
        ("[settings.schedules]\nname = 1", "settings.schedules must be an array of tables"),
        ('settings = "x"', "must be a table"),
        ("[settings", "cannot be read"),
        ('[settings]\nservice = "Night Shift"', "is not a name"),
    ],
)
def test_an_invalid_file_is_reported_with_its_place(
    tmp_path: Path, text: str, expected: str
) -> None:
    settings_file(tmp_path, text)

    with pytest.raises(UsageError, match=expected) as caught:
        load_settings({}, tmp_path)

    assert "tenantcron.toml" in str(caught.value)


def test_a_misspelt_variable_does_not_silently_start_an_embedded_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean TENANTCRON_DATABASE_URL"):
        load_settings({"TENANTCRON_DATABASEURL": URL}, tmp_path)


def test_a_url_of_another_database_is_rejected_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TENANTCRON_DATABASE_URL is not") as caught:
        load_settings({"TENANTCRON_DATABASE_URL": "mysql://app:secret@db"}, tmp_path)

    assert "secret" not in str(caught.value)


def test_the_defaults_match_the_documentation(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)

    assert settings.refresh_interval == timedelta(seconds=60)
    assert settings.refresh_jitter == timedelta(seconds=10)
    assert settings.lease == timedelta(seconds=60)
    assert settings.drain == timedelta(seconds=30)
    assert settings.retention == timedelta(days=90)
    assert (settings.log_format, settings.log_level) == (None, LogLevel.INFO)


def test_limits_that_are_not_set_are_none(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)

    assert (settings.max_concurrent, settings.max_concurrent_per_tenant) == (None, None)


@pytest.mark.parametrize("limit", ["20", '"20"'])
def test_a_limit_that_equals_the_default_still_counts_as_set(tmp_path: Path, limit: str) -> None:
    settings_file(tmp_path, f"[settings]\nmax_concurrent = {limit}\n")

    assert load_settings({}, tmp_path).max_concurrent == 20


def test_every_setting_can_come_from_the_environment(tmp_path: Path) -> None:
    environment = {
        "TENANTCRON_MAX_CONCURRENT": "100000",
        "TENANTCRON_MAX_CONCURRENT_PER_TENANT": "1",
        "TENANTCRON_REFRESH_INTERVAL": "5m",
        "TENANTCRON_REFRESH_JITTER": "0s",
        "TENANTCRON_LEASE": "5s",
        "TENANTCRON_DRAIN": "0s",
        "TENANTCRON_MAX_MEMORY": "2GiB",
        "TENANTCRON_RETENTION": "1d",
        "TENANTCRON_LOG_FORMAT": "json",
        "TENANTCRON_LOG_LEVEL": "debug",
    }

    assert load_settings(environment, tmp_path) == Settings(
        max_concurrent=100_000,
        max_concurrent_per_tenant=1,
        refresh_interval=timedelta(minutes=5),
        refresh_jitter=timedelta(0),
        lease=timedelta(seconds=5),
        drain=timedelta(0),
        max_memory=2 * 1024**3,
        retention=timedelta(days=1),
        log_format=LogFormat.JSON,
        log_level=LogLevel.DEBUG,
        folder=tmp_path,
    )


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("MAX_CONCURRENT", "many", "'many' is not a whole number from 1 to 100000"),
        ("MAX_CONCURRENT", "²", "is not a whole number"),
        ("MAX_CONCURRENT", "100001", "is not a whole number from 1 to 100000"),
        ("MAX_CONCURRENT_PER_TENANT", "9" * 5_000, "is not a whole number"),
        ("LEASE", "4s", "'4s' is too short: at least 5s"),
        ("TOKEN_LIFETIME", "29s", "'29s' is too short: at least 30s"),
        ("TOKEN_LIFETIME", "61m", "'61m' is too long: at most 1h"),
        ("LEASE", "60", "'60' is not a duration such as 90s"),
        ("RETENTION", "23h", "'23h' is too short: at least 1d"),
        ("REFRESH_INTERVAL", "0s", "'0s' is too short: at least 1s"),
        ("DRAIN", "-1s", "is not a duration"),
        ("MAX_MEMORY", "2GB", "'2GB' is not a size such as 512MiB or 2GiB"),
        ("MAX_MEMORY", "64MiB", "'64MiB' is too small: at least 128 MiB"),
        ("METRICS_PORT", "http", "'http' is not a whole number from 0 to 65535"),
        ("METRICS_BUSIEST_TENANTS", "-1", "'-1' is not a whole number from 0 to 100"),
        ("METRICS_AUDIT_INTERVAL", "59s", "'59s' is too short: at least 1m"),
        ("LOG_FORMAT", "xml", "'xml' is not one of console, json"),
        ("LOG_LEVEL", "INFO", "'INFO' is not one of debug, info, warning, error"),
    ],
)
def test_an_invalid_variable_is_reported_with_its_name(
    tmp_path: Path, key: str, text: str, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected) as caught:
        load_settings({f"TENANTCRON_{key}": text}, tmp_path)

    assert str(caught.value).startswith(f"TENANTCRON_{key}: ")


def test_schedules_of_the_file_are_returned_as_plain_data(tmp_path: Path) -> None:
    settings_file(
        tmp_path,
        """
        [[settings.schedules]]
        name = "sweep"
        whatever = {nested = [1, 2.5, true]}
        once = 2026-12-01T09:00:00Z
        at = 02:00:00

        [[settings.schedules]]
        name = "report"
        """,
    )

    assert load_settings({}, tmp_path).schedules == (
        {
            "name": "sweep",
            "whatever": {"nested": [1, 2.5, True]},
            "once": "2026-12-01T09:00:00+00:00",
            "at": "02:00:00",
        },
        {"name": "report"},
    )


def test_without_schedules_in_the_file_there_are_none(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path).schedules == ()


MASTER_KEY = "e0" * 31 + "01"


def test_secrets_come_from_the_environment_and_are_hidden_in_the_repr(tmp_path: Path) -> None:
    pem = "-----BEGIN PRIVATE KEY-----"
    environment = {"TENANTCRON_MASTER_KEY": MASTER_KEY, "TENANTCRON_SIGNING_KEY": pem}

    settings = load_settings(environment, tmp_path)

    assert (settings.master_key, settings.signing_key) == (MASTER_KEY, pem)
    assert MASTER_KEY not in repr(settings)
    assert pem not in repr(settings)
    assert has_keys(settings)
    assert not has_keys(load_settings({}, tmp_path))


def test_the_file_can_name_files_with_secrets(tmp_path: Path) -> None:
    settings_file(tmp_path, '[settings]\nmaster_key_file = "/run/secrets/master"\n')

    settings = load_settings({"TENANTCRON_SIGNING_KEY_FILE": "signing.pem"}, tmp_path)

    assert settings.master_key_file == Path("/run/secrets/master")
    assert settings.signing_key_file == Path("signing.pem")
    assert has_keys(settings)


@pytest.mark.parametrize("key", ["master_key", "signing_key", "plan_key"])
def test_a_secret_in_the_file_is_rejected_without_showing_it(tmp_path: Path, key: str) -> None:
    settings_file(tmp_path, f'[settings]\n{key} = "{MASTER_KEY}"\n')

    with pytest.raises(UsageError, match=f"{key} is a secret.*{key}_file") as caught:
        load_settings({}, tmp_path)

    assert "tenantcron.toml" in str(caught.value)
    assert MASTER_KEY not in str(caught.value)


def test_a_secret_and_a_file_for_it_cannot_both_be_set(tmp_path: Path) -> None:
    settings_file(tmp_path, '[settings]\nmaster_key_file = "x"\n')

    with pytest.raises(UsageError, match=r"TENANTCRON_MASTER_KEY and .* are both set"):
        load_settings({"TENANTCRON_MASTER_KEY": MASTER_KEY}, tmp_path)


def test_an_invalid_master_key_is_rejected_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"TENANTCRON_MASTER_KEY: .*openssl rand") as caught:
        load_settings({"TENANTCRON_MASTER_KEY": "hunter2"}, tmp_path)

    assert "hunter2" not in str(caught.value)


def test_an_issuer_with_surrounding_spaces_is_rejected(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path).issuer == "tenantcron"
    with pytest.raises(UsageError, match=r"TENANTCRON_ISSUER: .* is not an issuer"):
        load_settings({"TENANTCRON_ISSUER": " https://x "}, tmp_path)
