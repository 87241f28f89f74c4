"""Names to addresses: shared, bounded, in nobody's way."""

import asyncio
import socket
import threading
from collections.abc import Sequence

import pytest
from support.patience import PATIENCE

from tenantcron.targets.resolving import Resolver, ResolvingError, asking_tenant


class Hanging:
    """A system's resolver that hangs until it is let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go = threading.Event()

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        assert self.let_go.wait(PATIENCE)
        return ["192.0.2.1"]


async def test_the_systems_resolver_is_asked() -> None:
    assert "127.0.0.1" in await Resolver()("localhost")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".invalid"])
async def test_a_name_that_has_no_address_is_told(host: str) -> None:
    with pytest.raises(ResolvingError, match="cannot be resolved"):
        await Resolver()(host)


async def test_whoever_asks_for_a_name_that_is_being_looked_up_shares_the_answer() -> None:
    hanging = Hanging()
    resolver = Resolver(hanging)
    first, second = (asyncio.ensure_future(resolver("a.test")) for _ in range(2))
    await asyncio.sleep(0)
    hanging.let_go.set()
    assert await first == await second == ["192.0.2.1"]
    assert hanging.asked == ["a.test"]
    assert await resolver("a.test") == ["192.0.2.1"]
    assert hanging.asked == ["a.test"] * 2


async def test_one_who_leaves_does_not_take_the_answer_from_the_other() -> None:
    hanging = Hanging()
    resolver = Resolver(hanging)
    leaves, stays = (asyncio.ensure_future(resolver("a.test")) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    hanging.let_go.set()
    assert await stays == ["192.0.2.1"]
    assert leaves.cancelled()


async def test_names_that_hang_do_not_take_all_threads_and_the_others_hear_of_it() -> None:
    hanging = Hanging()
    resolver = Resolver(hanging, most=3)
    stuck = [asyncio.ensure_future(resolver(f"{name}.test")) for name in "abc"]
    await asyncio.sleep(0)
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(ResolvingError, match=r"d\.test .* 3 other lookups are still running"):
            await resolver("d.test")
    assert threading.active_count() == before
    hanging.let_go.set()
    await asyncio.gather(*stuck)
    assert await resolver("d.test") == ["192.0.2.1"]


async def test_the_event_loop_goes_on_while_a_name_hangs() -> None:
    hanging = Hanging()
    asked = asyncio.ensure_future(Resolver(hanging)("a.test"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.shield(asked)
    hanging.let_go.set()
    assert await asked == ["192.0.2.1"]


async def test_an_error_that_nobody_waits_for_bothers_nobody() -> None:
    let_go, done = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def fails(_: str) -> Sequence[str]:
        assert let_go.wait(PATIENCE)
        loop.call_soon_threadsafe(loop.call_soon, done.set)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    asked = asyncio.ensure_future(Resolver(fails)("a.test"))
    await asyncio.sleep(0)
    asked.cancel()
    let_go.set()
    await done.wait()
    assert asked.cancelled()


def asking(resolver: Resolver, tenant: str, *hosts: str) -> list[asyncio.Task[Sequence[str]]]:
    """Let a tenant look up names, each in a task as calls are."""

    async def ask(host: str) -> Sequence[str]:
        asking_tenant.set(tenant)
        return await resolver(host)

    return [asyncio.create_task(ask(host)) for host in hosts]


async def test_a_tenant_whose_names_hang_leaves_look_ups_to_the_others() -> None:
    hanging = Hanging()
    resolver = Resolver(hanging, most=5, most_of_a_tenant=2)
    hosts = [f"{number}.acme.test" for number in range(9)]
    stuck = asking(resolver, "acme", *hosts)
    others = [*asking(resolver, "globex", "a.test"), *asking(resolver, "", "hooks.test")]
    while len(hanging.asked) < 4:
        await asyncio.sleep(0)
    assert hanging.asked == [*hosts[:2], "a.test", "hooks.test"]
    hanging.let_go.set()
    assert await asyncio.gather(*others) == [["192.0.2.1"]] * 2
    assert await asyncio.gather(*stuck) == [["192.0.2.1"]] * 9
    assert sorted(hanging.asked) == sorted([*hosts, "a.test", "hooks.test"])


async def test_a_tenant_with_hanging_names_may_share_what_another_one_looks_up() -> None:
    hanging = Hanging()
    resolver = Resolver(hanging, most_of_a_tenant=1)
    (own,) = asking(resolver, "acme", "a.test")
    (of_other,) = asking(resolver, "globex", "b.test")
    while len(hanging.asked) < 2:
        await asyncio.sleep(0)
    (shared,) = asking(resolver, "acme", "b.test")
    hanging.let_go.set()
    assert [*await asyncio.gather(own, of_other, shared)] == [["192.0.2.1"]] * 3
    assert hanging.asked == ["a.test", "b.test"]


async def test_a_look_up_that_waits_for_its_tenants_others_can_be_given_up() -> None:
    hanging = Hanging()
    resolver = Resolver(hanging, most_of_a_tenant=1)
    first, second = asking(resolver, "acme", "a.test", "b.test")
    while not hanging.asked:
        await asyncio.sleep(0)
    second.cancel()
    hanging.let_go.set()
    assert await first == ["192.0.2.1"]
    assert hanging.asked == ["a.test"]
