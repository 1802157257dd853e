"""Waiting for many submissions, with both clients against a real server."""

from __future__ import annotations

import asyncio
import threading
import unittest
from typing import Any

import quern

from test_server import Server, serving


class WaitMany(unittest.TestCase):
    def insert(self, client: quern.Client) -> list[str]:
        """More than one call waits for."""
        made = client.insert_many([dict(count=1, prefix="a/")] * 1003)
        return [one["id"] for one in made if isinstance(one, dict)]

    def test_wait_many(self) -> None:
        """Many submissions come as they end, each once; an unknown id comes with its error and keeps no other."""
        with serving() as server, quern.Client(server.address) as client:
            ids = self.insert(client)
            first, second = ids[7], ids[1]
            client.cancel_submission(first)
            ended: list[str] = []
            unknown: list[str] = []
            threads: list[threading.Thread] = []

            def cancel(*names: str) -> None:
                threads.append(threading.Thread(target=lambda: [client.cancel_submission(name) for name in names]))
                threads[-1].start()

            for name, one in client.wait_many(["7", "00" + first, {"id": second}, *ids], timeout=120):
                if isinstance(one, quern.NotFound):
                    self.assertEqual(one.code, "unknown_submission")
                    unknown.append(name)
                    continue
                self.assertEqual((one["id"], one["state"]), (name, "cancelled"))
                ended.append(name)
                if len(ended) == 1:
                    cancel(second)  # while the next call waits, or before
                if len(ended) == 2:
                    cancel(*(name for name in ids if name not in (first, second)))
            for thread in threads:
                thread.join()
            self.assertEqual((unknown, ended[:2], sorted(ended)), (["7"], [first, second], sorted(ids)))

    def test_the_same_with_asyncio(self) -> None:
        async def run(server: Server, client: quern.Client) -> None:
            ids = self.insert(client)
            async with quern.AsyncClient(server.address) as own:
                await own.cancel_submission(ids[7])
                ended: list[str] = []
                async for name, one in own.wait_many([*ids[:50], "7"], timeout=120):
                    if isinstance(one, quern.NotFound):
                        self.assertEqual(name, "7")
                        continue
                    ended.append(name)
                    if len(ended) == 1:
                        await asyncio.gather(*(own.cancel_submission(name) for name in ids[:50] if name != ids[7]))
                self.assertEqual((ended[0], sorted(ended)), (ids[7], sorted(ids[:50])))
                with self.assertRaises(TimeoutError):
                    async for _ in own.wait_many(ids[50:52], timeout=0.05):
                        self.fail("none has ended")

        with serving() as server, quern.Client(server.address) as client:
            asyncio.run(run(server, client))

    def test_what_is_wrong(self) -> None:
        with serving() as server, quern.Client(server.address) as client:
            with self.assertRaises(quern.Invalid):
                list(client.wait_many(["x"]))
            with self.assertRaisesRegex(TypeError, "list"):
                list(client.wait_many("123"))
            self.assertEqual(list(client.wait_many([])), [])
            submission: Any = client.insert(["x"])
            with self.assertRaisesRegex(TimeoutError, "1 submissions are still open after 0.05 s"):
                list(client.wait_many([submission, submission], timeout=0.05))


if __name__ == "__main__":
    unittest.main()
