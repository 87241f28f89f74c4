"""The files of deploy/, read."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "kubernetes" / "base"
OVERLAYS = sorted(file.parent for file in BASE.parent.glob("overlays/*/kustomization.yaml"))
Yaml = dict[str, Any]


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def compose() -> Yaml:
    found: Yaml = YAML(typ="safe").load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
    return found


def resources(kind: str) -> list[Yaml]:
    """Return the resources of the base of Kubernetes, in the order of its kustomization."""
    kustomization = YAML(typ="safe").load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    if kind == "ConfigMap":
        return [_config_map(entry) for entry in kustomization["configMapGenerator"]]
    files = [BASE / name for name in kustomization["resources"] if name.endswith(".yml")]
    loaded = [
        resource
        for file in files
        for resource in YAML(typ="safe").load_all(file.read_text(encoding="utf-8"))
    ]
    return [resource for resource in loaded if resource["kind"] == kind]


def _config_map(entry: Yaml) -> Yaml:
    data = {name: (BASE / name).read_text(encoding="utf-8") for name in entry["files"]}
    return {"kind": "ConfigMap", "metadata": {"name": entry["name"]}, "data": data}


def templates() -> list[Yaml]:
    """Return the pod templates of Kubernetes, with their labels."""
    workloads = [*resources("Job"), *resources("Deployment")]
    return [workload["spec"]["template"] for workload in workloads]


def pods() -> list[Yaml]:
    return [template["spec"] for template in templates()]


def containers_of(pod: Yaml) -> list[Yaml]:
    """Return the containers of a pod, in the order in which they run."""
    return [*pod.get("initContainers", ()), *pod["containers"]]
