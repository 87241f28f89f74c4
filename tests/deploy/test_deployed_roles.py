"""The roles of compose.yml and of Kubernetes, whose files and commands run on a real server.

The tests need no container engine: psql runs the files that the PostgreSQL image runs when it
creates a database, and this interpreter runs the commands of the services.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from support.builds import chosen_build
from support.database import Server, own_server
from support.deploy_files import BASE, DEPLOY, Yaml, compose, containers_of, pods, resources
from support.fleet import Shell
from support.processes import query
from support.programs import client
from support.roles import DBA, OPERATE, RUN
from support.roles import DEPLOY as DEPLOY_ROLE

PASSWORDS = {
    "POSTGRES_PASSWORD": "postgres1",
    "DEPLOY_PASSWORD": "deploy1",
    "RUN_PASSWORD": "run1",
    "OPERATE_PASSWORD": "operate1",
}
ROLES = {
    "migrate": DEPLOY_ROLE,
    "scheduler-1": RUN,
    "scheduler-2": RUN,
    "api": OPERATE,
}


def interpolated(value: str, variables: Mapping[str, str]) -> str:
    """Substitute variables as Compose does."""
    return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda match: variables[match[1]], value)


def environment_of(service: str) -> dict[str, str]:
    found = compose()["services"][service]["environment"]
    return {name: interpolated(value, PASSWORDS) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class Composed:
    """The services of compose.yml, without containers."""

    server: Server
    folder: Path

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment of a service, which reaches the server by its socket."""
        found = environment_of(service)
        for name, value in found.items():
            found[name] = value.replace("@postgres:5432/tenantcron", "@/tenantcron") + (
                f"?host={self.server.sockets}" if value.startswith("postgresql://") else ""
            )
        if "PGHOST" in found:
            found["PGHOST"] = self.server.sockets
        return found

    def initialise(self) -> None:
        """Run the files that the PostgreSQL image runs for a new database."""
        volumes = compose()["services"]["postgres"]["volumes"]
        mounted = [volume.split(":") for volume in volumes]
        scripts = sorted(
            (inside, outside)
            for outside, inside, *_ in mounted
            if inside.startswith("/docker-entrypoint-initdb.d/")
        )
        assert [Path(inside).suffix for inside, _ in scripts] == [".sql"] * len(scripts)
        self.server.execute("CREATE DATABASE {}", "tenantcron")
        for _, outside in scripts:
            url = self.server.url("tenantcron")
            options = ("-v", "ON_ERROR_STOP=1", "--no-psqlrc", "--dbname", url)
            done = psql(*options, "--file", str(DEPLOY / outside), **environment_of("postgres"))
            assert done.returncode == 0, done
        ask_for_passwords(self.server)

    def run(self, service: str, *arguments: str) -> str:
        """Run a command in a container of a service."""
        url = self.environment(service)["TENANTCRON_DATABASE_URL"]
        done = Shell(self.folder, url)(*arguments)
        assert done.code == 0, done
        return done.out + done.err


def psql(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return client("psql", *options, **environment)


def ask_for_passwords(server: Server) -> None:
    rules = Path(str(server.execute("SHOW hba_file")[0][0]))
    before = rules.read_text(encoding="utf-8")
    asked = f"{DEPLOY_ROLE},{RUN},{OPERATE}"
    rules.write_text(f"local all {asked} scram-sha-256\n{before}", encoding="utf-8")
    server.execute("SELECT pg_reload_conf()")


@contextmanager
def composed(run_folder: Path, folder: Path) -> Iterator[Composed]:
    with own_server(run_folder, {}, chosen_build()) as server:
        yield Composed(server, folder)


def test_compose_runs_each_service_as_its_role_and_none_as_a_superuser(
    run_folder: Path, tmp_path: Path
) -> None:
    with composed(run_folder, tmp_path) as services:
        services.initialise()
        services.run("migrate", *compose()["services"]["migrate"]["command"])
        command = compose()["services"]["grants"]["command"]
        inside = [word.replace("/sql/", f"{DEPLOY}/sql/") for word in command[1:]]
        granted = psql(*inside, **services.environment("grants"))
        assert (granted.returncode, granted.stderr) == (0, ""), granted

        services.run("migrate", "tenant", "create", "acme")
        log = services.run("scheduler-1", "run", "--once")
        services.run("api", "token", "create", "olga", "--role", "admin")

        assert "login_has_excess_rights" not in log
        for service, role in ROLES.items():
            url = services.environment(service)["TENANTCRON_DATABASE_URL"]
            with psycopg.connect(url) as connection:
                found = connection.execute(
                    "SELECT rolname, rolsuper, rolcreaterole, rolbypassrls FROM pg_roles"
                    " WHERE rolname = session_user"
                ).fetchone()
            # The owner creates the roles of handlers.
            assert found == (role, False, role == "tenantcron_deploy", False), service
        (record,) = query(
            services.server.url("tenantcron"),
            "SELECT changed_by FROM tenantcron.audit_record WHERE entity_type = 'api_token'",
        )
        assert record


@pytest.mark.parametrize("missing", ["DEPLOY_PASSWORD", "RUN_PASSWORD", "OPERATE_PASSWORD"])
def test_without_a_password_no_role_has_an_empty_one(run_folder: Path, missing: str) -> None:
    environment = {name: word for name, word in PASSWORDS.items() if name != missing}
    with own_server(run_folder, {}, chosen_build()) as server:
        url = server.url("postgres")
        psql("-q", "--dbname", url, "--file", str(DEPLOY / "sql" / "roles.sql"))
        options = ("-v", "ON_ERROR_STOP=1", "--single-transaction", "--dbname", url)
        done = psql(*options, "--file", str(DEPLOY / "sql" / "passwords.sql"), **environment)

    assert done.returncode != 0
    assert "syntax error" in done.stderr


def test_compose_has_a_separate_password_for_each_role() -> None:
    urls = {name: environment_of(name)["TENANTCRON_DATABASE_URL"] for name in ROLES}
    for service, role in ROLES.items():
        word = PASSWORDS[f"{role.removeprefix('tenantcron_').upper()}_PASSWORD"]
        assert urls[service] == f"postgresql://{role}:{word}@postgres:5432/tenantcron"
    assert "POSTGRES_USER" not in environment_of("postgres")


def secrets(pod: Yaml) -> set[str]:
    return {
        variable["valueFrom"]["secretKeyRef"]["name"]
        for container in containers_of(pod)
        for variable in container["env"]
    }


def test_kubernetes_has_a_secret_for_each_role() -> None:
    found = [secrets(pod) for pod in pods()]
    assert found == [{"tenantcron-deploy"}, {"tenantcron-run"}, {"tenantcron-operate"}]
    comments = (BASE / "kustomization.yaml").read_text(encoding="utf-8")
    for role in (DEPLOY_ROLE, RUN, OPERATE):
        name = role.replace("_", "-")
        assert f"secret generic {name} --from-literal=database_url=postgresql://{role}:" in comments


def test_the_job_of_kubernetes_grants_what_the_roles_need(run_folder: Path, tmp_path: Path) -> None:
    (job,) = resources("Job")
    _, grants = containers_of(job["spec"]["template"]["spec"])
    with own_server(run_folder, {}, chosen_build()) as server:
        server.execute("CREATE ROLE {} LOGIN CREATEROLE", DBA)
        server.execute("CREATE DATABASE {} OWNER {}", "product", DBA)
        url = server.url("product").replace("postgres@", f"{DBA}@")
        psql("-q", "--dbname", url, "--file", str(DEPLOY / "sql" / "roles.sql"))
        url = url.replace(DBA, DEPLOY_ROLE)
        assert Shell(tmp_path, url)("migrate").code == 0
        program = grants["args"][0].replace("/sql/", f"{DEPLOY}/sql/")
        environment = {**os.environ, "TENANTCRON_DATABASE_URL": url}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        done = Shell(tmp_path, url.replace(DEPLOY_ROLE, RUN))("run", "--once")

    assert done.code == 0, done
