"""Waiting for many submissions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional, Union

from ._core import BACKOFF_BASE, Core, Pause, Procedure
from ._http import Request
from ._produce import Submission, each_of, submission_id
from ._values import write_json
from .errors import NotFound

if TYPE_CHECKING:
    from . import types

MAX_IDS = 1000  # that one call waits for
SLICE_SECONDS = 30.0  # how long the server is asked to hold its answer

Ended = tuple[str, Union["types.Submission", NotFound]]


class Waiting:
    """Submissions that are waited for."""

    def __init__(self, core: Core, submissions: Iterable[Submission], timeout: Optional[float]) -> None:
        self._core = core
        self._timeout = timeout
        self._until = None if timeout is None else time.monotonic() + timeout
        self.left = list(dict.fromkeys(spelt(submission_id(one)) for one in each_of(submissions)))

    def ended(self) -> Procedure[list[Ended]]:
        """Ask once, and return the submissions that have ended. If there are none, pause, so that a server that does not hold its answers
        is not asked in a tight loop."""
        seconds = SLICE_SECONDS if self._until is None else min(max(self._until - time.monotonic(), 0.0), SLICE_SECONDS)
        body = write_json({"ids": self.left[:MAX_IDS], "wait_ms": int(seconds * 1000)}).encode()
        request = Request("wait", "POST", "/v1/submissions:wait", body, {"Content-Type": "application/json"}, wait=seconds, safe=True)
        found = yield from self._core.fetch(request, "ended")
        over: list[Ended] = [(one["id"], one) for one in found["ended"]]
        over += [(one, unknown(one)) for one in found.get("unknown", [])]
        gone = {one for one, _ in over}
        self.left = [one for one in self.left if one not in gone]
        if not over:
            if self._until is not None and time.monotonic() >= self._until:
                raise TimeoutError(f"{len(self.left)} submissions are still open after {self._timeout} s")
            yield Pause(self._core.random.uniform(0.0, BACKOFF_BASE))
        return over


def spelt(name: str) -> str:
    """An id as the server spells it. The server refuses any other text."""
    return str(int(name)) if name.isascii() and name.isdecimal() and len(name) < 100 else name


def unknown(name: str) -> NotFound:
    """The error that a call for the submission alone would get."""
    detail = f"There is no submission {name}: it never existed, its retention is over, or it or its queue was deleted."
    return NotFound(404, {"title": "There is no such submission", "status": 404, "code": "unknown_submission", "detail": detail})
