"""The contribution to SchemaStore: current, valid by its rules, with tests that it passes."""

import json
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML
from support.node import FOLDER as NODE
from support.node import node_program

STORE = Path(__file__).resolve().parents[2] / "deploy" / "schemastore"
SCHEMA = STORE / "tenantcron-manifest.json"
# Ajv is what SchemaStore checks with. In strict mode, a keyword that it does not know is an error.
AJV = """
const Ajv = require("ajv"), fs = require("fs");
const [schema, options, documents] = JSON.parse(fs.readFileSync(0, "utf8"));
const ajv = new Ajv({strict: true, allowUnionTypes: true, strictRequired: false,
  strictTypes: false});
ajv.addVocabulary(options.unknownKeywords);
const validate = ajv.compile(schema);
console.log(JSON.stringify(documents.map((document) => validate(document))));
"""


def documents(folder: str) -> dict[str, Any]:
    return {
        file.name: YAML(typ="safe").load(file.read_text(encoding="utf-8"))
        for file in sorted((STORE / folder).glob("*.yaml"))
    }


def schema() -> Any:
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


def test_the_schema_is_current() -> None:
    spec = spec_from_file_location("schemastore_make", STORE / "make.py")
    assert spec
    assert spec.loader
    make = module_from_spec(spec)
    spec.loader.exec_module(make)
    text = SCHEMA.read_text(encoding="utf-8")
    assert text == make.schema_text(), "run: python deploy/schemastore/make.py"


def test_the_schema_has_the_draft_and_the_id_that_schemastore_asks_for() -> None:
    Draft7Validator.check_schema(schema())
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema()["$id"] == "https://json.schemastore.org/tenantcron-manifest.json"
    # Draft-07 ignores what is beside a reference.
    assert [part for part in parts(schema()) if "$ref" in part and len(part) > 1] == []


def parts(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, list):
        return [found for item in part for found in parts(item)]
    if not isinstance(part, dict):
        return []
    return [part, *(found for item in part.values() for found in parts(item))]


def test_the_tests_pass_and_the_negative_tests_fail() -> None:
    validator = Draft7Validator(schema())
    good, bad = documents("test"), documents("negative_test")
    assert len(good) >= 2
    assert len(bad) >= 4
    assert [name for name, document in good.items() if not validator.is_valid(document)] == []
    assert [name for name, document in bad.items() if validator.is_valid(document)] == []


def test_ajv_in_strict_mode_agrees() -> None:
    node_program("ajv/package.json")
    entry = json.loads((STORE / "schema-validation-entry.json").read_text(encoding="utf-8"))
    good, bad = documents("test"), documents("negative_test")
    given = [schema(), entry["options"][SCHEMA.name], [*good.values(), *bad.values()]]
    command, text = ["node", "-e", AJV], json.dumps(given)
    run = subprocess.run(command, cwd=NODE, input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize("folder", ["test", "negative_test"])
def test_the_catalog_entry_matches_the_names_of_the_tests(folder: str) -> None:
    entry = json.loads((STORE / "catalog-entry.json").read_text(encoding="utf-8"))
    assert entry.keys() == {"name", "description", "fileMatch", "url"}
    assert entry["url"] == schema()["$id"]
    # SchemaStore refuses descriptions that mention themselves, and names that end with a period.
    assert "schema" not in entry["description"].lower()
    assert not entry["description"].endswith(".")
    for name in documents(folder):
        assert any(Path(name).match(pattern) for pattern in entry["fileMatch"]), name
