"""Images are pinned by digest: a tag can move, so a tag alone is rejected."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.deploy_files import OVERLAYS, ROOT, compose, containers_of, dockerfile, pods

DIGEST = re.compile(
    r"(?P<name>[a-z0-9./-]+):(?P<tag>[\w.-]+)@"
    # A digest, or a placeholder that makes the tool fail until a digest replaces it.
    r"(?:sha256:[0-9a-f]{64}|sha256:IMAGE_DIGEST|\$\{[A-Z_]+_DIGEST(:\?[^}]+)?\})"
)
BUILT_HERE = "tenantcron"


def pulled_by_docker() -> list[str]:
    """Return the images of the Dockerfile, with the defaults of its arguments."""
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile(), re.MULTILINE))
    named = re.findall(r"^FROM (\S+)", dockerfile(), re.MULTILINE)
    return [
        re.sub(r"\$\{(\w+)\}", lambda match: defaults.get(match[1], match[0]), image)
        for image in named
    ]


def pulled_by_compose() -> list[str]:
    images = [service["image"] for service in compose()["services"].values()]
    return [image for image in images if image != BUILT_HERE]


def pulled_by_kubernetes() -> list[str]:
    """Return the images of the base with the digest of each overlay."""
    images = [container["image"] for pod in pods() for container in containers_of(pod)]
    return [f"{image}@{digest(overlay)}" for overlay in OVERLAYS for image in images]


def digest(overlay: Path) -> str:
    text = (overlay / "kustomization.yaml").read_text(encoding="utf-8")
    (image,) = YAML(typ="safe").load(text)["images"]
    assert image["name"] == BUILT_HERE
    return str(image["digest"])


@pytest.mark.parametrize("images", [pulled_by_docker, pulled_by_compose, pulled_by_kubernetes])
def test_every_image_has_a_digest_or_fails_without_one(images: Callable[[], list[str]]) -> None:
    assert images()
    for image in images():
        assert DIGEST.fullmatch(image), image


@pytest.mark.parametrize(
    "image",
    [
        "python:3.13-slim",
        "postgres@latest",
        "postgres:18@sha256:0123",
        "postgres:18@${POSTGRES_DIGEST:-sha256:" + 64 * "0" + "}",
    ],
)
def test_a_floating_image_is_rejected(image: str) -> None:
    assert DIGEST.fullmatch(image) is None


def test_the_digest_of_the_base_image_has_no_default() -> None:
    assert re.search(r"^ARG PYTHON_DIGEST$", dockerfile(), re.MULTILINE)
    (arguments,) = {
        service["build"]["args"]["PYTHON_DIGEST"]
        for service in compose()["services"].values()
        if "build" in service
    }
    assert arguments.startswith("${PYTHON_DIGEST:?")


def test_the_images_of_kubernetes_are_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    matches = [DIGEST.fullmatch(image) for image in pulled_by_kubernetes()]
    built = {(match["name"], match["tag"]) for match in matches if match}
    assert built == {(BUILT_HERE, project["version"])}
