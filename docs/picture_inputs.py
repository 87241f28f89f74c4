"""Checksums that show when a screenshot of the dashboard is out of date.

Comparing pixels would fail with every font and every minute. Instead, `docs/make_screenshots.py`
stores with each picture a checksum of what gives the page its look: its template with all that it
includes, and the rules of the stylesheet that apply to them. Comments and white space do not count.
A test computes the checksums again. It fails when a page has changed and its picture was not taken
again. Changes of the data and of the code that fills the templates are not noticed.
"""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from jinja2 import meta

from tenantcron.web.rendering import STATIC, environment

FILE = Path(__file__).parent / "images" / "inputs.json"
# The template of each picture.
TEMPLATES = {"overview": "overview.html", "schedule": "schedule.html"}
_TEMPLATE_COMMENT = re.compile(r"\{#.*?#\}|<!--.*?-->", re.DOTALL)
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"(?P<selector>[^{}]+)\{(?P<body>[^{}]*)\}")
_CLASS = re.compile(r"\.([a-zA-Z][\w-]*)")


def checksums() -> dict[str, str]:
    """Return the checksum of each picture."""
    styles = (STATIC / "style.css").read_text(encoding="utf-8")
    return {name: checksum(sources(template), styles) for name, template in TEMPLATES.items()}


def checksum(templates: dict[str, str], styles: str) -> str:
    """Return the checksum of a page: of its templates and the rules that apply to them."""
    texts = [_TEMPLATE_COMMENT.sub("", text) for _, text in sorted(templates.items())]
    rules = applied_rules(_STYLE_COMMENT.sub("", styles), " ".join(texts))
    normalised = (" ".join(text.split()) for text in (*texts, *rules))
    return sha256("\n".join(normalised).encode()).hexdigest()


def sources(template: str) -> dict[str, str]:
    """Return the source of a template and of all that it extends, includes and imports."""
    found: dict[str, str] = {}
    waiting = [template]
    while waiting:
        name = waiting.pop()
        text = (STATIC.parent / "templates" / name).read_text(encoding="utf-8")
        found[name] = text
        referred = meta.find_referenced_templates(environment().parse(text))
        waiting += [other for other in referred if other and other not in found]
    return found


def applied_rules(styles: str, page: str) -> Iterator[str]:
    """Yield the rules whose classes all occur in a page."""
    for rule in _RULE.finditer(styles):
        if all(name in page for name in _CLASS.findall(rule["selector"])):
            yield rule[0]


def store() -> None:
    """Store the checksums, after the pictures were taken."""
    FILE.write_text(json.dumps(checksums(), indent=2) + "\n", encoding="utf-8")
