"""Contents and outputs in files and on a server that speaks S3 and checks signatures, through fsspec; and together with the program
quern-objects. S3 is s3fs where it is installed, and boto3 where not. QUERN_S3 is the server's program, bin/s3serve unless
told; QUERN_OBJECTS is that of quern-objects."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import importlib.util
import io
import itertools
import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import fsspec
import quern
from fsspec.implementations.memory import MemoryFileSystem
from quern import objects
from quern.objects._content import reader
from quern.objects._files import Files

from test_server import ROOT, serving

if importlib.util.find_spec("s3fs"):
    from s3fs import S3FileSystem
else:
    from boto3fs import S3FileSystem

S3SERVE = os.environ.get("QUERN_S3") or str(ROOT / "bin/s3serve")
QUERN_OBJECTS = os.environ.get("QUERN_OBJECTS") or str(ROOT / "bin/quern-objects")
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test/secret+key"}
DAY = datetime.timedelta(days=1)


class Place(NamedTuple):
    """Where a store keeps its objects, and the URL of that place for quern-objects."""

    system: Any
    root: str
    url: str

    def keys(self, prefix: str = "") -> list[str]:
        self.system.invalidate_cache()
        names = (path[len(self.root) + 1 :] for path in self.system.find(self.root))
        return sorted(name for name in names if name.startswith(prefix) and not name.endswith(".attrs"))

    def files(self) -> Files:
        return Files(self.system, self.root)

    def write(self, key: str) -> None:
        self.files().write(key, io.BytesIO(b"x"))


@contextlib.contextmanager
def s3() -> Iterator[Place]:
    """An empty bucket."""
    with subprocess.Popen([S3SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process, unittest.mock.patch.dict(os.environ, KEYS):
        assert process.stdin is not None and process.stdout is not None
        url = process.stdout.readline().strip()
        endpoint = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["endpoint"][0]
        system = S3FileSystem(endpoint_url=endpoint, key=KEYS["AWS_ACCESS_KEY_ID"], secret=KEYS["AWS_SECRET_ACCESS_KEY"])
        try:
            yield Place(system, "work/below", url + "&prefix=below/")
        finally:
            getattr(system, "close", lambda: None)()
            process.stdin.close()


def each(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with files and with S3."""

    @functools.wraps(test)
    def run(self: unittest.TestCase) -> None:
        with tempfile.TemporaryDirectory() as folder, self.subTest("files"):
            test(self, Place(fsspec.filesystem("file"), folder, f"file://{folder}"))
        with s3() as place, self.subTest("S3"):
            test(self, place)

    return run


def read(store: objects.Store, key: str) -> bytes:
    with contextlib.closing(store.open(key)) as file:
        return file.read()


def breaks() -> Iterator[bytes]:
    yield b"half"
    raise ZeroDivisionError("the source ended")


class Objects(unittest.TestCase):
    @each
    def test_objects(self, place: Place) -> None:
        """Objects are written whole or not at all, stay when they must, and are removed by folder."""
        files = place.files()
        sizes = {"a/0": 0, "a/1": 1, "a/2": 8 << 20, "b/odd ~'&+%=\u00e4": 20_000_001}
        for key, size in sizes.items():
            files.write(key, io.BytesIO(os.urandom(1) * size))
        for key, size in sizes.items():
            with contextlib.closing(files.read(key)) as file:
                self.assertEqual(len(file.read()), size, key)
        self.assertEqual(place.keys(), sorted(sizes))
        self.assertEqual(files.folders(""), {"a/", "b/"})
        now = datetime.datetime.now(datetime.timezone.utc)
        self.assertEqual([files.is_old("a/", now + shift) for shift in (-DAY, DAY)], [False, True])
        for size in (3, 9 << 20):  # in one request, and in parts
            files.write("a/1", io.BytesIO(b"x" * size), replace=False)
            with contextlib.closing(files.read("a/1")) as file:
                self.assertEqual(len(file.read()), 1)
            with self.assertRaises(ZeroDivisionError):
                files.write("half", reader(itertools.chain([b"x" * size], breaks())))
            self.assertEqual(place.keys("h"), [])
        files.write("a/1", io.BytesIO(b"other"))
        with contextlib.closing(files.read("a/1")) as file:
            self.assertEqual(file.read(), b"other")
        for folder in ("a/", "b/", "b/", "never/"):
            files.remove(folder)
        self.assertEqual(place.keys(), [])
        self.assertEqual(files.folders("a/"), set())
        with self.assertRaises(FileNotFoundError):
            files.read("a/1")
        for key in ("", "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a\\b", "a\0b", "a/"):
            calls: list[Callable[[str], Any]] = [files.read, lambda key: files.write(key, io.BytesIO())]
            for call in calls:
                with self.assertRaises(ValueError, msg=key):
                    call(key)

    def test_times(self) -> None:
        """The age of an object is known whatever form its file system gives it in."""
        files = Files(MemoryFileSystem(), "memory://times")
        noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
        text, naive = "2026-03-01T12:00:00Z", noon.replace(tzinfo=None)
        infos: list[dict[str, Any]] = [{"mtime": noon.timestamp()}, {"updated": text}, {"LastModified": noon}, {"created": naive}]
        for info in infos:
            self.assertEqual(files._modified("x", info), noon, info)

    def test_another_file_system(self) -> None:
        """A store takes any file system of fsspec."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, *fsspec.core.url_to_fs("memory://another"))
            submission = store.submit(["a", "b"])
            with store.worker()(shout):
                client.wait(submission, timeout=60)
            self.assertEqual([read(store, output.text) for output in client.outputs(submission)], [b"A", b"B"])
            self.assertEqual(store.sweep(-DAY), 0)
            store.remove(client.get_submission(submission["id"]))
            self.assertEqual(MemoryFileSystem().find("/another"), [])


def shout(chunk: quern.Chunk, content: BinaryIO) -> bytes:
    return content.read().upper()


class Stores(unittest.TestCase):
    @each
    def test_round_trip(self, place: Place) -> None:
        """Consumers read the contents that were uploaded, and outputs name the contents that they returned, in every form that contents
        have."""
        with serving() as server, quern.Client(server.address) as client, tempfile.TemporaryDirectory() as folder:
            store = objects.Store(client, place.system, place.root, parallel=3)
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
            got = {output.index: read(store, output.text) for output in client.outputs(submission)}
            self.assertEqual(got, {0: "a\u00e4".encode(), 2: path.read_bytes(), 3: path.read_bytes(), 4: b"dd"})

            inline = client.insert(["in the queue"])
            with store.worker()(shout):
                client.wait(inline, timeout=60)
            (output,) = client.outputs(inline)
            self.assertEqual(read(store, output.text), b"IN THE QUEUE")

            store.remove(client.get_submission(submission["id"]))
            self.assertEqual(place.keys(), [output.text])

    @each
    def test_asyncio(self, place: Place) -> None:
        """The same with asyncio."""

        async def main(address: str) -> None:
            async with quern.AsyncClient(address) as client:
                store = objects.AsyncStore(client, place.system, place.root, parallel=3)

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
                got = []
                async for output in client.outputs(submission):
                    with contextlib.closing(await store.open(output.text)) as file:
                        got.append(file.read())
                self.assertEqual(got, [b"TEXT %d" % i for i in range(20)])
                with self.assertRaises(ZeroDivisionError):
                    await store.submit(["whole", breaks(), "never"])
                with self.assertRaises(ValueError):
                    await store.submit([])
                self.assertEqual(len(place.keys()), 40)
                self.assertEqual(await store.sweep(-DAY), 0)
                await store.remove(await client.get_submission(submission["id"]))
                self.assertEqual(place.keys(), [])

        with serving() as server:
            asyncio.run(main(server.address))

    @each
    def test_only_what_counts(self, place: Place) -> None:
        """A failed attempt leaves no object, and a chunk whose object is gone fails."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, place.system, place.root)
            submission = store.submit(["x"])
            failed: list[quern.Error] = []

            @store.worker(on_error=failed.append)
            def handle(chunk: quern.Chunk, content: BinaryIO) -> Iterator[str]:
                yield f"try {chunk.attempt}"
                if chunk.attempt == 1:
                    raise quern.RetryAfter(0, "not yet")

            with handle:
                client.wait(submission, timeout=60)
                (key,) = place.keys("quern/outputs/")
                self.assertEqual(read(store, key), b"try 2")
                lost = client.insert(count=1, prefix="nowhere/", max_attempts=1, on_exhausted="fail_submission")
                self.assertEqual(client.wait(lost, timeout=60)["state"], "failed")
                elsewhere = client.insert(count=1, prefix="../../etc/passwd", max_attempts=1, on_exhausted="fail_submission")
                self.assertIn("'../../etc/passwd0'", client.wait(elsewhere, timeout=60)["failure"])

    @each
    def test_submit_goes_on(self, place: Place) -> None:
        """A call that broke off goes on under its key: objects that are there stay as they are, and there is one submission. A call with a
        random key leaves nothing."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, place.system, place.root)
            for broken in (["whole", breaks()], ["whole", 7]):
                with self.assertRaises((ZeroDivisionError, TypeError)):
                    store.submit(broken)  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, "no contents"):
                store.submit([])
            with self.assertRaisesRegex(TypeError, "count"):
                store.submit(["x"], count=1)
            self.assertEqual(place.keys(), [])
            with self.assertRaises(ZeroDivisionError):
                store.submit(["one", breaks()], key="k")
            self.assertEqual(list(client.list_submissions("default")), [])
            first = store.submit(["one", "two"], key="k")
            self.assertEqual(store.submit(["ONE", "TWO"], key="k")["id"], first["id"])
            self.assertEqual([read(store, key) for key in place.keys()], [b"one", b"two"])

    @each
    def test_sweep(self, place: Place) -> None:
        """A sweep removes old objects that belong to no submission; objects of others stay; a token that sees less than all may not
        sweep."""
        with serving() as server, quern.Client(server.address) as client:
            store = objects.Store(client, place.system, place.root)
            kept = store.submit(["a", "b"])
            gone = "quern/contents/" + "0a" * 16 + "/0"
            for key in ("mine", "quern/contents/mine/0", f"quern/outputs/{kept['id']}/0-x", gone, "quern/outputs/unknown/0-x"):
                place.write(key)
            self.assertEqual(store.sweep(DAY), 0)
            self.assertEqual(store.sweep(-DAY), 2)
            prefix = kept["prefix"]
            self.assertEqual(place.keys(), sorted(["mine", "quern/contents/mine/0", f"quern/outputs/{kept['id']}/0-x", prefix + "0", prefix + "1"]))
            admin = client.create_token({"name": "all", "scopes": ["admin"]})["token"]
            with quern.Client(server.address, token=admin) as broad:
                some = broad.create_token({"name": "some", "scopes": ["read"], "queues": ["other"]})["token"]
            with quern.Client(server.address, token=some) as narrow, self.assertRaisesRegex(quern.Error, "sees only some"):
                objects.Store(narrow, place.system, place.root).sweep(-DAY)

    @each
    def test_with_the_program(self, place: Place) -> None:
        """quern-objects works on contents that Python submitted, and Python on those of quern-objects, in one bucket."""
        with serving() as server, quern.Client(server.address) as client, tempfile.TemporaryDirectory() as folder:
            store = objects.Store(client, place.system, place.root)
            environment = {**os.environ, "QUERN_SERVER": server.address}
            for name in ("ash", "beech"):
                pathlib.Path(folder, name).write_text(name)
            command = [QUERN_OBJECTS, "submit", "--bucket", place.url, f"{folder}/ash", f"{folder}/beech"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            submission = client.get_submission(done.stdout.split()[0])
            with store.worker()(shout):
                client.wait(submission, timeout=60)
            self.assertEqual([read(store, output.text) for output in client.outputs(submission)], [b"ASH", b"BEECH"])

            mine = store.submit(["cedar"])
            with subprocess.Popen([QUERN_OBJECTS, "work", "--bucket", place.url, "--", "tr", "a-z", "A-Z"], env=environment, stderr=subprocess.PIPE) as working:
                client.wait(mine, timeout=60)
                working.terminate()
                working.communicate()
            (output,) = client.outputs(mine)
            self.assertEqual(read(store, output.text), b"CEDAR")
            self.assertEqual(store.sweep(-DAY), 0)
            for one in (submission, mine):
                store.remove(client.get_submission(one["id"]))
            self.assertEqual(place.keys(), [])


if __name__ == "__main__":
    unittest.main()
