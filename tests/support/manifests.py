"""Check manifests in tests, concisely and with a fixed clock."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tenantcron.core.egress import Egress
from tenantcron.core.values import JsonValue
from tenantcron.manifests.check import CheckedManifest, TenantHints, check_manifest
from tenantcron.manifests.document import Syntax
from tenantcron.manifests.language.rules import RULES
from tenantcron.manifests.policy import Policy, default_policy, load_policy
from tenantcron.schedules.schedule import DesiredSchedule, Timing

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "examples" / "manifests"
MISTAKES = ROOT / "examples" / "mistakes"
NOW = datetime(2026, 11, 16, tzinfo=UTC)


def check(
    text: str | bytes,
    *,
    policy: Policy | None = None,
    syntax: Syntax = "yaml",
    asked_for: str | None = None,
    file_stem: str | None = "acme",
) -> CheckedManifest:
    """Check one manifest."""
    content = text if isinstance(text, bytes) else text.encode()
    hints = TenantHints(asked_for, file_stem)
    return check_manifest(content, syntax, policy or default_policy(), hints, NOW)


def check_data(data: JsonValue, *, policy: Policy | None = None) -> CheckedManifest:
    """Check a manifest given as data."""
    return check(json.dumps(data), syntax="json", policy=policy)


def codes(checked: CheckedManifest) -> list[str]:
    """Return the codes of all problems, in order."""
    return [problem.code for problem in checked.problems]


def policy_with(
    *,
    floor: timedelta = timedelta(minutes=15),
    cap: int = 20,
    size: int = 4 * 1024**2,
    max_timeout: timedelta = timedelta(hours=1),
    presets: dict[str, Timing] | None = None,
    hosts: tuple[str, ...] = (),
    networks: tuple[str, ...] = (),
    ports: tuple[int, ...] | None = None,
    secrets: tuple[str, ...] = (),
    audiences: tuple[str, ...] = (),
    retention: timedelta = timedelta(hours=24),
) -> Policy:
    """Return the default policy with changes."""
    egress = Egress(hosts, networks, ports)
    return Policy(
        floor,
        cap,
        size,
        max_timeout,
        presets or {},
        egress,
        secrets,
        retention,
        caps={},
        allowed_audiences=audiences,
    )


def manifest(scheduled: JsonValue, **saga: JsonValue) -> dict[str, JsonValue]:
    """Return a manifest with one saga."""
    trigger: JsonValue = {"scheduled": scheduled}
    return {"sagas": [{"name": "reconcile", "trigger": trigger, **saga}]}


def check_scheduled(scheduled: JsonValue, *, policy: Policy | None = None) -> CheckedManifest:
    """Check one schedule in its full form."""
    return check_data(manifest(scheduled), policy=policy)


def only_schedule(checked: CheckedManifest) -> DesiredSchedule:
    """Return the only schedule of a valid manifest."""
    assert checked.desired is not None, checked.problems
    (schedule,) = checked.desired.schedules
    return schedule


@dataclass(frozen=True, slots=True)
class Mistake:
    """An example that breaks a rule."""

    code: str
    content: bytes
    syntax: Syntax = "yaml"
    stem: str = "acme"

    @property
    def asked_for(self) -> str | None:
        """The option for the only rule that needs one to be broken."""
        return "umbrella" if self.code == "TC114" else None

    def check(self) -> CheckedManifest:
        """Check it with the policy of the examples."""
        policy = load_policy(MISTAKES / "tenantcron.toml")
        return check(
            self.content,
            policy=policy,
            syntax=self.syntax,
            asked_for=self.asked_for,
            file_stem=self.stem,
        )


def _from_file(file: Path) -> Mistake:
    syntax: Syntax = "json" if file.suffix == ".json" else "yaml"
    return Mistake(file.name[:5], file.read_bytes(), syntax, file.stem)


def _large() -> dict[str, JsonValue]:
    """Return a manifest whose 20 schedules share a large payload."""
    sagas: list[JsonValue] = [
        {"name": f"s{number}", "trigger": {"scheduled": {"name": f"s{number}", "preset": "large"}}}
        for number in range(20)
    ]
    large: JsonValue = {"every": "1h", "payload": {"report": "x" * 250_000}}
    return {"schedules": {"large": large}, "sagas": sagas}


BUILT = (
    Mistake("TC002", b"sagas: []\n# " + b"x" * 1_048_576),
    Mistake(
        "TC303",
        json.dumps(manifest({"every": "1h", "payload": {"report": "x" * 300_000}})).encode(),
    ),
    Mistake("TC308", json.dumps(_large()).encode()),
)
ACROSS_FILES = {code: MISTAKES / f"{code}-{RULES[code].name}" for code in ("TC501",)}


def mistakes() -> list[Mistake]:
    """Return every example of a mistake inside one file."""
    files = sorted(file for file in MISTAKES.glob("TC*") if file.is_file())
    return [*map(_from_file, files), *BUILT]
