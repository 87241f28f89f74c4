"""An installed distribution with entry points, as pip installs it."""

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, module: str, text: str, entry_points: Mapping[str, str]) -> None:
    """Write a module and the metadata of its distribution into a folder.

    Entry points are given by group, each as `name = module:object`.
    """
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    head = f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"
    (metadata / "METADATA").write_text(head, encoding="utf-8")
    groups = "\n".join(f"[{group}]\n{entry}\n" for group, entry in entry_points.items())
    (metadata / "entry_points.txt").write_text(groups, encoding="utf-8")
