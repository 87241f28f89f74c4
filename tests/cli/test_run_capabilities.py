"""Values of --only, --targets and a default target that `tenantcron run` refuses at start."""

from pathlib import Path

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.core.requirements import TargetKind
from tenantcron.manifests.language.targets import check_default_target
from tenantcron.manifests.policy import load_policy
from tenantcron.targets.capabilities import (
    Capabilities,
    CapabilityLimits,
    ServedKinds,
    capabilities,
)
from tenantcron.targets.handlers import Handler, SourceLocation
from tenantcron.targets.python.registry import Handlers, SagaError, saga


def handlers(*names: str) -> Handlers:
    return Handlers.of(
        Handler(name, lambda _: None, is_async=False, place=SourceLocation("m", name, "x", 1))
        for name in names
    )


def declared(
    loaded: Handlers, limits: CapabilityLimits, *, calls: bool = True, default: bool = False
) -> Capabilities:
    http = (TargetKind.HTTP.value,)
    served = ServedKinds(
        usable=http if calls else (), default=TargetKind.HTTP.value if default else None
    )
    return capabilities(loaded, limits, served)


@pytest.mark.parametrize(
    ("names", "limits", "expected"),
    [
        (("b", "a"), CapabilityLimits(), Capabilities(("saga:a", "saga:b", "http"))),
        (("a",), CapabilityLimits(targets=("none",)), Capabilities(("saga:a",))),
        (("a", "b"), CapabilityLimits(only=("saga:a",)), Capabilities(("saga:a",))),
        (("a", "b"), CapabilityLimits(("saga:a",), ("http",)), Capabilities(("saga:a", "http"))),
        (("a", "*"), CapabilityLimits(), Capabilities(("saga:a", "http"), ("saga:*",))),
        (("*",), CapabilityLimits(("saga:r_*",)), Capabilities((), ("saga:r_*",))),
        ((), CapabilityLimits(targets=("http",)), Capabilities(("http",))),
    ],
)
def test_capabilities_are_the_handlers_and_targets_within_the_limits(
    names: tuple[str, ...], limits: CapabilityLimits, expected: Capabilities
) -> None:
    assert declared(handlers(*names), limits) == expected


def test_a_policy_without_hosts_serves_no_targets_unless_they_are_asked_for() -> None:
    assert declared(handlers("a"), CapabilityLimits(), calls=False).named == ("saga:a",)
    asked = CapabilityLimits(targets=(TargetKind.HTTP.value,))
    assert declared(handlers("a"), asked, calls=False).named == ("saga:a", "http")


def test_a_default_target_is_a_catch_all_where_targets_are_served() -> None:
    assert declared(handlers(), CapabilityLimits(), default=True).patterns == ("saga:*",)
    assert declared(handlers(), CapabilityLimits(targets=("none",)), default=True).patterns == ()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            CapabilityLimits(only=("report_*",)),
            "'report_*' is not a pattern of sagas: use saga:NAME",
        ),
        (CapabilityLimits(only=("sage:report_*",)), "'sage:report_*' is not a pattern of sagas"),
        (CapabilityLimits(only=("saga:[ab]",)), "patterns only support * and ?"),
        (CapabilityLimits(only=("saga:invoise",)), "did you mean saga:invoice?"),
        (CapabilityLimits(only=("saga:x*",)), "there are saga:invoice, saga:report"),
        (
            CapabilityLimits(targets=("htp",)),
            "there is no kind of target 'htp': use http, or none",
        ),
    ],
)
def test_an_ineffective_limit_is_refused_with_the_valid_values(
    limits: CapabilityLimits, message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        declared(handlers("invoice", "report"), limits)
    assert message in str(refused.value)


def test_a_default_target_is_checked_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "tenantcron.toml"
    text = '[policy]\nallowed_hosts = ["engine.internal"]\ndefault_target.http.url = "{}"\n'
    file.write_text(text.format("https://engine.internal/run"), encoding="utf-8")
    assert list(check_default_target(load_policy(file))) == []
    file.write_text(text.format("https://other.internal/run"), encoding="utf-8")
    (fault,) = check_default_target(load_policy(file))
    assert fault.startswith("  policy.default_target.http.url: TC402 ")


def test_a_default_target_that_cannot_be_read_is_an_error_of_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "tenantcron.toml"
    file.write_text("[policy]\ndefault_target.http.method = 'POST'\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"policy\.default_target\.http: TC"):
        load_policy(file)


def test_only_a_star_by_itself_is_a_catch_all() -> None:
    with pytest.raises(SagaError, match="the saga 'report_\\*' is not"):
        saga("report_*")


def test_the_role_of_a_service_is_for_that_service_only(tmp_path: Path) -> None:
    file = tmp_path / "tenantcron.toml"
    file.write_text('[policy.roles]\nbilling = ["service:billing", "x"]\n', encoding="utf-8")
    assert load_policy(file).roles == {"billing": ("service:billing", "x")}
    file.write_text('[policy.roles]\nbilling = ["service:forecasting"]\n', encoding="utf-8")
    with pytest.raises(
        UsageError, match="service:forecasting is not a role of the service billing"
    ):
        load_policy(file)
