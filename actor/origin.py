"""Who deploys: `--actor`, else the pipeline's own word, else the login name; never authenticated.

Names come from the outside here, and a deployment must not fail over one. What cannot be shown
is replaced, not dropped, so that no name turns into another one; what is too long is cut, visibly;
what is empty counts as not given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenantcron.actor.model import LONGEST_ID, Actor, ActorType
from tenantcron.core.words import visible

CLI_SOURCE: Final = "cli"
UNKNOWN_NAME: Final = "unknown"
_LOGIN: Final = "login:"
# How the ids begin of actors who have proven who they are, and of schedulers.
PROVEN_PREFIXES: Final = ("token:", "oidc:", "system:")
# Of what is said about where a manifest came from, such as a commit.
LONGEST_SOURCE_REF: Final = 255


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """What a pipeline puts into the environment; of `names` the first that is set counts."""

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
    """Return who deploys; `given` is what the command line says."""
    pipeline = _pipeline(environment)
    name = _clean(given)
    if pipeline is None:
        return Actor(name or _login_name(login), ActorType.HUMAN, CLI_SOURCE)
    return Actor(name or _name(pipeline, environment), ActorType.PIPELINE, pipeline.source)


def _login_name(login: str | None) -> str:
    """Return a login name; one that looks like a proven id is marked, since anyone can set it."""
    name = _clean(login, LONGEST_ID - len(_LOGIN)) or UNKNOWN_NAME
    return f"{_LOGIN}{name}" if imitates_proven(name) else name


def imitates_proven(given: str) -> bool:
    """Whether an id that is only claimed looks like one that is given after a proof."""
    return given.strip().lower().startswith(PROVEN_PREFIXES)


def source_ref(environment: Mapping[str, str]) -> str | None:
    """Return the commit that is deployed, if the pipeline says."""
    commits = (_clean(environment.get(pipeline.commit)) for pipeline in _PIPELINES)
    return next((commit for commit in commits if commit), None)


def _pipeline(environment: Mapping[str, str]) -> _Pipeline | None:
    running = (one for one in _PIPELINES if environment.get(one.marker, "").lower() == "true")
    return next(running, None)


def _name(pipeline: _Pipeline, environment: Mapping[str, str]) -> str:
    """Return the id of whoever started the pipeline, else of the project it runs for."""
    prefix = f"{pipeline.prefix}:"
    names = (_clean(environment.get(name), LONGEST_ID - len(prefix)) for name in pipeline.names)
    return prefix + next((name for name in names if name), UNKNOWN_NAME)


def _clean(text: str | None, longest: int = LONGEST_ID) -> str | None:
    """Make text fit for an id; None if nothing of it can be shown."""
    stripped = (text or "").strip()
    if not any(char.isprintable() and not char.isspace() for char in stripped):
        return None
    shown = visible(stripped)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
