"""The settings of an event bus: every mistake is reported at start, and no secret is shown."""

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from support.buses import ProbeBus
from support.nats_server import require

from tenantcron.core.errors import UsageError
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.settings import Settings, load_settings
from tenantcron.events.bus import BusConfig, EventBus, read_address
from tenantcron.events.opening import GROUP, open_bus

SECRET = SecretRef("env", "BUS_SECRET")


def settings(url: str | None, credentials: SecretRef | None = None) -> Settings:
    return replace(Settings(folder=Path()), event_bus=url, event_bus_credentials=credentials)


def test_an_address_has_hosts_a_path_and_options() -> None:
    address = read_address("nats+tls://a.internal:4222,[::1]:4223/EVENTS?prefix=x.y")
    assert address.uses_tls
    assert address.hosts == ("a.internal:4222", "[::1]:4223")
    assert (address.path, address.options) == ("EVENTS", {"prefix": "x.y"})
    assert not address.is_local
    assert read_address("nats://localhost:1,127.0.0.1:2,[::1]:3").is_local


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nats://", "not the URL of a bus"),
        ("nats://host", "'host' is not host:port"),
        ("nats://host:0", "'host:0' is not host:port"),
        ("nats://host:70000", "'host:70000' is not host:port"),
        ("nats://ho st:1", "not the URL of a bus"),
        ("NATS://host:1", "not the URL of a bus"),
    ],
)
def test_an_invalid_address_is_reported(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match="event_bus") as caught:
        read_address(url)
    assert problem in str(caught.value)


def test_credentials_in_the_url_are_refused_and_not_shown(tmp_path: Path) -> None:
    url = "nats://cron:hunter2@host:4222"
    with pytest.raises(UsageError, match="event_bus_credentials") as caught:
        read_address(url)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(UsageError, match="event_bus_credentials") as caught:
        load_settings({"TENANTCRON_EVENT_BUS": url}, tmp_path)
    assert "hunter2" not in str(caught.value)


def test_credentials_are_a_reference_and_never_the_secret(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"env:NAME or file:/path") as caught:
        load_settings({"TENANTCRON_EVENT_BUS_CREDENTIALS": "cron:hunter2"}, tmp_path)
    assert "hunter2" not in str(caught.value)
    read = load_settings({"TENANTCRON_EVENT_BUS_CREDENTIALS": "file:/run/nats"}, tmp_path)
    assert read.event_bus_credentials == SecretRef("file", "/run/nats")


def test_credentials_are_not_sent_unencrypted_over_a_network() -> None:
    with pytest.raises(UsageError, match=r"nats\+tls://"):
        open_bus(settings("nats://nats.internal:4222", SECRET))


def test_credentials_need_a_bus() -> None:
    with pytest.raises(UsageError, match="needs event_bus"):
        open_bus(settings(None, SECRET))
    assert open_bus(settings(None)) is None


def test_all_problems_of_nats_are_reported_at_once() -> None:
    require("nats")
    with pytest.raises(UsageError) as caught:
        open_bus(settings("nats://host:4222/a.b?prefix=x.>&color=red"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "no option 'color'; there are prefix" in lines[0]
    assert "'a.b' is not a stream" in lines[1]
    assert "the prefix 'x.>'" in lines[2]


def test_all_problems_of_kafka_are_reported_at_once() -> None:
    require("confluent_kafka")
    with pytest.raises(UsageError) as caught:
        open_bus(settings("kafka://host:9092?sasl=MD5"))
    assert "write the topic" in str(caught.value)
    assert "sasl='MD5' is not one of PLAIN" in str(caught.value)
    assert "sasl needs event_bus_credentials" in str(caught.value)


def test_the_stream_or_topic_names_the_position() -> None:
    require("nats")
    first = open_bus(settings("nats://one:4222"))
    second = open_bus(settings("nats+tls://two:4222/TENANTCRON?prefix=x"))
    assert first is not None
    assert second is not None
    assert first.name == second.name == "nats/TENANTCRON"


def test_an_unknown_bus_is_reported_with_the_group_of_its_entry_point() -> None:
    with pytest.raises(UsageError, match=r"event_bus: .*'rabbit' in the group 'tenantcron.events'"):
        open_bus(settings("rabbit://host:5672"))


def opened(config: BusConfig) -> EventBus:
    return ProbeBus(destination=config.address.path)


def test_another_distribution_adds_a_bus_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("rabbit", f"{__name__}:opened", GROUP)
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _: opened)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [entry] if group == GROUP else []
    )
    named = open_bus(settings("rabbit://host:5672/queue"))
    assert named is not None
    assert named.name == "rabbit/queue"
