"""The worker's decisions, one by one, without a thread or a connection."""

from __future__ import annotations

import json
import time
import unittest
from typing import Any

import quern
from quern._core import Core, Event
from quern._held import Held
from quern._worker import Ahead, Exchange, Poll, WorkerCore, WorkerOptions


class Recorder:
    """A shell that notes all calls."""

    def __init__(self) -> None:
        self.ready: list[Held] = []
        self.calls: list[Exchange] = []
        self.polls: list[Poll] = []
        self.cancelled: list[Held] = []
        self.saying: list[Held] = []
        self.reports: list[quern.Error] = []
        self.stopped = 0

    def hand_out(self, held: Held) -> None:
        self.ready.append(held)

    def take_back(self) -> list[Held]:
        out, self.ready = self.ready, []
        return out

    def cancel(self, held: Held) -> None:
        self.cancelled.append(held)

    def exchange(self, call: Exchange) -> None:
        self.calls.append(call)

    def poll(self, poll: Poll) -> None:
        self.polls.append(poll)

    def stop_poll(self) -> None:
        self.stopped += 1

    def wait(self, held: Held, seconds: float) -> None:
        raise AssertionError

    def said(self, held: Held) -> None:
        self.saying.append(held)

    def report(self, error: quern.Error) -> None:
        self.reports.append(error)

    def hook(self, held: Held) -> bool:
        return False


def reservation(index: int) -> dict[str, Any]:
    return {"token": f"t{index}", "submission": "7", "index": index, "attempt": 1, "deadline": "2026-01-01T00:00:00.000Z", "content": {"text": "x"}, "meta": {}}


class Worker(unittest.TestCase):
    def setUp(self) -> None:
        self.shell = Recorder()
        self.core = WorkerCore(Core(()), WorkerOptions(consumer="me", concurrency=2, prefetch=2), self.shell)
        self.core.start()
        assert not self.shell.polls  # it waits for the first hello
        self.core.unheard()
        assert not self.core.incarnation  # reservations under its name may be its own now
        self.core.start()

    def bring(self, *indexes: int) -> list[Held]:
        """Answer the poll."""
        poll = self.shell.polls[-1]
        poll.answer = {"reservations": [reservation(index) for index in indexes], "reason": None}
        self.core.polled(poll)
        self.core.start()
        return self.shell.ready[-len(indexes) :] if indexes else []

    def end(self, held: Held, output: Any = None) -> None:
        self.shell.ready.remove(held)
        held.complete(output)
        self.core.finished(held)
        self.core.start()

    def answer(self, call: Exchange, *status: str, reservations: Any = ()) -> None:
        call.answer = {
            "complete": [{"status": one} for one, held in zip(status, call.outcomes) if not held.failed],
            "fail": [{"status": one} for one, held in zip(status, call.outcomes) if held.failed],
            "extend": [{"status": one} for one in status[len(call.outcomes) :]],
            "reservations": list(reservations),
        }
        self.core.called(call)
        self.core.start()

    def test_room(self) -> None:
        """It asks for as much as there is room for, reports without waiting for the poll, and reserves with the report once nothing polls."""
        self.assertEqual(self.shell.polls[-1].room, 4)
        held = self.bring(0, 1)
        self.assertEqual(self.shell.polls[-1].room, 2)
        self.end(held[0])
        call = self.shell.calls[-1]
        self.assertEqual((len(call.outcomes), call.asked), (1, 0))
        self.bring(2, 3)
        self.answer(call, "ok")
        self.assertEqual(len(self.shell.polls), 3)
        self.assertEqual(self.shell.polls[-1].room, 1)

    def test_ahead(self) -> None:
        """It reserves nothing ahead at first, more when handlers waited for calls, and less when much is left."""
        ahead = Ahead(WorkerOptions(concurrency=2))

        def answered(finished: int, took: float, since: float, left: int, brought: int, size: int = 0) -> int:
            now = time.monotonic()
            ahead._answered = now - since
            call = Exchange([Held(reservation(i), self.shell) for i in range(finished)], [], [], 8, 0, 0)
            call.answer, call.began, call.size = {"reservations": [None] * brought}, now - took, size
            ahead.answered(call, left)
            return ahead.n

        self.assertEqual(ahead.n, 0)
        self.assertEqual(answered(1, 1, 100, 0, 8), 0)  # a handler works 200 s on a chunk, and missed one
        self.assertEqual(answered(2, 1, 2, 0, 7), 0)  # the server has no more
        self.assertEqual(answered(2, 1, 2, 0, 8, 2 << 20), 0)  # a large answer takes long with fewer, too
        self.assertEqual([answered(2, 1, 2, 0, 8) for _ in range(5)], [1, 2, 4, 8, 16])
        self.assertEqual([answered(2, 1, 2, 8, 8), answered(2, 1, 2, 9, 8)], [16, 14])
        self.assertEqual([answered(2, 1, 2, 0, 8) for _ in range(8)][-1], 1000)
        ahead = Ahead(WorkerOptions(concurrency=2, prefetch=3))
        self.assertEqual([answered(2, 1, 2, 0, 8), answered(2, 1, 2, 3, 8)], [3, 3])

    def test_tick(self) -> None:
        """A chunk is extended once after two quarters of its timeout, and again two quarters after the answer."""
        self.bring(0)
        for wanted in (0, 1, 1):
            self.core.tick()
            self.core.start()
            self.assertEqual(len(self.shell.calls), wanted)
        self.assertEqual([held.token for held in self.shell.calls[0].extends], ["t0"])
        self.answer(self.shell.calls[0], "ok")
        for wanted in (1, 2):
            self.core.tick()
            self.core.start()
            self.assertEqual(len(self.shell.calls), wanted)

    def test_progress(self) -> None:
        """A handler's progress is noted once until it is sent, within bounds; progress during an extension goes with the next one."""
        (held,) = self.bring(0)
        for part, note in ((0.1, "page 1"), (2, "é" * 200), (float("nan"), "")):
            held.chunk.progress(part, note)
        self.assertEqual(held.progress, {"progress": 0.0, "note": "é" * 128})
        self.assertEqual(self.shell.saying, [held])
        self.core.said(held)
        self.core.send_progress()
        self.core.start()
        self.assertEqual(self.shell.calls[-1].extends, [held])
        held.chunk.progress(0.5)
        self.assertEqual(self.shell.saying, [held, held])
        self.core.said(held)
        self.core.send_progress()  # the answer of the call is out
        self.assertIsNotNone(self.core.due)
        self.answer(self.shell.calls[-1], "ok")
        self.core.send_progress()
        self.core.start()
        self.assertEqual([call.extends for call in self.shell.calls], [[held], [held]])
        self.end(held)
        held.chunk.progress(0.6)  # by a thread of the handler that goes on
        self.core.said(held)
        self.core.send_progress()
        self.assertEqual((self.core.extends, self.core.due), ([], None))

    def test_hello(self) -> None:
        """After each hello, even the first, everything is extended, including chunks of an answer that was requested before it."""
        hello = Event("hello", '{"heartbeat_ms":1000,"epoch":1}')
        self.bring(0)
        for n, fresh in enumerate((1, 2)):
            self.core.heard(hello)
            self.core.start()
            self.bring(fresh)
            self.answer(self.shell.calls[2 * n], *["ok"] * len(self.shell.calls[2 * n].extends))
            self.assertEqual([held.token for held in self.shell.calls[2 * n + 1].extends], [f"t{fresh}"])
            self.answer(self.shell.calls[2 * n + 1], "ok")
        self.assertEqual({held.token for held in self.shell.calls[0].extends}, {"t0"})
        self.assertEqual({held.token for held in self.shell.calls[2].extends}, {"t0", "t1"})

    def test_revoked(self) -> None:
        """A revoked chunk is cancelled and not reported; one that is revoked before its answer comes never begins."""
        held = self.bring(0)
        items = [{"token": "t0", "reason": "operator"}, {"token": "t1", "reason": "submission_ended"}]
        self.core.heard(Event("revoked", json.dumps({"items": items})))
        self.assertEqual(self.shell.cancelled, held)
        self.assertTrue(held[0].chunk.cancelled)
        self.end(held[0])
        self.assertEqual(self.shell.calls, [])
        late = self.bring(1)
        self.assertTrue(late[0].lost)
        self.assertIsInstance(self.shell.reports[0], quern.ReservationLost)

    def test_all_that_was_revoked_is_marked_first(self) -> None:
        """The first handler that is cancelled makes room for the next chunk, which is revoked too."""
        both = self.bring(0, 1)
        marked = []
        self.shell.cancel = lambda held: marked.append([one.lost for one in both])  # type: ignore[assignment]
        self.core.heard(Event("revoked", json.dumps({"items": [{"token": held.token, "reason": "operator"} for held in both]})))
        self.assertEqual(marked, [[True, True], [True, True]])

    def test_lost_answers_are_reported_again(self) -> None:
        """After a failed call the same results go out again, before newer ones; a result that does not count is reported."""
        first, second = self.bring(0, 1)
        self.end(first, "a")
        call = self.shell.calls[-1]
        self.end(second, b"\xff")
        call.error = quern.NoAnswer("gone")
        self.core.called(call)
        self.core.start()
        again = self.shell.calls[-1]
        self.assertEqual([held.item for held in again.outcomes], [b'{"token":"t0","output":"a"}', b'{"token":"t1","output":{"base64":"/w=="}}'])
        self.answer(again, "already", "lost")
        self.assertEqual([type(one) for one in self.shell.reports], [quern.NoAnswer, quern.ReservationLost])

    def test_drain(self) -> None:
        """Chunks that no handler has begun go back; the worker ends when the rest is reported and the poll has ended; chunks from that poll
        go back too."""
        held = self.bring(0, 1)
        running = self.shell.ready.pop(0)
        self.core.drain()
        self.core.start()
        self.assertEqual(self.shell.calls[-1].releases, [held[1]])
        self.answer(self.shell.calls[-1])
        self.assertEqual(self.shell.stopped, 0)
        running.complete(None)
        self.core.finished(running)
        self.core.start()
        self.bring(2)
        call = self.shell.calls[-1]
        self.assertEqual((len(call.outcomes), call.asked), (1, 0))
        self.answer(call, "ok")
        self.assertEqual([one.token for one in self.shell.calls[-1].releases], ["t2"])
        self.answer(self.shell.calls[-1])
        self.assertTrue(self.core.over)
        self.assertIsNone(self.core.outcome())

    def test_refusals(self) -> None:
        """A refusal for good ends the worker with an error; a temporary refusal does not."""
        poll = self.shell.polls[-1]
        poll.error = quern.Unavailable(503, {})
        self.core.polled(poll)
        self.core.start()
        self.assertEqual(len(self.shell.polls), 2)
        poll = self.shell.polls[-1]
        poll.error = quern.NotFound(404, {"code": "unknown_queue"})
        self.core.polled(poll)
        self.core.start()
        self.assertTrue(self.core.over)
        self.assertIs(self.core.outcome(), poll.error)

    def test_undelivered(self) -> None:
        """A worker that ends before the server took its results says so."""
        (held,) = self.bring(0)
        self.core.drain()
        self.shell.ready = [held]
        self.core.held.add(held)
        self.end(held)
        for _ in range(2):
            call = self.shell.calls[-1]
            call.error = quern.NoAnswer("gone")
            self.core.called(call)
            self.core.start()
        self.core.polled(Poll(0, 0, 0, error=quern.NoAnswer("broken off")))
        self.core.start()
        self.assertTrue(self.core.over)
        self.assertIsInstance(self.core.outcome(), quern.Undelivered)

    def test_failures(self) -> None:
        """A handler's exception is reported with its text, cut where the server cuts; permanent or with a pause if its type says so."""
        cases: list[tuple[Exception, dict[str, Any]]] = [
            (ValueError("x"), {"error": "ValueError: x"}),
            (quern.Permanent("never"), {"error": "never", "fatal": True}),
            (quern.RetryAfter(1.5, "later"), {"error": "later", "retry_after_ms": 1500}),
            (quern.Permanent("é" * 600), {"error": "é" * 500, "fatal": True}),
            (quern.Permanent("\ud800"), {"error": "?", "fatal": True}),
        ]
        for error, want in cases:
            held = Held(reservation(0), self.shell)
            held.fail(error)
            self.assertEqual(json.loads(held.item), {"token": "t0", **want})
        for seconds, released in ((0.0005, {"token": "t0", "delay_ms": 1}), (0, {"token": "t0"}), (1e9, {"token": "t0", "delay_ms": 2_592_000_000})):
            held = Held(reservation(0), self.shell)
            held.fail(quern.Snooze(seconds))
            self.assertEqual((held.back, held.released()), (True, released))
        with self.assertRaises(ValueError):
            quern.Snooze(float("nan"))
        try:
            json.loads("{")
        except ValueError as raised:
            held = Held(reservation(0), self.shell)
            held.fail(raised)
            first, *frames = json.loads(held.item)["error"].split("\n")
            self.assertTrue(first.startswith("JSONDecodeError: Expecting"), first)
            self.assertIn("raw_decode", frames[0])
            self.assertIn("test_worker.py", frames[-1])
        for output in (3, {"a": 1}, ["x"]):
            with self.assertRaises(TypeError):
                Held(reservation(0), self.shell).complete(output)
        with self.assertRaises(UnicodeEncodeError):
            Held(reservation(0), self.shell).complete("\ud800")

    def test_refused_items(self) -> None:
        """An item that a refusal points at is settled by itself, and the rest goes out again; a failure that is refused as well is given
        up."""
        first, second, third = self.bring(0, 1, 2)
        self.end(first, "large")
        waiting = self.shell.calls[-1]
        second.fail(quern.RetryAfter(9, "boom"))
        self.shell.ready.remove(second)
        self.core.finished(second)
        waiting.error = quern.NoAnswer("gone")
        self.core.called(waiting)
        self.core.start()
        call = self.shell.calls[-1]
        self.assertEqual(call.outcomes, [first, second])

        def refuse(status: int, *pointers: str) -> None:
            call = self.shell.calls[-1]
            problem = {"code": "invalid", "errors": [{"pointer": pointer, "detail": "is too much"} for pointer in pointers]}
            call.error = quern.errors.refusal(status, json.dumps(problem).encode(), 0)
            self.core.called(call)
            self.core.start()

        refuse(422, "/complete/0/output", "/fail/0/retry_after_ms")
        items = [json.loads(held.item) for held in self.shell.calls[-1].outcomes]
        self.assertEqual(items[0], {"token": "t0", "error": "the server refused the output: it is too much", "fatal": True})
        self.assertEqual(items[1]["error"], "the server refused the retry_after_ms: it is too much; the handler's error was: boom")
        refuse(422, "/fail/1/error")
        self.assertEqual(self.shell.calls[-1].outcomes, [first])
        self.answer(self.shell.calls[-1], "ok")
        for _ in range(2):
            self.core.tick()
        self.core.start()
        self.assertEqual(self.shell.calls[-1].extends, [third])
        refuse(403, "/extend/0/token")
        self.assertEqual(self.shell.cancelled, [third])
        self.assertFalse(self.core.draining)

    def test_exceptions_that_cannot_be_shown(self) -> None:
        """Whatever a handler raises, its chunk is reported as failed: a worker whose handlers end otherwise holds it for ever."""

        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        changed = quern.RetryAfter(1, "changed")
        for error, want in (
            (Mute(), "Mute: (its text cannot be shown)"), (quern.RetryAfter(float("inf"), "late"), "late"), (changed, "changed"),
            (quern.RetryAfter(1, Mute()), "(its text cannot be shown)"),
        ):  # fmt: skip
            for seconds in (1.0, float("nan"), float("inf"), None, "x"):
                changed.seconds = seconds  # type: ignore[assignment]
                held = Held(reservation(0), self.shell)
                held.fail(error)
                item = json.loads(held.item)
                self.assertEqual(item["error"], want)
                self.assertLessEqual(item.get("retry_after_ms", 0), 30 * 86400 * 1000)
                self.assertIn(want.removeprefix("Mute: "), str(quern.HandlerFailed("7", 0, error)))
        with self.assertRaisesRegex(ValueError, "nan"):
            quern.RetryAfter(float("nan"))

    def test_what_it_tells(self) -> None:
        """A part of the strategy without effect is reported once, until it changes; a worker that no server ever answered raises the
        reason."""
        warning = {"pointer": "/strategy", "code": "x", "detail": "names the plugin p, which is not there"}
        (held,) = self.bring(0)
        for _ in range(2):
            poll = self.shell.polls[-1]
            poll.answer = {"reservations": [], "reason": "nothing", "warnings": [warning]}
            self.core.polled(poll)
            self.core.start()
            if held in self.shell.ready:
                self.end(held)
                self.answer(self.shell.calls[-1], "ok")  # it asked for nothing, and so does not say that the warning is over
        self.assertEqual([type(one) for one in self.shell.reports], [quern.StrategyWithoutEffect])
        other = WorkerCore(Core(()), WorkerOptions(consumer="me"), Recorder())
        gone = quern.NoAnswer("gone")
        other.heard(gone)
        other.drain()
        self.assertIs(other.outcome(), gone)
        self.core.heard(gone)
        self.assertIsNone(self.core.outcome())

    def test_options(self) -> None:
        """Options out of range are refused with the range."""
        for name, value in (("concurrency", 0), ("prefetch", -1), ("timeout", 0.01), ("timeout", 100_000), ("wait", 61), ("grace", -1), ("concurrency", 200_000)):
            with self.subTest(name, value=value), self.assertRaisesRegex(ValueError, name):
                WorkerOptions(**{name: value}).check()  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
