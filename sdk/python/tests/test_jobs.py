"""Kinds of work, with both clients against a real server."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import importlib.util
import threading
import time
import unittest
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Optional, Union

import quern
from quern._jobs import build

from test_server import serving


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Resize:
    name: str
    width: int = 10
    sizes: list[Size] = dataclasses.field(default_factory=list)
    more: Optional[Resize] = None


AGAIN: Any = {"max_attempts": 2, "on_exhausted": "dead_letter", "retry_backoff": {"kind": "list", "delays_ms": [0], "jitter": "none"}}
KINDS = ("fails", "twice", "hopeless", "slow", "large", "wrong", "raises")
HAPPENED = [
    "fails failed, attempt 1: broken", "fails failed, attempt 2: broken", "fails is dead, attempt 2",
    "hopeless failed, attempt 1: broken", "hopeless is dead, attempt 1",
    "large failed, attempt 1: the server refused the output", "large is dead, attempt 1",
    "raises failed, attempt 1: in the retry", "raises failed, attempt 2: in the retry", "raises is dead, attempt 2",
    "slow failed, attempt 1: the handler took too long (more than 0.01 s)", "slow is dead, attempt 1",
    "twice failed, attempt 1: broken",
    "wrong failed, attempt 1: the content is not the JSON of int", "wrong is dead, attempt 1",
]  # fmt: skip


class Broken(Exception):
    pass


def retries(kind: str) -> dict[str, Any]:
    """The options of a kind of the test of failures."""

    def only_broken(chunk: quern.Chunk, error: BaseException) -> Optional[float]:
        return 0.0 if isinstance(error, Broken) else None

    def never(chunk: quern.Chunk, error: BaseException) -> Optional[float]:
        return None

    def always(chunk: quern.Chunk, error: BaseException) -> Optional[float]:
        return 0.0

    def raises(chunk: quern.Chunk, error: BaseException) -> Optional[float]:
        raise RuntimeError("in the retry")

    options: dict[str, dict[str, Any]] = {
        "twice": {"retry": only_broken}, "hopeless": {"retry": never}, "slow": {"retry": only_broken, "timeout": 0.01}, "wrong": {"retry": always},
        "snoozed": {"retry": never}, "raises": {"retry": raises},
    }  # fmt: skip
    return options.get(kind, {})


def act(kind: str, chunk: quern.Chunk) -> Union[str, None]:
    if kind == "large":
        return "x" * (2 << 20)
    if kind == "twice" and chunk.attempt == 2:
        return "now it works"
    raise Broken("broken")


class Notes:
    """Notes of events, from many threads."""

    def __init__(self) -> None:
        self.list: list[str] = []

    def failure(self, chunk: quern.Chunk, error: BaseException) -> None:
        self.list.append(f"{chunk.meta['kind']} failed, attempt {chunk.attempt}: {str(error).split(': ')[0]}")

    def dead(self, chunk: quern.Chunk, error: BaseException) -> None:
        self.list.append(f"{chunk.meta['kind']} is dead, attempt {chunk.attempt}")
        if chunk.meta["kind"] == "fails":
            raise KeyError("in a hook")


class Jobs(unittest.TestCase):
    def insert(self, client: quern.Client, kind: str, *arguments: Any, **options: Any) -> str:
        return client.insert(**quern.submission_of(kind, *arguments, **{**AGAIN, **options}))["id"]

    def test_each_to_its_handler(self) -> None:
        """Each chunk goes to the handler of its kind with its arguments, through the middleware, in whatever form the strategy is given;
        those of other kinds and without a kind stay where they are."""
        odd = 'o"d<d>\\ é'

        def prepare(client: quern.Client) -> tuple[list[str], list[str]]:
            first = Resize("a.png", 10, [Size.SMALL], Resize("b.png"))
            done = [self.insert(client, "resize", first, {"name": "c.png", "unknown": 1}), self.insert(client, "email", "ana", "bo"), self.insert(client, odd, 1)]
            return done, [self.insert(client, "fax", 1), client.insert(count=1, template="1")["id"]]

        def resized(args: Resize) -> str:
            return f"{args.name} to {args.width} {[one.value for one in args.sizes]} {args.more and args.more.name}"

        def check(client: quern.Client, done: list[str], others: list[str]) -> None:
            for submission in done:
                self.assertEqual(client.wait(submission, timeout=60)["state"], "completed")
            outputs = [output.text for output in client.outputs(done[0])]
            self.assertEqual(outputs, ["outer(inner(a.png to 10 ['small'] b.png))", "outer(inner(c.png to 10 [] None))"])
            self.assertEqual([output.text for output in client.outputs(done[1])], ["outer(inner(to ana))", "outer(inner(to bo))"])
            for submission in others:
                found = client.get_submission(submission)
                self.assertEqual((found["done"], found["reserved"], found["ready"]), (0, 0, 1))

        strategies: list[Any] = [None, 'Fair("kind", OldestFirst)', {"type": "fair", "meta_field": "kind", "underlying": "newest_first"}]
        for strategy in strategies:
            with self.subTest(strategy), serving() as server, quern.Client(server.address) as client:
                done, others = prepare(client)

                @client.job("resize")
                def resize(args: Resize, chunk: quern.Chunk) -> str:
                    return resized(args)

                @client.job("email", concurrency=1)
                def email(args: str, chunk: quern.Chunk) -> str:
                    return f"to {args}"

                @client.job(odd)
                def other(args: int, chunk: quern.Chunk) -> str:
                    return ""

                def around(name: str) -> Callable[[Any], Any]:
                    return lambda next_one: lambda chunk: f"{name}({next_one(chunk)})"

                with client.job_worker(concurrency=4, strategy=strategy, middleware=[around("outer"), around("inner")]):
                    check(client, done, others)

        async def beside(address: str, client: quern.Client) -> None:
            done, others = prepare(client)
            async with quern.AsyncClient(address) as own:

                @own.job("resize")
                async def resize(args: Resize, chunk: quern.Chunk) -> str:
                    return resized(args)

                @own.job("email", concurrency=1)
                async def email(args: str, chunk: quern.Chunk) -> str:
                    return f"to {args}"

                @own.job(odd)
                async def other(args: int, chunk: quern.Chunk) -> str:
                    return ""

                def around(name: str) -> Callable[[Any], Any]:
                    def wrap(next_one: Callable[[quern.Chunk], Awaitable[Any]]) -> Any:
                        async def handle(chunk: quern.Chunk) -> str:
                            return f"{name}({await next_one(chunk)})"

                        return handle

                    return wrap

                async with own.job_worker(concurrency=4, middleware=[around("outer"), around("inner")]):
                    await asyncio.to_thread(check, client, done, others)

        with serving() as server, quern.Client(server.address) as client:
            asyncio.run(beside(server.address, client))

    def ended(self, client: quern.Client, ids: dict[str, str]) -> None:
        for kind, one in ids.items():
            want = "completed" if kind in ("twice", "snoozed") else "completed_with_dead"
            self.assertEqual(client.wait(one, timeout=60)["state"], want, kind)

    def test_failures(self) -> None:
        """A handler's own exception decides, then the retries of its kind, then the queue; hooks run for each failure, and for the last
        one."""
        with serving() as server, quern.Client(server.address) as client:
            ids = {kind: self.insert(client, kind, "x" if kind == "wrong" else 1) for kind in (*KINDS, "snoozed")}
            notes, errors, snoozed = Notes(), list[quern.Error](), list[int]()

            def handler(kind: str) -> Callable[[int, quern.Chunk], Union[str, None]]:
                def handle(args: int, chunk: quern.Chunk) -> Union[str, None]:
                    if kind == "slow":
                        chunk.sleep(3600)
                    if kind == "snoozed" and not snoozed:
                        snoozed.append(1)
                        raise quern.Snooze(0)
                    return None if kind == "snoozed" else act(kind, chunk)

                return handle

            for kind in ids:
                client.job(kind, **retries(kind))(handler(kind))
            with client.job_worker(concurrency=3, on_failure=notes.failure, on_dead=notes.dead, on_error=errors.append):
                self.ended(client, ids)
            self.assertEqual(sorted(notes.list), HAPPENED)
            self.assertTrue(any(str(error).endswith("KeyError: 'in a hook'") for error in errors), errors)
            text = client.get_dead_letter("default", ids["hopeless"], 0)["error"]
            self.assertRegex(text, r"^Broken: broken\n  at act \(.*test_jobs.py:\d+\)")

    def test_failures_with_asyncio(self) -> None:
        async def beside(address: str, client: quern.Client) -> None:
            ids = {kind: self.insert(client, kind, "x" if kind == "wrong" else 1) for kind in (*KINDS, "snoozed")}
            notes, errors, snoozed = Notes(), list[quern.Error](), list[int]()

            def handler(kind: str) -> Callable[[int, quern.Chunk], Awaitable[Union[str, None]]]:
                async def handle(args: int, chunk: quern.Chunk) -> Union[str, None]:
                    if kind == "slow":
                        await asyncio.sleep(3600)
                    if kind == "snoozed" and not snoozed:
                        snoozed.append(1)
                        raise quern.Snooze(0)
                    return None if kind == "snoozed" else act(kind, chunk)

                return handle

            async def failure(chunk: quern.Chunk, error: BaseException) -> None:
                notes.failure(chunk, error)

            async def dead(chunk: quern.Chunk, error: BaseException) -> None:
                notes.dead(chunk, error)

            async with quern.AsyncClient(address) as own:
                for kind in ids:
                    own.job(kind, **retries(kind))(handler(kind))
                async with own.job_worker(concurrency=3, on_failure=failure, on_dead=dead, on_error=errors.append):
                    await asyncio.to_thread(self.ended, client, ids)
            self.assertEqual(sorted(notes.list), HAPPENED)
            self.assertTrue(any(str(error).endswith("KeyError: 'in a hook'") for error in errors), errors)

        with serving() as server, quern.Client(server.address) as client:
            asyncio.run(beside(server.address, client))

    def test_handlers_of_their_own(self) -> None:
        """A kind with a concurrency of its own holds up no other, and none of its own begins beyond its number. They end together."""
        with serving() as server, quern.Client(server.address) as client:
            slow = self.insert(client, "slow", 1, 2, 3, 4, 5)
            begun, go_on = threading.Semaphore(0), threading.Event()

            @client.job("slow", concurrency=2)
            def wait(args: int, chunk: quern.Chunk) -> None:
                begun.release()
                go_on.wait(60)

            @client.job("quick")
            def quick(args: int, chunk: quern.Chunk) -> None:
                pass

            worker = client.job_worker(consumer="w", on_error=lambda error: None)
            with worker:
                begun.acquire()
                begun.acquire()
                self.assertEqual(client.wait(self.insert(client, "quick", 1, 2, 3), timeout=60)["state"], "completed")
                self.assertFalse(begun.acquire(blocking=False), "a third handler has begun")
                self.assertEqual([one["consumer"] for one in client.list_consumers("default")], ["w", "w-slow"])
                go_on.set()
                client.wait(slow, timeout=60)
                client.drain_consumer("default", "w-slow")
                worker.join()  # the other one ends, too

    def test_hooks_are_bounded(self) -> None:
        """A worker whose hooks are slow reserves less, so that no failures pile up behind them."""
        with serving() as server, quern.Client(server.address) as client:
            lock, running, most = threading.Lock(), 0, 0

            def slow(chunk: quern.Chunk, error: BaseException) -> None:
                nonlocal running, most
                with lock:
                    running += 1
                    most = max(most, running)
                time.sleep(0.02)  # in which others would begin
                with lock:
                    running -= 1

            @client.job("a")
            def fail(args: int, chunk: quern.Chunk) -> None:
                raise quern.Permanent("no")

            submission = self.insert(client, "a", *range(10))
            with client.job_worker(prefetch=0, on_failure=slow, on_error=lambda error: None):
                client.wait(submission, timeout=60)
            self.assertLessEqual(most, 2)  # that of the chunk in a call, and that of the chunk that this call reserved

    def test_what_cannot_work(self) -> None:
        """Wrong options are refused before anything is reserved; a wrong strategy and a dead submission's hook are as with other
        workers."""
        client = quern.Client("http://127.0.0.1:2")

        def nothing(args: Any, chunk: quern.Chunk) -> None:
            pass

        with self.assertRaisesRegex(ValueError, "there are 0 kinds"):
            client.job_worker()
        for wrong, says in (({"name": ""}, "no name"), ({"name": "a", "concurrency": -1}, "negative"), ({"name": "a", "timeout": 0}, "more than 0")):
            with self.assertRaisesRegex(ValueError, says):
                client.job(**wrong)(nothing)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, r"takes 1 arguments; write it as def <lambda>\(args, chunk\)"):
            client.job("a")(lambda args: None)  # type: ignore[type-var]
        with self.assertRaisesRegex(TypeError, "async function"):
            quern.AsyncClient().job("a")(nothing)  # type: ignore[type-var]
        client.job("k" * 130, concurrency=1)(nothing)
        with self.assertRaisesRegex(ValueError, "two handlers"):
            client.job("k" * 130)(nothing)
        with self.assertRaisesRegex(ValueError, "at most 128 are allowed"):
            client.job_worker()
        with self.assertRaisesRegex(TypeError, "dataclasses, models of pydantic or what JSON has; object"):
            quern.submission_of("a", object())
        with serving() as server, quern.Client(server.address) as real:
            real.job("a")(nothing)
            real.job("b", concurrency=1)(nothing)
            with self.assertRaises(quern.Invalid):
                real.job_worker(strategy="Nonsense").run()

    def test_dead_by_the_end_of_the_submission(self) -> None:
        """A chunk whose failure ends its submission is over, too."""
        with serving() as server, quern.Client(server.address) as client:
            heard: list[int] = []

            @client.job("a")
            def fail(args: int, chunk: quern.Chunk) -> None:
                raise quern.Permanent("no")

            with client.job_worker(on_dead=lambda chunk, error: heard.append(chunk.index), on_error=lambda error: None):
                submission = self.insert(client, "a", 1, on_exhausted="fail_submission")
                self.assertEqual(client.wait(submission, timeout=60)["state"], "failed")
            self.assertEqual(heard, [0])

    def test_dead_once(self) -> None:
        """on_dead is called for the attempt that was the last, also if the hook of one before it comes late."""
        with serving() as server, quern.Client(server.address) as client:
            heard: list[int] = []
            submission = self.insert(client, "a", 1)

            @client.job("a")
            def fail(args: int, chunk: quern.Chunk) -> None:
                raise Broken("no")

            def late(chunk: quern.Chunk, error: BaseException) -> None:
                if chunk.attempt == 1:
                    client.wait(submission, timeout=60)

            with client.job_worker(on_failure=late, on_dead=lambda chunk, error: heard.append(chunk.attempt), on_error=lambda error: None):
                client.wait(submission, timeout=60)
            self.assertEqual(heard, [2])

    def test_types(self) -> None:
        """Arguments are of the type that the handler names, or the error says where they are not."""
        for kind, value, want in (
            (Any, {"a": [1]}, {"a": [1]}), (float, 1, 1.0), (dict[str, list[int]], {"a": [1]}, {"a": [1]}), (tuple[int, str], [1, "a"], (1, "a")),
            (tuple[int, ...], [1, 2], (1, 2)), (Literal["a", 1], 1, 1), (Optional[int], None, None), (Union[int, str], "a", "a"), (int | None, 3, 3),
            (Size, "large", Size.LARGE), (Resize, {"name": "a", "more": {"name": "b"}}, Resize("a", more=Resize("b"))),
        ):  # fmt: skip
            self.assertEqual(build(kind, value, "it"), want)
        for kind, value, says in (
            (int, True, "it is bool, not int"), (int, "1", "it is str, not int"), (list[int], [1, "a"], r"it\[1\] is str, not int"), (Resize, [], "it is list, not an object of Resize"),
            (Resize, {}, "it has no name"), (Resize, {"name": 1}, "it.name is int, not str"), (dict[str, int], {"a": "b"}, r"it\['a'\] is str"),
            (Literal["a"], "b", "it is 'b', and none of 'a'"), (Size, "huge", "'huge' is not a valid"), (tuple[int, str], [1], "it has 1 entries, not 2"), (int | None, "a", "not one of int, NoneType"),
        ):  # fmt: skip
            with self.subTest(says), self.assertRaisesRegex(ValueError, says):
                build(kind, value, "it")

    @unittest.skipUnless(importlib.util.find_spec("pydantic"), "pydantic is not installed")
    def test_pydantic(self) -> None:
        import pydantic  # type: ignore[import]

        model: Any = pydantic.create_model("Model", name=(str, ...), width=(int, 10))
        (content,) = quern.submission_of("a", model(name="x"))["chunks"]
        self.assertEqual(content, '{"name":"x","width":10}')
        self.assertEqual(build(model, {"name": "x"}, "it"), model(name="x"))
        with self.assertRaisesRegex(ValueError, "name"):
            build(model, {}, "it")


if __name__ == "__main__":
    unittest.main()
