"""The lists and guarantees of the pages are correct."""

import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

from ruamel.yaml import YAML
from support.page_tables import LISTS, listed_settings, schema
from support.pages import (
    BLOCK,
    PAGES,
    READERS,
    README,
    ROOT,
    TABLE,
    data_blocks,
    each_page_with,
    marked,
    pipeline_commands,
    yaml_blocks,
)

from tenantcron.cli.main import COMMANDS
from tenantcron.core.settings import PREFIX, SECRETS, load_settings
from tenantcron.events.cloud_events import EVENT_TYPES

TABLE_HEAD = re.compile(r"^(\|.*\|)\n\|[-|]+\|\n(\|)?", re.MULTILINE)


@each_page_with(data_blocks)
def test_every_block_of_data_can_be_read(page: Path) -> None:
    for language, body in data_blocks(page):
        assert READERS[language](body)


@each_page_with(lambda page: TABLE_HEAD.findall(page.read_text(encoding="utf-8")))
def test_every_table_has_rows_right_after_its_head(page: Path) -> None:
    heads = TABLE_HEAD.findall(page.read_text(encoding="utf-8"))
    assert [head for head, row in heads if not row] == []


def test_the_pages_on_pipelines_show_github_and_gitlab_commands() -> None:
    commands = list(pipeline_commands(ROOT / "docs" / "ci.md"))
    assert any("--format sarif" in command for command in commands)
    assert len(commands) >= 2


def test_workflows_of_github_actions_have_the_required_keys() -> None:
    workflows = [data for page in PAGES for data in yaml_blocks(page) if "jobs" in data]
    assert len(workflows) >= 3
    for workflow in workflows:
        assert workflow["on"]
        for job in workflow["jobs"].values():
            assert job["runs-on"]
            assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_the_pre_commit_configuration_uses_the_existing_hook() -> None:
    hooks = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    configurations = [data for page in PAGES for data in yaml_blocks(page) if "repos" in data]
    assert len(configurations) >= 2
    for configuration in configurations:
        used = [hook["id"] for repo in configuration["repos"] for hook in repo["hooks"]]
        assert used == [hook["id"] for hook in hooks]


def test_the_contributing_page_lists_exactly_the_root_folders() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| \[`(\w+)/`\]\(", text, re.MULTILINE)
    assert sorted(shown) == sorted(root_folders())


def test_the_manifest_page_shows_every_part_of_the_schema() -> None:
    text = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8")
    shown = {match["what"] for match in TABLE.finditer(text) if match["kind"] == "fields"}
    definitions = schema("manifest")["$defs"]
    # An entry of `schedules:` is a schedule without a name, which the page describes in words.
    nameless = dict(definitions["Scheduled"]["properties"])
    del nameless["name"]
    assert definitions["Timing"]["properties"] == nameless
    parts = set(definitions) - {"Timing", "JsonValue"}
    assert shown == {"manifest", *(f"manifest {part}" for part in parts)}


def test_the_policy_page_shows_every_field_of_the_policy() -> None:
    text = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert "<!-- fields: policy -->" in text


def test_the_readme_is_short_enough_for_a_front_page() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_all_commands_in_code_blocks_exist() -> None:
    for page in PAGES:
        blocks = "\n".join(match["body"] for match in BLOCK.finditer(page.read_text("utf-8")))
        used = re.findall(r"^(?:\$ )?tenantcron (\w[\w-]*)", blocks, re.MULTILINE)
        assert set(used) <= set(COMMANDS), page


def test_every_list_is_on_its_page() -> None:
    places = {
        "refusals": "apply.md",
        "tables": "database.md",
        "settings": "settings.md",
        "problems": "api.md",
        "roles": "api.md",
        "metrics": "metrics.md",
        "reasons": "metrics.md",
        "exit-codes": "operating.md",
    }
    assert places.keys() == LISTS.keys()
    for what, page in places.items():
        assert f"<!-- listed: {what} -->" in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_settings_file_of_the_page_equals_the_environment(
    tmp_path: Path,
) -> None:
    body = marked("settings.md", "settings")
    (tmp_path / "tenantcron.toml").write_text(body, encoding="utf-8")
    in_page = tomllib.loads(body)["settings"]
    environment = {PREFIX + key.upper(): str(value) for key, value in in_page.items()}
    in_file = {row[0] for row in listed_settings()} - {f"`{key}`" for key in SECRETS}
    assert {f"`{key}`" for key in in_page} == in_file
    from_environment = load_settings(environment, tmp_path / "elsewhere")
    assert load_settings({}, tmp_path) == replace(from_environment, folder=tmp_path)


def test_the_webhooks_page_lists_exactly_the_event_types() -> None:
    text = (ROOT / "docs" / "webhooks.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(dev\.tenantcron\.[a-z.]+)` \|", text, re.MULTILINE)
    assert listed == list(EVENT_TYPES)


def test_decisions_are_short_numbered_and_have_the_same_parts() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(decision.name[:4]) for decision in decisions]
    assert numbers == list(range(1, len(decisions) + 1))
    for decision in decisions:
        text = decision.read_text(encoding="utf-8")
        assert len(text.splitlines()) < 60, decision
        for part in ("Status", "Context", "Decision", "Consequences"):
            assert re.search(rf"^(## )?\**{part}\b", text, re.MULTILINE), (decision, part)


def test_every_guarantee_on_security_has_existing_tests() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!guarantee|---)(.+?) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) >= 40
    for guarantee, shown_by in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown_by)
        assert len(named) == shown_by.count("`") // 2 > 0, guarantee
        for file, test in named:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def root_folders() -> set[str]:
    """Return the folders of a clone, except hidden ones."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (Path(name) for name in listed.split("\0") if name)
    folders = {path.parts[0] for path in paths if len(path.parts) > 1 and (ROOT / path).exists()}
    return {folder for folder in folders if not folder.startswith(".")}
