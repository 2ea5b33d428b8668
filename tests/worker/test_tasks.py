import asyncio

from worker.engine.asyncio_tasks import end


async def test_a_task_that_loses_cancellations_ends():
    lost = []

    async def loses_two():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if len(lost) == 2:
                    raise
                lost.append("one")

    task = asyncio.create_task(loses_two())
    await asyncio.sleep(0)
    await end(task, again_s=0.01)
    assert task.cancelled()
    await end(task, again_s=0.01)
    assert len(lost) == 2
