"""Pages: templates with everything escaped, and the headers that keep scripts of others out."""

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
from tenantcron.web import words
from tenantcron.web.sessions import CSRF_FIELD, ROOT, keep_browser

_FOLDER: Final = Path(__file__).parent
STATIC: Final = _FOLDER / "static"
# Nothing from elsewhere, and no script or style that is written into a page.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Pages of which a part updates itself; that part is a template of its own.
_LIVING: Final = ("overview.html", "tenant.html", "schedule.html", "execution.html")
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# The first digits of an id are enough to tell it from others; the link has all of them.
_ID: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WORD_END: Final = re.compile(r"[_/]")
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@cache
def environment() -> Environment:
    """Return the templates; whatever a value holds is text, never markup."""
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
        iso=datetime.isoformat,
        coded=coded,
        linked=linked,
        breakable=breakable,
        json=as_json,
    )
    made.globals.update(root=ROOT, signs=words.SIGNS, csrf_field=CSRF_FIELD, asset=asset)
    return made


def rendered(request: Request, template: str, status: int = 200, **values: object) -> Response:
    """Return a page, or of a page that is looked at already the part that lives."""
    is_part = "hx-request" in request.headers and status == 200 and template in _LIVING
    name = template.replace(".html", "_live.html") if is_part else template
    shown = {"path": request.url.path, "is_part": is_part, "did": None, **values}
    response = HTMLResponse(environment().get_template(name).render(shown), status)
    response.headers["Content-Security-Policy"] = _POLICY
    # Without a referrer browsers do not say where a form comes from either.
    response.headers["Referrer-Policy"] = "same-origin"
    # Who follows a link of another site has no window in common with it.
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    response.headers["Vary"] = "Cookie, HX-Request"
    keep_browser(request, response)
    return response


def as_json(value: JsonValue, indent: int | None = None) -> str:
    """Write a value for people, letters of all languages as they are; the page escapes it."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)


def coded(text: str) -> Markup:
    """Escape a text, and set what stands between backticks as code."""
    pieces = (escape(piece) for piece in text.split("`"))
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if index % 2 else piece
        for index, piece in enumerate(pieces)
    )


def linked(text: str) -> Markup:
    """Escape a text, set code in it, and let ids of executions lead to their pages."""
    return Markup(_ID.sub(rf'<a href="{ROOT}/executions/\g<0>">\g<1></a>', str(coded(text))))  # noqa: S704 -- what is put around an id is ours, and the rest is escaped


def breakable(name: str) -> Markup:
    """Escape a name, and let it go on in a new line where its words end."""
    return Markup(_WORD_END.sub(r"\g<0><wbr>", str(escape(name))))  # noqa: S704 -- it is escaped


@cache
def assets() -> Mapping[str, bytes]:
    """Return the files that pages load, by name."""
    return {one.name: one.read_bytes() for one in STATIC.iterdir() if one.suffix in _TYPES}


@cache
def asset(name: str) -> str:
    """Return the address of a file; it changes with the content, so browsers may keep it."""
    return f"{ROOT}/static/{name}?v={sha256(assets()[name]).hexdigest()[:12]}"


def static_file(name: str) -> Response | None:
    """Return a file that pages load; None if there is none of that name."""
    content = assets().get(name)
    if content is None:
        return None
    kind = _TYPES[Path(name).suffix]
    return Response(content, media_type=kind, headers={"Cache-Control": _FOR_EVER})


def took(started: datetime | None, finished: datetime | None) -> timedelta | None:
    """Return how long something took, if it has begun and ended."""
    return None if started is None or finished is None else max(finished - started, timedelta())
