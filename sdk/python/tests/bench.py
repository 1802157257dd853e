"""How many empty chunks a worker does in a second: bench.py ADDRESS AT_ONCE SECONDS threads|asyncio, of the queue default, which has enough of them.

`quern-bench clients` runs it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time

import quern


def threads(address: str, at_once: int, seconds: float) -> float:
    count = itertools.count()  # next() is one step, whatever other threads do
    with quern.Client(address) as client:

        @client.worker(concurrency=at_once)
        def handle(chunk: quern.Chunk) -> None:
            next(count)

        began = time.monotonic()
        with handle:
            time.sleep(seconds)
        return next(count) / (time.monotonic() - began)  # what it had in its hands is done, and reported


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


if __name__ == "__main__":
    address, at_once, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    print(threads(address, at_once, seconds) if sys.argv[4] == "threads" else asyncio.run(tasks(address, at_once, seconds)))
