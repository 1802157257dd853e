"""The errors of this package."""

from __future__ import annotations

import json
import math
import ssl
from typing import Any


class Error(Exception):
    """The base of all errors of this package."""


class NoAnswer(Error):
    """The client could not reach the server, or the answer broke off. The server may have done the work."""


class TimedOut(NoAnswer):
    """The server did not answer in time."""


class BrokenOff(NoAnswer):
    """The client itself ended the call, which says nothing about the server."""


class NotTrusted(Error):
    """The client does not trust the server's certificate, and has sent nothing; or the server does not accept the client's."""


class BadAnswer(Error):
    """The answer does not come from a Quern server: something else listens at this address."""


class Refused(Error):
    """The server answered with an error.

    ``status`` is the HTTP status and ``code`` the stable name of the problem (``unknown_queue``). ``problems`` lists the faults of the
    request, each with the ``pointer`` to a field and a ``detail``. ``retry_after`` is the pause in seconds that the server asked for,
    or 0. The subclasses stand for groups of statuses, so that ``except`` can tell them apart.
    """

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float = 0.0) -> None:
        self.status = status
        self.code: str = problem.get("code", "")
        self.title: str = problem.get("title", "")
        self.detail: str = problem.get("detail", "")
        self.request_id: str = problem.get("request_id", "")
        self.problems: list[dict[str, str]] = problem.get("errors") or []
        self.retry_after = retry_after
        text = self.detail or self.title or "the server refused the call"
        about = ", ".join(filter(None, [f"{status} {self.code}".strip(), self.request_id and f"request {self.request_id}"]))
        for one in self.problems:
            about += f"; {one.get('pointer', '')} {one.get('detail', '')}"
        super().__init__(f"{text} ({about})")


class Invalid(Refused):
    """400 or 422: the request is wrong; ``problems`` says where."""


class Unauthorized(Refused):
    """401: no access token, or an invalid one."""


class Forbidden(Refused):
    """403: the access token does not allow this."""


class NotFound(Refused):
    """404: there is no such thing; ``code`` names it, such as ``unknown_queue``."""


class Conflict(Refused):
    """409 or 412: its present state does not allow this, or it has changed."""


class TooLarge(Refused):
    """413: the request is larger than the server accepts."""


class Busy(Refused):
    """429: too much at once. The client has repeated the call already."""


class Unavailable(Refused):
    """502, 503 or 504, or 421 of a queue that has moved: not available now. The client has repeated the call already."""


_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid, 422: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 413: TooLarge,
    429: Busy, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}  # fmt: skip


def refusal(status: int, body: bytes, retry_after: float) -> Refused:
    """The error of an answer. An answer of another program, such as a proxy, keeps its status, and the beginning of its text as the
    detail."""
    problem: Any
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        line = body[:200].decode("utf-8", "replace").strip().split("\n")[0]
        problem = {"title": f"HTTP status {status}", "detail": "".join(c for c in line if c.isprintable())}
    moved = status == 421 and problem.get("code") in ("moved", "moving", "elsewhere")  # any other 421 is about a host that the server does not serve
    return _BY_STATUS.get(503 if moved else status, Refused)(status, problem, retry_after)


def passing(error: BaseException) -> bool:
    """Whether an error may be over when the call is made again."""
    return isinstance(error, (NoAnswer, Busy, Unavailable))


def no_answer(text: str, fault: OSError) -> Error:
    """The error of a connection that failed."""
    reason = str(fault.reason) if isinstance(fault, ssl.SSLError) else ""
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:  # an alert
        return NotTrusted(f"the server does not take our certificate: {fault}")
    return NoAnswer(f"{text}: {fault}")


def shown(error: BaseException) -> str:
    """The text of an exception, even of one whose __str__ raises."""
    try:
        return str(error)
    except BaseException:  # whatever its __str__ raises
        return "(its text cannot be shown)"


class ReservationLost(Error):
    """The result of a chunk does not count: another consumer holds or finished it, its submission ended, an operator took it back, or the
    server refused the result (``status`` is then ``invalid``).

    Workers call ``on_error`` with it. ``submission`` and ``index`` name the chunk; ``status`` and ``code`` are the server's.
    """

    def __init__(self, submission: str, index: int, status: str, code: str = "", detail: str = "") -> None:
        self.submission, self.index, self.status, self.code, self.detail = submission, index, status, code, detail
        super().__init__(f"chunk {submission}/{index}: the result does not count: {status} {code} {detail}".rstrip())


class Drained(Error):
    """An operator ordered this consumer to finish its chunks and leave. Workers call ``on_error`` with it, and end."""

    def __init__(self) -> None:
        super().__init__("an operator told this consumer to finish what it holds and leave")


class HandlerFailed(Error):
    """A handler raised an exception, which is ``__cause__``. Workers call ``on_error`` with it."""

    def __init__(self, submission: str, index: int, cause: BaseException) -> None:
        self.submission, self.index = submission, index
        super().__init__(f"chunk {submission}/{index}: the handler failed: {type(cause).__name__}: {shown(cause)}")
        self.__cause__ = cause


class StrategyWithoutEffect(Error):
    """A part of the strategy has no effect now, such as a block of a deleted plugin. Workers call ``on_error`` with it, and continue with
    the other parts. ``pointer`` leads to the block."""

    def __init__(self, pointer: str, detail: str) -> None:
        self.pointer, self.detail = pointer, detail
        super().__init__(f"the strategy {detail}")


class Undelivered(Error):
    """A worker ended and could not deliver some results: the server offers their chunks again after the deadline."""


LONGEST_PAUSE = 30 * 24 * 3600.0  # seconds: the longest pause that the server gives a chunk


class Cancelled(Exception):
    """``Chunk.check`` and ``Chunk.sleep`` raise it in a handler whose result no longer counts."""


class HandlerTimeout(Exception):
    """A handler took longer than the timeout of its kind. ``Chunk.check`` raises it in threads. If the handler then raises another
    exception, that is the ``__cause__`` of one."""


class Permanent(Exception):
    """A handler raises it to fail the chunk for good."""


class Snooze(Exception):
    """A handler raises it to give its chunk back. No attempt counts, and the server offers the chunk again after that many seconds, at
    most 30 days; a longer time is cut to that."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snoozed for {seconds} s")
        if math.isnan(seconds):
            raise ValueError("seconds is nan; name the pause before the chunk is offered again in seconds")
        self.seconds = min(max(float(seconds), 0.0), LONGEST_PAUSE)


class RetryAfter(Exception):
    """A handler raises it to set the seconds until the next attempt, instead of the queue's back-off: at most 30 days; a longer pause is
    cut to that."""

    def __init__(self, seconds: float, message: object = "") -> None:
        super().__init__(message)
        if math.isnan(seconds):
            raise ValueError("seconds is nan; name the pause before the next try in seconds")
        self.seconds = min(max(float(seconds), 0.0), LONGEST_PAUSE)
