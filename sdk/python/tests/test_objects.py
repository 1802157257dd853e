"""Contents and outputs in files and on a server that speaks S3, which checks signatures and is busy now and then: QUERN_S3 says which program
that is, bin/s3serve unless told; and together with the program quern-objects (QUERN_OBJECTS)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import io
import itertools
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import quern
from quern import objects
from quern.objects import _s3
from quern.objects._bucket import reader

from test_server import ROOT, serving

S3SERVE = os.environ.get("QUERN_S3") or str(ROOT / "bin/s3serve")
QUERN_OBJECTS = os.environ.get("QUERN_OBJECTS") or str(ROOT / "bin/quern-objects")
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test/secret+key"}
DAY = datetime.timedelta(days=1)


@contextlib.contextmanager
def s3(busy: int = 7) -> Iterator[str]:
    """The URL of an empty bucket on a server that says 503 to one in so many requests."""
    command = [S3SERVE, f"-busy={busy}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process, unittest.mock.patch.dict(os.environ, KEYS):
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def each(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with every kind of bucket, whose URL it is given."""

    @functools.wraps(test)
    def run(self: unittest.TestCase) -> None:
        with tempfile.TemporaryDirectory() as folder, self.subTest("files"):
            test(self, f"file://{folder}")
        with s3() as url, self.subTest("S3"):
            test(self, url + "&prefix=below/")

    return run


def keys(bucket: objects.Bucket, prefix: str = "") -> list[str]:
    return sorted(one.key for one in bucket.list(prefix))


def opened(test: unittest.TestCase, url: str) -> objects.Bucket:
    bucket = objects.open_bucket(url)
    if isinstance(bucket, objects.S3):
        test.addCleanup(bucket.close)
    return bucket


def read(bucket: objects.Bucket, key: str) -> bytes:
    with contextlib.closing(bucket.read(key)) as file:
        return file.read()


def breaks() -> Iterator[bytes]:
    yield b"half"
    raise ZeroDivisionError("the source ended")


class Buckets(unittest.TestCase):
    def test_signatures(self) -> None:
        """The examples of the documentation of S3, "Signature Calculations for the Authorization Header"."""
        key = objects.Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
        at = datetime.datetime(2013, 5, 24, tzinfo=datetime.timezone.utc)
        date = {"Date": "Fri, 24 May 2013 00:00:00 GMT"}
        examples: list[tuple[str, str, str, bytes, dict[str, str], str]] = [
            ("GET", "/test.txt", "", b"", {"Range": "bytes=0-9"}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
            ("PUT", "/test%24file.text", "", b"Welcome to Amazon S3.", {"x-amz-storage-class": "REDUCED_REDUNDANCY", **date},
             "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
            ("GET", "/", "lifecycle=", b"", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("GET", "/", "max-keys=2&prefix=J", b"", {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ]  # fmt: skip
        for method, path, query, body, headers, want in examples:
            signed = _s3.sign(key, "us-east-1", method, "examplebucket.s3.amazonaws.com", path, query, body, headers, at)
            self.assertEqual(signed["Authorization"].rpartition("Signature=")[2], want)

    @each
    def test_bucket(self, url: str) -> None:
        """What every bucket does: whole objects or none, what is there stays when it must, lists, and deletions."""
        bucket = opened(self, url)
        sizes = {"a/0": 0, "a/1": 1, "a/2": 8 << 20, "b/odd ~'&+%?#=ä": 20_000_001}
        for key, size in sizes.items():
            bucket.write(key, io.BytesIO(os.urandom(1) * size))
        for key, size in sizes.items():
            self.assertEqual(len(read(bucket, key)), size, key)
        self.assertEqual(keys(bucket), sorted(sizes))
        self.assertEqual(keys(bucket, "a/"), ["a/0", "a/1", "a/2"])
        for one in bucket.list("a/"):
            self.assertLess(abs(one.modified - datetime.datetime.now(datetime.timezone.utc)), datetime.timedelta(hours=1))
        for size in (3, 9 << 20):  # in one request, and in parts
            bucket.write("a/1", io.BytesIO(b"x" * size), replace=False)
            self.assertEqual(len(read(bucket, "a/1")), 1)
            with self.assertRaises(ZeroDivisionError):
                bucket.write("half", reader(itertools.chain([b"x" * size], breaks())))
            self.assertNotIn("half", keys(bucket))
        bucket.write("a/1", io.BytesIO(b"other"))
        self.assertEqual(read(bucket, "a/1"), b"other")
        for key in sizes:
            bucket.delete(key)
            bucket.delete(key)
        self.assertEqual(keys(bucket), [])
        with self.assertRaises(FileNotFoundError):
            bucket.read("a/1")
        for key in ("", "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a\\b", "a\0b", "a/"):
            calls: list[Callable[[str], Any]] = [bucket.read, bucket.delete, lambda key: bucket.write(key, io.BytesIO())]
            for call in calls:
                with self.assertRaises(ValueError, msg=key):
                    call(key)

    def test_links(self) -> None:
        """A link does not lead out of a bucket of files."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "inside").mkdir()
            pathlib.Path(folder, "secret").write_text("x")
            pathlib.Path(folder, "inside/link").symlink_to("../secret")
            with self.assertRaises(ValueError):
                objects.Files(pathlib.Path(folder, "inside")).read("link")

    def test_urls(self) -> None:
        """What is no bucket, or has an option that is not known, is refused with what to do."""
        for url, why in {
            "gs://work": "Bucket of your own",
            "s3://": "Bucket of your own",
            "/srv/objects": "Bucket of your own",
            "s3://work?regoin=eu-1": "regoin",
            "s3://work?endpoint=localhost:9000": "is not a URL",
            "file:///srv?prefix=a": "prefix",
        }.items():
            with self.assertRaisesRegex(ValueError, why, msg=url):
                objects.open_bucket(url)

    def test_refusals(self) -> None:
        """A wrong key, none, a bucket that is not there and a server that is away are told apart."""
        with s3(busy=0) as url:
            bucket = opened(self, url)
            with unittest.mock.patch.dict(os.environ, {"AWS_SECRET_ACCESS_KEY": "wrong"}), self.assertRaisesRegex(PermissionError, "SignatureDoesNotMatch"):
                bucket.read("x")
            with unittest.mock.patch.dict(os.environ, {"AWS_ACCESS_KEY_ID": ""}), self.assertRaisesRegex(ValueError, "AWS_ACCESS_KEY_ID"):
                bucket.read("x")
            with self.assertRaisesRegex(FileNotFoundError, "NoSuchBucket"):
                opened(self, url.replace("work", "none")).write("x", io.BytesIO())
        with unittest.mock.patch.dict(os.environ, KEYS), self.assertRaises(ConnectionError):
            bucket.read("x")

    def test_an_object_that_breaks_off(self) -> None:
        """An object that ends before its length is an error, not a shorter object."""
        with socket.create_server(("127.0.0.1", 0)) as listener, unittest.mock.patch.dict(os.environ, KEYS):

            def answer() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")

            thread = threading.Thread(target=answer)
            thread.start()
            bucket = objects.S3("work", endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}", path_style=True)
            with contextlib.closing(bucket.read("x")) as file, self.assertRaisesRegex(ConnectionError, "broke off, 996 bytes"):
                file.read()
            thread.join()


def shout(chunk: quern.Chunk, content: BinaryIO) -> bytes:
    return content.read().upper()


class Stores(unittest.TestCase):
    @each
    def test_round_trip(self, url: str) -> None:
        """What is uploaded is what consumers read, and what they make of it is what outputs name, in every form that contents have."""
        with serving() as server, quern.Client(server.address) as client, tempfile.TemporaryDirectory() as folder:
            store = objects.Store(client, opened(self, url), parallel=3)
            path = pathlib.Path(folder, "c")
            path.write_bytes(b"c" * (11 << 20))
            contents: list[Any] = ["a\u00e4", b"", path, open(path, "rb"), (piece for piece in ("d", b"d", b""))]
            submission = store.submit(contents, meta={"company": 5})

            @store.worker(concurrency=4)
            def handle(chunk: quern.Chunk, content: BinaryIO) -> Any:
                self.assertEqual(chunk.meta, {"company": 5})
                if chunk.index == 3:
                    return (line for line in iter(lambda: content.read(1 << 20), b""))
                return content.read() or None

            with handle:
                self.assertEqual(client.wait(submission, timeout=60)["state"], "completed")
            got = {output.index: read(store.bucket, output.text) for output in client.outputs(submission)}
            self.assertEqual(got, {0: "a\u00e4".encode(), 2: path.read_bytes(), 3: path.read_bytes(), 4: b"dd"})

            inline = client.insert(["in the queue"])
            with store.worker()(shout):
                client.wait(inline, timeout=60)
            (output,) = client.outputs(inline)
            self.assertEqual(read(store.bucket, output.text), b"IN THE QUEUE")

            store.remove(client.get_submission(submission["id"]))
            self.assertEqual(keys(store.bucket), [output.text])

    @each
    def test_asyncio(self, url: str) -> None:
        """The same with asyncio."""

        async def main(address: str) -> None:
            async with quern.AsyncClient(address) as client:
                store = objects.AsyncStore(client, opened(self, url), parallel=3)

                async def texts() -> Any:
                    for i in range(20):
                        yield f"text {i}"

                submission = await store.submit(texts())

                @store.worker(concurrency=8)
                async def handle(chunk: quern.Chunk, content: BinaryIO) -> bytes:
                    await asyncio.sleep(0)
                    return content.read().upper()

                async with handle:
                    await client.wait(submission, timeout=60)
                got = [read(store.bucket, output.text) async for output in client.outputs(submission)]
                self.assertEqual(got, [b"TEXT %d" % i for i in range(20)])
                with self.assertRaises(ZeroDivisionError):
                    await store.submit(["whole", breaks(), "never"])
                with self.assertRaises(ValueError):
                    await store.submit([])
                self.assertEqual(len(keys(store.bucket)), 40)
                self.assertEqual(await store.sweep(-DAY), 0)
                await store.remove(await client.get_submission(submission["id"]))
                self.assertEqual(keys(store.bucket), [])

        with serving() as server:
            asyncio.run(main(server.address))

    @each
    def test_only_what_counts(self, url: str) -> None:
        """What a failed try made of a chunk is no object, and a chunk whose object is gone fails."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, opened(self, url))
            submission = store.submit(["x"])
            failed: list[quern.Error] = []

            @store.worker(on_error=failed.append)
            def handle(chunk: quern.Chunk, content: BinaryIO) -> Iterator[str]:
                yield f"try {chunk.attempt}"
                if chunk.attempt == 1:
                    raise quern.RetryAfter(0, "not yet")

            with handle:
                client.wait(submission, timeout=60)
                (key,) = keys(store.bucket, "quern/outputs/")
                self.assertEqual(read(store.bucket, key), b"try 2")
                lost = client.insert(count=1, prefix="nowhere/", max_attempts=1, on_exhausted="fail_submission")
                self.assertEqual(client.wait(lost, timeout=60)["state"], "failed")
                elsewhere = client.insert(count=1, prefix="../../etc/passwd", max_attempts=1, on_exhausted="fail_submission")
                self.assertIn("'../../etc/passwd0'", client.wait(elsewhere, timeout=60)["failure"])

    @each
    def test_submit_goes_on(self, url: str) -> None:
        """A call that broke off goes on under its key: objects that are there stay as they are, and there is one submission. One whose key was
        drawn leaves nothing."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, opened(self, url))
            for broken in (["whole", breaks()], ["whole", 7]):
                with self.assertRaises((ZeroDivisionError, TypeError)):
                    store.submit(broken)  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, "no contents"):
                store.submit([])
            with self.assertRaisesRegex(TypeError, "count"):
                store.submit(["x"], count=1)
            self.assertEqual(keys(store.bucket), [])
            with self.assertRaises(ZeroDivisionError):
                store.submit(["one", breaks()], key="k")
            self.assertEqual(list(client.list_submissions("default")), [])
            first = store.submit(["one", "two"], key="k")
            self.assertEqual(store.submit(["ONE", "TWO"], key="k")["id"], first["id"])
            self.assertEqual([read(store.bucket, key) for key in keys(store.bucket)], [b"one", b"two"])

    @each
    def test_sweep(self, url: str) -> None:
        """A sweep removes what belongs to no submission and is old; what is not the store's stays; a token that sees less may not."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, opened(self, url))
            kept = store.submit(["a", "b"])
            gone = "quern/contents/" + "0a" * 16 + "/0"
            for key in ("mine", "quern/contents/mine/0", f"quern/outputs/{kept['id']}/0-x", gone, "quern/outputs/unknown/0-x"):
                store.bucket.write(key, io.BytesIO(b"x"))
            self.assertEqual(store.sweep(DAY), 0)
            self.assertEqual(store.sweep(-DAY), 2)
            prefix = kept["prefix"]
            self.assertEqual(keys(store.bucket), sorted(["mine", "quern/contents/mine/0", f"quern/outputs/{kept['id']}/0-x", prefix + "0", prefix + "1"]))
            admin = client.create_token({"name": "all", "scopes": ["admin"]})["token"]
            with quern.Client(server.address, token=admin) as broad:
                some = broad.create_token({"name": "some", "scopes": ["read"], "queues": ["other"]})["token"]
            with quern.Client(server.address, token=some) as narrow, self.assertRaisesRegex(quern.Error, "sees only some"):
                objects.Store(narrow, store.bucket).sweep(-DAY)

    @each
    def test_with_the_program(self, url: str) -> None:
        """quern-objects works on what Python submitted, and Python on what quern-objects did, in one bucket."""
        with serving() as server, quern.Client(server.address) as client, tempfile.TemporaryDirectory() as folder:
            store = objects.Store(client, opened(self, url))
            environment = {**os.environ, "QUERN_SERVER": server.address}
            for name in ("ash", "beech"):
                pathlib.Path(folder, name).write_text(name)
            command = [QUERN_OBJECTS, "submit", "--bucket", url, f"{folder}/ash", f"{folder}/beech"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            submission = client.get_submission(done.stdout.split()[0])
            with store.worker()(shout):
                client.wait(submission, timeout=60)
            self.assertEqual([read(store.bucket, output.text) for output in client.outputs(submission)], [b"ASH", b"BEECH"])

            mine = store.submit(["cedar"])
            with subprocess.Popen([QUERN_OBJECTS, "work", "--bucket", url, "--", "tr", "a-z", "A-Z"], env=environment, stderr=subprocess.PIPE) as working:
                client.wait(mine, timeout=60)
                working.terminate()
                working.communicate()
            (output,) = client.outputs(mine)
            self.assertEqual(read(store.bucket, output.text), b"CEDAR")
            self.assertEqual(store.sweep(-DAY), 0)
            for one in (submission, mine):
                store.remove(client.get_submission(one["id"]))
            self.assertEqual(keys(store.bucket), [])


if __name__ == "__main__":
    unittest.main()
