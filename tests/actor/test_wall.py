"""The wall between actors that are named and actors that are proven, from every side."""

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
# Whoever verifies tokens joins this list. Nobody else does.
MAY_IMPORT_THE_WITNESS = {
    "actor/model.py",
    "actor/verification.py",
    "actor/api_tokens.py",
    "actor/oidc.py",
}

NAMED = Actor("ada", ActorType.HUMAN, "token")
PROVEN = AuthenticatedActor("ada", ActorType.HUMAN, "token", WITNESS)


def set_directly() -> object:
    """Put an object together without the constructor, except for the proof."""
    shell = object.__new__(AuthenticatedActor)
    for name in ("id", "type", "source"):
        object.__setattr__(shell, name, getattr(NAMED, name))
    return shell.authenticated


def change_class() -> object:
    named = Actor("ada", ActorType.HUMAN, "token")
    object.__setattr__(named, "__class__", AuthenticatedActor)
    return named


FORGERIES: dict[str, Callable[[], object]] = {
    "constructed": lambda: AuthenticatedActor("ada", ActorType.HUMAN, "x"),  # type: ignore[call-arg] # what must not be
    "constructed with something": lambda: AuthenticatedActor(
        "ada",
        ActorType.HUMAN,
        "x",
        object(),  # type: ignore[arg-type] # as above
    ),
    "constructed with a second witness": lambda: AuthenticatedActor(
        "ada", ActorType.HUMAN, "x", Witness()
    ),
    "replaced": lambda: replace(PROVEN, id="root"),  # type: ignore[call-arg] # as above
    "replaced with nothing": lambda: replace(PROVEN, id="root", witness=None),  # type: ignore[arg-type] # as above
    "allocated": lambda: object.__new__(AuthenticatedActor).authenticated,
    "allocated and filled": set_directly,
    "class changed": change_class,
    "subclassed": lambda: type("Forged", (AuthenticatedActor,), {}),
    "pickled": lambda: pickle.dumps(PROVEN),
    "pickled the old way": lambda: pickle.dumps(PROVEN, protocol=0),
    "changed": lambda: setattr(PROVEN, "id", "root"),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_nothing_but_the_constructor_with_the_witness_makes_one(
    forge: Callable[[], object],
) -> None:
    with pytest.raises((TypeError, ValueError, FrozenInstanceError)):
        forge()


def test_the_verifier_can_make_one() -> None:
    assert PROVEN.authenticated is True
    assert (PROVEN.id, PROVEN.type, PROVEN.source) == ("ada", ActorType.HUMAN, "token")


def test_a_copy_of_an_authenticated_actor_is_the_same_one() -> None:
    assert copy.copy(PROVEN) is PROVEN
    assert copy.deepcopy([PROVEN])[0] is PROVEN


def test_the_same_name_proven_and_not_proven_is_not_the_same_actor() -> None:
    assert len({NAMED, PROVEN}) == 2


def test_the_witness_does_not_show_in_logs() -> None:
    assert "itness" not in repr(PROVEN)


def test_what_merely_looks_like_an_authenticated_actor_cannot_act() -> None:
    class Duck:
        __class__ = AuthenticatedActor  # type: ignore[assignment] # as above
        id, type, source, authenticated = "root", ActorType.HUMAN, "x", True

    with pytest.raises(TypeError, match="Duck is not an actor"):
        acting_as(Duck())  # type: ignore[arg-type] # as above


def test_only_a_proven_actor_is_written_down_as_authenticated() -> None:
    assert Attribution(PROVEN).authenticated is True
    assert Attribution(NAMED).authenticated is False
    assert Attribution(None).authenticated is False


def test_only_the_verifier_imports_the_witness() -> None:
    importers = {
        module.relative_to(ROOT).as_posix() for module in shipped() if imports_the_witness(module)
    }
    assert importers == MAY_IMPORT_THE_WITNESS


def test_nothing_but_the_verifier_builds_an_authenticated_actor() -> None:
    builders = {
        module.relative_to(ROOT).as_posix()
        for module in shipped()
        if "AuthenticatedActor" in called(module)
    }
    assert builders == {"actor/api_tokens.py", "actor/oidc.py", "actor/verification.py"}


def test_the_verifier_builds_one_in_one_place_after_the_signature() -> None:
    source = (ROOT / "actor" / "verification.py").read_text(encoding="utf-8")
    (builder,) = [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and "AuthenticatedActor(" in ast.unparse(node)
    ]
    assert builder == "_proof"
    assert source.count("_proof(") == 2
    assert "proof = _proof(payload)" in source
    assert "payload = self._payload(token, self._key(token))" in source


def shipped() -> list[Path]:
    """Return all modules that ship."""
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


def test_a_type_checker_refuses_every_way_around(tmp_path: Path) -> None:
    for folder, name in (("package", "."), ("core", "core"), ("actor", "actor")):
        shutil.copytree(ROOT / folder, tmp_path / "tenantcron" / name, dirs_exist_ok=True)
    (tmp_path / "snippet.py").write_text(SNIPPET, encoding="utf-8")
    assert refused_lines(tmp_path) == {
        number
        for number, line in enumerate(SNIPPET.splitlines(), start=1)
        if line.endswith("# refused")
    }


def refused_lines(folder: Path) -> set[int]:
    """Return the lines of the snippet that mypy complains about, in a tree as it is installed."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "snippet.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    complaints = re.findall(r"^snippet\.py:(\d+): error", done.stdout, re.MULTILINE)
    return {int(line) for line in complaints}
