"""Calls, step by step: which are tried again, where, and after which pauses. Nothing is sent."""

from __future__ import annotations

import datetime
import json
import tracemalloc
import unittest
from typing import Any, Union

import quern
from quern import _produce
from quern._addresses import MAX_QUEUES
from quern._core import Core, EventReader, Open, Pause, Procedure, Tell, Try, further, path, query
from quern._http import Reply, Request
from quern._notices import KINDS, Notices
from quern.objects._content import reader

Step = Union[Reply, Exception]


def follow(procedure: Procedure[Any], *answers: Step) -> tuple[Any, list[Any]]:
    """Run a procedure against a script of answers; return its result, and the effects that it wanted."""
    script = list(answers)
    wanted: list[Any] = []
    try:
        effect = next(procedure)
        while True:
            wanted.append(effect)
            if isinstance(effect, (Pause, Tell)):
                effect = procedure.send(True)
            else:
                step = script.pop(0)
                effect = procedure.throw(step) if isinstance(step, Exception) else procedure.send(step)
    except StopIteration as end:
        return end.value, wanted
    except quern.Error as error:
        return error, wanted


def problem(status: int, code: str, **headers: str) -> Reply:
    return Reply(status, headers, json.dumps({"title": "No", "status": status, "code": code, "detail": "It is so."}).encode())


SAFE = Request("ask", "GET", "/", safe=True)
ONCE = Request("do", "POST", "/")
ASK = Request("ask", "GET", "/v1/queues/q/stats", safe=True)


def went(wanted: list[Any]) -> list[str]:
    """Where calls went, and when they paused."""
    return ["pause" if isinstance(one, Pause) else one.endpoint.host for one in wanted]


class Calls(unittest.TestCase):
    def test_what_is_tried_again(self) -> None:
        """Safe calls are tried again after lost answers and 429, 502, 503, 504; others and other refusals are not."""
        cases: list[tuple[Request, Step, int]] = [
            (SAFE, quern.NoAnswer("gone"), 2), (SAFE, problem(429, "overloaded"), 2), (SAFE, problem(502, ""), 2), (SAFE, problem(503, "moved"), 2),
            (SAFE, problem(504, ""), 2), (SAFE, problem(500, "internal"), 1), (SAFE, problem(404, "not_found"), 1), (SAFE, quern.BadAnswer("x"), 1),
            (ONCE, quern.NoAnswer("gone"), 1), (ONCE, problem(503, "moved"), 1),
        ]  # fmt: skip
        for request, first, tries in cases:
            with self.subTest(request=request.what, first=first):
                out, wanted = follow(Core(()).call(request), first, Reply(200, {}))
                self.assertEqual(sum(isinstance(one, Try) for one in wanted), tries)
                self.assertEqual(isinstance(out, Reply), tries == 2)

    def test_what_is_no_answer_of_a_server_is_an_error_of_the_client(self) -> None:
        """A text that is no object, or nested too deep, is a BadAnswer, and as the body of a refusal leaves its status."""
        for body in (b"[]", b"null", b"7", b'"x"', b"", b"<html>", b'{"a":', b"\xff", b"[" * 100_000, b'{"a":' * 100_000):
            with self.subTest(body=body[:20]):
                out, _ = follow(Core(()).fetch(ASK), Reply(200, {}, body))
                self.assertIsInstance(out, quern.BadAnswer)
                out, _ = follow(Core(()).fetch(ASK), Reply(400, {}, body))
                self.assertIsInstance(out, quern.Invalid)

    def test_lists_are_lists_of_objects(self) -> None:
        """A list of an answer that is missing, or that has other things in it, is a BadAnswer that names it."""
        for body in (b"{}", b'{"items":null}', b'{"items":{}}', b'{"items":"abc"}', b'{"items":[{},7]}'):
            with self.subTest(body=body):
                out, _ = follow(Core(()).fetch(ASK, "items"), Reply(200, {}, body))
                self.assertIsInstance(out, quern.BadAnswer)
                self.assertIn("items is no list", str(out))
        out, _ = follow(Core(()).fetch(ASK, "items"), Reply(200, {}, b'{"items":[{}]}'))
        self.assertEqual(out, {"items": [{}]})

    def test_a_page_behind_itself(self) -> None:
        """A list ends at a page that names itself as the next one."""
        self.assertEqual(further("list", None, {"next": "b"}), "b")
        self.assertEqual(further("list", "a", {"next": "b"}), "b")
        self.assertIsNone(further("list", "a", {}))
        for following in ("a", 7, ["a"]):
            with self.subTest(following=following), self.assertRaises(quern.BadAnswer):
                further("list", "a", {"next": following})

    def test_pauses(self) -> None:
        """Pauses grow up to a bound, and are at least what the server asked for, up to a minute."""
        core = Core((), retries=9)
        _, wanted = follow(core.call(SAFE), *[problem(503, "moved", **{"retry-after": "2"})] * 9, problem(503, "moved", **{"retry-after": "900"}))
        pauses = [one.seconds for one in wanted if isinstance(one, Pause)]
        self.assertEqual(len(pauses), 9)
        for tries, pause in enumerate(pauses):
            self.assertTrue(2 <= pause <= 2 + min(0.1 * 2**tries, 5), f"pause {tries} is {pause}")
        self.assertTrue(60 <= core.backoff(0, quern.Unavailable(503, {}, 900)) <= 60.1)

    def test_addresses(self) -> None:
        """An address that does not serve is left for the next, without a pause as long as there are others; a busy one is not left."""
        core = Core(("http://a", "http://b", "http://c"))
        a, b, c = (one.host for one in core.addresses.given)
        self.assertEqual({a, b, c}, {"a", "b", "c"})
        _, wanted = follow(core.call(SAFE), quern.NoAnswer("gone"), problem(503, "moved"), problem(429, "overloaded"), Reply(200, {}))
        self.assertEqual(went(wanted), [a, b, c, "pause", c])
        _, wanted = follow(core.call(SAFE), *[quern.NoAnswer("gone")] * 3, Reply(200, {}))
        self.assertEqual(went(wanted), [c, a, b, "pause", c])
        firsts = {Core(("http://a", "http://b", "http://c")).addresses.given[0].host for _ in range(100)}
        self.assertEqual(firsts, {"a", "b", "c"})  # clients spread

    def test_moves(self) -> None:
        """A call goes on at once to the owner that a 421 names, once a try, even if the call may not be made twice; without an owner it is
        like 503."""
        core = Core(("http://a",), retries=1)
        moved = problem(421, "moved", **{"quern-owner": "http://b:1/"})
        out, wanted = follow(core.call(ONCE), moved, Reply(201, {}))
        self.assertEqual((out.status, went(wanted)), (201, ["a", "b"]))
        further = problem(421, "moved", **{"quern-owner": "http://c"})
        out, wanted = follow(core.call(SAFE), moved, further, problem(421, "moving"), Reply(200, {}))
        self.assertIsInstance(out, quern.Unavailable)
        self.assertEqual(went(wanted), ["a", "b", "pause", "a"])
        for code, tries in (("moved", 2), ("moving", 2), ("elsewhere", 2), ("unknown_host", 1)):
            out, wanted = follow(core.call(SAFE), problem(421, code), problem(421, code))
            self.assertEqual((out.status, out.code, sum(isinstance(one, Try) for one in wanted)), (421, code, tries))
        _, wanted = follow(core.call(ONCE), moved, quern.NoAnswer("gone"))
        self.assertEqual(went(wanted), ["a", "b"])

    def test_owners_that_are_not_followed(self) -> None:
        """A token goes to no address of another scheme that was not given; an owner that is not trusted keeps no call from an address that
        serves."""
        for given, owner in (("https://a", "http://b"), ("http://a", "https://b"), ("unix:/a", "http://b"), ("http://a", "unix:/b"), ("http://a", "http://u:p@b"),
                             ("http://a", "b"), ("http://a", "http://" + "b" * 3000)):  # fmt: skip
            core = Core((given,), direct=True, retries=0)
            out, wanted = follow(core.call(ASK), problem(421, "moved", **{"quern-owner": owner}))
            self.assertEqual((out.status, len(wanted), core.addresses.of(ASK)), (421, 1, core.addresses.given[0]), f"{given} names {owner}")
        core = Core(("https://a", "http://b"), retries=0)
        _, wanted = follow(core.call(ONCE), problem(421, "moved", **{"quern-owner": "http://b"}), Reply(200, {}))
        self.assertIn(went(wanted), (["a", "b"], ["b"]))  # it was given
        core = Core(("https://a",), direct=True, retries=0)
        named = Reply(200, {"quern-owner": "https://b"})
        follow(core.call(ASK), named)
        _, wanted = follow(core.call(ASK), quern.NotTrusted("no"), named)
        self.assertEqual(went(wanted), ["b", "a"])
        _, wanted = follow(core.call(ASK), named)
        self.assertEqual(went(wanted), ["a"])

    def test_direct(self) -> None:
        """Calls of a queue go to the owner that an answer named, and back when it fails; the number of remembered owners is bounded."""
        core = Core(("http://a",), direct=True, retries=0)
        named = Reply(200, {"quern-owner": "http://b"})
        elsewhere = problem(421, "moved", **{"quern-owner": "http://c"})
        cases: list[tuple[list[Step], list[str]]] = [
            ([named], ["a"]), ([named], ["b"]), ([problem(503, "moving"), Reply(200, {})], ["b", "a"]), ([named], ["a"]),
            ([quern.NoAnswer("gone"), named], ["b", "a"]), ([elsewhere, named], ["b", "c"]), ([named], ["b"]),
        ]  # fmt: skip
        for answers, want in cases:
            _, wanted = follow(core.call(ASK), *answers)
            self.assertEqual(went(wanted), want)
        _, wanted = follow(core.call(Request("other", "GET", "/v1/queues/other?x=/v1/queues/q", safe=True)), Reply(200, {}))
        self.assertEqual(went(wanted), ["a"])
        for i in range(MAX_QUEUES + 10):
            follow(core.call(Request("ask", "GET", f"/v1/queues/n{i}/stats")), named)
        self.assertEqual(len(core.addresses._owners), MAX_QUEUES)
        core = Core(("http://a",))
        for _ in range(2):
            self.assertEqual(went(follow(core.call(ASK), named)[1]), ["a"])  # by default nothing is remembered

    def test_errors(self) -> None:
        """A refusal has its own type, with code, problems and the pause; an answer of another program has its first line as text."""
        out, _ = follow(Core(()).call(ONCE), Reply(422, {}, b'{"code":"invalid","detail":"No.","request_id":"r","errors":[{"pointer":"/max","detail":"is required"}]}'))
        self.assertIsInstance(out, quern.Invalid)
        self.assertEqual(str(out), "No. (422 invalid, request r; /max is required)")
        out, _ = follow(Core(()).call(ONCE), Reply(429, {"retry-after": "3"}, b"<html>slow\x1b[31m\n"))
        self.assertIsInstance(out, quern.Busy)
        self.assertEqual((out.retry_after, out.detail), (3.0, "<html>slow[31m"))

    def test_hook_and_trace(self) -> None:
        """on_call is called for every try, and calls carry the trace of their context."""
        heard: list[quern.Call] = []
        request = Request("ask", "GET", "/x", safe=True)
        core = Core((), on_call=heard.append, trace=lambda: "00-aa-bb-01;k=v")
        follow(core.call(request), quern.NoAnswer("gone"), Reply(200, {}))
        self.assertEqual([(one.what, one.attempt, one.status) for one in heard], [("ask", 1, 0), ("ask", 2, 200)])
        self.assertIsInstance(heard[0].error, quern.NoAnswer)
        self.assertEqual((request.headers["traceparent"], request.headers["tracestate"]), ("00-aa-bb-01", "k=v"))

    def test_attach(self) -> None:
        """A stream that ends is begun again, but not if the server does not know it or refuses it; a refusal is reported."""
        out, wanted = follow(Core(()).attach("q", "a b/c", lambda: "3f9a"), Reply(404, {}, b"{}"))
        self.assertIsNone(out)
        self.assertEqual([type(one) for one in wanted], [Open, Tell])
        self.assertEqual(wanted[0].request.path, "/v1/queues/q/consumers/a%20b%2Fc/attach?incarnation=3f9a")
        _, wanted = follow(Core(()).attach("q", "c", str), problem(404, "unknown_queue"))
        self.assertEqual([type(one) for one in wanted], [Open])  # the reserves report it
        out, wanted = follow(Core(()).attach("q", "c", str), quern.NoAnswer("gone"), problem(503, "moved"), quern.NotTrusted("no"))
        self.assertIsNone(out)
        self.assertEqual([type(one) for one in wanted], [Open, Tell, Pause, Open, Tell, Pause, Open, Tell])


class Logs(unittest.TestCase):
    def test_once_a_minute(self) -> None:
        """Each kind of trouble is logged once a minute, and then with how much more of it there was. Kinds are bounded."""
        notices = Notices()
        now = 1000.0
        for kind, after, want in (("a", 0, 0), ("a", 1, None), ("b", 0, 0), ("a", 58, None), ("a", 1, 2), ("a", 0, None), ("a", 60, 1), ("a", 3600, 0)):
            now += after
            self.assertEqual(notices.due(kind, now), want, f"{kind} at {now}")
        logged = sum(notices.due(str(i), now) is not None for i in range(10 * KINDS))
        self.assertLessEqual(logged, KINDS)
        self.assertEqual(notices.due("new", now + 60), 0)
        with self.assertLogs("quern", "WARNING") as log:
            for index in range(5):
                notices.warn(quern.HandlerFailed("7", index, ValueError("x")))
                notices.warn(quern.HandlerFailed("7", index, KeyError("x")))
                notices.warn(quern.NoAnswer("gone"), "the worker")
                notices.warn(quern.StrategyWithoutEffect("/strategy", "names the plugin p"))
                notices.warn(quern.StrategyWithoutEffect("/strategy", "names the plugin q"))
        self.assertEqual([record.getMessage() for record in log.records], [
            "chunk 7/0: the handler failed: ValueError: x", "chunk 7/0: the handler failed: KeyError: 'x'", "the worker: gone",
            "the strategy names the plugin p", "the strategy names the plugin q",
        ])  # fmt: skip


class Texts(unittest.TestCase):
    def test_paths(self) -> None:
        """Names are escaped, and those that would change a path are refused. Values and meta in queries say what they are."""
        self.assertEqual(path("/v1/queues/{}/rules", "a b/ü"), "/v1/queues/a%20b%2F%C3%BC/rules")
        for name in ("", ".", ".."):
            with self.assertRaises(ValueError):
                path("/v1/queues/{}", name)
        self.assertEqual(query("/x", {"a": None, "b": ["1", "2"], "meta": {"k": "7", "n": 7}, "f": True}), "/x?b=1&b=2&meta.k=s%3A7&meta.n=7&f=true")

    def test_events(self) -> None:
        """Events are read in pieces of any size; comments are skipped."""
        text = b': alive\n\nevent: hello\ndata: {"epoch":1}\n\nid: 9\r\nevent:drain\r\ndata: {}\r\n\r\n'
        for size in (1, 5, 1000):
            reader = EventReader()
            events = [event for start in range(0, len(text), size) for event in reader.feed(text[start : start + size])]
            self.assertEqual([(event.name, event.data, event.id) for event in events], [("hello", '{"epoch":1}', ""), ("drain", "{}", "9")])

    def test_an_event_without_end_takes_no_memory(self) -> None:
        """Fields that no event has are not kept."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        reader = EventReader()
        for i in range(20_000):
            reader.feed(b"x%d: %s\n" % (i, b"y" * 100))
        self.assertLess(tracemalloc.get_traced_memory()[0], 1 << 20)

    def test_bytes(self) -> None:
        """Bytes survive the way to JSON and back."""
        for data in (b"", b"text", "é\u2028\U0001F600\x00".encode(), bytes(range(256))):
            self.assertEqual(quern.from_wire(json.loads(json.dumps(quern.to_wire(data)))), data)
        self.assertEqual(quern.from_wire({"text": "x"}), b"x")
        self.assertEqual(quern.to_wire(memoryview(b"view")), "view")
        for value in (3, True, 1.5, None, [1, 2], {"a": 1}, range(3)):
            with self.subTest(value), self.assertRaisesRegex(TypeError, "str or bytes"):
                quern.to_wire(value)  # type: ignore[arg-type]
        for content in (3, None, {"a": 1}):
            with self.subTest(content), self.assertRaisesRegex(TypeError, "an object is made of"):
                reader(content)  # type: ignore[arg-type]

    def test_new_submissions(self) -> None:
        """Mistaken arguments are refused before anything is sent, with what to write instead."""
        with self.assertRaisesRegex(ValueError, "time zone"):
            _produce.fields(run_at=datetime.datetime(2026, 1, 1))
        self.assertEqual(
            _produce.fields(run_at=datetime.datetime(2026, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
            {"run_at": "2026-01-01T00:00:00.000Z"},
        )
        for given in (
            (None, None, None, None), (None, 3, None, None), (None, None, "x", None), (["x"], 1, None, None), (["x"], None, None, "y"), (None, 1, "a", "b"),
        ):  # fmt: skip
            with self.subTest(given), self.assertRaisesRegex(ValueError, "one of three forms"):
                _produce.work(*given)
        with self.assertRaisesRegex(TypeError, "list"):
            _produce.work("one text", None, None, None)
        with self.assertRaisesRegex(ValueError, "key"):
            _produce.insert("q", {}, "bad key", None)
        with self.assertRaisesRegex(TypeError, "key is a int"):
            _produce.insert("q", {}, 7, None)  # type: ignore[arg-type]
        for meta, words in (({7: "x"}, "the key 7, a int"), ({"a": True}, r"meta\['a'\] is True"), ({"a": None}, "NoneType"), ({"a": 1.0}, "float")):
            with self.subTest(meta), self.assertRaisesRegex(TypeError, words):
                _produce.fields(meta=meta)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            query("/x", {"meta": {"a": True}})
        with self.assertRaises(TypeError):
            path("/v1/queues/{}", None)
        with self.assertRaises(ValueError):
            _produce.insert("q", _produce.fields(priority=float("nan")), None, None)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
