"""Resolving names: shared and limited lookups that do not block the event loop."""

import asyncio
import socket
import threading
from collections.abc import Sequence

import pytest
from support.patience import PATIENCE

from tenantcron.targets.http.resolving import Resolver, ResolvingError, asking_tenant


class HangingResolver:
    """A resolver of the system that hangs until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        assert self.released.wait(PATIENCE)
        return ["192.0.2.1"]


async def test_the_default_is_the_resolver_of_the_system() -> None:
    assert "127.0.0.1" in await Resolver()("localhost")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".invalid"])
async def test_a_name_without_an_address_is_an_error(host: str) -> None:
    with pytest.raises(ResolvingError, match="cannot be resolved"):
        await Resolver()(host)


async def test_concurrent_lookups_of_a_name_are_shared() -> None:
    hanging = HangingResolver()
    resolver = Resolver(hanging)
    first, second = (asyncio.ensure_future(resolver("a.test")) for _ in range(2))
    await asyncio.sleep(0)
    hanging.released.set()
    assert await first == await second == ["192.0.2.1"]
    assert hanging.asked == ["a.test"]
    assert await resolver("a.test") == ["192.0.2.1"]
    assert hanging.asked == ["a.test"] * 2


async def test_a_cancelled_caller_does_not_affect_the_other() -> None:
    hanging = HangingResolver()
    resolver = Resolver(hanging)
    cancelled, other = (asyncio.ensure_future(resolver("a.test")) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    hanging.released.set()
    assert await other == ["192.0.2.1"]
    assert cancelled.cancelled()


async def test_hanging_lookups_do_not_use_all_threads_and_further_ones_fail() -> None:
    hanging = HangingResolver()
    resolver = Resolver(hanging, most=3)
    stuck = [asyncio.ensure_future(resolver(f"{name}.test")) for name in "abc"]
    await asyncio.sleep(0)
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(ResolvingError, match=r"d\.test .* 3 other lookups are still running"):
            await resolver("d.test")
    assert threading.active_count() == before
    hanging.released.set()
    await asyncio.gather(*stuck)
    assert await resolver("d.test") == ["192.0.2.1"]


async def test_the_event_loop_continues_while_a_lookup_hangs() -> None:
    hanging = HangingResolver()
    asked = asyncio.ensure_future(Resolver(hanging)("a.test"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.shield(asked)
    hanging.released.set()
    assert await asked == ["192.0.2.1"]


async def test_an_error_after_the_caller_was_cancelled_is_ignored() -> None:
    released, done = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def fails(_: str) -> Sequence[str]:
        assert released.wait(PATIENCE)
        loop.call_soon_threadsafe(loop.call_soon, done.set)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    asked = asyncio.ensure_future(Resolver(fails)("a.test"))
    await asyncio.sleep(0)
    asked.cancel()
    released.set()
    await done.wait()
    assert asked.cancelled()


def asking(resolver: Resolver, tenant: str, *hosts: str) -> list[asyncio.Task[Sequence[str]]]:
    """Let a tenant resolve names, each in its own task, like calls."""

    async def ask(host: str) -> Sequence[str]:
        asking_tenant.set(tenant)
        return await resolver(host)

    return [asyncio.create_task(ask(host)) for host in hosts]


async def test_a_tenant_with_hanging_lookups_does_not_block_other_tenants() -> None:
    hanging = HangingResolver()
    resolver = Resolver(hanging, most=5, most_of_a_tenant=2)
    hosts = [f"{number}.acme.test" for number in range(9)]
    stuck = asking(resolver, "acme", *hosts)
    others = [*asking(resolver, "globex", "a.test"), *asking(resolver, "", "hooks.test")]
    while len(hanging.asked) < 4:
        await asyncio.sleep(0)
    assert hanging.asked == [*hosts[:2], "a.test", "hooks.test"]
    hanging.released.set()
    assert await asyncio.gather(*others) == [["192.0.2.1"]] * 2
    assert await asyncio.gather(*stuck) == [["192.0.2.1"]] * 9
    assert sorted(hanging.asked) == sorted([*hosts, "a.test", "hooks.test"])


async def test_a_tenant_with_hanging_lookups_may_share_those_of_another_tenant() -> None:
    hanging = HangingResolver()
    resolver = Resolver(hanging, most_of_a_tenant=1)
    (own,) = asking(resolver, "acme", "a.test")
    (of_other,) = asking(resolver, "globex", "b.test")
    while len(hanging.asked) < 2:
        await asyncio.sleep(0)
    (shared,) = asking(resolver, "acme", "b.test")
    hanging.released.set()
    assert [*await asyncio.gather(own, of_other, shared)] == [["192.0.2.1"]] * 3
    assert hanging.asked == ["a.test", "b.test"]


async def test_a_lookup_that_waits_for_a_slot_can_be_cancelled() -> None:
    hanging = HangingResolver()
    resolver = Resolver(hanging, most_of_a_tenant=1)
    first, second = asking(resolver, "acme", "a.test", "b.test")
    while not hanging.asked:
        await asyncio.sleep(0)
    second.cancel()
    hanging.released.set()
    assert await first == ["192.0.2.1"]
    assert hanging.asked == ["a.test"]
