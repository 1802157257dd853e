"""Both clients against a real server: QUERN_BINARY says which, bin/quern unless told."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import hashlib
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import AsyncIterator, Iterator
from typing import Any, Optional

import quern

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("QUERN_BINARY") or str(ROOT / "bin/quern")


def free_port() -> int:
    """A port for a server that starts several times, below those that the kernel gives to others."""
    while True:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(20_000, 30_000)))
            return int(s.getsockname()[1])


class Server:
    """A real server on data of its own."""

    def __init__(self, *options: str) -> None:
        self.data = tempfile.TemporaryDirectory(prefix="quern-python-")
        self.listen = f"127.0.0.1:{free_port()}"
        self.options = options
        self.log = ""
        self.start()

    @property
    def address(self) -> str:
        return ("https" if "--tls-self-signed" in self.options else "http") + "://" + self.listen

    def start(self) -> None:
        command = [BINARY, "serve", "--data", self.data.name, "--listen", self.listen, *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log += line
            if "serving" in line:
                break
        else:
            raise AssertionError(f"the server did not start:\n{self.log}")
        self.reading = threading.Thread(target=self.read, args=[self.process.stdout])
        self.reading.start()

    def read(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.log += line

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.data.cleanup()


@contextlib.contextmanager
def serving(*options: str) -> Iterator[Server]:
    server = Server(*options)
    try:
        yield server
    finally:
        server.stop()


class Whole(unittest.TestCase):
    def test_a_producer_and_a_consumer(self) -> None:
        """Work is inserted, done, waited for, and its outputs come back as they were."""
        with serving() as server, quern.Client(server.address) as client:
            submission = client.insert(["a", b"\xff\x00", "é\u2028"], meta={"company": 7}, attachment="all", priority=3)

            times: set[str] = set()

            @client.worker(concurrency=2, strategy='SelectOnly("company", 7, OldestFirst)')
            def handle(chunk: quern.Chunk) -> bytes:
                times.update((chunk.created_at, chunk.ready_at))
                assert (chunk.meta, chunk.attachment, chunk.priority, chunk.attempt) == ({"company": 7}, b"all", 3, 1)
                return chunk.content * 2

            with handle:
                ended = client.wait(submission, timeout=60)
            self.assertEqual((ended["state"], ended["done"]), ("completed", 3))
            self.assertEqual(times, {ended["created_at"]})  # the first attempt waits since the insert
            outputs = {output.index: output.data for output in client.outputs(submission)}
            self.assertEqual(outputs, {0: b"aa", 1: b"\xff\x00\xff\x00", 2: ("é\u2028" * 2).encode()})
            client.insert(["open"], meta={"company": 8})
            many = [(output.submission, output.index, output.data) for output in client.outputs_of(meta={"company": 7}, state=["completed"])]
            self.assertEqual(many, [(submission["id"], index, data) for index, data in sorted(outputs.items())])
            self.assertEqual(list(client.outputs_of("default", meta={"company": 8})), [])

    def test_two_slow_workers(self) -> None:
        """A worker whose handler is slow holds no chunk that another one could work on."""
        with serving() as server, quern.Client(server.address) as client:
            submission = client.insert(["a", "b"])
            both = threading.Barrier(2)  # with one of the chunks reserved ahead, the second handler would never begin

            def slow(chunk: quern.Chunk) -> None:
                both.wait(60)

            with client.worker()(slow), client.worker()(slow):
                ended = client.wait(submission, timeout=60)
            self.assertEqual((ended["state"], ended["done"]), ("completed", 2))

    def test_a_unix_socket(self) -> None:
        """Calls, work and asyncio go through a Unix socket, when that is the address; where no server listens they go on."""
        with tempfile.TemporaryDirectory(prefix="quern-python-") as folder:
            path = os.path.join(folder, "quern.sock")

            async def insert() -> quern.types.Submission:
                async with quern.AsyncClient(f"unix:{path}") as client:
                    return await client.insert(["near"])

            with serving("--listen", f"unix:{path}"), quern.Client(f"unix:{path}.gone", f"unix:{path}") as client:
                submission = asyncio.run(insert())

                @client.worker()
                def handle(chunk: quern.Chunk) -> str:
                    return chunk.text.upper()

                with handle:
                    client.wait(submission, timeout=60)
                self.assertEqual([output.text for output in client.outputs(submission)], ["NEAR"])
        with self.assertRaisesRegex(ValueError, "write the path of the socket behind unix:"):
            quern.Client("unix:")
        with quern.Client("unix:/nowhere/quern.sock", retries=0) as client, self.assertRaisesRegex(quern.NoAnswer, "unix:/nowhere/quern.sock"):
            client.insert(["x"])

    def test_the_same_with_asyncio(self) -> None:
        async def run(address: str) -> None:
            async with quern.AsyncClient(address) as client:

                async def contents() -> AsyncIterator[str]:
                    for i in range(3000):
                        yield f"row {i} " + "x" * 50

                submission = await client.insert_stream(contents(), meta={"company": "acme"})

                @client.worker(concurrency=64)
                async def handle(chunk: quern.Chunk) -> str:
                    await asyncio.sleep(0)
                    return chunk.text.split()[1]

                async with handle:
                    ended = await client.wait(submission, timeout=60)
                self.assertEqual((ended["state"], ended["done"]), ("completed", 3000))
                outputs = [output.text async for output in client.outputs(submission)]
                self.assertEqual(outputs, [str(i) for i in range(3000)])
                self.assertEqual([output.text async for output in client.outputs_of(meta={"company": "acme"})], outputs)  # three pages
                many = await client.insert_many([dict(chunks=[str(i)], meta={"n": i}) for i in range(20)] + [dict(chunks=["x"], queue="none")])
                self.assertEqual([one["meta"]["n"] for one in many[:20] if isinstance(one, dict)], list(range(20)))
                self.assertIsInstance(many[20], quern.NotFound)
                keyed = dict(count=1, template="x", key="k", meta={"n": 0})
                mixed = await client.insert_many([keyed, dict(count=0, template="x"), keyed])
                assert isinstance(mixed[0], dict) and isinstance(mixed[1], quern.Invalid) and isinstance(mixed[2], dict)
                self.assertEqual(mixed[0]["id"], mixed[2]["id"])
                self.assertEqual(mixed[1].problems[0]["pointer"], "/chunks/count")
                await client.cancel_submission(mixed[0]["id"])
                listed = [one["id"] async for one in client.list_submissions("default", state=["open"], limit=7)]
                self.assertEqual(len(set(listed)), 20)

        with serving() as server:
            asyncio.run(run(server.address))

    def test_kill_nine(self) -> None:
        """The server is killed twice while work is done: each chunk is done, and none by two handlers that both counted."""
        with serving() as server, quern.Client(server.address) as client:
            submission = client.insert(count=4000, template="{index}")
            seen: collections.Counter[int] = collections.Counter()
            lock = threading.Lock()
            progress = threading.Semaphore(0)

            @client.worker(concurrency=8, prefetch=64, on_error=lambda error: None)
            def handle(chunk: quern.Chunk) -> str:
                with lock:
                    seen[chunk.index] += 1
                    if len(seen) in (500, 1500):
                        progress.release()
                return chunk.text

            with handle:
                for _ in range(2):
                    progress.acquire()
                    server.kill()
                    server.start()
                ended = client.wait(submission, timeout=120)
            self.assertEqual((ended["state"], ended["done"]), ("completed", 4000))
            self.assertEqual([output.text for output in client.outputs(submission)], [str(i) for i in range(4000)])
            self.assertEqual(len(seen), 4000)
            # A kill repeats at most the chunks that the worker held or had just reported. The prefetch is fixed, because otherwise it
            # depends on the machine.
            self.assertLessEqual(sum(seen.values()) - 4000, 2 * 2 * (8 + 64), "too much was done twice")

    def test_ends(self) -> None:
        """The ends of submissions are followed over a kill of the server: each once, in order, and the filter holds. So by asyncio."""
        with serving() as server, quern.Client(server.address) as client:
            ends = client.ends(meta={"odd": 1}, after="0")

            def end(number: int) -> str:
                submission = client.insert(["x"], meta={"odd": number % 2})
                client.cancel_submission(submission["id"])
                return str(submission["id"])

            wanted = [end(i) for i in range(6)][1::2]
            got = [next(ends) for _ in wanted]
            server.kill()
            server.start()
            wanted += [end(i) for i in range(6)][1::2]
            got += [next(ends) for _ in range(3)]
            self.assertEqual([one.submission["id"] for one in got if one.submission], wanted)
            self.assertEqual({one.submission["state"] for one in got if one.submission}, {"cancelled"})

            async def later() -> list[quern.End]:
                async with quern.AsyncClient(server.address) as own:
                    stream = own.ends(state=["cancelled"], meta={"odd": 1}, after=got[1].place)
                    return [await anext(stream) for _ in range(4)]

            self.assertEqual(asyncio.run(later()), got[2:])
            with self.assertRaises(quern.NotFound):
                next(client.ends("absent"))

    def test_a_worker_that_is_killed(self) -> None:
        """Chunks that a killed process held are offered again after the queue's grace, long before their deadline."""
        with serving() as server, quern.Client(server.address) as client:
            client.change_queue("default", {"settings": {"consumer_grace_ms": 1000}})
            submission = client.insert(["x"])
            code = (
                "import quern, sys, time\n"
                f"@quern.Client({server.address!r}).worker(timeout=3600)\n"
                "def handle(chunk):\n  print('begun', flush=True)\n  time.sleep(3600)\n"
                "handle.run()\n"
            )
            with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                self.assertEqual(process.stdout.readline(), "begun\n")
                until = time.monotonic() + 60
                while not any(one["state"] == "attached" for one in client.list_consumers("default")):
                    self.assertLess(time.monotonic(), until, "the worker did not attach")
                process.kill()

            @client.worker()
            def handle(chunk: quern.Chunk) -> str:
                return f"attempt {chunk.attempt}"

            with handle:
                self.assertEqual(client.wait(submission, timeout=60)["state"], "completed")
            self.assertEqual([output.text for output in client.outputs(submission)], ["attempt 2"])

    def test_the_successor_of_a_worker_that_is_killed(self) -> None:
        """Chunks that a killed process held go on at once in another process under its name, though their deadline and the grace are an
        hour away."""
        with serving() as server, quern.Client(server.address) as client:
            client.change_queue("default", {"settings": {"consumer_grace_ms": 3_600_000}})
            submission = client.insert(["x", "y"])
            for attempt in (1, 2):
                code = (
                    "import quern, sys, time\n"
                    f"@quern.Client({server.address!r}).worker(consumer='one', concurrency=2, timeout=3600)\n"
                    "def handle(chunk):\n  print(f'begun {chunk.attempt}\\n', end='', flush=True)\n  time.sleep(3600)\n"  # in one piece
                    "handle.run()\n"
                )
                with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
                    assert process.stdout is not None
                    try:
                        self.assertEqual([process.stdout.readline() for _ in range(2)], [f"begun {attempt}\n"] * 2)
                    finally:
                        process.kill()

            async def last() -> None:
                async with quern.AsyncClient(server.address) as other:

                    @other.worker(consumer="one")
                    async def handle(chunk: quern.Chunk) -> str:
                        return f"attempt {chunk.attempt}"

                    async with handle:
                        await other.wait(submission, timeout=60)

            # The same process works under the name first with asyncio, and its incarnation is another than that of those that were killed.
            asyncio.run(last())
            self.assertEqual([output.text for output in client.outputs(submission)], ["attempt 3"] * 2)

    def test_failures(self) -> None:
        """A handler's exception fails the try, and a permanent one the submission, with its text; a cancelled submission ends its handlers."""
        with serving() as server, quern.Client(server.address) as client:
            begun, cancelled, snoozed = threading.Event(), threading.Event(), threading.Event()
            errors: list[quern.Error] = []

            @client.worker(concurrency=2, on_error=errors.append)
            def handle(chunk: quern.Chunk) -> Optional[str]:
                if chunk.text == "flaky" and not snoozed.is_set():
                    snoozed.set()
                    raise quern.Snooze(0.001)
                if chunk.text == "flaky" and chunk.attempt == 1:
                    raise quern.RetryAfter(0, "not yet")
                if chunk.text == "bad":
                    raise quern.Permanent("no such thing")
                if chunk.text == "long":
                    begun.set()
                    try:
                        chunk.sleep(3600)
                    except quern.Cancelled:
                        cancelled.set()
                        raise
                return str(chunk.attempt)

            flaky, bad, long = (client.insert([text], on_exhausted="fail_submission") for text in ("flaky", "bad", "long"))
            with handle:
                self.assertEqual(client.wait(flaky, timeout=60)["state"], "completed")
                failed = client.wait(bad, timeout=60)
                self.assertEqual((failed["state"], failed["failure"]), ("failed", "no such thing"))
                self.assertTrue(begun.wait(60))
                client.cancel_submission(long["id"])
                self.assertTrue(cancelled.wait(60))
            self.assertEqual([output.text for output in client.outputs(flaky)], ["2"])  # a snooze counts no attempt
            kinds = {type(error) for error in errors}
            self.assertLessEqual({quern.HandlerFailed, quern.ReservationLost}, kinds)

    def test_contents_are_texts_or_bytes(self) -> None:
        """Every way to insert refuses any other type, and inserts nothing."""

        async def awaiting(address: str, value: Any) -> None:
            async with quern.AsyncClient(address) as client:
                for attempt in (
                    client.insert(["x", value]), client.insert(["x"], attachment=[value]),  # type: ignore[arg-type]
                    client.insert_many([{"chunks": ["x"]}, {"chunks": [value]}]), client.insert_stream(iter(["x", value])),
                ):  # fmt: skip
                    with self.assertRaisesRegex(TypeError, "str or bytes"):
                        await attempt
                with self.assertRaisesRegex(TypeError, "list"):
                    await client.insert_stream("a text")

        def blocking(client: quern.Client, value: Any) -> None:
            with self.assertRaisesRegex(TypeError, "str or bytes"):
                client.insert(["x", value])
            with self.assertRaisesRegex(TypeError, "str or bytes"):
                client.insert(["x"], attachment=[value])  # type: ignore[arg-type]
            with self.assertRaisesRegex(TypeError, "str or bytes"):
                client.insert_many([{"chunks": ["x"]}, {"chunks": [value]}])
            with self.assertRaisesRegex(TypeError, "str or bytes"):
                client.insert_stream(iter(["x", value]))

        with serving() as server, quern.Client(server.address) as client:
            for value in (3, True, 1.5, None, [1], {"a": 1}):
                with self.subTest(value):
                    blocking(client, value)
                    asyncio.run(awaiting(server.address, value))
            for single in ("a text", b"bytes", bytearray(b"bytes")):
                with self.assertRaisesRegex(TypeError, "list"):
                    client.insert(single)  # type: ignore[arg-type]
                with self.assertRaisesRegex(TypeError, "list"):
                    client.insert_stream(single)  # type: ignore[arg-type]
            self.assertEqual(list(client.list_submissions("default")), [])

    def test_a_refused_output(self) -> None:
        """An output that the server refuses fails its chunk for good, and the other results count."""
        with serving() as server, quern.Client(server.address) as client:
            submission = client.insert(count=8, template="x", on_exhausted="dead_letter", max_failed_chunks=8, timeout_ms=60_000)
            self.assertEqual(submission["timeout_ms"], 60_000)
            errors: list[quern.Error] = []
            tries: list[int] = []

            @client.worker(concurrency=8, on_error=errors.append)
            def handle(chunk: quern.Chunk) -> str:
                tries.append(chunk.index)
                return "x" * ((1 << 20) + 1) if chunk.index == 3 else "fine"

            with handle:
                ended = client.wait(submission, timeout=60)
            self.assertEqual((ended["done"], ended["dead"], len(tries)), (7, 1, 8))
            (letter,) = client.list_dead_letters("default")
            self.assertIn("the server refused the output: it has 1048577 bytes", str(letter))
            self.assertEqual([error.index for error in errors if isinstance(error, quern.ReservationLost)], [3])

    def test_what_ends_a_worker(self) -> None:
        """An on_error that raises does not; a refusal for good does, and the block that it works beside raises it."""

        def deaf(error: quern.Error) -> None:
            raise RuntimeError("on_error is wrong")

        async def beside(address: str) -> None:
            async with quern.AsyncClient(address) as client:

                @client.worker(queue="none")
                async def handle(chunk: quern.Chunk) -> None:
                    """Never called."""

                self.assertEqual((handle.__name__, handle.__doc__), ("handle", "Never called."))  # type: ignore[attr-defined]
                async with handle:
                    await handle.join()

        with serving() as server, quern.Client(server.address) as client:
            submission = client.insert(["a", "b"], max_attempts=9)

            @client.worker(on_error=deaf)
            def flaky(chunk: quern.Chunk) -> None:
                if chunk.attempt == 1:
                    raise quern.RetryAfter(0)

            with self.assertLogs("quern", "ERROR") as logged, flaky:  # the log first: both tries may be over at once
                self.assertEqual(client.wait(submission, timeout=60)["state"], "completed")
            self.assertEqual(len(logged.records), 1)  # once a minute
            with self.assertRaisesRegex(RuntimeError, "once"):
                flaky.run()
            with self.assertRaises(quern.NotFound):
                client.worker(queue="none")(flaky.handler).run()
            with self.assertLogs("quern", "ERROR") as logged:
                with self.assertRaises(quern.NotFound), client.worker(queue="none")(flaky.handler) as idle:
                    idle.join()
                with self.assertRaises(quern.NotFound):
                    asyncio.run(beside(server.address))
            self.assertEqual(["has ended: NotFound" in record.getMessage() for record in logged.records], [True, True])
            with self.assertLogs("quern", "ERROR"), self.assertRaises(quern.Invalid):
                with client.worker(strategy="OldestFrist")(flaky.handler) as wrong:
                    wrong.join()

    def test_what_a_program_says(self) -> None:
        """The program of the README, whose strategy has a typo or whose server is away, says so; its handler's failures are logged once and
        reach the server with their type and place."""
        script = """if True:
            import quern, signal, sys
            client = quern.Client(sys.argv[1], retries=0)
            @client.worker(strategy=sys.argv[2], concurrency=4)
            def shout(chunk):
                raise KeyError("missing")
            if len(sys.argv) > 3:
                submission = client.insert(["a"] * 20, max_attempts=1, on_exhausted="dead_letter", max_failed_chunks=20)
                with shout:
                    client.wait(submission)
            else:
                with shout:
                    shout.join()
        """
        source = {**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src")}

        def said(*args: str) -> str:
            return subprocess.run([sys.executable, "-c", script, *args], env=source, stderr=subprocess.PIPE, text=True, timeout=60).stderr

        with serving() as server, quern.Client(server.address) as client:
            self.assertIn("has ended: Invalid: ", said(server.address, "OldestFrist"))
            log = said(server.address, "OldestFirst", "insert")
            self.assertEqual(log.count("the handler failed: KeyError: 'missing'"), 1, log)
            letter = next(client.list_dead_letters("default"))
            self.assertRegex(letter["error"], r"^KeyError: 'missing'\n  at shout \(<string>:6\)$")
        command = [sys.executable, "-c", script, server.address, "OldestFirst"]
        with subprocess.Popen(command, env=source, stderr=subprocess.PIPE, text=True) as away:
            assert away.stderr is not None
            self.assertIn("no server answers at", away.stderr.readline())
            away.kill()

    def test_a_worker_that_is_stopped_as_it_begins(self) -> None:
        """It ends, though its first call has not begun when it is to be broken off."""

        async def run(address: str) -> None:
            async with quern.AsyncClient(address) as client:

                @client.worker()
                async def handle(chunk: quern.Chunk) -> None:
                    pass

                handle.stop()
                await asyncio.wait_for(handle.run(), 60)

        with serving() as server:
            asyncio.run(run(server.address))

    def test_ctrl_c_with_asyncio(self) -> None:
        """The first SIGINT ends a worker in order; the next ones end it at once, whatever its handlers do."""
        script = """if True:
            import asyncio, sys, time, quern
            async def main():
                async with quern.AsyncClient(sys.argv[1]) as client:
                    @client.worker(concurrency=2)
                    async def handle(chunk):
                        print("begun", flush=True)
                        while True:
                            if chunk.text == "blocks":
                                time.sleep(0.05)
                            else:
                                await asyncio.sleep(0.05)
                    await handle.run()
            asyncio.run(main())
        """
        source = {**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src")}
        for text in ("waits", "blocks"):
            with self.subTest(text), serving() as server, quern.Client(server.address) as client:
                client.insert([text])
                command = [sys.executable, "-c", script, server.address]
                # A shell ignores SIGINT in its background processes, and all their children would inherit that.
                default = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
                with subprocess.Popen(command, env=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      preexec_fn=default) as process:
                    assert process.stdout is not None
                    self.assertEqual(process.stdout.readline(), "begun\n")
                    try:
                        for patience in (2, 2, 60):  # signals that come together are one
                            process.send_signal(signal.SIGINT)
                            with contextlib.suppress(subprocess.TimeoutExpired):
                                process.wait(patience)
                        self.assertIsNotNone(process.poll(), "it goes on after three SIGINTs")
                    finally:
                        process.kill()

    def test_calls(self) -> None:
        """The generated calls work: pages, conditions, meta in queries and paths, texts, answers without a body."""
        with serving() as server, quern.Client(server.address) as client:
            for i in range(5):
                client.insert(count=1, template="x", meta={"n": i, "s": str(i)})
            self.assertEqual(len(list(client.list_submissions("default", limit=2))), 5)
            self.assertEqual([one["meta"] for one in client.list_submissions("default", meta={"s": "3"})], [{"n": 3, "s": "3"}])
            put = client.put_strategy("default", "nightly", {"strategy": "OldestFirst"}, if_none_match="*")
            with self.assertRaises(quern.Conflict):
                client.put_strategy("default", "nightly", {"strategy": "Random"}, if_none_match="*")
            self.assertEqual(client.get_strategy("default", "nightly")["strategy"], "OldestFirst")
            client.delete_strategy("default", "nightly", if_match=put["etag"])
            with self.assertRaises(quern.NotFound) as missing:
                client.get_strategy("default", "nightly")
            self.assertEqual(missing.exception.code, "unknown_strategy")
            client.put_meta_value("default", "s", "3", {"limit": 0})
            self.assertEqual(client.get_meta_value("default", "s", "3")["limit"], 0)
            self.assertIn("quern_", client.metrics())
            seen = (event.name for event in client.events("default", topics=["consumers", "keys"]))
            self.assertEqual({next(seen) for _ in range(2)}, {"consumers", "keys"})
            self.assertEqual(client.get_stats("default")["ready"], 5)
            held = client.reserve("default", {"max": 2, "strategy": "OldestFirst", "wait_ms": 10})
            results = client.complete("default", {"items": [{"token": one["token"]} for one in held["reservations"]]})
            self.assertEqual([one["status"] for one in results["results"]], ["ok", "ok"])
            self.assertEqual(client.ensure_queue("night", {"max_attempts": 3})["settings"]["max_attempts"], 3)
            client.change_queue("night", {"settings": {"max_attempts": 4}})
            self.assertEqual(client.ensure_queue("night", {"max_attempts": 3})["settings"]["max_attempts"], 4)
            with self.assertRaises(quern.Invalid) as wrong:
                client.reserve("default", {"max": -1})
            self.assertEqual(wrong.exception.problems[0]["pointer"], "/max")
            with self.assertRaises(TimeoutError):
                client.wait(next(client.list_submissions("default", state=["open"])), timeout=0.1)

    def test_tls_and_tokens(self) -> None:
        """A server is trusted by its certificate's authority or fingerprint; without a good token nothing is allowed."""
        with serving("--tls-self-signed", "--auth") as server:
            token = (pathlib.Path(server.data.name) / "admin-token").read_text().strip()
            file = next(pathlib.Path(server.data.name).rglob("self-signed.crt"))
            fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(file.read_text())).hexdigest()
            for trust in ({"ca_file": str(file)}, {"fingerprint": fingerprint}):
                with quern.Client(server.address, token=token, **trust) as client:  # type: ignore[arg-type]
                    self.assertIn("admin", client.whoami()["scopes"])

                async def who() -> list[str]:
                    async with quern.AsyncClient(server.address, token=token, **trust) as client:  # type: ignore[arg-type]
                        return list((await client.whoami())["scopes"])

                self.assertIn("admin", asyncio.run(who()))
            for wrong in ({}, {"fingerprint": "0" * 64}):
                with self.assertRaises(quern.NotTrusted), quern.Client(server.address, token=token, **wrong) as client:  # type: ignore[arg-type]
                    client.whoami()

                async def refused() -> None:
                    await quern.AsyncClient(server.address, token=token, **wrong).whoami()  # type: ignore[arg-type]

                with self.assertRaises(quern.NotTrusted):
                    asyncio.run(refused())
            with self.assertRaises(quern.Unauthorized), quern.Client(server.address, ca_file=str(file)) as client:
                client.whoami()

    def test_trace(self) -> None:
        """Submissions that a handler inserts are part of its chunk's trace, and on_call is called for every call."""
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        heard: list[quern.Call] = []
        with serving() as server, quern.Client(server.address, on_call=heard.append) as client:
            submission = client.insert(["x"], trace=trace)

            @client.worker()
            def handle(chunk: quern.Chunk) -> str:
                return str(client.insert(["y"], queue="default", run_at=None, key="child", max_attempts=1)["id"]) if chunk.text == "x" else ""

            with handle:
                client.wait(submission, timeout=60)
            (child,) = (output.text for output in client.outputs(submission))
            self.assertEqual(client.get_submission(child)["trace"].split("-")[1], trace.split("-")[1])
            self.assertIn("exchange", {one.what for one in heard})


if __name__ == "__main__":
    unittest.main()
