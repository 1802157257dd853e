"""Inserts that overlap share calls: step by step with nothing sent, and with threads and tasks against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any, Optional

import quern
from quern import _produce, _shared
from quern._core import Await, Core, Pause, Try
from quern._http import Reply, Request

from test_core import problem
from test_server import serving


class Caller:
    """One insert, which the test takes from step to step."""

    def __init__(self, shared: _shared.Shared, text: str, key: Optional[str] = None) -> None:
        self.procedure = shared.insert(_produce.insert("q", {"chunks": {"inline": [text]}}, key, None))
        self.result: Any = None
        self.error: Optional[Exception] = None
        self.effect: Any = None
        self.go()

    def go(self, answer: Any = None) -> None:
        """Go on until the next effect or the end."""
        try:
            self.effect = self.procedure.throw(answer) if isinstance(answer, Exception) else self.procedure.send(answer)
        except StopIteration as end:
            self.effect, self.result = None, end.value
        except quern.Error as error:
            self.effect, self.error = None, error

    @property
    def waits(self) -> bool:
        return isinstance(self.effect, Await) and not self.effect.waiter["woken"]

    @property
    def request(self) -> Request:
        assert isinstance(self.effect, Try), self.effect
        return self.effect.request

    @property
    def lines(self) -> list[dict[str, Any]]:
        assert self.request.path == "/v1/queues/q/submissions:batch"
        return [json.loads(line) for line in self.request.body.split(b"\n")]


def waiter() -> tuple[Any, Callable[[], None]]:
    one = {"woken": False}

    def wake() -> None:
        assert not one["woken"]
        one["woken"] = True

    return one, wake


def answer(caller: Caller) -> Reply:
    """Each text is inserted under its own name, but those that are bad."""
    if not caller.request.path.endswith(":batch"):
        text = json.loads(caller.request.body)["chunks"]["inline"][0]
        return problem(422, "invalid") if text == "bad" else Reply(200, {}, json.dumps({"id": text}).encode())
    texts = [line["chunks"]["inline"][0] for line in caller.lines]
    results: list[dict[str, Any]] = [{"status": "invalid", "code": "invalid"} if text == "bad" else {"status": "created", "submission": {"id": text}} for text in texts]
    return Reply(200, {}, json.dumps({"results": results}).encode())


class Steps(unittest.TestCase):
    def setUp(self) -> None:
        self.shared = _shared.Shared(Core((), retries=1), waiter)

    def callers(self, *texts: str) -> list[Caller]:
        return [Caller(self.shared, text) for text in texts]

    def test_those_that_overlap_share_a_call(self) -> None:
        """The first goes at once. The others share the next call, each with its own result; a refused one asks alone, with the same key."""
        first, a, bad, b = self.callers("first", "a", "bad", "b")
        self.assertEqual((first.request.path, a.waits, bad.waits, b.waits), ("/v1/queues/q/submissions", True, True, True))
        first.go(answer(first))
        self.assertEqual((first.result, a.waits, bad.waits, b.waits), ({"id": "first"}, True, True, False))
        (late,) = self.callers("late")  # before the call begins
        b.go()
        self.assertEqual([line["chunks"]["inline"] for line in b.lines], [["a"], ["bad"], ["late"], ["b"]])
        key = b.lines[1]["idempotency_key"]
        b.go(answer(b))
        self.assertIsInstance(b.effect, Pause)
        for one in (a, bad, late):
            self.assertFalse(one.waits)
            one.go()
        self.assertEqual((a.result, late.result), ({"id": "a"}, {"id": "late"}))
        self.assertEqual((bad.request.path, bad.request.headers["Idempotency-Key"]), ("/v1/queues/q/submissions", key))
        (next_one,) = self.callers("next")
        self.assertTrue(next_one.waits)  # for the turn of others to join
        bad.go(answer(bad))
        self.assertIsInstance(bad.error, quern.Invalid)
        b.go(True)
        self.assertEqual((b.result, next_one.waits), ({"id": "b"}, False))
        next_one.go()
        next_one.go(answer(next_one))
        next_one.go(True)
        self.assertEqual(next_one.result, {"id": "next"})
        (lone,) = self.callers("lone")
        self.assertEqual(lone.request.path, "/v1/queues/q/submissions")  # all is as in the beginning

    def test_bounds(self) -> None:
        """A call has at most 1,000 submissions and 8 MiB, and a large one goes alone."""
        first, *many = self.callers("first", *["x"] * 1500)
        (large,) = self.callers("y" * _shared.LARGE)
        self.assertEqual(large.request.path, "/v1/queues/q/submissions")
        first.go(answer(first))
        many[-1].go()
        self.assertEqual(len(many[-1].lines), 1000)
        many[-1].go(answer(many[-1]))
        many[-1].go(True)
        self.assertFalse(many[-2].waits)
        many[-2].go()
        self.assertEqual(len(many[-2].lines), 500)
        self.shared = _shared.Shared(Core(()), waiter)
        first, *many = self.callers("first", *["z" * (_shared.LARGE - 1000)] * 200)
        first.go(answer(first))
        many[-1].go()
        self.assertTrue(_produce.CALL_BYTES * 0.9 < len(many[-1].request.body) <= _produce.CALL_BYTES)

    def test_callers_that_break_off(self) -> None:
        """A caller that breaks off while it waits is not in the call. A caller that breaks off the call harms no other: another one makes
        it again."""
        first, gone, a, b, c = self.callers("first", "gone", "a", "b", "c")
        gone.procedure.close()
        first.go(answer(first))
        self.assertFalse(c.waits)
        c.procedure.close()  # it was to make the call
        self.assertFalse(b.waits)
        b.go()
        keys = [line["idempotency_key"] for line in b.lines]
        self.assertEqual(len(keys), 2)
        b.procedure.close()  # in the middle of the call
        self.assertFalse(a.waits)
        a.go()
        self.assertEqual((a.request.path, a.request.headers["Idempotency-Key"]), ("/v1/queues/q/submissions", keys[0]))
        a.go(answer(a))
        self.assertEqual(a.result, {"id": "a"})

    def test_a_call_that_is_tried_again_holds_up_none(self) -> None:
        first, a = self.callers("first", "a")
        first.go(problem(503, "commit_failed"))
        self.assertIsInstance(first.effect, Pause)
        self.assertFalse(a.waits)
        a.go()
        (b,) = self.callers("b")
        a.go(quern.NoAnswer("gone"))
        self.assertIsInstance(a.effect, Pause)
        self.assertFalse(b.waits)
        b.go()
        b.go(answer(b))
        b.go(True)
        self.assertEqual(b.result, {"id": "b"})
        first.go(True)
        first.go(answer(first))
        a.go(True)
        a.go(answer(a))
        a.go(True)
        self.assertEqual((first.result, a.result), ({"id": "first"}, {"id": "a"}))

    def test_a_call_that_fails(self) -> None:
        """It fails for all that share it, each with an error of its own; a refusal of the whole call has each ask alone."""
        first, a, b = self.callers("first", "a", "b")
        first.go(answer(first))
        b.go()
        for _ in range(2):
            b.go(problem(503, "commit_failed"))
            b.go(True)
        a.go()
        assert isinstance(a.error, quern.Unavailable) and isinstance(b.error, quern.Unavailable)
        self.assertEqual((a.error.code, a.error.detail, str(a.error)), ("commit_failed", "It is so.", str(b.error)))
        self.assertIsNot(a.error, b.error)
        for whole in (problem(413, "too_large"), problem(403, "forbidden")):
            first, a, b = self.callers("first", "a", "b")
            first.go(answer(first))
            b.go()
            b.go(whole)
            a.go()
            b.go(True)
            self.assertEqual([one.request.path for one in (a, b)], ["/v1/queues/q/submissions"] * 2)
            for one in (a, b):
                one.go(answer(one))
            self.assertEqual([a.result, b.result], [{"id": "a"}, {"id": "b"}])

    def test_traces_and_keys(self) -> None:
        """Each line has the trace of its caller and its key, and the call has no trace."""
        first = Caller(self.shared, "first")
        context = quern.set_trace_context("00-1-2-01;a=b")
        try:
            a = Caller(self.shared, "a", 'my"key\\')
        finally:
            quern._core._trace.reset(context)
        b = Caller(self.shared, "b")
        first.go(answer(first))
        context = quern.set_trace_context("00-3-4-01")
        try:
            b.go()
        finally:
            quern._core._trace.reset(context)
        self.assertEqual([line.get("trace") for line in b.lines], ["00-1-2-01;a=b", None])
        self.assertEqual(b.lines[0]["idempotency_key"], 'my"key\\')
        self.assertNotIn("traceparent", b.request.headers)


class Served(unittest.TestCase):
    """Sixty-four callers of one client: each gets its own submission, or its own refusal."""

    at_once = 64
    each = 8

    def check(self, inserted: dict[str, Any], refused: list[Any]) -> None:
        self.assertEqual(len(inserted), self.at_once * (self.each - 1))
        self.assertEqual(len({one["id"] for one in inserted.values()}), len(inserted))
        self.assertEqual([text for text, one in inserted.items() if one["meta"] != {"name": text}], [])
        self.assertEqual({(error.status, error.problems[0]["pointer"]) for error in refused}, {(422, "/max_attempts")})
        self.assertEqual(len(refused), self.at_once)

    def test_threads(self) -> None:
        inserted: dict[str, Any] = {}
        refused: list[Any] = []

        def work(caller: int) -> None:
            for i in range(self.each - 1):
                inserted[f"{caller}/{i}"] = client.insert(["x"], meta={"name": f"{caller}/{i}"})
            try:
                client.insert(["x"], max_attempts=-1)
            except quern.Invalid as error:
                refused.append(error)

        with serving() as server, quern.Client(server.address) as client:
            threads = [threading.Thread(target=work, args=[caller]) for caller in range(self.at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.check(inserted, refused)

    def test_tasks(self) -> None:
        inserted: dict[str, Any] = {}
        refused: list[Any] = []
        calls: list[quern.Call] = []

        async def run(address: str) -> None:
            async with quern.AsyncClient(address, on_call=calls.append) as client:
                cancelled = [asyncio.ensure_future(client.insert([f"cancelled {i}"])) for i in range(self.at_once)]

                async def work(caller: int) -> None:
                    for i in range(self.each - 1):
                        inserted[f"{caller}/{i}"] = await client.insert(["x"], meta={"name": f"{caller}/{i}"})
                        cancelled[caller].cancel()  # in the middle of a call, or while it waits
                    try:
                        await client.insert(["x"], max_attempts=-1)
                    except quern.Invalid as error:
                        refused.append(error)

                await asyncio.gather(*(work(caller) for caller in range(self.at_once)))
                await asyncio.gather(*cancelled, return_exceptions=True)
                self.assertEqual(client._shared._waiting, {})

        with serving() as server:
            asyncio.run(run(server.address))
        self.check(inserted, refused)
        self.assertTrue(any(call.path.endswith(":batch") for call in calls))


class Keys(unittest.TestCase):
    """Two processes never draw the same idempotency keys: the server would take the second insert for the first one made again."""

    def test_a_fork_draws_keys_of_its_own(self) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # it draws what the parent would draw next
            os.write(writing, str(_produce.draws.getrandbits(64)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        self.assertNotEqual(os.read(reading, 100).decode(), str(_produce.draws.getrandbits(64)))
        os.close(reading)
        os.close(writing)

    def test_copies_of_a_process_draw_different_keys(self) -> None:
        before = _produce.draws.getstate()
        first = _produce.new_key()
        _produce.draws.setstate(before)
        time.sleep(0.001)
        second = _produce.new_key()
        self.assertEqual(first[:16], second[:16])
        self.assertNotEqual(first, second)


if __name__ == "__main__":
    unittest.main()
