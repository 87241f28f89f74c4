"""Validate, plan or apply in GitHub Actions, as action.yml describes.

Inputs are the variables INPUT_…. The result of a plan is written to a page, which is added to the
summary of the job and is the text of the comment; its path is the output `page`. Every mode
validates first and annotates the pull request. Without secrets, as in a pull request of a fork, a
plan ends after that.

Exit codes are those of the commands: 1 for errors in manifests or failed tenants, otherwise 2 or 3.
"""

import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODES = ("validate", "plan", "apply")
SWITCHES = {"true": True, "false": False}
WRONG_USAGE = 2
# `plan --detailed-exitcode`: changes are no failure.
CHANGES = 2
FAILED_PAGE = "### Plan\n\nThe plan failed before it had a result. The log of the run says why.\n"


@dataclass(frozen=True, slots=True)
class ActionInputs:
    """The inputs of a step."""

    mode: str
    paths: list[str]
    folder: Path
    policy: str
    is_strict: bool
    server: str
    creates_tenants: bool
    comments: bool


def main() -> int:
    """Run the step; return its exit code."""
    event = read_event()
    problems = list(input_problems(event))
    if problems:
        for problem in problems:
            print(f"::error::{problem}")
        return WRONG_USAGE
    inputs = read_inputs()
    code = validate(inputs)
    if code or inputs.mode == "validate":
        return code
    if is_without_secrets(inputs, event):
        print("::notice::Pull requests of forks have no secrets: manifests are validated only")
        return 0
    return plan(inputs) if inputs.mode == "plan" else apply(inputs)


def input_of(name: str) -> str:
    """Return an input without the spaces around it."""
    return os.environ.get(f"INPUT_{name}", "").strip()


def input_problems(event: dict[str, object]) -> Iterator[str]:
    """Yield what is wrong with the inputs."""
    mode = input_of("MODE")
    if mode not in MODES:
        yield f"The input mode must be one of {', '.join(MODES)}"
    if not input_of("PATHS"):
        yield "The input paths is empty: write manifests and folders, one per line"
    if not Path(input_of("WORKING_DIRECTORY")).is_dir():
        yield "The input working-directory is not a folder of this job: check out the repository"
    for name in ("STRICT", "CREATE_TENANTS", "COMMENT"):
        if input_of(name) not in SWITCHES:
            yield f"The input {name.lower().replace('_', '-')} must be true or false"
    if mode == "apply" and "pull_request" in event:
        yield "A pull request is not applied: use mode plan, and apply after the merge"
    if mode != "validate" and not (has_access(input_of("SERVER")) or is_of_fork(event)):
        yield "Set the variable TENANTCRON_DATABASE_URL, or the input server and TENANTCRON_TOKEN"


def read_inputs() -> ActionInputs:
    """Return the inputs, which have no problems."""
    return ActionInputs(
        mode=input_of("MODE"),
        paths=[path.strip() for path in input_of("PATHS").splitlines() if path.strip()],
        folder=Path(input_of("WORKING_DIRECTORY")),
        policy=input_of("POLICY"),
        is_strict=SWITCHES[input_of("STRICT")],
        server=input_of("SERVER"),
        creates_tenants=SWITCHES[input_of("CREATE_TENANTS")],
        comments=SWITCHES[input_of("COMMENT")],
    )


def read_event() -> dict[str, object]:
    """Return what started the workflow."""
    file = os.environ.get("GITHUB_EVENT_PATH")
    event = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    return event if isinstance(event, dict) else {}


def has_access(server: str) -> bool:
    """Whether the step has a database, or a server with a token. A missing secret is empty."""
    needed = "TENANTCRON_TOKEN" if server else "TENANTCRON_DATABASE_URL"
    return bool(os.environ.get(needed))


def is_of_fork(event: dict[str, object]) -> bool:
    """Whether the event is a pull request whose branch is in another repository."""
    match event:
        case {"pull_request": {"head": {"repo": {"full_name": str(name)}}}}:
            return name != os.environ.get("GITHUB_REPOSITORY")
        case {"pull_request": {"head": {"repo": None}}}:
            return True  # the fork was deleted
        case _:
            return False


def is_without_secrets(inputs: ActionInputs, event: dict[str, object]) -> bool:
    """Whether the step cannot plan because it runs for a fork."""
    return is_of_fork(event) and not has_access(inputs.server)


def validate(inputs: ActionInputs) -> int:
    """Annotate the pull request with the problems of the manifests."""
    strict = ["--strict"] if inputs.is_strict else []
    # Its output consists of workflow commands.
    return call(inputs, "validate", "--format", "github", *strict)


def plan(inputs: ActionInputs) -> int:
    """Plan, and set the outputs for the comment."""
    page = Path(os.environ["RUNNER_TEMP"]) / f"tenantcron-plan-{secrets.token_hex(8)}.md"
    with commands_stopped():
        code = call(inputs, "plan", "--detailed-exitcode", *reconcile_options(inputs), page=page)
    if not page.exists():
        page.write_text(FAILED_PAGE, encoding="utf-8")
    append(os.environ.get("GITHUB_STEP_SUMMARY"), page.read_text(encoding="utf-8"))
    if code in (0, CHANGES):
        set_output("changes", str(code == CHANGES).lower())
    if inputs.comments:
        set_output("page", str(page))
        set_output("key", comment_key(inputs))
    return 0 if code == CHANGES else code


def apply(inputs: ActionInputs) -> int:
    """Apply; the command itself writes the summary of the job."""
    with commands_stopped():
        return call(inputs, "apply-manifest", *reconcile_options(inputs))


def reconcile_options(inputs: ActionInputs) -> list[str]:
    """Return the options of plan and apply."""
    server = ["--server", inputs.server] if inputs.server else []
    return [*server, *(["--create-tenants"] if inputs.creates_tenants else [])]


def call(inputs: ActionInputs, *command: str, page: Path | None = None) -> int:
    """Call tenantcron on the paths; with a page, the summary of the job is written there."""
    policy = ["--policy", inputs.policy] if inputs.policy else []
    summary = {"GITHUB_STEP_SUMMARY": str(page)} if page else {}
    # After `--`, a path that begins with a dash is not an option.
    arguments = ["tenantcron", *command, *policy, "--", *inputs.paths]
    sys.stdout.flush()
    environment = os.environ | summary
    # A list of arguments, without a shell: paths are data.
    run = subprocess.run(arguments, cwd=inputs.folder, env=environment, check=False)  # noqa: S603 -- see above
    return run.returncode


@contextmanager
def commands_stopped() -> Iterator[None]:
    """Prevent text of manifests in the output from being read as workflow commands."""
    word = secrets.token_hex(16)
    print(f"::stop-commands::{word}", flush=True)
    try:
        yield
    finally:
        print(f"::{word}::", flush=True)


def comment_key(inputs: ActionInputs) -> str:
    """Return what distinguishes the comment from those of other jobs and folders."""
    job = [os.environ.get("GITHUB_WORKFLOW", ""), os.environ.get("GITHUB_JOB", "")]
    parts = [*job, str(inputs.folder), inputs.server, *inputs.paths]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def set_output(name: str, value: str) -> None:
    """Set an output of the step; the values are ours and have one line."""
    append(os.environ.get("GITHUB_OUTPUT"), f"{name}={value}\n")


def append(file: str | None, text: str) -> None:
    """Add text to a file of the runner."""
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    sys.exit(main())
