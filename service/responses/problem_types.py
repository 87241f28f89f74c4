"""What can be wrong with a request, and its HTTP status: the one table of both.

Programs know a problem by its code. `tenantcron explain` knows the codes, too.
"""

from dataclasses import dataclass
from http import HTTPStatus

from tenantcron.manifests.language.rules import Rule


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem, and the status that it is answered with."""

    rule: Rule
    status: HTTPStatus


_ALL = (
    ProblemType(
        Rule(
            "TC701",
            "not-authenticated",
            "The request proves nobody.",
            "The API acts in the name of somebody, and puts that name on record.",
            "Send `Authorization: Bearer` with a token that is valid: `tenantcron token create`.",
        ),
        HTTPStatus.UNAUTHORIZED,
    ),
    ProblemType(
        Rule(
            "TC702",
            "not-allowed",
            "The caller's role does not allow this.",
            "Each role is trusted with a part of the API only.",
            "Use a token with another role; the page on the API has the table.",
        ),
        HTTPStatus.FORBIDDEN,
    ),
    ProblemType(
        Rule(
            "TC703",
            "not-found",
            "There is nothing by that name, or the caller may not see it.",
            "Who is bound to one tenant learns nothing of others, not even that they exist.",
            "Look it up in a list.",
        ),
        HTTPStatus.NOT_FOUND,
    ),
    ProblemType(
        Rule(
            "TC704",
            "not-possible-now",
            "What was asked for is not possible in the state that things are in.",
            "Nothing is half done: the request changed nothing.",
            "Read the detail; it says what comes first.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC705",
            "precondition-failed",
            "The resource is not what `If-Match` says it is.",
            "Somebody has changed it since it was read.",
            "Read it again, decide anew, and send its new ETag.",
        ),
        HTTPStatus.PRECONDITION_FAILED,
    ),
    ProblemType(
        Rule(
            "TC706",
            "request-too-large",
            "The body of the request is longer than is read.",
            "A manifest has a limit, and so has what a request may cost.",
            "Send less.",
        ),
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ),
    ProblemType(
        Rule(
            "TC707",
            "invalid-request",
            "The request is not as the API describes it.",
            "Guessing what was meant would change the wrong thing.",
            "Mend what `errors` lists; /openapi.json describes every request.",
        ),
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    ProblemType(
        Rule(
            "TC708",
            "idempotency-key-reused",
            "The `Idempotency-Key` was used for another request.",
            "The answer that is kept for the key belongs to something else.",
            "Use a new key for each new request, and the same only to repeat one.",
        ),
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    ProblemType(
        Rule(
            "TC709",
            "too-many-requests",
            "The caller has used up its requests of this minute.",
            "One caller must not slow the API down for the others.",
            "Wait as long as `Retry-After` says; the setting is `api_rate_limit`.",
        ),
        HTTPStatus.TOO_MANY_REQUESTS,
    ),
    ProblemType(
        Rule(
            "TC710",
            "unavailable",
            "The database, the issuer of tokens or a check of a manifest does not answer in time.",
            "Waiting longer would only pile requests up.",
            "Try again after `Retry-After`; `Idempotency-Key` makes that safe for writes.",
        ),
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    ProblemType(
        Rule(
            "TC711",
            "changed-at-the-same-time",
            "Somebody else changed the same at the same moment.",
            "Of two changes that meet, one is undone.",
            "Send the request again.",
        ),
        HTTPStatus.CONFLICT,
    ),
    ProblemType(
        Rule(
            "TC712",
            "method-not-allowed",
            "The resource does not take this method.",
            "Methods mean the same everywhere.",
            "Use one that `Allow` lists.",
        ),
        HTTPStatus.METHOD_NOT_ALLOWED,
    ),
    ProblemType(
        Rule(
            "TC713",
            "unsupported-media-type",
            "The body is neither YAML nor JSON by its `Content-Type`.",
            "The same bytes can mean different things in both.",
            "Send `application/yaml` or `application/json`.",
        ),
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ),
    ProblemType(
        Rule(
            "TC714",
            "internal-error",
            "Something went wrong that is not the caller's fault.",
            "It is in the log of the server, under the request's `X-Correlation-Id`.",
            "Give that id to whoever runs the server.",
        ),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    ),
    ProblemType(
        Rule(
            "TC715",
            "invalid-host",
            "The request does not name exactly one valid host.",
            "HTTP/1.1 requires one `Host` header; two would let a proxy and the server disagree.",
            "Send one `Host` header with the name that the server is reached by.",
        ),
        HTTPStatus.BAD_REQUEST,
    ),
    ProblemType(
        Rule(
            "TC716",
            "host-not-served",
            "The server does not serve the host that the request names.",
            "A page of another site can make a browser call the server under a name of that site.",
            "Use a name that the setting `trusted_hosts` lists, or add the name there.",
        ),
        HTTPStatus.MISDIRECTED_REQUEST,
    ),
    ProblemType(
        Rule(
            "TC717",
            "too-many-connections",
            "The process serves as many connections as it may.",
            "Without a limit a flood of connections would use up its memory and file descriptors.",
            "Try again after `Retry-After`; the setting is `api_connections`.",
        ),
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    ProblemType(
        Rule(
            "TC718",
            "head-too-large",
            "The request line and headers are longer than is read.",
            "Everything that is read before the caller is known must stay small.",
            "Send shorter headers; filters and cookies are the usual cause.",
        ),
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    ),
    ProblemType(
        Rule(
            "TC719",
            "too-many-manifests",
            "The server works on as many manifests of the caller as it may at a time.",
            "Checking a manifest takes processor time that other requests wait for.",
            "Wait for an answer, or as long as `Retry-After` says, before you send the next one.",
        ),
        HTTPStatus.TOO_MANY_REQUESTS,
    ),
)

PROBLEMS = {kind.rule.code: kind for kind in _ALL}
