"""A real server for the tests of a program.

::

    class TestShout(unittest.TestCase):
        def test_it(self) -> None:
            with quern.testing.Server() as server, quern.Client(server.address) as client:
                ...

The server has data of its own, which is removed when it ends, and a free port. The test can move its clock, see :meth:`Server.advance`.
"""

from __future__ import annotations

import atexit
import datetime
import http.client
import json
import math
import os
import shutil
import subprocess
import threading
import urllib.parse

__all__ = ["Server"]

STOP_SECONDS = 10.0  # in which a server ends in order


class Server:
    """A server for a test. It runs until :meth:`stop`, the end of the ``with`` block, or the end of the program. It needs the program
    ``quern`` in the PATH, or its path in the environment variable QUERN."""

    def __init__(self) -> None:
        program = os.environ.get("QUERN") or shutil.which("quern")
        if program is None:
            raise FileNotFoundError("there is no program quern in the PATH; install it, or name it in the environment variable QUERN")
        command = [program, "dev", "--listen", "127.0.0.1:0", "--test-clock"]
        # In a process group of its own: Ctrl-C ends it after the test has, not under its hands.
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        assert self._process.stdout is not None
        self._log: list[str] = []
        self.address = ""
        for line in self._process.stdout:
            self._log.append(line)
            if found := [word for word in line.split() if word.startswith("http://")]:
                self.address = found[0]
                break
        atexit.register(self.stop)
        self._reading = threading.Thread(target=self._read, name="quern-server-log", daemon=True)
        self._reading.start()
        if not self.address:
            self.stop()
            raise RuntimeError(f"the server did not start:\n{self.log}")

    @property
    def log(self) -> str:
        """The server's log so far."""
        return "".join(self._log)

    def advance(self, by: float | datetime.timedelta) -> datetime.datetime:
        """Move the server's clock forward, by seconds or a timedelta, and return its new time. The server has then done what became due:
        reservations have timed out, and delays, back-offs, rates, schedules and deadlines are over.

        Only the server's clock moves. How long a reserve waits for work is real time, and so is everything in the client: a worker whose
        reservation has timed out learns of it with its next call."""
        seconds = by.total_seconds() if isinstance(by, datetime.timedelta) else by
        body = json.dumps({"advance_ms": math.ceil(seconds * 1000)})
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.address).netloc)
        try:
            connection.request("POST", "/dev/clock", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(f"the server's clock was not moved by {by}: {answer.status} {said}")
        return datetime.datetime.fromisoformat(json.loads(said)["now"].replace("Z", "+00:00"))

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            self._log.extend(lines)

    def stop(self) -> None:
        """Stop the server and remove its data."""
        atexit.unregister(self.stop)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
