import asyncio

from worker import tasks


def test_a_task_that_loses_cancellations_ends(monkeypatch):
    monkeypatch.setattr(tasks, "_AGAIN_S", 0.01)
    lost = []

    async def loses_two():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if len(lost) == 2:
                    raise
                lost.append("one")

    async def main():
        task = asyncio.create_task(loses_two())
        await asyncio.sleep(0)
        await tasks.end(task)
        assert task.cancelled()
        await tasks.end(task)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert len(lost) == 2
