"""List the versions of the documentation site: `python docs/make_versions.py FOLDER`.

Each version has its own folder there. `versions.json` beside them has their labels, the newest
first; the version switcher of every page reads it, so old versions need not be built again. It
needs only the standard library, because it also runs where a built site is published.
"""

import json
import re
import sys
from pathlib import Path


def write_versions(site: Path) -> None:
    """List the folders of all versions, and let the root lead to the newest."""
    folders = (page.parent.name for page in site.glob("*/index.html"))
    labels = sorted(folders, key=_age, reverse=True)
    (site / "versions.json").write_text(json.dumps(labels, indent=2) + "\n", encoding="utf-8")
    first = f"{labels[0]}/"
    (site / "index.html").write_text(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>tenantcron</title>\n"
        f'<meta http-equiv=refresh content="0; url={first}">\n<a href="{first}">tenantcron</a>\n',
        encoding="utf-8",
    )
    # GitHub Pages would drop folders that begin with an underscore.
    (site / ".nojekyll").touch()


def _age(label: str) -> tuple[bool, list[int], str]:
    """Sort releases by their numbers, and other labels before them."""
    is_release = re.fullmatch(r"v?\d[\d.]*", label) is not None
    return is_release, [int(number) for number in re.findall(r"\d+", label)], label


if __name__ == "__main__":
    write_versions(Path(sys.argv[1]))
