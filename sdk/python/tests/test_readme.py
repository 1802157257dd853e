"""The Python programs of the READMEs do what they say, against a real server."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import quern

from test_server import BINARY, ROOT, Server, serving


def programs(name: str) -> list[str]:
    text = (ROOT / name).read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(program: str, server: Server, **more: Any) -> str:
    code = program.replace("http://127.0.0.1:7700", server.address)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, done.stderr
    said: str = done.stdout
    return said


class Readmes(unittest.TestCase):
    def both(self, producer: str, consumer: str, server: Server) -> None:
        """A producer and a consumer find each other, and the consumer ends in order."""
        code = consumer.replace("http://127.0.0.1:7700", server.address)
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as working:
            try:
                self.assertEqual(run(producer, server), "completed\n0 ASH\n1 BEECH\n2 CEDAR\n")
            finally:
                working.send_signal(signal.SIGTERM)
                _, errors = working.communicate(timeout=60)
        self.assertEqual((working.returncode, errors), (0, ""))

    def test_the_first_screen(self) -> None:
        with serving() as server:
            (program,) = programs("README.md")
            self.assertEqual(run(program, server), "ASH\nBEECH\nCEDAR\n")

    def test_its_own(self) -> None:
        with serving() as server:
            producer, consumer, follows, kinds, awaiting, stored, unique, calls, tests = programs("sdk/python/README.md")
            self.both(producer, consumer, server)
            self.assertEqual(run(follows, server), "ASH\n")
            self.assertEqual(run(tests, server, env={**os.environ, "QUERN": str(pathlib.Path(BINARY).resolve())}), "completed_with_dead ASH\n")
            self.assertEqual(run(kinds, server), "sent to ana\nresized cat.png to 100\n")
            self.assertEqual(run(awaiting, server), f"completed\n{sum(len(f'row {i}') for i in range(1000))}\n")
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(run(stored.replace("/tmp/quern-objects", folder), server), "completed\n0 6 words\n1 4 words\n")
            self.assertEqual(run(calls, server), "unknown_queue\n")
            with quern.Client(server.address) as client:
                client.put_queue("nightly", {"settings": {"max_attempts": 3}})
            self.assertEqual(run(calls, server), "3\n")
            self.assertEqual(run(unique, server), "True True [0, 5000, 60000]\ncancelled open\n")

    def test_the_recipes(self) -> None:
        with serving() as server, tempfile.TemporaryDirectory() as stored, tempfile.TemporaryDirectory() as folder:
            files, callbacks, kinds, tests = programs("docs/RECIPES.md")
            self.assertEqual(run(files.replace("/tmp/quern-objects", stored), server), "completed\n12 bytes\n18 bytes\n")
            self.assertEqual(run(kinds, server), "completed sent to ana\ncompleted resized cat.png to 100\n")
            path = os.pathsep.join([str(pathlib.Path(BINARY).resolve().parent), os.environ["PATH"]])
            run(tests, server, env={**os.environ, "PATH": path})
            self.callbacks(callbacks, server)

    def callbacks(self, program: str, server: Server) -> None:
        """The callback is handed out when all of its batch have ended, and not before."""
        self.assertEqual(run(program, server), "True\n")
        with quern.Client(server.address) as client:
            [callback] = client.list_submissions("default", meta={"kind": "callback"})
            self.assertEqual(callback["waiting"], 1)
            batch = list(client.list_submissions("default", meta={"kind": "render"}))
            self.assertEqual({s["id"] for s in batch}, set(callback["waits_for"]))
            for submission in batch:
                client.cancel_submission(submission["id"])
            got = client.reserve("default", {"max": 1, "strategy": 'SelectOnly("kind", "callback", OldestFirst)', "wait_ms": 30000})
            self.assertEqual([r["submission"] for r in got["reservations"]], [callback["id"]])


if __name__ == "__main__":
    unittest.main()
