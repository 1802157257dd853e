"""How many empty chunks a worker does in a second: bench.py ADDRESS [CHUNKS [AT_ONCE]], of a server whose queue default is empty."""

from __future__ import annotations

import asyncio
import sys
import time

import quern


def threads(address: str, chunks: int, at_once: int) -> float:
    with quern.Client(address) as client:

        @client.worker(concurrency=at_once)
        def handle(chunk: quern.Chunk) -> None:
            return None

        submission = client.insert(count=chunks, template="x")
        began = time.monotonic()
        with handle:
            client.wait(submission)
            return chunks / (time.monotonic() - began)


async def tasks(address: str, chunks: int, at_once: int) -> float:
    async with quern.AsyncClient(address) as client:

        @client.worker(concurrency=at_once)
        async def handle(chunk: quern.Chunk) -> None:
            return None

        submission = await client.insert(count=chunks, template="x")
        began = time.monotonic()
        async with handle:
            await client.wait(submission)
            return chunks / (time.monotonic() - began)


if __name__ == "__main__":
    address, chunks, at_once = sys.argv[1], *(int(one) for one in (sys.argv[2:] + ["100000", "64"][len(sys.argv) - 2 :]))
    for _ in range(3):
        print(f"{at_once} at once: {threads(address, chunks, at_once):,.0f} chunks/s with threads, {asyncio.run(tasks(address, chunks, at_once)):,.0f} with asyncio")
