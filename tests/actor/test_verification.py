"""Verification of tokens, and everything that is rejected."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.tokens import (
    AUDIENCE,
    CURVE_KEY,
    EXECUTION,
    ISSUER,
    KEY,
    KEYS,
    VERIFIER,
    encoded,
    forged,
    payload,
    seconds,
    signed,
)

from tenantcron.actor.context import acting_as, current_actor
from tenantcron.actor.execution_tokens import CLAIMS, Claims, lease_digest, sign
from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.keys import Algorithm, PublicKey, SigningKey, generate, jwks
from tenantcron.actor.model import ActorType, AuthenticatedActor
from tenantcron.actor.verification import (
    LEEWAY,
    LONGEST_TOKEN,
    InvalidTokenError,
    TokenRefusal,
    Verifier,
)
from tenantcron.core.names import TenantId

STRANGER = generate(Algorithm.EDDSA)
KID = KEY.public.kid

LEASE_TOKEN = UUID(int=9)


def public_pem(key: SigningKey) -> bytes:
    return key.public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public_raw(key: SigningKey) -> bytes:
    return key.public.key.public_bytes(Encoding.Raw, PublicFormat.Raw)


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_token_that_we_sign_identifies_the_actor_the_tenant_and_the_execution(
    algorithm: Algorithm,
) -> None:
    key, now = generate(algorithm), datetime.now(UTC)
    claims = Claims(
        issuer=ISSUER,
        subject="system:scheduler:billing",
        audience=AUDIENCE,
        tenant=TenantId("acme"),
        execution=EXECUTION,
        attempt=2,
        lease=lease_digest(EXECUTION, LEASE_TOKEN),
        now=now,
        deadline=now + timedelta(minutes=5),
        lifetime=timedelta(hours=1),
    )

    proof = replace(VERIFIER, keys=FixedKeys(jwks([key.public]))).verify(sign(claims, key))

    assert type(proof.actor) is AuthenticatedActor
    assert proof.actor.authenticated is True
    assert (proof.actor.id, proof.actor.type, proof.actor.source) == (
        "system:scheduler:billing",
        ActorType.SCHEDULER,
        "token",
    )
    assert (proof.tenant, proof.execution, proof.roles) == ("acme", EXECUTION, ("service",))
    assert proof.expires_at == (now + timedelta(minutes=6)).replace(microsecond=0)
    assert (proof.attempt, proof.audience) == (2, AUDIENCE)
    assert proof.lease == lease_digest(EXECUTION, LEASE_TOKEN)
    assert proof.deadline == (now + timedelta(minutes=5)).replace(microsecond=0)


def test_a_token_of_an_earlier_release_without_an_attempt_is_accepted() -> None:
    older = {
        name: value
        for name, value in payload().items()
        if name not in ("attempt", "lease", "deadline")
    }
    proof = VERIFIER.verify(signed(older))
    assert (proof.attempt, proof.lease, proof.deadline) == (None, None, None)


def test_the_lease_digest_does_not_reveal_the_shared_lease_token() -> None:
    digests = {lease_digest(UUID(int=number), LEASE_TOKEN) for number in range(3)}
    assert len(digests) == 3
    assert not any(LEASE_TOKEN.hex in digest for digest in digests)


def test_the_time_can_be_passed() -> None:
    token = signed(payload(exp=seconds(hours=-1), nbf=seconds(hours=-2), iat=seconds(hours=-2)))
    then = datetime.now(UTC) - timedelta(minutes=90)
    assert VERIFIER.verify(token, now=then).tenant == "acme"
    with pytest.raises(InvalidTokenError, match="not valid yet"):
        VERIFIER.verify(token, now=then - timedelta(hours=1))


def test_an_authenticated_actor_can_act() -> None:
    with acting_as(VERIFIER.verify(signed(payload())).actor):
        actor = current_actor()
    assert actor is not None
    assert actor.authenticated


def test_the_owner_is_optional_and_not_the_actor() -> None:
    proof = VERIFIER.verify(signed(payload(owner="user:maria")))
    assert (proof.owner, proof.actor.id) == ("user:maria", "system:scheduler:scheduler")
    assert VERIFIER.verify(signed(payload())).owner is None


def test_no_two_tokens_have_the_same_id() -> None:
    now = datetime.now(UTC)
    claims = Claims(
        issuer=ISSUER,
        subject="system:scheduler:scheduler",
        audience=AUDIENCE,
        tenant=TenantId("acme"),
        execution=EXECUTION,
        attempt=1,
        lease=lease_digest(EXECUTION, LEASE_TOKEN),
        now=now,
        deadline=now,
        lifetime=timedelta(minutes=5),
    )
    assert len({VERIFIER.verify(sign(claims, KEY)).token_id for _ in range(50)}) == 50


def tampered() -> str:
    """Change the tenant of a valid token, and keep its signature."""
    header, _, signature = signed(payload()).split(".")
    return f"{header}.{encoded(json.dumps(payload(tenant='globex')).encode())}.{signature}"


def cut(token: str) -> str:
    return token.rpartition(".")[0] + "."


def with_rsa() -> str:
    key = rsa.generate_private_key(65537, 2048)
    return jwt.encode(payload(), key, "RS256", headers={"kid": KID})


def with_another_curve() -> str:
    key = ec.generate_private_key(ec.SECP384R1())
    return jwt.encode(payload(), key, "ES384", headers={"kid": KID})


def without(claim: str) -> dict[str, object]:
    return {name: value for name, value in payload().items() if name != claim}


FORGERIES: dict[str, tuple[Callable[[], str], TokenRefusal]] = {
    "no algorithm": (
        lambda: forged({"alg": "none", "kid": KID}, payload()),
        TokenRefusal.ALGORITHM,
    ),
    "no algorithm, in capitals": (
        lambda: forged({"alg": "NONE", "kid": KID}, payload()),
        TokenRefusal.ALGORITHM,
    ),
    "algorithm is missing": (lambda: forged({"kid": KID}, payload()), TokenRefusal.ALGORITHM),
    "HMAC with the public key as PEM": (
        lambda: forged({"alg": "HS256", "kid": KID}, payload(), public_pem(KEY)),
        TokenRefusal.ALGORITHM,
    ),
    "HMAC with the raw public key": (
        lambda: forged({"alg": "HS256", "kid": KID}, payload(), public_raw(KEY)),
        TokenRefusal.ALGORITHM,
    ),
    "HMAC that claims to be EdDSA": (
        lambda: forged({"alg": "EdDSA", "kid": KID}, payload(), public_raw(KEY)),
        TokenRefusal.SIGNATURE,
    ),
    "RSA": (with_rsa, TokenRefusal.ALGORITHM),
    "another curve": (with_another_curve, TokenRefusal.ALGORITHM),
    "a key of the wrong type for the algorithm": (
        lambda: signed(payload(), CURVE_KEY, kid=KID),
        TokenRefusal.ALGORITHM,
    ),
    "an algorithm of the wrong type for the key": (
        lambda: signed(payload(), KEY, kid=CURVE_KEY.public.kid),
        TokenRefusal.ALGORITHM,
    ),
    "tampered": (tampered, TokenRefusal.SIGNATURE),
    "without its signature": (lambda: cut(signed(payload())), TokenRefusal.SIGNATURE),
    "signed with another key": (
        lambda: signed(payload(), STRANGER, kid=KID),
        TokenRefusal.SIGNATURE,
    ),
    "unknown key": (lambda: signed(payload(), STRANGER), TokenRefusal.UNKNOWN_KEY),
    "no name of a key": (
        lambda: jwt.encode(payload(), KEY.private, "EdDSA"),
        TokenRefusal.UNKNOWN_KEY,
    ),
    "brings its own key": (
        lambda: signed(payload(), STRANGER, jwk=STRANGER.public.as_jwk()),
        TokenRefusal.UNKNOWN_KEY,
    ),
    "demands an extension": (
        lambda: signed(payload(), KEY, crit=["https://x"], **{"https://x": 1}),
        TokenRefusal.MALFORMED,
    ),
    "other audience": (
        lambda: signed(payload(aud="https://ledger.internal")),
        TokenRefusal.AUDIENCE,
    ),
    "audience among others": (
        lambda: signed(payload(aud=[AUDIENCE, "https://ledger.internal"])),
        TokenRefusal.AUDIENCE,
    ),
    "empty audience": (lambda: signed(payload(aud="")), TokenRefusal.CLAIMS),
    "other issuer": (lambda: signed(payload(iss="https://elsewhere")), TokenRefusal.ISSUER),
    "expired": (
        lambda: signed(
            payload(iat=seconds(hours=-1), nbf=seconds(hours=-1), exp=seconds(hours=-1))
        ),
        TokenRefusal.EXPIRED,
    ),
    "just past the leeway": (
        lambda: signed(payload(exp=seconds(seconds=-LEEWAY.seconds - 1))),
        TokenRefusal.EXPIRED,
    ),
    "not yet valid": (lambda: signed(payload(nbf=seconds(minutes=5))), TokenRefusal.NOT_YET_VALID),
    "issued in the future": (
        lambda: signed(payload(iat=seconds(minutes=5))),
        TokenRefusal.NOT_YET_VALID,
    ),
    "end that is text": (lambda: signed(payload(exp="4102444800")), TokenRefusal.CLAIMS),
    "end that is nonsense": (lambda: signed(payload(exp="soon")), TokenRefusal.CLAIMS),
    "a person": (lambda: signed(payload(sub="ada")), TokenRefusal.SUBJECT),
    "a migration": (lambda: signed(payload(sub="system:migration")), TokenRefusal.SUBJECT),
    "a service that is no name": (
        lambda: signed(payload(sub="system:scheduler:A B")),
        TokenRefusal.SUBJECT,
    ),
    "another role": (lambda: signed(payload(roles=["admin"])), TokenRefusal.SUBJECT),
    "roles that are text": (lambda: signed(payload(roles="service")), TokenRefusal.SUBJECT),
    "tenant that is none": (lambda: signed(payload(tenant="Acme; DROP")), TokenRefusal.CLAIMS),
    "execution that is none": (lambda: signed(payload(execution="7")), TokenRefusal.CLAIMS),
    "owner that is none": (lambda: signed(payload(owner="maria")), TokenRefusal.CLAIMS),
    "owner that is no text": (lambda: signed(payload(owner=["user:maria"])), TokenRefusal.CLAIMS),
    "end out of range": (lambda: signed(payload(exp=10**18)), TokenRefusal.CLAIMS),
    "attempt that is none": (lambda: signed(payload(attempt=0)), TokenRefusal.CLAIMS),
    "attempt that is text": (lambda: signed(payload(attempt="1")), TokenRefusal.CLAIMS),
    "lease that is none": (lambda: signed(payload(lease="x")), TokenRefusal.CLAIMS),
    "deadline that is text": (lambda: signed(payload(deadline="soon")), TokenRefusal.CLAIMS),
    "empty id": (lambda: signed(payload(jti="")), TokenRefusal.CLAIMS),
    "nothing": (lambda: "", TokenRefusal.MALFORMED),
    "words": (lambda: "let me in", TokenRefusal.MALFORMED),
    "three parts of nothing": (lambda: "..", TokenRefusal.MALFORMED),
    "too long": (lambda: "a" * (LONGEST_TOKEN + 1), TokenRefusal.MALFORMED),
    "not ascii": (lambda: "é.é.é", TokenRefusal.MALFORMED),
    **{
        f"without {claim}": (lambda claim=claim: signed(without(claim)), TokenRefusal.CLAIMS)  # type: ignore[misc] # bound now
        for claim in CLAIMS
    },
}


@pytest.mark.parametrize(("forge", "refusal"), FORGERIES.values(), ids=FORGERIES)
def test_an_invalid_token_is_rejected(forge: Callable[[], str], refusal: TokenRefusal) -> None:
    token = forge()
    with pytest.raises(InvalidTokenError) as caught:
        VERIFIER.verify(token)
    assert caught.value.refusal is refusal
    assert not token or token not in str(caught.value)


def test_a_key_with_another_algorithm_is_rejected() -> None:
    class Mixed:
        """Returns the same key for every id, as a careless receiver might."""

        def find(self, _: str) -> PublicKey:
            return CURVE_KEY.public

    with pytest.raises(InvalidTokenError) as caught:
        replace(VERIFIER, keys=Mixed()).verify(signed(payload()))
    assert caught.value.refusal is TokenRefusal.ALGORITHM


def test_the_leeway_allows_clock_skew() -> None:
    assert VERIFIER.verify(signed(payload(exp=seconds(seconds=-5)))).tenant == "acme"
    assert VERIFIER.verify(signed(payload(nbf=seconds(seconds=5)))).tenant == "acme"
    strict = replace(VERIFIER, leeway=timedelta(0))
    with pytest.raises(InvalidTokenError, match="expired"):
        strict.verify(signed(payload(exp=seconds(seconds=-5))))


def test_a_token_of_another_tenant_is_rejected_if_a_tenant_is_required() -> None:
    token = signed(payload(tenant="globex"))
    assert VERIFIER.verify(token).tenant == "globex"
    assert VERIFIER.verify(token, tenant="globex").tenant == "globex"
    with pytest.raises(InvalidTokenError) as caught:
        VERIFIER.verify(token, tenant="acme")
    assert caught.value.refusal is TokenRefusal.TENANT


def test_a_replayed_token_is_rejected_if_the_receiver_keeps_track() -> None:
    class Memory(set[str]):
        """Remembers token ids, as a receiver may in a table."""

        def is_new(self, token_id: str, expires_at: datetime) -> bool:
            assert expires_at > datetime.now(UTC)
            known = token_id in self
            self.add(token_id)
            return not known

    token = signed(payload(jti=str(uuid4())))
    assert VERIFIER.verify(token) == VERIFIER.verify(token)
    once = replace(VERIFIER, seen=Memory())
    once.verify(token)
    with pytest.raises(InvalidTokenError) as caught:
        once.verify(token)
    assert caught.value.refusal is TokenRefusal.REPLAYED


def test_a_rejected_token_is_not_remembered() -> None:
    class NeverCalled:
        """Fails if it is called."""

        def is_new(self, token_id: str, expires_at: datetime) -> bool:
            raise AssertionError((token_id, expires_at))

    careful = replace(VERIFIER, seen=NeverCalled())
    with pytest.raises(InvalidTokenError):
        careful.verify(tampered())
    with pytest.raises(InvalidTokenError):
        careful.verify(signed(payload()), tenant="globex")


@pytest.mark.parametrize(
    "wrong",
    [{"issuer": ""}, {"audience": ""}, {"leeway": timedelta(hours=1)}, {"leeway": -LEEWAY}],
    ids=str,
)
def test_a_verifier_that_would_accept_too_much_cannot_be_constructed(
    wrong: dict[str, object],
) -> None:
    given = {"keys": KEYS, "issuer": ISSUER, "audience": AUDIENCE, **wrong}
    with pytest.raises(ValueError, match=r"issuer|leeway"):
        Verifier(**given)  # type: ignore[arg-type] # as given


def test_a_verifier_with_a_role_rejects_tokens_of_other_services() -> None:
    billing = replace(VERIFIER, role="service:billing")
    own = signed(payload(roles=["service", "service:billing"]))
    assert billing.verify(own).roles == ("service", "service:billing")
    for roles in (["service"], ["service", "service:forecasting"]):
        with pytest.raises(InvalidTokenError) as refused:
            billing.verify(signed(payload(roles=roles)))
        assert refused.value.refusal is TokenRefusal.ROLE
        assert str(refused.value) == "the token lacks the role service:billing"
