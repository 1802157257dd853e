"""The program with which sdk/conformance tests the Python client: conform.py [--asyncio] OPTIONS."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union

import quern

said = threading.Lock()
snoozed: set[int] = set()  # chunks that were given back once


def say(*words: object) -> None:
    with said:
        print(*words, flush=True)


def heard(error: quern.Error) -> None:
    if isinstance(error, quern.ReservationLost):
        say("lost", error.index)
    elif not isinstance(error, quern.HandlerFailed):
        print(repr(error), file=sys.stderr, flush=True)


def crash(text: str) -> None:
    raise KeyError(text)


def act(chunk: quern.Chunk) -> Union[str, bytes, None]:
    """Do what a chunk says, except waiting."""
    verb, _, rest = chunk.text.partition(" ")
    if verb == "echo":
        return rest
    if verb == "bytes":
        return bytes.fromhex(rest)
    if verb == "size":
        return "x" * int(rest.split(" ")[0])
    if verb == "crash" and chunk.attempt == 1:
        crash(rest)
    if verb == "fatal":
        raise quern.Permanent(rest)
    if verb == "snooze" and chunk.index not in snoozed:  # the attempt is the same the second time
        snoozed.add(chunk.index)
        raise quern.Snooze(int(rest) / 1000)
    if verb == "fail" and chunk.attempt == 1:
        raise RuntimeError(rest)
    if verb == "retry" and chunk.attempt == 1:
        ms, _, text = rest.partition(" ")
        raise quern.RetryAfter(int(ms) / 1000, text)
    return None


def awaited(chunk: quern.Chunk) -> Optional[str]:
    verb, _, rest = chunk.text.partition(" ")
    return rest.split(" ")[0] if verb in ("wait", "progress") else None


def progress(chunk: quern.Chunk) -> Iterator[None]:
    """Report the progress that a chunk asks for, in turns, before the handler waits."""
    verb, _, rest = chunk.text.partition(" ")
    if verb == "progress":
        for turn in range(1, 200):
            chunk.progress(turn / 400, f"turn {turn}")
            yield
        chunk.progress(0.5, rest.partition(" ")[2])


def tell(results: Sequence[Any]) -> None:
    for one in results:
        if isinstance(one, quern.Refused):
            say("refused", one.code, one.problems[0]["pointer"])
        else:
            say("inserted", one["id"])


def blocking(o: dict[str, Any], addresses: list[str], token: str, options: dict[str, Any]) -> None:
    with quern.Client(*addresses, token=token, direct=o.get("direct", False)) as client:
        if o["role"] == "many":
            tell(client.insert_many([dict(chunks=[text]) for text in o["chunks"]]))
            return
        if o["role"] != "work":
            submission = client.insert(o["chunks"]) if o["role"] == "produce" else client.insert_stream(o["chunks"])
            say("inserted", submission["id"])
            say("ended", client.wait(submission)["state"])
            for output in client.outputs(submission):
                say("output", output.index, output.data.hex())
            return

        @client.worker(**options)
        def handle(chunk: quern.Chunk) -> Union[str, bytes, None]:
            say("begin", chunk.index)
            try:
                for _ in progress(chunk):
                    chunk.sleep(0.002)
                file = awaited(chunk)
                while file and not os.path.exists(file):
                    chunk.sleep(0.01)
                return act(chunk)
            except quern.Cancelled:
                say("cancelled", chunk.index)
                raise
            finally:
                say("end", chunk.index)

        handle.run()


async def awaiting(o: dict[str, Any], addresses: list[str], token: str, options: dict[str, Any]) -> None:
    async with quern.AsyncClient(*addresses, token=token, direct=o.get("direct", False)) as client:
        if o["role"] == "many":
            tell(await client.insert_many([dict(chunks=[text]) for text in o["chunks"]]))
            return
        if o["role"] != "work":
            submission = await (client.insert(o["chunks"]) if o["role"] == "produce" else client.insert_stream(o["chunks"]))
            say("inserted", submission["id"])
            say("ended", (await client.wait(submission))["state"])
            async for output in client.outputs(submission):
                say("output", output.index, output.data.hex())
            return

        @client.worker(**options)
        async def handle(chunk: quern.Chunk) -> Union[str, bytes, None]:
            say("begin", chunk.index)
            try:
                for _ in progress(chunk):
                    await asyncio.sleep(0.002)
                file = awaited(chunk)
                while file and not os.path.exists(file):
                    await asyncio.sleep(0.01)
                return act(chunk)
            except asyncio.CancelledError:
                say("cancelled", chunk.index)
                raise
            finally:
                say("end", chunk.index)

        await handle.run()


def main() -> None:
    o = json.loads(sys.argv[-1])
    options = dict(
        consumer=o.get("consumer", ""), concurrency=o.get("concurrency", 1), prefetch=o.get("prefetch"), timeout=o.get("timeout_ms", 60000) / 1000,
        wait=o.get("wait_ms", 20000) / 1000, on_error=None if o.get("log") else heard,
    )  # fmt: skip
    given = o, o["addresses"], o.get("token", ""), options
    try:
        if "--asyncio" in sys.argv:
            asyncio.run(awaiting(*given))
        else:
            blocking(*given)
    except quern.Refused as error:
        say("error", error.status, error.code)
        sys.exit(1)
    except quern.Error as error:
        say("error", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
