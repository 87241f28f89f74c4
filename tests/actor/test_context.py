"""Contexts apply where they were set and in tasks started there, and nowhere else."""

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

import pytest
from support.patience import PATIENCE

from tenantcron.actor.context import (
    acting_as,
    acting_for_user,
    carry,
    correlation,
    current_actor,
    current_correlation_id,
    current_user_id,
)
from tenantcron.actor.model import Actor, ActorType, InvalidActorError, scheduler_actor

ADA = Actor("ada", ActorType.HUMAN, "test")
GRACE = Actor("grace", ActorType.HUMAN, "test")

Seen = tuple[str | None, str | None, UUID | None]
EMPTY: Seen = (None, None, None)


def seen() -> Seen:
    """Return the values of the context."""
    actor = current_actor()
    return (actor.id if actor else None, current_user_id(), current_correlation_id())


def test_the_default_context_is_empty() -> None:
    assert seen() == EMPTY


def test_setting_one_value_does_not_affect_the_others() -> None:
    with acting_as(ADA):
        assert seen() == ("ada", None, None)
    with acting_for_user("u-1"):
        assert seen() == (None, "u-1", None)
    with correlation(UUID(int=1)):
        assert seen() == (None, None, UUID(int=1))
    with acting_as(ADA), acting_for_user("u-1"), correlation(UUID(int=1)):
        assert seen() == ("ada", "u-1", UUID(int=1))
    assert seen() == EMPTY


def test_the_inner_context_takes_precedence_and_the_outer_one_is_restored() -> None:
    with acting_as(ADA), correlation(UUID(int=1)):
        with acting_as(GRACE), correlation(UUID(int=2)):
            assert seen() == ("grace", None, UUID(int=2))
        assert seen() == ("ada", None, UUID(int=1))
    assert seen() == EMPTY


def test_an_exception_restores_the_previous_context() -> None:
    with acting_as(ADA), acting_for_user("u-1"):
        with (
            pytest.raises(ZeroDivisionError),
            acting_as(GRACE),
            acting_for_user("u-2"),
            correlation(UUID(int=2)),
        ):
            _ = 1 / 0
        assert seen() == ("ada", "u-1", None)
    assert seen() == EMPTY


def test_a_context_applies_only_after_it_is_entered() -> None:
    prepared = acting_as(ADA)
    assert current_actor() is None
    with prepared:
        assert current_actor() is ADA


@pytest.mark.parametrize("user_id", ["", "a\nb", "x" * 256])
def test_a_user_id_follows_the_rules_of_an_actors_id(user_id: str) -> None:
    with pytest.raises(InvalidActorError):
        acting_for_user(user_id)


async def yield_to_others(steps: int) -> None:
    """Let other tasks run."""
    for _ in range(steps):
        await asyncio.sleep(0)


async def execute(number: int, steps: random.Random) -> list[Seen]:
    """Act like an execution: await, nest an actor, fail, start a subtask and a thread."""
    expected: Seen = (f"system:scheduler:s{number}", f"u-{number}", UUID(int=number))
    found = []
    with (
        acting_as(scheduler_actor(f"s{number}")),
        acting_for_user(f"u-{number}"),
        correlation(UUID(int=number)),
    ):
        await yield_to_others(steps.randrange(20))
        found.append(seen())
        with suppress(LookupError):
            await fail_as_another_actor(steps.randrange(5))
        found.append(seen())
        async with asyncio.TaskGroup() as group:
            inner = group.create_task(seen_later(steps.randrange(20)))
            await yield_to_others(steps.randrange(20))
        found += [inner.result(), await asyncio.to_thread(seen), seen()]
    found.append(seen())
    assert found == [*[expected] * 5, EMPTY]
    return found


async def fail_as_another_actor(steps: int) -> None:
    with acting_as(GRACE):
        await yield_to_others(steps)
        assert current_actor() is GRACE
        raise LookupError


async def seen_later(steps: int) -> Seen:
    await yield_to_others(steps)
    return seen()


def test_two_hundred_concurrent_executions_see_only_their_own_context() -> None:
    async def run() -> list[list[Seen]]:
        steps = random.Random(7)  # noqa: S311 -- any order, but always the same
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(execute(number, steps)) for number in range(200)]
        assert seen() == EMPTY
        return [task.result() for task in tasks]

    results = asyncio.run(run())
    assert len({found[0] for found in results}) == 200


def test_a_cancelled_execution_leaves_nothing_behind() -> None:
    async def run() -> None:
        task = asyncio.create_task(execute_forever())
        await yield_to_others(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen() == EMPTY

    async def execute_forever() -> None:
        with acting_as(ADA):
            await asyncio.Event().wait()

    asyncio.run(run())


def test_a_task_keeps_the_context_that_it_was_started_in() -> None:
    async def run() -> Seen:
        with acting_as(ADA):
            task = asyncio.create_task(seen_later(5))
        with acting_as(GRACE):
            return await task

    assert asyncio.run(run()) == ("ada", None, None)


def in_thread(function: Callable[[], Seen]) -> Seen:
    found: list[Seen] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_plain_thread_sees_only_a_carried_context() -> None:
    with acting_as(ADA), correlation(UUID(int=1)):
        assert in_thread(seen) == EMPTY
        assert in_thread(carry(seen)) == ("ada", None, UUID(int=1))


def test_carry_captures_the_current_context() -> None:
    with acting_as(ADA):
        carried = carry(seen)
    with acting_as(GRACE):
        assert carried() == ("ada", None, None)
        assert seen() == ("grace", None, None)


def test_a_carried_function_can_run_in_several_threads_at_once() -> None:
    together = threading.Barrier(8, timeout=PATIENCE)

    def meet(number: int) -> Seen:
        with acting_for_user(f"u-{number}"):
            together.wait()
            return seen()

    with acting_as(ADA), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(carry(meet), range(8)))
        left = list(pool.map(lambda _: seen(), range(8)))
    assert found == [("ada", f"u-{number}", None) for number in range(8)]
    assert left == [EMPTY] * 8


def test_a_carried_function_keeps_its_arguments_its_result_and_its_errors() -> None:
    assert carry(divmod)(7, 2) == (3, 1)
    assert carry(int)("ff", base=16) == 255
    with pytest.raises(ZeroDivisionError):
        carry(divmod)(1, 0)
