"""The separation of attributed and authenticated actors."""

import ast
import copy
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.context import acting_as
from tenantcron.actor.model import Actor, ActorType, AuthenticatedActor
from tenantcron.actor.witness import WITNESS, Witness

ROOT = Path(__file__).resolve().parents[2]
# Only verifiers of tokens may be on this list.
MAY_IMPORT_THE_WITNESS = {
    "actor/model.py",
    "actor/verification.py",
    "actor/api_tokens.py",
    "actor/oidc.py",
}

ATTRIBUTED = Actor("ada", ActorType.HUMAN, "token")
AUTHENTICATED = AuthenticatedActor("ada", ActorType.HUMAN, "token", WITNESS)


def set_directly() -> object:
    """Build an object without the constructor and without the witness."""
    shell = object.__new__(AuthenticatedActor)
    for name in ("id", "type", "source"):
        object.__setattr__(shell, name, getattr(ATTRIBUTED, name))
    return shell.authenticated


def change_class() -> object:
    named = Actor("ada", ActorType.HUMAN, "token")
    object.__setattr__(named, "__class__", AuthenticatedActor)
    return named


FORGERIES: dict[str, Callable[[], object]] = {
    "constructed": lambda: AuthenticatedActor("ada", ActorType.HUMAN, "x"),  # type: ignore[call-arg] # this is the error
    "constructed with something": lambda: AuthenticatedActor(
        "ada",
        ActorType.HUMAN,
        "x",
        object(),  # type: ignore[arg-type] # as above
    ),
    "constructed with a second witness": lambda: AuthenticatedActor(
        "ada", ActorType.HUMAN, "x", Witness()
    ),
    "replaced": lambda: replace(AUTHENTICATED, id="root"),  # type: ignore[call-arg] # as above
    "replaced with nothing": lambda: replace(AUTHENTICATED, id="root", witness=None),  # type: ignore[arg-type] # as above
    "allocated": lambda: object.__new__(AuthenticatedActor).authenticated,
    "allocated and filled": set_directly,
    "class changed": change_class,
    "subclassed": lambda: type("Forged", (AuthenticatedActor,), {}),
    "pickled": lambda: pickle.dumps(AUTHENTICATED),
    "pickled the old way": lambda: pickle.dumps(AUTHENTICATED, protocol=0),
    "changed": lambda: setattr(AUTHENTICATED, "id", "root"),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_an_authenticated_actor_needs_the_constructor_and_the_witness(
    forge: Callable[[], object],
) -> None:
    with pytest.raises((TypeError, ValueError, FrozenInstanceError)):
        forge()


def test_the_verifier_can_construct_one() -> None:
    assert AUTHENTICATED.authenticated is True
    assert (AUTHENTICATED.id, AUTHENTICATED.type, AUTHENTICATED.source) == (
        "ada",
        ActorType.HUMAN,
        "token",
    )


def test_a_copy_of_an_authenticated_actor_is_the_same_object() -> None:
    assert copy.copy(AUTHENTICATED) is AUTHENTICATED
    assert copy.deepcopy([AUTHENTICATED])[0] is AUTHENTICATED


def test_an_authenticated_and_an_attributed_actor_are_not_equal() -> None:
    assert len({ATTRIBUTED, AUTHENTICATED}) == 2


def test_the_witness_is_hidden_in_the_repr() -> None:
    assert "itness" not in repr(AUTHENTICATED)


def test_an_object_that_looks_like_an_authenticated_actor_cannot_act() -> None:
    class Duck:
        __class__ = AuthenticatedActor  # type: ignore[assignment] # as above
        id, type, source, authenticated = "root", ActorType.HUMAN, "x", True

    with pytest.raises(TypeError, match="Duck is not an actor"):
        acting_as(Duck())  # type: ignore[arg-type] # as above


def test_only_an_authenticated_actor_is_recorded_as_authenticated() -> None:
    assert Attribution(AUTHENTICATED).authenticated is True
    assert Attribution(ATTRIBUTED).authenticated is False
    assert Attribution(None).authenticated is False


def test_only_verifiers_import_the_witness() -> None:
    importers = {
        module.relative_to(ROOT).as_posix() for module in shipped() if imports_the_witness(module)
    }
    assert importers == MAY_IMPORT_THE_WITNESS


def test_only_verifiers_construct_an_authenticated_actor() -> None:
    builders = {
        module.relative_to(ROOT).as_posix()
        for module in shipped()
        if "AuthenticatedActor" in called(module)
    }
    assert builders == {"actor/api_tokens.py", "actor/oidc.py", "actor/verification.py"}


def test_the_verifier_constructs_one_in_one_place_after_the_signature() -> None:
    source = (ROOT / "actor" / "verification.py").read_text(encoding="utf-8")
    (builder,) = [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and "AuthenticatedActor(" in ast.unparse(node)
    ]
    assert builder == "_proof"
    assert source.count("_proof(") == 2
    signed = source.partition("def _signed(")[2].partition("\ndef ")[0]
    assert signed.index("payload = _payload(token,") < signed.index("_proof(payload)")


def shipped() -> list[Path]:
    """Return all modules of the distribution."""
    folders = [path for path in ROOT.iterdir() if (path / "__init__.py").is_file()]
    return [module for folder in folders for module in folder.rglob("*.py")]


def called(module: Path) -> set[str]:
    """Return the names that a module calls."""
    nodes = ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    return {ast.unparse(call).rpartition(".")[2] for call in calls}


def imports_the_witness(module: Path) -> bool:
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    imported = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    imported += [
        f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]
    imported += [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    return "tenantcron.actor.witness" in imported


SNIPPET = """\
import dataclasses
from typing import assert_type, Literal
from tenantcron.actor.context import acting_as
from tenantcron.actor.model import Actor, ActorType, AnyActor, AuthenticatedActor

def needs_proof(actor: AuthenticatedActor) -> None: ...

named = Actor("ada", ActorType.HUMAN, "cli")
AuthenticatedActor("ada", ActorType.HUMAN, "cli")  # refused
AuthenticatedActor("ada", ActorType.HUMAN, "cli", object())  # refused
AuthenticatedActor("ada", ActorType.HUMAN, "cli", witness=True)  # refused
AuthenticatedActor(id="ada", type=ActorType.HUMAN, source="cli", authenticated=True)  # refused
Actor("ada", ActorType.HUMAN, "cli", authenticated=True)  # refused
Actor("ada", "human", "cli")  # refused
dataclasses.replace(named, authenticated=True)  # refused
named.authenticated = True  # refused
named.id = "root"  # refused
needs_proof(named)  # refused
acting_as("ada")  # refused
@acting_as(named)  # refused
async def decorated() -> None: ...
class Forged(AuthenticatedActor): ...  # refused
class Pretended(Actor): ...  # refused

def narrow(actor: AnyActor) -> None:
    needs_proof(actor)  # refused
    if actor.authenticated:
        needs_proof(actor)
    assert_type(named.authenticated, Literal[False])
"""


def test_the_type_checker_rejects_every_workaround(tmp_path: Path) -> None:
    for folder, name in (("package", "."), ("core", "core"), ("actor", "actor")):
        shutil.copytree(ROOT / folder, tmp_path / "tenantcron" / name, dirs_exist_ok=True)
    (tmp_path / "snippet.py").write_text(SNIPPET, encoding="utf-8")
    assert refused_lines(tmp_path) == {
        number
        for number, line in enumerate(SNIPPET.splitlines(), start=1)
        if line.endswith("# refused")
    }


def refused_lines(folder: Path) -> set[int]:
    """Return the lines of the snippet with mypy errors, in an installed tree."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "snippet.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    complaints = re.findall(r"^snippet\.py:(\d+): error", done.stdout, re.MULTILINE)
    return {int(line) for line in complaints}
