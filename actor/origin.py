"""The deploying actor: `--actor`, else the user of the pipeline, else the login name.

The actor is never authenticated. Names come from outside, and a deployment must not fail because of
one. Unprintable characters are replaced, not dropped, so that no name turns into another. Long
names are truncated with an ellipsis. An empty name counts as not given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenantcron.actor.model import LONGEST_ID, Actor, ActorType
from tenantcron.core.words import visible

CLI_SOURCE: Final = "cli"
UNKNOWN_NAME: Final = "unknown"
_LOGIN: Final = "login:"
# Prefixes of the ids of authenticated actors and of schedulers.
RESERVED_PREFIXES: Final = ("token:", "oidc:", "system:")
# The reference to the origin of a manifest, such as a commit.
LONGEST_SOURCE_REF: Final = 255


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """The environment variables of a CI pipeline; the first of `names` that is set counts."""

    marker: str
    prefix: str
    source: str
    names: tuple[str, ...]
    commit: str


_PIPELINES: Final = (
    _Pipeline(
        marker="GITHUB_ACTIONS",
        prefix="github",
        source="github-actions",
        names=("GITHUB_ACTOR", "GITHUB_REPOSITORY"),
        commit="GITHUB_SHA",
    ),
    _Pipeline(
        marker="GITLAB_CI",
        prefix="gitlab",
        source="gitlab-ci",
        names=("GITLAB_USER_LOGIN", "CI_PROJECT_PATH"),
        commit="CI_COMMIT_SHA",
    ),
)


def deploying_actor(environment: Mapping[str, str], login: str | None, given: str | None) -> Actor:
    """Return the deploying actor; `given` is the value of `--actor`."""
    pipeline = _pipeline(environment)
    name = _clean(given)
    if pipeline is None:
        return Actor(name or _login_name(login), ActorType.HUMAN, CLI_SOURCE)
    return Actor(name or _name(pipeline, environment), ActorType.PIPELINE, pipeline.source)


def _login_name(login: str | None) -> str:
    """Return a login name; prefix one that looks authenticated, because any user can set it."""
    name = _clean(login, LONGEST_ID - len(_LOGIN)) or UNKNOWN_NAME
    return f"{_LOGIN}{name}" if looks_authenticated(name) else name


def looks_authenticated(given: str) -> bool:
    """Whether an unauthenticated id looks like the id of an authenticated actor."""
    return given.strip().lower().startswith(RESERVED_PREFIXES)


def source_ref(environment: Mapping[str, str]) -> str | None:
    """Return the deployed commit, if the pipeline provides it."""
    commits = (_clean(environment.get(pipeline.commit)) for pipeline in _PIPELINES)
    return next((commit for commit in commits if commit), None)


def _pipeline(environment: Mapping[str, str]) -> _Pipeline | None:
    for pipeline in _PIPELINES:
        if environment.get(pipeline.marker, "").lower() == "true":
            return pipeline
    return None


def _name(pipeline: _Pipeline, environment: Mapping[str, str]) -> str:
    """Return the id of the user who started the pipeline, else of its project."""
    prefix = f"{pipeline.prefix}:"
    names = (_clean(environment.get(name), LONGEST_ID - len(prefix)) for name in pipeline.names)
    return prefix + next((name for name in names if name), UNKNOWN_NAME)


def _clean(text: str | None, longest: int = LONGEST_ID) -> str | None:
    """Convert text to a valid id; None if it has no visible character."""
    stripped = (text or "").strip()
    if not any(char.isprintable() and not char.isspace() for char in stripped):
        return None
    shown = visible(stripped)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
