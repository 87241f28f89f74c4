"""Plan files with anything in them are read, or refused with one sentence."""

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.fleet import manifest, numbered

from tenantcron.cli.server_plans import load_plan
from tenantcron.core.errors import UsageError
from tenantcron.core.master_keys import parse_master_keys
from tenantcron.manifests.files import Policies
from tenantcron.reconciler.document import checksum
from tenantcron.reconciler.plan_documents import OF_DATABASE, OF_SERVER
from tenantcron.reconciler.plan_keys import PlanKeys
from tenantcron.reconciler.planfile import saved_plan

Place = tuple[str | int, ...]
SERVER = "https://cron.internal"
RULES = {"create_tenants": False, "max_deletes": 3}
MANIFEST = {"file": "acme.yaml", "content": manifest("acme", numbered(1)), "revision": 7}
PLANS: dict[str, dict[str, Any]] = {
    OF_DATABASE: {
        "database": "main",
        "rules": RULES,
        "tenants": [{**MANIFEST, "tenant": "acme", "asked_for": None, "document": {}}],
    },
    OF_SERVER: {**RULES, "server": SERVER, "manifests": [{**MANIFEST, "tenant": "acme"}]},
}
KEYS = PlanKeys(parse_master_keys("11" * 31 + "12"))
# Lone surrogates included, which JSON can express and UTF-8 cannot.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Yield the place of each value in a document."""
    yield at
    parts = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else parts:
        yield from places(part, (*at, key))


def replaced(document: Any, place: Place, value: object) -> Any:
    """Return a document with another value at a place."""
    if not place:
        return value
    changed = deepcopy(document)
    part = changed
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return changed


def written(form: str, place: Place, value: object) -> str:
    """Return an edited plan file with a computed checksum."""
    plan = PLANS[form]
    saved = {"format": form, "checksum": checksum(plan), "signature": "", "plan": plan}
    changed = replaced(saved, place, value)
    if place[:1] == ("plan",):
        with suppress(UnicodeEncodeError):
            changed["checksum"] = checksum(changed["plan"])
    return json.dumps(changed, indent=2)


def read(file: Path, form: str, keys: PlanKeys) -> None:
    """Read everything in a plan file."""
    if form == OF_SERVER:
        load_plan(file, SERVER, keys)
        return
    with saved_plan(file, keys) as plan:
        assert len(list(plan.manifests(Policies(None)))) == len(list(plan.reviewed()))
        assert plan.rules.max_deletes is None or plan.rules.max_deletes + 1


def refusal(file: Path, form: str, keys: PlanKeys) -> str | None:
    """Return the sentence that refuses a plan file, if any; other errors are raised."""
    try:
        read(file, form, keys)
    except UsageError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans") / "reviewed.plan"


EDITED = st.sampled_from(sorted(PLANS)).flatmap(
    lambda form: st.tuples(
        st.just(form),
        st.sampled_from(
            [*places({"format": "", "checksum": "", "signature": "", "plan": PLANS[form]})]
        ),
        VALUES,
    )
)


@given(edited=EDITED, keys=st.sampled_from([PlanKeys(), KEYS]))
@example(edited=(OF_DATABASE, ("plan", "rules", "max_deletes"), "3"), keys=PlanKeys())
@example(edited=(OF_DATABASE, ("plan", "tenants", 0, "content"), "\ud800"), keys=PlanKeys())
@example(edited=(OF_SERVER, ("plan", "manifests", 0, "content"), "\ud800"), keys=PlanKeys())
@example(edited=(OF_SERVER, ("plan", "manifests"), None), keys=PlanKeys())
@example(edited=(OF_SERVER, ("signature",), "\ud800"), keys=KEYS)
def test_any_edited_plan_is_read_or_refused(
    file: Path, edited: tuple[str, Place, object], keys: PlanKeys
) -> None:
    form, place, value = edited
    file.write_text(written(form, place, value), encoding="utf-8")
    error = refusal(file, form, keys)
    assert error is not None or keys is not KEYS
    assert error is None or (error.startswith(f"{file}: ") and error.isprintable())


@given(content=st.binary(max_size=40), form=st.sampled_from(sorted(PLANS)))
def test_any_bytes_are_refused(file: Path, content: bytes, form: str) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"the plan cannot be read|not a plan of this version"):
        read(file, form, PlanKeys())


@pytest.mark.parametrize("form", PLANS)
def test_the_plan_that_the_edits_start_from_is_read(file: Path, form: str) -> None:
    file.write_text(written(form, ("signature",), ""), encoding="utf-8")
    read(file, form, PlanKeys())
