"""The problems of the API and their HTTP statuses.

Programs identify a problem by its code, which `tenantcron explain` describes.
"""

from dataclasses import dataclass
from http import HTTPStatus

from tenantcron.manifests.language.rules import Rule


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem, and the HTTP status of its response."""

    rule: Rule
    status: HTTPStatus


_ALL = (
    ProblemType(
        Rule(
            "TC701",
            "not-authenticated",
            "The request is not authenticated.",
            "The API acts on behalf of its caller, and records the caller.",
            "Send `Authorization: Bearer` with a valid token: `tenantcron token create`.",
        ),
        HTTPStatus.UNAUTHORIZED,
    ),
    ProblemType(
        Rule(
            "TC702",
            "not-allowed",
            "The caller's role does not allow this.",
            "Each role may use only a part of the API.",
            "Use a token with another role; docs/api.md lists them.",
        ),
        HTTPStatus.FORBIDDEN,
    ),
    ProblemType(
        Rule(
            "TC703",
            "not-found",
            "The resource does not exist, or the caller may not see it.",
            "A caller that is bound to a tenant cannot see whether others exist.",
            "Check the name with a list request.",
        ),
        HTTPStatus.NOT_FOUND,
    ),
    ProblemType(
        Rule(
            "TC704",
            "not-possible-now",
            "The current state does not allow the request.",
            "The request changed nothing.",
            "Read the detail, which describes what to do first.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC705",
            "precondition-failed",
            "The resource does not match `If-Match`.",
            "The resource changed since you read it.",
            "Fetch it again and retry with the new ETag.",
        ),
        HTTPStatus.PRECONDITION_FAILED,
    ),
    ProblemType(
        Rule(
            "TC706",
            "request-too-large",
            "The body of the request is too large.",
            "The limit bounds the cost of a request.",
            "Send a smaller body.",
        ),
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ),
    ProblemType(
        Rule(
            "TC707",
            "invalid-request",
            "The request does not match the API's schema.",
            "A guess could change the wrong resource.",
            "Fix the problems in `errors`; /openapi.json describes every request.",
        ),
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    ProblemType(
        Rule(
            "TC708",
            "idempotency-key-reused",
            "The `Idempotency-Key` was used for another request.",
            "The response stored for the key belongs to the other request.",
            "Use a new key for each request, and the same key only to repeat it.",
        ),
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    ProblemType(
        Rule(
            "TC709",
            "too-many-requests",
            "The caller has exceeded its requests per minute.",
            "The limit protects callers from each other.",
            "Wait for `Retry-After`; the setting is `api_rate_limit`.",
        ),
        HTTPStatus.TOO_MANY_REQUESTS,
    ),
    ProblemType(
        Rule(
            "TC710",
            "unavailable",
            "The database, the token issuer or a manifest check did not respond in time.",
            "If requests waited longer, they would pile up.",
            "Retry after `Retry-After`; `Idempotency-Key` makes that safe for writes.",
        ),
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    ProblemType(
        Rule(
            "TC711",
            "changed-at-the-same-time",
            "Another request changed the same resource at the same time.",
            "One of two conflicting transactions is rolled back.",
            "Send the request again.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC712",
            "method-not-allowed",
            "The resource does not support this method.",
            "Each resource supports only some methods.",
            "Use a method that `Allow` lists.",
        ),
        HTTPStatus.METHOD_NOT_ALLOWED,
    ),
    ProblemType(
        Rule(
            "TC713",
            "unsupported-media-type",
            "The `Content-Type` is neither YAML nor JSON.",
            "The same bytes can have different meanings in YAML and JSON.",
            "Send `application/yaml` or `application/json`.",
        ),
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ),
    ProblemType(
        Rule(
            "TC714",
            "internal-error",
            "The server failed unexpectedly.",
            "The server's log has the error, with the request's `X-Correlation-Id`.",
            "Give that id to the operator of the server.",
        ),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    ),
    ProblemType(
        Rule(
            "TC715",
            "invalid-host",
            "The request does not name exactly one valid host.",
            "HTTP/1.1 requires one `Host` header; two would let a proxy and the server disagree.",
            "Send one `Host` header with the server's name.",
        ),
        HTTPStatus.BAD_REQUEST,
    ),
    ProblemType(
        Rule(
            "TC716",
            "host-not-served",
            "The server does not serve the host that the request names.",
            "A page of another site can make a browser call the server under that site's name.",
            "Use a name that the setting `trusted_hosts` lists, or add the name there.",
        ),
        HTTPStatus.MISDIRECTED_REQUEST,
    ),
    ProblemType(
        Rule(
            "TC717",
            "too-many-connections",
            "The process has reached its limit of connections.",
            "The limit protects the process's memory and file descriptors.",
            "Retry after `Retry-After`; the setting is `api_connections`.",
        ),
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    ProblemType(
        Rule(
            "TC718",
            "head-too-large",
            "The request line and headers are too large.",
            "The server limits what it reads before it has authenticated the caller.",
            "Send shorter headers; filters and cookies are a common cause.",
        ),
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    ),
    ProblemType(
        Rule(
            "TC719",
            "too-many-manifests",
            "The caller has too many manifests in progress.",
            "Checking manifests uses CPU time that other requests need.",
            "Wait for a response, or for `Retry-After`, before you send the next one.",
        ),
        HTTPStatus.TOO_MANY_REQUESTS,
    ),
    ProblemType(
        Rule(
            "TC720",
            "several-credentials",
            "The request has more than one `Authorization` header.",
            "A proxy and the server could authenticate different callers.",
            "Send one `Authorization` header.",
        ),
        HTTPStatus.BAD_REQUEST,
    ),
    ProblemType(
        Rule(
            "TC721",
            "unknown-path",
            "The API has no such path.",
            "The path is misspelt, or it belongs to a newer release than the server's.",
            "Compare it with /openapi.json of the server; upgrade the server if it is older.",
        ),
        HTTPStatus.NOT_FOUND,
    ),
    ProblemType(
        Rule(
            "TC722",
            "too-much-work",
            "The request takes longer than the server allows.",
            "The limit `api_timeout` protects other callers.",
            "Narrow the request with filters, or run the command on the database.",
        ),
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    ProblemType(
        Rule(
            "TC723",
            "owned-by-manifest",
            "The manifest owns this field of the schedule.",
            "The next apply would revert the change. Operators own only the pause.",
            "Change the manifest that the detail names, and apply it.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC730",
            "attempt-over",
            "A worker reported on an attempt that is over.",
            "The attempt timed out, its heartbeats were late, or another attempt has started, and "
            "only the current attempt may change an execution.",
            "Stop the work, and report nothing more.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC731",
            "task-key-reused",
            "The `idempotency_key` belongs to a task with another request.",
            "A key identifies one task of a tenant for as long as the task is retained.",
            "Use a new key for other work, and the same request to submit a task again.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC732",
            "over-quota",
            "The tenant has as much as its quota allows.",
            "Quotas keep one tenant from using the capacity of all.",
            "Submit it again when tasks have started, or have an operator raise the quota.",
        ),
        HTTPStatus.TOO_MANY_REQUESTS,
    ),
    ProblemType(
        Rule(
            "TC740",
            "other-delivery",
            "Another worker has the attempt.",
            "A broker delivers a message again if its first worker has not acknowledged it in "
            "time. Only one worker may work on an attempt.",
            "Repeat the first heartbeat: the worker takes over if the other one is silent. A "
            "worker that gets this for a later heartbeat must stop.",
        ),
        HTTPStatus.CONFLICT,
    ),
)

PROBLEMS = {kind.rule.code: kind for kind in _ALL}
