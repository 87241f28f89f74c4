"""What an installation consists of, and whether something in it is known to be vulnerable."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from support.locks import read_lock
from support.ports import free_port
from support.tools import run_tool, tool

ROOT = Path(__file__).parents[1]
SBOM = ROOT / "build" / "sbom.json"
# Prints the first violation of the schema of CycloneDX, or None.
VALIDATE = """
import json, sys
from pathlib import Path
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = Path(sys.argv[1]).read_text(encoding="utf-8")
version = SchemaVersion.from_version(json.loads(text)["specVersion"])
print(JsonStrictValidator(version).validate_str(text))
"""


def make(target: str, *variables: str) -> subprocess.CompletedProcess[str]:
    """Make a target with the environments that are there; none is installed again."""
    tool("python")
    kept = ["--old-file", ".venv/.ready", "--old-file", "build/tools/.ready"]
    return subprocess.run(
        ["make", *kept, target, f"PYTHON={sys.executable}", *variables],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_sbom_names_every_runtime_dependency_with_its_version_and_nothing_else() -> None:
    SBOM.unlink(missing_ok=True)
    made = make("sbom")
    assert made.returncode == 0, made.stderr
    checked = run_tool("python", "-c", VALIDATE, SBOM)
    assert (checked.returncode, checked.stdout) == (0, "None\n"), checked.stderr
    document = json.loads(SBOM.read_text(encoding="utf-8"))
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "tenantcron"
    named = {
        (canonicalize_name(component["name"]), component["version"])
        for component in document["components"]
    }
    locked = [entry for entry in read_lock("runtime") if entry.is_wanted_here]
    assert named == {(entry.name, entry.version) for entry in locked}


@contextmanager
def vulnerability_service(vulnerable: str) -> Iterator[str]:
    """Serve the protocol of OSV: one package is vulnerable, all others are not."""

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = asked["package"]["name"] == vulnerable
            body = json.dumps({"vulns": [VULNERABILITY]} if found else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


VULNERABILITY = {
    "id": "PYSEC-2026-1",
    "summary": "Tokens are accepted unsigned.",
    "affected": [{"package": {"name": "pyjwt", "ecosystem": "PyPI"}, "versions": ["2.15.1"]}],
}


def audit(url: str) -> subprocess.CompletedProcess[str]:
    return make("audit-dependencies", f"AUDIT=--vulnerability-service osv --osv-url {url}")


@pytest.mark.parametrize(("vulnerable", "code"), [("pyjwt", 2), ("another", 0)])
def test_the_audit_fails_if_a_locked_package_is_known_to_be_vulnerable(
    vulnerable: str, code: int
) -> None:
    with vulnerability_service(vulnerable) as url:
        audited = audit(url)
    assert audited.returncode == code, audited.stderr
    assert ("PYSEC-2026-1" in audited.stdout) == bool(code)
    assert ("did not pass" in audited.stderr) == bool(code)


def test_the_audit_fails_if_the_service_does_not_answer() -> None:
    audited = audit(f"http://127.0.0.1:{free_port()}/")
    assert audited.returncode == 2
    assert "the vulnerability service did not answer: nothing was audited" in audited.stderr
