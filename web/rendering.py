"""Rendering of pages: templates with escaping, security headers and static files."""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tenantcron.core.values import JsonValue
from tenantcron.schedules.pause import pause_text
from tenantcron.web import words
from tenantcron.web.sessions import CSRF_FIELD, ROOT, set_browser_cookie

_FOLDER: Final = Path(__file__).parent
STATIC: Final = _FOLDER / "static"
# Only resources of this site, no inline scripts or styles.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Pages with a part that updates itself, which has its own template.
_WITH_LIVE_PART: Final = ("overview.html", "tenant.html", "schedule.html", "execution.html")
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# The text shows the first digits of an id; the link has all of them.
_ID: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WORD_END: Final = re.compile(r"[_/]")
_CACHE_FOREVER: Final = "public, max-age=31536000, immutable"


@cache
def environment() -> Environment:
    """Return the environment of the templates, which escapes all values."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        moment=words.moment,
        local_moment=words.local_moment,
        distance=words.distance,
        duration=words.duration,
        in_words=words.readable,
        sentence=words.sentence,
        number=words.number,
        pause_text=pause_text,
        iso=datetime.isoformat,
        coded=coded,
        linked=linked,
        breakable=breakable,
        json=as_json,
    )
    made.globals.update(root=ROOT, signs=words.SIGNS, csrf_field=CSRF_FIELD, asset=asset)
    return made


def rendered(request: Request, template: str, status: int = 200, **values: object) -> Response:
    """Return a page, or only its live part for a request of htmx."""
    is_part = "hx-request" in request.headers and status == 200 and template in _WITH_LIVE_PART
    name = template.replace(".html", "_live.html") if is_part else template
    path, query = request.url.path, request.url.query
    address = f"{path}?{query}" if query else path
    shown = {"path": path, "address": address, "is_part": is_part, "did": None, **values}
    response = HTMLResponse(environment().get_template(name).render(shown), status)
    response.headers["Content-Security-Policy"] = _POLICY
    # With `no-referrer`, browsers would not send the origin of forms either.
    response.headers["Referrer-Policy"] = "same-origin"
    # A page of another site that links here cannot access the window.
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    response.headers["Vary"] = "Cookie, HX-Request"
    set_browser_cookie(request, response)
    return response


def as_json(value: JsonValue, indent: int | None = None) -> str:
    """Format a value as JSON without ASCII escapes; the template escapes it."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)


def coded(text: str) -> Markup:
    """Escape a text, and format text between backticks as code."""
    pieces = (escape(piece) for piece in text.split("`"))
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if index % 2 else piece
        for index, piece in enumerate(pieces)
    )


def linked(text: str) -> Markup:
    """Escape a text, format code in it, and link ids of executions to their pages."""
    return Markup(_ID.sub(rf'<a href="{ROOT}/executions/\g<0>">\g<1></a>', str(coded(text))))  # noqa: S704 -- the rest is escaped


def breakable(name: str) -> Markup:
    """Escape a name, and allow line breaks between its words."""
    return Markup(_WORD_END.sub(r"\g<0><wbr>", str(escape(name))))  # noqa: S704 -- the name is escaped


@cache
def assets() -> Mapping[str, bytes]:
    """Return the static files by name."""
    return {file.name: file.read_bytes() for file in STATIC.iterdir() if file.suffix in _TYPES}


@cache
def asset(name: str) -> str:
    """Return the URL of a file; it changes with the content, so browsers may cache it."""
    return f"{ROOT}/static/{name}?v={sha256(assets()[name]).hexdigest()[:12]}"


def static_file(name: str) -> Response | None:
    """Return a static file; None if it does not exist."""
    content = assets().get(name)
    if content is None:
        return None
    kind = _TYPES[Path(name).suffix]
    return Response(content, media_type=kind, headers={"Cache-Control": _CACHE_FOREVER})


def took(started: datetime | None, finished: datetime | None) -> timedelta | None:
    """Return the duration between two times, if both are known."""
    return None if started is None or finished is None else max(finished - started, timedelta())
