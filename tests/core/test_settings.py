"""Settings from the environment and from tenantcron.toml."""

from pathlib import Path

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.core.settings import Settings, load_settings

URL = "postgresql://app:secret@db/scheduler"


def settings_file(folder: Path, text: str) -> None:
    (folder / "tenantcron.toml").write_text(text, encoding="utf-8")


def test_nothing_set_means_the_embedded_server_and_the_default_service(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path) == Settings(folder=tmp_path)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    settings_file(tmp_path, f'[settings]\ndatabase_url = "{URL}"\nservice = "nightly"\n')

    settings = load_settings({"TENANTCRON_SERVICE": "daily"}, tmp_path)

    assert (settings.database_url, settings.service) == (URL, "daily")


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert load_settings({"TENANTCRON_DATABASE_URL": ""}, tmp_path).database_url is None


def test_other_tables_and_other_variables_are_left_alone(tmp_path: Path) -> None:
    settings_file(tmp_path, '[policy]\nminimum_interval = "5m"\n')

    assert load_settings({"TENANTCRON_TRACE": "1", "DATABASE_URL": "x"}, tmp_path).service


def test_the_password_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Settings(database_url=URL, folder=Path()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[settings]\ndatabse_url = "x"', "unknown setting 'databse_url': did you mean database_"),
        ('[settings]\ncolour = "x"', "there are database_url, service"),
        ("[settings]\nservice = 5", "settings.service must be text"),
        ('settings = "x"', "must be a table"),
        ("[settings", "cannot be read"),
        ('[settings]\nservice = "Night Shift"', "is not a name"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    settings_file(tmp_path, text)

    with pytest.raises(UsageError, match=expected) as caught:
        load_settings({}, tmp_path)

    assert "tenantcron.toml" in str(caught.value)


def test_a_misspelt_variable_does_not_quietly_start_an_embedded_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean TENANTCRON_DATABASE_URL"):
        load_settings({"TENANTCRON_DATABASEURL": URL}, tmp_path)


def test_a_url_of_another_kind_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TENANTCRON_DATABASE_URL is not") as caught:
        load_settings({"TENANTCRON_DATABASE_URL": "mysql://app:secret@db"}, tmp_path)

    assert "secret" not in str(caught.value)
