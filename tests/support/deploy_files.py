"""The files of deploy/, read."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
Yaml = dict[str, Any]


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def compose() -> Yaml:
    found: Yaml = YAML(typ="safe").load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
    return found


def resources(kind: str) -> list[Yaml]:
    text = (DEPLOY / "kubernetes.yml").read_text(encoding="utf-8")
    loaded = YAML(typ="safe").load_all(text)
    return [resource for resource in loaded if resource["kind"] == kind]


def templates() -> list[Yaml]:
    """Return the pod templates of Kubernetes, with their labels."""
    workloads = [*resources("Job"), *resources("Deployment")]
    return [workload["spec"]["template"] for workload in workloads]


def pods() -> list[Yaml]:
    return [template["spec"] for template in templates()]


def containers_of(pod: Yaml) -> list[Yaml]:
    """Return the containers of a pod, in the order in which they run."""
    return [*pod.get("initContainers", ()), *pod["containers"]]
