"""The image, compose.yml and the base of Kubernetes use existing commands, options and pages."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.deploy_files import DEPLOY, ROOT, compose, containers_of, dockerfile, pods, resources

from tenantcron.api.status import router
from tenantcron.cli.main import COMMANDS, _parser
from tenantcron.core.durations import parse_duration
from tenantcron.core.settings import PREFIX, Settings, load_settings
from tenantcron.scheduler.metrics.server import routes


@dataclass(frozen=True, slots=True)
class Container:
    """A process of compose.yml or of Kubernetes."""

    name: str
    arguments: list[str]
    variables: set[str]


def containers() -> Iterator[Container]:
    for name, service in compose()["services"].items():
        if service["image"] == "tenantcron":
            yield Container(name, service["command"], set(service["environment"]))
    for pod in pods():
        for entry in containers_of(pod):
            if "command" not in entry:
                variables = {variable["name"] for variable in entry["env"]}
                yield Container(entry["name"], entry["args"], variables)


def settings_of_the_cluster(folder: Path) -> Settings:
    (settings,) = resources("ConfigMap")
    (folder / "tenantcron.toml").write_text(settings["data"]["tenantcron.toml"], encoding="utf-8")
    return load_settings({}, folder)


@pytest.mark.parametrize("container", [*containers()], ids=lambda container: container.name)
def test_every_container_calls_a_command_with_options_that_exist(container: Container) -> None:
    assert container.arguments[0] in COMMANDS
    parsed = _parser(container.arguments).parse_args(container.arguments)
    assert parsed.run
    known = {f"{PREFIX}{name.upper()}" for name in Settings.__dataclass_fields__}
    assert f"{PREFIX}DATABASE_URL" in container.variables <= known


def test_compose_has_a_database_two_schedulers_the_api_and_a_migration_before_them() -> None:
    services = compose()["services"]
    called = [service["command"][0] for service in services.values() if "command" in service]
    assert sorted(called) == ["migrate", "psql", "run", "run", "serve"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= services.keys()
    for name, service in services.items():
        if service.get("command", [""])[0] in ("run", "serve"):
            needs = {"grants": {"condition": "service_completed_successfully"}}
            assert service["depends_on"] == needs, name
    assert services["grants"]["depends_on"].keys() == {"migrate"}
    # Only the API has a port outside the Compose network, on loopback.
    assert [port for service in services.values() for port in service.get("ports", [])] == [
        "127.0.0.1:8080:8080"
    ]


def test_the_health_checks_of_compose_use_existing_pages() -> None:
    for service in compose()["services"].values():
        for port, path in re.findall(
            r"127\.0\.0\.1:(\d+)(/\w+)", " ".join(service.get("healthcheck", {}).get("test", []))
        ):
            assert port in service["command"]
            assert path in paths_of(service["command"][0])


def paths_of(command: str) -> set[str]:
    async def nothing() -> bytes:
        return b""

    of_api = {route.path for route in router.routes}  # type: ignore[attr-defined] # all are paths
    return {"run": set(routes(nothing, lambda: None, lambda: None)), "serve": of_api}[command]


def test_the_probes_of_kubernetes_use_existing_pages_and_ports(tmp_path: Path) -> None:
    settings = settings_of_the_cluster(tmp_path)
    for resource in resources("Deployment"):
        (container,) = resource["spec"]["template"]["spec"]["containers"]
        (port,) = container["ports"]
        command = container["args"][0]
        served = settings.metrics_port if command == "run" else int(container["args"][-1])
        assert port["containerPort"] == served
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == port["name"]
            assert asked["path"] in paths_of(command)
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_grace_period_is_longer_than_the_drain(tmp_path: Path) -> None:
    drain = settings_of_the_cluster(tmp_path).drain
    for resource in resources("Deployment"):
        spec = resource["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > drain.total_seconds()
    default = Settings(folder=tmp_path).drain
    for service in compose()["services"].values():
        if service.get("command", [""])[0] in ("run", "serve"):
            assert parse_duration(service["stop_grace_period"]) > default


def test_a_job_migrates_before_anything_runs() -> None:
    (job,) = resources("Job")
    migrate, grants = containers_of(job["spec"]["template"]["spec"])
    assert migrate["args"] == ["migrate"]
    assert grants["name"] == "grants"
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_no_container_runs_as_root_or_may_become_it() -> None:
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in containers_of(pod):
            confined = container["securityContext"]
            assert confined["allowPrivilegeEscalation"] is False
            assert confined["readOnlyRootFilesystem"] is True
            assert confined["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    assert re.search(r"^USER 10001$", dockerfile(), re.MULTILINE)


def test_every_selector_matches_the_pods_of_one_deployment() -> None:
    labels = [
        resource["spec"]["template"]["metadata"]["labels"] for resource in resources("Deployment")
    ]
    selectors = [
        resource["spec"]["selector"]["matchLabels"]
        for kind in ("Deployment", "PodDisruptionBudget")
        for resource in resources(kind)
    ]
    selectors += [resource["spec"]["selector"] for resource in resources("Service")]
    for selector in selectors:
        assert sum(selector.items() <= of_pod.items() for of_pod in labels) == 1, selector


def test_the_image_installs_only_what_is_locked_and_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    joined = re.sub(r"\\\n\s*", "", dockerfile())
    installs = re.findall(r"/pip (?:install|wheel) ([^&\n]+)", joined)
    assert len(installs) == 4
    for options in installs:
        assert ("--require-hashes --only-binary :all:" in options) != (
            "--no-deps" in options and "--no-index" in options
        )
    for lock in re.findall(r"--requirement (\S+)", joined):
        assert (ROOT / lock).is_file()
    assert 'ENTRYPOINT ["tenantcron"]' in dockerfile()
    (default,) = re.findall(r'^CMD \["(\w+)"\]', dockerfile(), re.MULTILINE)
    assert default in COMMANDS
    least = project["requires-python"].removeprefix(">=")
    for version in re.findall(r"=python:(\d+\.\d+)-slim", dockerfile()):
        assert tuple(map(int, version.split("."))) >= tuple(map(int, least.split(".")))
        assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_every_line_of_the_image_is_an_instruction() -> None:
    joined = re.sub(r"\\\n\s*", "", dockerfile())
    known = {
        "ARG",
        "FROM",
        "COPY",
        "RUN",
        "ENV",
        "WORKDIR",
        "USER",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} == known | {"ENTRYPOINT", "CMD"}
    for line in lines:
        assert shlex.split(line)


def test_the_compose_file_is_valid_by_the_schema_of_compose() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", "vendor.compose-spec"]
    run = subprocess.run(
        [*command, DEPLOY / "compose.yml"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout
