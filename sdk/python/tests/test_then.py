"""Submissions that completions insert, with both clients against a real server."""

from __future__ import annotations

import asyncio
import threading
import unittest
from typing import Any

import quern

from test_server import serving

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AGAIN = {"max_attempts": 3, "on_exhausted": "dead_letter", "retry_backoff": {"kind": "fixed", "base_ms": 1}}


class Then(unittest.TestCase):
    def test_then(self) -> None:
        """A submission that a handler inserts with then exists once when its chunk is done, with the chunk's trace. One that the server
        refuses as wrong makes a dead letter; one that it refuses for now is tried again."""

        def handle(chunk: quern.Chunk, lift: Any, seen: set[str]) -> None:
            kind = chunk.meta["kind"]
            if kind == "split":
                for name in "ab":
                    chunk.then([name + chunk.text], meta={"kind": "part"}, key=f"{name}/{chunk.index}")
            elif kind == "wrong":
                chunk.then([])
            elif kind == "many":
                for _ in range(101):
                    chunk.then(["x"], meta={"kind": "none"})
            elif kind == "fails":
                chunk.then(["x"], meta={"kind": "none"})
                raise quern.Permanent("no")
            elif kind == "refused":
                if chunk.attempt == 2:
                    lift()
                chunk.then(["x"], meta={"kind": "held up"})
            elif kind == "part":
                assert chunk.trace.split("-")[1] == TRACE.split("-")[1], chunk.trace
                seen.add(chunk.text)

        def check(client: quern.Client, ids: dict[str, str], seen: set[str]) -> None:
            states = {kind: client.get_submission(one)["state"] for kind, one in ids.items()}
            dead = "completed_with_dead"
            self.assertEqual(states, {"split": "completed", "wrong": dead, "many": dead, "fails": dead, "refused": "completed"})
            self.assertEqual(seen, {f"{name}{index}" for name in "ab" for index in range(100)})
            self.assertEqual(client.get_stats("default")["submissions_inserted_total"], 5 + 200 + 1)
            for kind, says in (("wrong", "the server refused the insert/0/chunks/inline: it "), ("many", "the server refused the insert: it has more than 100 entries")):
                self.assertTrue(client.get_dead_letter("default", ids[kind], 0)["error"].startswith(says), client.get_dead_letter("default", ids[kind], 0))

        def prepare(client: quern.Client) -> tuple[dict[str, str], str]:
            rule = client.set_rule("default", {"action": "pause", "effects": {"insert": True}, "match": {"meta": {"kind": "held up"}}})
            client.insert(count=100, template="{index}", meta={"kind": "split"}, trace=TRACE)
            (split,) = client.list_submissions("default")
            kinds = ("wrong", "many", "fails", "refused")
            return {"split": split["id"], **{kind: client.insert(["x"], meta={"kind": kind}, **AGAIN)["id"] for kind in kinds}}, rule["id"]  # type: ignore[arg-type]

        def open_ones(client: quern.Client) -> int:
            return int(client.get_stats("default")["submissions_open"])

        with serving() as server, quern.Client(server.address) as client:
            ids, rule = prepare(client)
            seen: set[str] = set()

            @client.worker(concurrency=8, on_error=lambda error: None)
            def work(chunk: quern.Chunk) -> None:
                handle(chunk, lambda: client.lift_rule("default", rule), seen)

            with work:
                while open_ones(client):
                    threading.Event().wait(0.01)
            check(client, ids, seen)

        async def beside(address: str, client: quern.Client) -> None:
            ids, rule = prepare(client)
            seen: set[str] = set()
            async with quern.AsyncClient(address) as own:

                @own.worker(concurrency=8, on_error=lambda error: None)
                async def work(chunk: quern.Chunk) -> None:
                    handle(chunk, lambda: client.lift_rule("default", rule), seen)

                async with work:
                    while open_ones(client):
                        await asyncio.sleep(0.01)
            check(client, ids, seen)

        with serving() as server, quern.Client(server.address) as client:
            asyncio.run(beside(server.address, client))

    def test_more_than_a_call_takes(self) -> None:
        """Completions that bring more submissions than one call may are reported in several."""
        n = 220
        all_here = threading.Barrier(n)
        with serving() as server, quern.Client(server.address) as client:
            submission = client.insert(count=n, template="x", meta={"kind": "split"})

            @client.worker(concurrency=n, strategy='SelectOnly("kind", "split", Random)')
            def handle(chunk: quern.Chunk) -> None:
                for _ in range(100):
                    chunk.then(count=1, template="x")
                all_here.wait(60)

            with handle:
                self.assertEqual(client.wait(submission, timeout=60)["state"], "completed")
            self.assertEqual(client.get_stats("default")["submissions_inserted_total"], 1 + 100 * n)


if __name__ == "__main__":
    unittest.main()
