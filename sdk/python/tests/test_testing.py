"""The server for tests of other programs."""

from __future__ import annotations

import datetime
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import quern
import quern.testing

from test_server import BINARY, ROOT

PROGRAM = str(pathlib.Path(BINARY).resolve())


class Testing(unittest.TestCase):
    def test_a_server(self) -> None:
        """Two servers have work of their own, and have ended in order after their block."""
        with mock.patch.dict(os.environ, {"QUERN": PROGRAM}):
            with quern.testing.Server() as one, quern.testing.Server() as two:
                with quern.Client(one.address) as client, quern.Client(two.address) as other:
                    client.insert(["x"])
                    self.assertEqual([client.get_stats("default")["ready"], other.get_stats("default")["ready"]], [1, 0])
            self.assertIn("serving " + one.address, one.log)
            self.assertEqual([one._process.returncode, two._process.returncode], [0, 0])

    def test_a_clock_that_the_test_moves(self) -> None:
        """A reservation times out, and a delay is over, when the clock has moved that far and not before."""
        with mock.patch.dict(os.environ, {"QUERN": PROGRAM}), quern.testing.Server() as server, quern.Client(server.address) as client:

            def taken() -> list[str]:
                return [r["submission"] for r in client.reserve("default", {"max": 5, "consumer": "ana", "timeout_ms": 3_600_000})["reservations"]]

            held = client.insert(["a"])["id"]
            self.assertEqual(taken(), [held])
            server.advance(datetime.timedelta(minutes=59))
            self.assertEqual(taken(), [])
            now = server.advance(90)  # after a timeout, a chunk waits for its back-off of up to a second
            self.assertEqual(taken(), [held])
            later = client.insert(["b"], run_at=now + datetime.timedelta(minutes=30))["id"]
            server.advance(29 * 60)
            self.assertEqual(taken(), [])
            server.advance(60)
            self.assertEqual(taken(), [later])
            with self.assertRaisesRegex(ValueError, "the clock only goes forward"):
                server.advance(-1)
            with self.assertRaisesRegex(ValueError, "the clock only goes forward"):
                server.advance(datetime.timedelta(days=36_500))

    def test_the_program_is_in_the_path(self) -> None:
        path = os.pathsep.join([str(pathlib.Path(PROGRAM).parent), os.environ["PATH"]])
        with mock.patch.dict(os.environ, {"PATH": path}):
            os.environ.pop("QUERN", None)
            with quern.testing.Server() as server:
                self.assertTrue(server.address)

    def test_it_does_not_start(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            os.environ.pop("QUERN", None)
            with self.assertRaisesRegex(FileNotFoundError, "name it in the environment variable QUERN"):
                quern.testing.Server()
        with mock.patch.dict(os.environ, {"QUERN": "/bin/echo"}), self.assertRaisesRegex(RuntimeError, "did not start:\ndev --listen"):
            quern.testing.Server()

    def test_a_program_that_forgets_it(self) -> None:
        """The server ends with the program."""
        script = "import quern.testing; print(quern.testing.Server()._process.pid)"
        source = {**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src"), "QUERN": PROGRAM}
        said = subprocess.run([sys.executable, "-c", script], env=source, capture_output=True, text=True, timeout=60)
        self.assertEqual(said.returncode, 0, said.stderr)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(said.stdout), 0)


if __name__ == "__main__":
    unittest.main()
