"""`tenantcron validate` where the C parser of YAML is not installed."""

import json
import subprocess
import sys

import pytest
from support.manifests import GOOD, MISTAKES

# ruamel.yaml looks for its C parser in these two modules; None makes an import of them fail.
WITHOUT_C = "sys.modules['_ruamel_yaml'] = sys.modules['_ruamel_yaml_clibz'] = None\n"
REPORT_PARSERS = (
    "from tenantcron.manifests.loading.yaml_events import readers\n"
    "print([read.__name__ for read in readers(100)], file=sys.stderr)\n"
)


def validate(output: str, *, prepare: str = "") -> subprocess.CompletedProcess[str]:
    """Validate the examples, good and bad, in a separate process."""
    arguments = ["validate", "--format", output, str(GOOD), str(MISTAKES)]
    script = (
        f"import sys\n{prepare}{REPORT_PARSERS}"
        f"from tenantcron.cli.main import main\nsys.exit(main({arguments!r}))\n"
    )
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("output", ["text", "json"])
def test_findings_and_places_are_the_same_without_the_c_parser(output: str) -> None:
    quick, pure = validate(output), validate(output, prepare=WITHOUT_C)
    assert "read_quick" in quick.stderr
    assert pure.stderr.splitlines()[0] == "['read_pure']"
    assert (pure.returncode, pure.stdout) == (quick.returncode, quick.stdout)
    if output == "json":
        assert len(json.loads(pure.stdout)["diagnostics"]) > 40
