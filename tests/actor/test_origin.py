"""The deploying actor, from the command line, the pipeline and the login name."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from tenantcron.actor.model import ActorType
from tenantcron.actor.origin import deploying_actor, source_ref

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "octocat",
    "GITHUB_REPOSITORY": "acme/manifests",
    "GITHUB_RUN_ID": "42",
    "GITHUB_SHA": "c0ffee",
}
GITLAB = {
    "GITLAB_CI": "true",
    "GITLAB_USER_LOGIN": "tanuki",
    "CI_PROJECT_PATH": "acme/manifests",
    "CI_JOB_ID": "42",
    "CI_COMMIT_SHA": "decade",
}


@dataclass(frozen=True, slots=True)
class Case:
    """The environment of a deployment, and the resulting actor."""

    id: str
    type: ActorType
    source: str
    environment: dict[str, str] = field(default_factory=dict)
    login: str | None = "root"
    given: str | None = None


def pipeline(
    actor_id: str, source: str, environment: dict[str, str], given: str | None = None
) -> Case:
    return Case(actor_id, ActorType.PIPELINE, source, environment, given=given)


def human(actor_id: str, login: str | None = "root", given: str | None = None) -> Case:
    return Case(actor_id, ActorType.HUMAN, "cli", login=login, given=given)


CASES = {
    "GitHub": pipeline("github:octocat", "github-actions", GITHUB),
    "GitHub without a user": pipeline(
        "github:acme/manifests", "github-actions", GITHUB | {"GITHUB_ACTOR": ""}
    ),
    "GitHub without any name": pipeline(
        "github:unknown", "github-actions", {"GITHUB_ACTIONS": "true"}
    ),
    "GitLab": pipeline("gitlab:tanuki", "gitlab-ci", GITLAB),
    "GitLab without a user": pipeline(
        "gitlab:acme/manifests", "gitlab-ci", GITLAB | {"GITLAB_USER_LOGIN": "\0"}
    ),
    "GitHub before GitLab": pipeline("github:octocat", "github-actions", GITLAB | GITHUB),
    "given on GitHub": pipeline("release-bot", "github-actions", GITHUB, given="release-bot"),
    "given on GitLab": pipeline("release-bot", "gitlab-ci", GITLAB, given="release-bot"),
    "given, but empty, on GitHub": pipeline("github:octocat", "github-actions", GITHUB, given=" "),
    "GitHub's names without its marker": Case(
        id="root",
        type=ActorType.HUMAN,
        source="cli",
        environment=GITHUB | {"GITHUB_ACTIONS": "false"},
    ),
    "login": human("ada", login="ada"),
    "given at a desk": human("grace", login="ada", given="grace"),
    "given, but empty": human("ada", login="ada", given=""),
    "a login that imitates a token": human("login:token:ci", login="token:ci"),
    "a login that imitates a scheduler": human("login:System:scheduler", login="System:scheduler"),
    "a pipeline's name that imitates a caller": pipeline(
        "github:oidc:maria", "github-actions", GITHUB | {"GITHUB_ACTOR": "oidc:maria"}
    ),
    "a GitLab name that imitates a caller": pipeline(
        "gitlab:token:ci", "gitlab-ci", GITLAB | {"GITLAB_USER_LOGIN": "token:ci"}
    ),
    "no login": human("unknown", login=None),
    "a login that cannot be shown": human("unknown", login="\x1b\n"),
    "line break at the end": human("grace", given="grace\r\n"),
    "control characters do not make another name": human("ro�ot", given="ro\0ot"),
    "text direction": human("a�b", given="a\u202eb"),
    "bytes that are no text": human("ad�", login="ad\udcff"),
    "as long as it may be": human("x" * 255, given="x" * 255),
    "too long, cut visibly": human("x" * 254 + "…", given="x" * 300),
    "too long for its prefix": pipeline(
        "github:" + "x" * 247 + "…", "github-actions", GITHUB | {"GITHUB_ACTOR": "x" * 255}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_deploying_actor_is_the_given_one_else_the_pipeline_user_else_the_login(
    case: Case,
) -> None:
    actor = deploying_actor(case.environment, case.login, case.given)
    assert (actor.id, actor.type, actor.source) == (case.id, case.type, case.source)
    assert actor.authenticated is False


names = st.none() | st.text(st.characters(exclude_categories=()), max_size=300)
variables = st.sampled_from([*GITHUB, *GITLAB])
values = st.just("true") | st.text(st.characters(exclude_categories=()), max_size=300)


@for_all(environment=st.dictionaries(variables, values), login=names, given=names)
def test_no_external_text_makes_a_deployment_fail(
    environment: dict[str, str], login: str | None, given: str | None
) -> None:
    assert not deploying_actor(environment, login, given).authenticated
    assert (source_ref(environment) or "x").isprintable()


@dataclass(frozen=True, slots=True)
class Commit:
    """An environment, and its commit."""

    environment: dict[str, str]
    ref: str | None


COMMITS = {
    "GitHub": Commit(GITHUB, "c0ffee"),
    "GitLab": Commit(GITLAB, "decade"),
    "both": Commit(GITLAB | GITHUB, "c0ffee"),
    "handed into a container": Commit({"CI_COMMIT_SHA": "decade\n"}, "decade"),
    "empty": Commit({"GITHUB_SHA": ""}, None),
    "nothing": Commit({}, None),
    "too long": Commit({"GITHUB_SHA": "x" * 999}, "x" * 254 + "…"),
}


@pytest.mark.parametrize("case", COMMITS.values(), ids=COMMITS)
def test_the_source_ref_is_the_commit_of_the_pipeline(case: Commit) -> None:
    assert source_ref(case.environment) == case.ref
