"""How many empty chunks a worker does in a second, or how many submissions are inserted one by one: bench.py ADDRESS AT_ONCE SECONDS
threads|asyncio work|insert. The queue default has chunks enough, and work is inserted into the queue inserts.

`quern-bench clients` runs it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time

import quern

CONTENT = "0123456789" * 10
META = {"company": 7}


def threads(address: str, at_once: int, seconds: float) -> float:
    count = itertools.count()  # next() is one step, whatever other threads do
    with quern.Client(address) as client:

        @client.worker(concurrency=at_once)
        def handle(chunk: quern.Chunk) -> None:
            next(count)

        began = time.monotonic()
        with handle:
            time.sleep(seconds)
        return next(count) / (time.monotonic() - began)  # the chunks that it held are done and reported


async def tasks(address: str, at_once: int, seconds: float) -> float:
    count = itertools.count()
    async with quern.AsyncClient(address) as client:

        @client.worker(concurrency=at_once)
        async def handle(chunk: quern.Chunk) -> None:
            next(count)

        began = time.monotonic()
        async with handle:
            await asyncio.sleep(seconds)
        return next(count) / (time.monotonic() - began)


def insert_threads(address: str, at_once: int, seconds: float) -> float:
    count = itertools.count()
    with quern.Client(address) as client:
        client.ensure_queue("inserts")
        until = time.monotonic() + seconds

        def insert() -> None:
            while time.monotonic() < until:
                client.insert([CONTENT], queue="inserts", meta=META)
                next(count)

        callers = [threading.Thread(target=insert) for _ in range(at_once)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        return next(count) / seconds


async def insert_tasks(address: str, at_once: int, seconds: float) -> float:
    count = itertools.count()
    async with quern.AsyncClient(address) as client:
        await client.ensure_queue("inserts")
        until = time.monotonic() + seconds

        async def insert() -> None:
            while time.monotonic() < until:
                await client.insert([CONTENT], queue="inserts", meta=META)
                next(count)

        await asyncio.gather(*(insert() for _ in range(at_once)))
        return next(count) / seconds


if __name__ == "__main__":
    address, at_once, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with_threads, with_tasks = (threads, tasks) if sys.argv[5] == "work" else (insert_threads, insert_tasks)
    print(with_threads(address, at_once, seconds) if sys.argv[4] == "threads" else asyncio.run(with_tasks(address, at_once, seconds)))
