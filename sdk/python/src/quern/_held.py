"""One reservation in a worker's hands, and its report."""

from __future__ import annotations

import base64
import json
import math
import os
import time
import traceback
from typing import TYPE_CHECKING, Any, Optional

from ._values import Chunk, write_json
from .errors import LONGEST_PAUSE, Error, Permanent, RetryAfter, Snooze, shown

if TYPE_CHECKING:
    from ._worker import Shell

MAX_ERROR_BYTES = 1000  # of an error that the server keeps
MAX_NOTE_BYTES = 256  # of a note that the server takes
MAX_FRAMES = 10  # of an exception, in a report
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

Lost = tuple[str, str, str]  # status, code, detail


class Held:
    """One reservation in a worker's hands."""

    __slots__ = ("age", "back", "cancelled", "chunk", "delay_ms", "error", "extending", "failed", "item", "listed", "lost", "progress", "refused", "result", "shell", "task", "then", "token", "until")

    def __init__(self, raw: dict[str, Any], shell: Shell) -> None:
        self.token: str = raw["token"]
        self.chunk = Chunk(raw, self)
        self.cancelled = False  # the handler's result does not count any more
        self.lost = False  # because the reservation is not ours any more
        self.result: Lost = ("lost", "", "")  # why
        self.back = False  # to be given back
        self.delay_ms = 0  # how long the returned chunk waits before it is offered again
        self.then: list[bytes] = []  # submissions to insert with the completion, as JSON
        self.item = b""  # the report, as JSON
        self.failed = False  # the report is a failure
        self.refused = False  # the server refused the handler's result, and the failure says so
        self.error: Optional[BaseException] = None  # the error, for hooks
        self.until: Optional[float] = None  # when the handler's own time is over, as time.monotonic has it
        self.age = 0  # quarters of the timeout since it was reserved or extended
        self.extending = False
        self.progress: dict[str, Any] = {}  # the progress that the handler reported last, as an extension sends it
        self.listed = False  # the worker is going to send the progress
        self.task: Any = None  # of the shell
        self.shell = shell

    @property
    def overdue(self) -> bool:
        """Whether the handler's own time is over."""
        return self.until is not None and time.monotonic() >= self.until

    def wait(self, seconds: float) -> None:
        """Wait in the handler, until the time is over, its own or the one it asks for, or the chunk is cancelled."""
        left = seconds if self.until is None else max(self.until - time.monotonic(), 0.0)
        self.shell.wait(self, min(seconds, left))

    def say(self, part: float, note: str) -> None:
        """Take a handler's progress."""
        part = float(part)
        says: dict[str, Any] = {"progress": min(max(part, 0.0), 1.0) if part == part else 0.0}
        kept = note.encode("utf-8", "replace")[:MAX_NOTE_BYTES].decode("utf-8", "ignore") or self.progress.get("note")
        if kept:
            says["note"] = kept
        self.progress = says
        if not self.listed:  # a later report replaces this one until the worker sends it
            self.listed = True
            self.shell.said(self)

    def complete(self, output: Any) -> None:
        """Note the output that a handler returned."""
        value = b""
        if output is not None:
            if not isinstance(output, (str, bytes, bytearray, memoryview)):
                raise TypeError(f"the handler returned {type(output).__name__}; return str, bytes or None")
            try:
                text = output if isinstance(output, str) else bytes(output).decode()
                value = b',"output":' + write_json(text).encode()
            except UnicodeDecodeError:
                value = b',"output":{"base64":"%s"}' % base64.b64encode(output)  # type: ignore[arg-type]
        if self.then:
            value += b',"insert":[%s]' % b",".join(self.then)
        self.item = b'{"token":"%s"%s}' % (self.token.encode(), value)

    @property
    def inserts(self) -> int:
        """How many submissions the completion brings."""
        return 0 if self.failed else len(self.then)

    def fail(self, error: BaseException) -> None:
        """Note a handler's exception: the text, and unless it is one of this package's, also the type and the frames. This must not raise,
        whatever the exception is: the chunk would stay held without a handler."""
        if isinstance(error, Snooze):
            self.back, self.delay_ms = True, math.ceil((pause_of(error) or 0.0) * 1000)
        ours = isinstance(error, (Permanent, RetryAfter, Snooze))
        text = shown(error) if ours else told(error)
        self.error = self.error or error
        self._failure(text, isinstance(error, Permanent), pause_of(error))

    def released(self) -> dict[str, Any]:
        """The item of a release."""
        return {"token": self.token, "delay_ms": self.delay_ms} if self.delay_ms else {"token": self.token}

    def refuse(self, reason: str) -> None:
        """Turn a result that the server does not take into a failure for good. A handler's own error is added to the reason."""
        if self.failed:
            reason += f"; the handler's error was: {json.loads(self.item)['error']}"
        self.refused = True
        self.error = self.error or Error(reason)
        self._failure(reason, True, None)

    def retry(self, reason: str) -> None:
        """Turn a completion into a failure, because the server has no room for its submissions."""
        self.error = Error(reason)
        self._failure(reason, False, None)

    def _failure(self, text: str, fatal: bool, seconds: Optional[float]) -> None:
        kept = text.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
        item: dict[str, Any] = {"token": self.token, "error": kept}
        if fatal:
            item["fatal"] = True
        if seconds is not None:
            item["retry_after_ms"] = math.ceil(seconds * 1000)
        self.failed = True
        self.item = write_json(item).encode()


def pause_of(error: BaseException) -> Optional[float]:
    """The pause that an exception names, as a server takes it. ``seconds`` may have been changed since it was checked."""
    if not isinstance(error, (RetryAfter, Snooze)):
        return None
    try:
        seconds = float(error.seconds)
    except Exception:
        return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_PAUSE)


def told(error: BaseException) -> str:
    """An exception in a report: the type, the text, and the frames."""
    return f"{type(error).__name__}: {shown(error)}{frames_of(error)}"


def frames_of(error: BaseException) -> str:
    """Where an exception came from: its frames outside of this package, the innermost first."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    found = [f"\n  at {code.co_name} ({code.co_filename}:{line})" for code, line in reversed(frames) if not code.co_filename.startswith(PACKAGE)]
    return "".join(found[:MAX_FRAMES])
