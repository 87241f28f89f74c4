"""A platform with the roles of deploy/sql."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.roles import Site, site_with_roles


@pytest.fixture(scope="module")
def site(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_with_roles(run_folder, tmp_path_factory.mktemp("rights")) as made:
        yield made
