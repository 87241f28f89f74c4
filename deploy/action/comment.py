"""Write the plan into the pull request: one comment, which every run updates.

A hidden marker at its start finds the comment again. Only comments of the workflow's own account
count, so a marker that a user copies is ignored. A plan without changes updates the comment
but does not create one.

It needs `pull-requests: write`. Pull requests of forks do not have it: the comment is skipped, and
the plan is in the summary of the job.
"""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

AUTHOR = "github-actions[bot]"
# GitHub refuses longer comments.
LONGEST = 65_536
CUT = "\n\n… The rest is in the summary of the run.\n"
TIMEOUT = 20
NEXT_PAGE = re.compile(r'<([^>]+)>; rel="next"')
FORBIDDEN = (401, 403, 404)

# What the API answers is JSON of any shape.
Json = dict[str, Any]


def main() -> int:
    """Create or update the comment; a comment that fails does not fail the job."""
    page, number = os.environ.get("COMMENT_PAGE"), pull_request_number()
    if not page or number is None:
        return 0
    marker = f"<!-- tenantcron-plan:{os.environ['COMMENT_KEY']} -->"
    try:
        write_comment(number, marker, Path(page).read_text(encoding="utf-8"))
    except urllib.error.HTTPError as error:
        if error.code not in FORBIDDEN:
            print(f"::warning::The plan is not a comment: GitHub answered {error.code}")
        else:
            print("::notice::The plan is not a comment: the job needs `pull-requests: write`")
    except OSError as error:
        print(f"::warning::The plan is not a comment: {error}")
    return 0


def pull_request_number() -> int | None:
    """Return the number of the pull request, if that started the workflow."""
    file = os.environ.get("GITHUB_EVENT_PATH")
    event = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    match event:
        case {"pull_request": {"number": int(number)}}:
            return number
        case _:
            return None


def write_comment(number: int, marker: str, plan: str) -> None:
    """Update the comment with the marker, or create it if the plan has changes."""
    repository = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"
    comments = f"{repository}/issues/{number}/comments"
    body = {"body": comment_text(marker, plan)}
    known = next((each for each in all_comments(comments) if is_ours(each, marker)), None)
    if known is not None:
        request("PATCH", f"{repository}/issues/comments/{known['id']}", body)
    elif os.environ.get("PLAN_CHANGES") != "false":
        request("POST", comments, body)


def is_ours(comment: Json, marker: str) -> bool:
    """Whether an earlier run wrote the comment."""
    return comment["user"]["login"] == AUTHOR and str(comment["body"]).startswith(marker)


def all_comments(url: str) -> Iterator[Json]:
    """Yield the comments, page by page."""
    following: str | None = f"{url}?per_page=100"
    while following:
        found, following = request("GET", following)
        yield from found


def request(method: str, url: str, body: Json | None = None) -> tuple[Any, str | None]:
    """Call the API; return the answer, and the URL of the next page."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['INPUT_TOKEN']}",
        "Content-Type": "application/json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if body is None else json.dumps(body).encode()
    # The address of the API comes from the runner, not from the pull request.
    asked = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 -- see above
    with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:  # noqa: S310 -- see above
        following = NEXT_PAGE.search(answer.headers.get("Link") or "")
        return json.load(answer), following[1] if following else None


def comment_text(marker: str, plan: str) -> str:
    """Return the comment: the marker, the plan, and the run that made it."""
    # Text of manifests must not notify people.
    plan = plan.replace("@", "@<!-- -->")
    run = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}/actions/runs/"
    end = f"\nPlanned by [this run]({run}{os.environ['GITHUB_RUN_ID']}).\n"
    room = LONGEST - len(marker) - len(end) - len(CUT) - 1
    if len(plan) > room:
        plan = plan[: plan.rfind("\n", 0, room)] + CUT
    return f"{marker}\n{plan}{end}"


if __name__ == "__main__":
    sys.exit(main())
