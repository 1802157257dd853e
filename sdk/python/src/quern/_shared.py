"""Inserts of one client into one queue share calls when they overlap. There is no timer:

    A inserts -> no call is under way: A's goes at once, as a call of its own
    B, C, D insert meanwhile and wait
    A's call ends, or has to be tried again -> D makes one call for B, C and D, each with its own result

So a lone caller waits for its own call only, and the busier the program, the more inserts share a call and the commit behind it. One of the
waiting callers makes the call for all, so that neither threads nor tasks are started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Optional

from ._core import Await, Core, Pause, Procedure
from ._http import Request
from ._produce import CALL_BYTES, CALL_COUNT
from ._values import write_json
from .errors import BadAnswer, Error, Refused

LARGE = 64 << 10  # bytes of an insert that goes alone, as it would hold up small ones


class Insert:
    """One insert that waits: for its outcome, or for its turn to make the call for all that wait."""

    __slots__ = ("alone", "answer", "error", "leads", "line", "wake")

    def __init__(self, line: bytes, wake: Callable[[], None]) -> None:
        self.line = line
        self.wake = wake  # once
        self.leads = False
        self.answer: Any = None  # without an answer and an error it waits again, because the caller that made its call broke off
        self.error: Optional[Error] = None
        self.alone = False  # it was refused: it asks alone, so that the refusal is that of a single insert


class Shared:
    """The inserts of a client that share calls. ``waiter`` returns a waiter for one caller, and the function that wakes it."""

    def __init__(self, core: Core, waiter: Callable[[], tuple[Any, Callable[[], None]]]) -> None:
        self._core = core
        self._waiter = waiter
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Insert]] = {}  # by path; a path is there while a call of it is under way

    def insert(self, request: Request) -> Procedure[Any]:
        """Make the call of an insert, or share one."""
        while len(request.body) <= LARGE:
            if self._begins(request.path):
                return (yield from self._first(request))
            waiter, wake = self._waiter()
            self._core.join(request)
            mine = Insert(line(request), wake)
            if not self._waits(request.path, mine):
                continue  # the call has just ended
            try:
                yield Await(waiter)
                if mine.leads:
                    yield from self._share(request.path, mine)
            except BaseException:
                self._leaves(request.path, mine)
                raise
            if mine.error is not None:
                raise mine.error
            if mine.answer is not None:
                return mine.answer
            if mine.alone:
                break
        return (yield from self._core.fetch(request))

    def _begins(self, path: str) -> bool:
        """Whether no call is under way. The caller's own is from now on."""
        with self._lock:
            under = path in self._waiting
            if not under:
                self._waiting[path] = []
            return not under

    def _waits(self, path: str, mine: Insert) -> bool:
        """Take a place in the next call. It is False when no call is under way any more."""
        with self._lock:
            waiting = self._waiting.get(path)
            if waiting is not None:
                waiting.append(mine)
            return waiting is not None

    def _next(self, path: str) -> None:
        """Hand the next call to the last waiting insert, so that callers of the previous call run first, and can share the next one. If
        none waits, no call is under way any more."""
        with self._lock:
            if waiting := self._waiting[path]:
                waiting[-1].leads = True
                waiting[-1].wake()
            else:
                del self._waiting[path]

    def _leaves(self, path: str, mine: Insert) -> None:
        """Give up the place of an insert whose caller broke off before the call."""
        with self._lock:
            if mine not in self._waiting.get(path, ()):
                return
            self._waiting[path].remove(mine)
        if mine.leads:
            self._next(path)

    def _first(self, request: Request) -> Procedure[Any]:
        """Make a call of one insert while others wait. If it has to be repeated, the others do not wait for that."""
        request.pauses = once(lambda: self._next(request.path))
        try:
            return (yield from self._core.fetch(request))
        finally:
            request.pauses()

    def _share(self, path: str, mine: Insert) -> Procedure[None]:
        """Make a call for the waiting inserts, with this one."""
        others = self._take(path, mine)
        pauses = once(lambda: self._next(path))
        try:
            yield from self._call(path, [*others, mine], pauses)
            while others:
                others.pop().wake()
            yield Pause(0)  # the others go on first, so that their next inserts share the next call
        finally:
            while others:
                others.pop().wake()
            pauses()

    def _call(self, path: str, call: list[Insert], pauses: Callable[[], None]) -> Procedure[None]:
        body = b"\n".join(one.line for one in call)
        request = Request("insert", "POST", f"{path}:batch", body, {"Content-Type": "application/x-ndjson"}, safe=True, traced=False, pauses=pauses)
        try:
            results = (yield from self._core.fetch(request, "results"))["results"]
            if len(results) != len(call):
                raise BadAnswer(f"insert: the answer has {len(results)} results for {len(call)} submissions")
            for one, result in zip(call, results):
                one.answer = result.get("submission")
                one.alone = one.answer is None
        except Error as error:
            refused = isinstance(error, Refused) and error.status < 500  # the cause may be one of them
            for one in call:
                one.alone, one.error = refused, None if refused else another(error)

    def _take(self, path: str, mine: Insert) -> list[Insert]:
        """The inserts that share the call of one: as many of the others as fit, in their order."""
        with self._lock:
            waiting = self._waiting[path]
            waiting.remove(mine)
            size = len(mine.line)
            n = 0
            while n < min(len(waiting), CALL_COUNT - 1) and (size := size + len(waiting[n].line)) <= CALL_BYTES:
                n += 1
            self._waiting[path] = waiting[n:]
            return waiting[:n]


def line(request: Request) -> bytes:
    """An insert as a line of a shared call: its body, with the key and the trace from its headers."""
    more = f',"idempotency_key":{write_json(request.headers["Idempotency-Key"])}'
    if trace := request.headers.get("traceparent"):
        state = request.headers.get("tracestate")
        more += f',"trace":{write_json(f"{trace};{state}" if state else trace)}'
    return b"%s%s}" % (request.body[:-1], more.encode())


def once(act: Callable[[], None]) -> Callable[[], None]:
    """An act that is done the first time only."""
    left = [act]

    def do() -> None:
        if left:
            left.pop()()

    return do


def another(error: Error) -> Error:
    """An error for one more caller: each adds its own frames to it."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    return copy
