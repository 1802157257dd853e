"""Both clients against several real servers: which of them get which calls."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import threading
import unittest
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Optional

import quern

Answer = tuple[int, dict[str, str], bytes]
SERVES: Answer = (200, {}, b'{"id":"5","name":"s","state":"completed"}')
HELLO = b'event: hello\ndata: {"heartbeat_ms":10000}\n\n'


def refuses(status: int, code: str, owner: str = "") -> Answer:
    return status, {"Quern-Owner": owner} if owner else {}, json.dumps({"title": "No", "status": status, "code": code}).encode()


class Node:
    """A server that gives the same answer to every call, or None: it breaks the connection."""

    def __init__(self, answer: Optional[Answer]) -> None:
        self.answer = answer
        self.calls: list[str] = []
        self.heard = threading.Condition()
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                length = self.headers.get("Content-Length")
                self.rfile.read(int(length)) if length else self.chunks() if self.headers.get("Transfer-Encoding") else None
                with node.heard:
                    node.calls.append(f"{self.command} {self.path}")
                    node.heard.notify_all()
                if node.answer is None:
                    self.close_connection = True
                    return
                status, headers, body = node.answer
                if status == 200 and self.path.endswith("/attach"):
                    body = HELLO
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # the client has gone
                    self.wfile.write(body)

            def chunks(self) -> None:
                while (size := int(self.rfile.readline(), 16)) > 0:
                    self.rfile.read(size + 2)
                self.rfile.readline()

            do_GET = do_POST = do

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01])
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        self.answer = None  # also on connections that are kept
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()


class Addresses(unittest.TestCase):
    def nodes(self, *answers: Optional[Answer]) -> list[Node]:
        nodes = [Node(answer) for answer in answers]
        for node in nodes:
            self.addCleanup(node.stop)
        return nodes

    def each(self, act: Callable[[Callable[..., Any]], Coroutine[Any, Any, None]]) -> None:
        """Run a test with both clients. It gets what makes one; calls of either are awaited."""
        for kind in (Blocking, quern.AsyncClient):
            with self.subTest(client=kind.__name__):
                asyncio.run(act(kind))

    def test_those_that_do_not_serve_are_left(self) -> None:
        """A client keeps to the address that serves; a dead one, and one whose queue is moving, are left without a pause or another try."""

        async def act(make: Callable[..., Any]) -> None:
            dead, moving, good = self.nodes(SERVES, refuses(503, "moving"), SERVES)
            dead.stop()
            async with make(dead.url, moving.url, good.url, retries=0) as client:
                for _ in range(4):
                    await client.get_schedule("default", "s")
                self.assertEqual(len(good.calls), 4)
                self.assertLessEqual(len(moving.calls), 1)
                good.stop()
                moving.answer = SERVES
                await client.insert(["x"])

        self.each(act)

    def test_what_may_not_be_made_twice(self) -> None:
        """An insert without a key whose connection breaks, or whose outcome a node does not know, is made once; the next call goes elsewhere."""

        async def act(make: Callable[..., Any]) -> None:
            for answer in (None, refuses(502, "outcome_unknown"), refuses(503, "moving")):
                nodes = self.nodes(answer, answer, answer)
                async with make(*(node.url for node in nodes)) as client:
                    for _ in nodes:
                        with self.assertRaises(quern.Error):
                            await client.trigger_schedule("default", "s")
                    self.assertEqual([len(node.calls) for node in nodes], [1, 1, 1])
                    for _ in nodes:
                        with self.assertRaises(quern.Error):
                            await client.insert_stream(["x"])
                    self.assertEqual([len(node.calls) for node in nodes], [2, 2, 2])

        self.each(act)

    def test_moves(self) -> None:
        """A node that does not own the queue sends a call on to the owner, once; a worker attaches and reserves there."""

        async def act(make: Callable[..., Any]) -> None:
            (owner,) = self.nodes(SERVES)
            (stale,) = self.nodes(refuses(421, "moved", owner.url))
            async with make(stale.url, retries=0) as client:
                await client.trigger_schedule("default", "s")
                self.assertEqual((len(stale.calls), stale.calls), (1, owner.calls))
                owner.answer = refuses(421, "moving", stale.url)
                with self.assertRaises(quern.Unavailable):
                    await client.trigger_schedule("default", "s")
                self.assertEqual((len(stale.calls), len(owner.calls)), (2, 2))
                owner.answer = (200, {}, b'{"reservations":[],"reason":"nothing","released":0}')
                await work(client, owner, ("attach", "reservations", "detach"))

        self.each(act)

    def test_direct(self) -> None:
        """In direct mode calls go to the owner that an answer named, and back when it dies; by default they do not."""

        async def act(make: Callable[..., Any]) -> None:
            for direct, at_owner in ((True, 2), (False, 0)):
                (owner,) = self.nodes(SERVES)
                (front,) = self.nodes((200, {"Quern-Owner": owner.url}, SERVES[2]))
                async with make(front.url, retries=0, direct=direct) as client:
                    for _ in range(3):
                        await client.get_schedule("default", "s")
                    self.assertEqual((len(front.calls), len(owner.calls)), (3 - at_owner, at_owner))
                    idle = (client.client if isinstance(client, Blocking) else client)._transport._idle
                    self.assertEqual(len(idle), 1 + direct)
                    for connection in sum(idle.values(), []):
                        connection.since -= 1000
                    await client.get_schedule("other", "s")
                    self.assertEqual([endpoint.name for endpoint in idle], [front.url.removeprefix("http://")])
                    owner.stop()
                    await client.get_schedule("default", "s")
                    self.assertEqual(len(front.calls), 5 - at_owner)

        self.each(act)


class Blocking:
    """A quern.Client whose calls are awaited, in threads of their own."""

    def __init__(self, *addresses: str, **options: Any) -> None:
        self.client = quern.Client(*addresses, **options)

    async def __aenter__(self) -> Blocking:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **options: asyncio.to_thread(getattr(self.client, name), *args, **options)


async def work(client: Any, node: Node, verbs: Iterable[str]) -> None:
    """Have a worker run until a node has heard of each of these calls, the last of them at the worker's end."""
    *before, last = verbs

    def until(*wanted: str) -> None:
        with node.heard:
            came = node.heard.wait_for(lambda: all(any(call.endswith("/" + verb) for call in node.calls) for verb in wanted), 60)
        assert came, f"{wanted} did not all come: {node.calls}"

    if isinstance(client, Blocking):
        with client.client.worker(attach=True)(lambda chunk: None):
            await asyncio.to_thread(until, *before)
        until(last)
        return

    async def handle(chunk: quern.Chunk) -> None:
        pass

    async with client.worker(attach=True)(handle):
        await asyncio.to_thread(until, *before)
    until(last)
