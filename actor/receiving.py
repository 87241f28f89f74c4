"""Authentication of executions in services that they call, for FastAPI and Starlette.

    prove = ProofOfExecution(Verifier(keys=FetchedKeys(url), issuer="tenantcron", audience=ours))

    @app.post("/tenants/{tenant}/charges")
    def charge(proof: Annotated[Proof, Depends(prove)]) -> None: ...

Only this module needs a web framework: `pip install 'tenantcron[api]'`.
"""

from typing import Final, final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tenantcron.actor.introspection import IntrospectionUnavailableError
from tenantcron.actor.key_sets import KeysUnavailableError
from tenantcron.actor.verification import InvalidTokenError, Proof, TokenRefusal, Verifier

_SCHEME: Final = "bearer"
_UNAUTHORIZED, _FORBIDDEN, _UNAVAILABLE = 401, 403, 503
TENANT: Final = "tenant"


@final
class ProofOfExecution:
    """A dependency that rejects requests without a valid token.

    If the path has a parameter named `tenant`, the token must belong to that tenant. It is sync on
    purpose: fetching keys blocks, and frameworks call sync dependencies in a thread.
    """

    __slots__ = ("_tenant", "_verifier")

    def __init__(self, verifier: Verifier, *, tenant: str = TENANT) -> None:
        self._verifier = verifier
        self._tenant = tenant

    def __call__(self, request: Request) -> Proof:
        """Return the verified token of the request; raise 401, 403 or 503 if there is none."""
        tenant = request.path_params.get(self._tenant)
        try:
            return self._verifier.verify(_bearer(request), tenant=tenant)
        except InvalidTokenError as error:
            raise _refused(error) from None
        except (KeysUnavailableError, IntrospectionUnavailableError) as error:
            raise HTTPException(_UNAVAILABLE, str(error)) from None


def _bearer(request: Request) -> str:
    given = request.headers.getlist("authorization")
    # With two headers, a proxy may have checked the other one.
    if len(given) == 1:
        scheme, _, token = given[0].partition(" ")
        if scheme.lower() == _SCHEME and token:
            return token.strip()
    raise HTTPException(
        _UNAUTHORIZED, "a bearer token is missing", headers={"WWW-Authenticate": "Bearer"}
    )


def _refused(error: InvalidTokenError) -> HTTPException:
    if error.refusal in (TokenRefusal.TENANT, TokenRefusal.ROLE):
        return HTTPException(_FORBIDDEN, str(error))
    challenge = f'Bearer error="invalid_token", error_description="{error.refusal.value}"'
    return HTTPException(_UNAUTHORIZED, str(error), headers={"WWW-Authenticate": challenge})
