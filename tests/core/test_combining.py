"""Combining: concurrent calls share runs of a step."""

import asyncio
from collections.abc import Sequence

import pytest

from tenantcron.core.combining import Combiner


class Step:
    """Doubles numbers, each run when it is allowed to end."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.runs.append(list(items))
        self.begun.set()
        await self.may_end.wait()
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]


async def test_items_that_arrive_during_a_run_share_the_next_one() -> None:
    step = Step()
    double = Combiner(step, 3)
    first = asyncio.create_task(double(1))
    await step.begun.wait()
    others = [asyncio.create_task(double(number)) for number in range(2, 7)]
    await asyncio.sleep(0)
    step.may_end.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10, 12]
    assert step.runs == [[1], [2, 3, 4], [5, 6]]


async def test_a_failed_run_fails_its_own_items_only() -> None:
    step = Step()
    double = Combiner(step, 2)
    step.may_end.set()
    calls = (double(number) for number in (1, 13, 2))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in found] == [ValueError, ValueError, int]


async def test_an_item_of_a_cancelled_call_does_not_run() -> None:
    step = Step()
    double = Combiner(step, 10)
    first = asyncio.create_task(double(1))
    await step.begun.wait()
    cancelled, kept = asyncio.create_task(double(2)), asyncio.create_task(double(3))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    step.may_end.set()
    assert [await first, await kept] == [2, 6]
    assert step.runs == [[1], [3]]
