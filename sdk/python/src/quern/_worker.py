"""The worker's decisions, without a thread, a clock or a connection.

:class:`WorkerCore` takes events (a handler ended, a call returned, the stream sent an event, a quarter of the timeout went by) and tells
its :class:`Shell` what to do next. It reserves ahead, reports in batches, extends in time, and ends when all is settled.
"""

from __future__ import annotations

import json
import math
import os
import socket
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Protocol, Union

from ._core import Core, Event, Pause, Procedure, Tell, Try, path, read_object
from ._held import Held, Lost
from ._http import Reply, Request
from ._values import meta_entries, write_json
from .errors import BadAnswer, Drained, Error, Refused, ReservationLost, StrategyWithoutEffect, TooLarge, Undelivered, passing

BATCH_BYTES = 700 << 10  # of results in one call: well below the server's default limit of 1 MiB for a body
BATCH_ITEMS = 5000
BATCH_INSERTS = 10_000  # submissions that the completions of one call bring
MAX_RESERVE = 1000
MAX_AHEAD = 1000  # chunks reserved ahead, unless the program sets prefetch
LARGE_ANSWER = 1 << 20  # a call this large is slow because of its bytes, and more chunks in it would not help
MAX_HELD = 100_000  # chunks that one worker holds: a bound on memory, and on what a crash loses
DETACH_SECONDS = 2.0  # how long a worker that is done tries to detach
PROGRESS_SECONDS = 1.0  # how often a worker makes a call because handlers say how far they are
HELLO_SECONDS = 10.0  # how long a worker waits for the server's first hello before it reserves

_DRAWN = secrets.token_hex(12)


def incarnation() -> str:
    """Tell this process from others that work under the same name, even from the process that forked it."""
    return f"{_DRAWN}-{os.getpid()}"


@dataclass
class WorkerOptions:
    """Options of a worker. The defaults suit most programs."""

    queue: str = "default"
    strategy: Union[str, Mapping[str, Any], None] = None  # text form, tree, or {"name": ...}; None is Random
    consumer: str = ""  # name of this consumer, which no other process uses; "": the host's name and a random text
    context: Mapping[str, Union[str, int]] = field(default_factory=dict)  # facts for plugins and formulas
    concurrency: int = 1  # handlers that run at once
    prefetch: Optional[int] = None  # chunks reserved ahead; None: the worker measures how many it needs so that no handler waits
    timeout: float = 60.0  # seconds until the deadline, which the worker extends while a handler runs
    wait: float = 20.0  # seconds that the server waits for work in a call, at most 60
    grace: Optional[float] = None  # seconds that handlers may continue after the worker begins to end; None: no limit
    attach: bool = True  # attach, so that the server notices when this process dies, and the worker when a chunk is revoked
    on_error: Optional[Callable[[Error], None]] = None  # called with each problem after which the worker continues; None: it logs them

    def check(self) -> None:
        """Fill in defaults, and refuse options that cannot work."""
        if self.concurrency < 1:
            raise ValueError(f"concurrency is {self.concurrency}; it must be at least 1")
        prefetch = self.prefetch or 0
        if prefetch < 0 or self.concurrency + prefetch > MAX_HELD:
            raise ValueError(f"prefetch is {self.prefetch}; it must be at least 0, and with concurrency at most {MAX_HELD}")
        if not 0.1 <= self.timeout <= 86400:
            raise ValueError(f"timeout is {self.timeout}; it must be from 0.1 to 86,400 seconds")
        if not 0 <= self.wait <= 60:
            raise ValueError(f"wait is {self.wait}; it must be from 0 to 60 seconds")
        if self.grace is not None and self.grace < 0:
            raise ValueError(f"grace is {self.grace}; it must not be negative")
        self.context = meta_entries("context", self.context)
        if not self.consumer:
            self.consumer = f"{socket.gethostname()[:100] or 'consumer'}-{secrets.token_hex(4)}"


@dataclass
class Exchange:
    """One round trip that reports, extends, gives back and reserves."""

    outcomes: list[Held]
    extends: list[Held]
    releases: list[Held]
    asked: int  # chunks that it may bring
    hellos: int  # of the stream before it began
    failures: int  # calls in a row that failed before it
    error: Optional[Error] = None
    answer: Any = None
    began: float = 0.0  # as time.monotonic has it
    size: int = 0  # bytes of the answer


@dataclass
class Poll:
    """One call that waits for work."""

    room: int
    hellos: int
    failures: int
    error: Optional[Error] = None
    answer: Any = None


class Shell(Protocol):
    """Carries out a worker's decisions. None of its methods may block."""

    def hand_out(self, held: Held) -> None:
        """Give a chunk to the next free handler."""

    def take_back(self) -> list[Held]:
        """Take back the chunks that no handler has begun; nothing is handed out any more."""

    def cancel(self, held: Held) -> None:
        """End the handler of a chunk, if it runs; ``held.cancelled`` is already set."""

    def exchange(self, call: Exchange) -> None:
        """Run :meth:`WorkerCore.exchange`, then call :meth:`WorkerCore.called`."""

    def poll(self, poll: Poll) -> None:
        """Run :meth:`WorkerCore.poll`, then call :meth:`WorkerCore.polled`."""

    def stop_poll(self) -> None:
        """Break off the poll that is under way."""

    def wait(self, held: Held, seconds: float) -> None:
        """Wait in a handler, until the time is over or its chunk is cancelled."""

    def said(self, held: Held) -> None:
        """Call :meth:`WorkerCore.said`. A handler calls this, in its own thread."""

    def report(self, error: Error) -> None:
        """Report an error after which the worker goes on."""

    def hook(self, held: Held) -> bool:
        """Call the hook for a failure that the server has recorded, then :meth:`WorkerCore.hooked`. False: there is no hook."""


class Ahead:
    """How many chunks a worker reserves beyond those that its handlers work on: so many that no handler waits while a call is under way,
    and no more, because no other worker can get them. Unless the program sets the number, the worker finds it as TCP finds its window: it
    begins with 0, doubles the number when handlers ran out of work and had to wait, and lowers it by an eighth when more than half was
    left."""

    def __init__(self, options: WorkerOptions) -> None:
        self.concurrency = options.concurrency
        self.fixed = options.prefetch is not None
        self.n = options.prefetch or 0
        self.most = self.n if self.fixed else min(MAX_AHEAD, MAX_HELD - options.concurrency)
        self._answered = -math.inf  # when the last call ended, as time.monotonic has it

    def answered(self, call: Exchange, left: int) -> None:
        """A call ended when ``left`` chunks were there that no handler had begun. If it brought all that it asked for, the server has more.
        A handler had to wait if that is a sixteenth of its time or more: the length of the call by how long a handler works on a chunk,
        which follows from how many chunks ended since the call before."""
        now = time.monotonic()
        since, self._answered = now - self._answered, now
        if self.fixed or not call.asked:
            return
        waited = 16 * (now - call.began) * len(call.outcomes) >= since * self.concurrency
        full = len(call.answer["reservations"]) == call.asked
        if left <= 0 and full and waited and call.size < LARGE_ANSWER:
            self.n = min(max(2 * self.n, 1), self.most)
        elif left > self.n // 2:
            self.n -= max(self.n // 8, 1)


class WorkerCore:
    """One run of a worker. All methods but the procedures are called by one thread at a time."""

    def __init__(self, core: Core, options: WorkerOptions, shell: Shell) -> None:
        options.check()
        self.core, self.options, self.shell = core, options, shell
        self.ahead = Ahead(options)
        self.timeout_ms = math.ceil(options.timeout * 1000)
        reserve: dict[str, Any] = {"consumer": options.consumer, "timeout_ms": self.timeout_ms}
        if options.strategy is not None:
            reserve["strategy"] = options.strategy
        if options.context:
            reserve["context"] = options.context
        self._reserve = write_json(reserve)[1:].encode()  # behind "max"

        self.held: set[Held] = set()  # reserved and not yet finished
        self.by_token: dict[str, Held] = {}  # the same
        self.outcomes: list[Held] = []  # finished, to be reported
        self.extends: list[Held] = []
        self.releases: list[Held] = []
        self.unsent: list[Held] = []  # with progress to be sent
        self.due: Optional[float] = None  # when progress may be sent, as time.monotonic has it
        self._sent = -math.inf  # when progress was sent last
        self.early: dict[str, Lost] = {}  # revoked before we knew that we have it
        self.hooks = 0  # that run
        self.calling = False
        self.asked = 0  # chunks that the call under way may bring
        self.polling = 0  # chunks that the poll under way may bring
        self.budget = BATCH_BYTES
        self.failures = 0  # calls in a row that failed
        self.poll_failures = 0
        self.hellos = 0
        # The worker reserves nothing before the first hello, or HELLO_SECONDS: reservations under its name belong to its predecessor until
        # the server sees the new incarnation and ends them. A worker that had to begin without a hello no longer sends its incarnation.
        self.awaited = options.attach
        self.incarnation = incarnation()
        self.unknown = False  # the server refuses to know us
        self.draining = False
        self.over = False  # all is settled
        self.fatal: Optional[Error] = None  # why the worker ends by itself
        self.undelivered = 0
        self.reached = False  # a call succeeded
        self.away: Optional[Error] = None  # the last failure to reach the server
        self.warned: list[Any] = []  # the strategy's warnings in the last answer

    # Events.

    def finished(self, held: Held) -> None:
        """A handler ended; ``complete``, ``fail`` or ``back`` say how."""
        self.held.discard(held)
        self.by_token.pop(held.token, None)
        if held.lost:
            self._report_result(held, held.result)
        elif held.back:
            self.releases.append(held)
        else:
            self.outcomes.append(held)

    def called(self, call: Exchange) -> None:
        """An exchange came back."""
        self.calling, self.asked = False, 0
        error = call.error
        if error is None:
            self.failures, self.reached = 0, True
            self.ahead.answered(call, len(self.held) - self.options.concurrency)
            if call.asked:  # an answer to a call that asked for nothing has no warnings, and takes back none
                self._warn(call.answer)
            self._settle(call)
            self._accept(call.answer, call.hellos)
            return
        for held in call.extends:
            held.extending = False  # the next tick asks again
        self._extend_since(call.hellos)
        for_good = not may_pass(error)
        if isinstance(error, TooLarge) and call.outcomes:
            self._shrink(call, error)
        elif isinstance(error, Refused) and self._set_aside(call, error):
            pass
        elif for_good and not self.draining:
            self._put_back(call)
            self.stop(error)
        elif for_good or self.draining and self.failures > 0:
            self.undelivered += len(call.outcomes)
            self.shell.report(error)
        else:
            self.failures += 1
            self._put_back(call)
            self.shell.report(error)

    def polled(self, poll: Poll) -> None:
        """A poll came back."""
        self.polling = 0
        if poll.error is None:
            self.poll_failures, self.reached = 0, True
            self._warn(poll.answer)
            self._accept(poll.answer, poll.hellos)
        elif self.draining:
            pass
        elif not may_pass(poll.error):
            self.stop(poll.error)
        else:
            self.poll_failures += 1
            self.away = poll.error
            self.shell.report(poll.error)

    def failed(self, error: Error) -> None:
        """A handler raised something; its chunk comes to :meth:`finished` as well."""
        self.shell.report(error)

    def hooked(self, error: Optional[Error]) -> None:
        """A hook ended."""
        self.hooks -= 1
        if error is not None:
            self.shell.report(error)

    def unheard(self) -> None:
        """There was no first hello in time: begin without it."""
        if self.awaited:
            self.awaited, self.incarnation = False, ""

    def heard(self, news: Union[Event, Error, None]) -> None:
        """The stream sent an event, or failed; None: there will be no stream."""
        if news is None or isinstance(news, Event) and news.name == "hello":
            self.awaited = False
        if news is None:
            return
        if isinstance(news, Error):
            if may_pass(news):
                self.away = news
            self.shell.report(news)
        elif news.name == "hello":
            # In another epoch the server has forgotten what we hold, and after a gap we may have missed revocations. So we extend
            # everything, and the answers say what is still ours. The first hello does the same: another server may have given us chunks
            # before our stream was open.
            self.hellos += 1
            self.extend_all()
        elif news.name == "drain":
            self.leave()
        elif news.name == "revoked":
            self._revoke({item["token"]: taken_as(item["reason"]) for item in news.json()["items"]})

    def tick(self) -> None:
        """A quarter of the timeout went by. A chunk is extended after two quarters, so at the latest when half of its timeout is over."""
        for held in self.held:
            held.age += 1
            if held.age >= 2:
                self._extend(held)

    def said(self, held: Held) -> None:
        """A handler said how far it is."""
        self.unsent.append(held)
        if self.due is None:
            self.due = max(time.monotonic(), self._sent + PROGRESS_SECONDS)

    def send_progress(self) -> None:
        """Send progress that is due, by extending its chunks."""
        unsent, self.unsent = self.unsent, []
        self.due, self._sent = None, time.monotonic()
        for held in unsent:
            if held not in self.held:
                continue
            if held.extending:  # the extension under way may lack this progress
                self.said(held)
            else:
                held.listed = False
                self._extend(held)

    def drain(self) -> None:
        """The worker is to end: it reserves no more, and gives back the chunks that no handler has begun. A poll that is under way goes on
        until nothing else is left to wait for, because the server may just have answered it; the chunks that it brings go back."""
        if self.draining:
            return
        self.draining = True
        for held in self.shell.take_back():
            self.held.discard(held)
            self.by_token.pop(held.token, None)
            if not held.lost:
                self.releases.append(held)

    def grace_over(self) -> None:
        """The grace period after the drain is over."""
        for held in list(self.held):
            if not held.cancelled:
                held.back = held.cancelled = True
                self.shell.cancel(held)

    def leave(self) -> None:
        """An operator ordered us to leave."""
        if not self.draining:
            self.shell.report(Drained())
            self.drain()

    def stop(self, error: Error) -> None:
        """End because of an error."""
        if self.fatal is None:
            self.fatal = error
        self.drain()

    def outcome(self) -> Optional[Error]:
        """The error that a worker raises at its end."""
        if self.fatal is None and self.undelivered:
            return Undelivered(f"the results of {self.undelivered} chunks were not delivered; the server offers these chunks again after their deadline")
        if self.fatal is None and not self.reached and not self.hellos:
            return self.away  # it never worked
        return self.fatal

    # Decisions.

    def start(self) -> None:
        """Start the actions that have become possible: a call when there is something to report, which brings new work in the same round
        trip, and otherwise, when there is room, a poll that waits for work. Both go on beside each other, so that results never wait for
        work; while one polls the calls do not reserve, because there was nothing."""
        if not (self.asked or self.polling):
            self.early.clear()
        if not self.calling and (self.outcomes or self.extends or self.releases):
            self._start_call()
        if not self.calling and not self.polling and (room := self.room(0)):
            self.polling = room
            self.shell.poll(Poll(room, self.hellos, self.poll_failures))
        if self.draining and not (self.held or self.outcomes or self.releases or self.calling or self.hooks):
            if self.polling:
                self.shell.stop_poll()
            else:
                self.over = True

    def room(self, reported: int) -> int:
        """How many chunks may be asked for. Unreported results and failures with a running hook still count, so that a worker reserves less
        while the server takes no results or hooks are slow."""
        if self.draining or self.awaited:
            return 0
        free = self.options.concurrency + self.ahead.n - len(self.held) - (len(self.outcomes) - reported) - self.asked - self.polling - self.hooks
        return min(max(free, 0), MAX_RESERVE)

    def _start_call(self) -> None:
        size = inserts = n = 0
        for held in self.outcomes:
            size += len(held.item) + 1
            inserts += held.inserts
            if n and (size > self.budget or inserts > BATCH_INSERTS or n == BATCH_ITEMS):
                break
            n += 1
        extends = [held for held in self.extends[:BATCH_ITEMS] if held in self.held]
        del self.extends[:BATCH_ITEMS]
        asked = 0 if self.polling else self.room(n)
        call = Exchange(self.outcomes[:n], extends, self.releases[:BATCH_ITEMS], asked, self.hellos, self.failures)
        del self.outcomes[:n]
        del self.releases[:BATCH_ITEMS]
        if call.outcomes or call.extends or call.releases:  # else: only extensions of chunks that have ended since
            self.calling, self.asked = True, asked
            self.shell.exchange(call)

    # Procedures, which the shell runs beside everything else.

    def exchange(self, call: Exchange) -> Procedure[None]:
        """Make the round trip. After a failure it pauses, and the worker then tries again."""
        try:
            if call.releases:
                released = [held.released() for held in call.releases]
                yield from self.core.call(self._request("release", write_json({"items": released}).encode()))
                call.releases = []  # the results do not matter: a chunk that is not ours any more need not go back
            if call.outcomes or call.extends or call.asked:
                call.began = time.monotonic()
                reply = yield from self.core.call(self._request("exchange", self._body(call)))
                call.size = len(reply.body)
                call.answer = read_object("exchange", reply.body, "complete", "fail", "extend", "reservations")
                for what, items in (("complete", _count(call, False)), ("fail", _count(call, True)), ("extend", len(call.extends))):
                    if len(call.answer[what]) != items:
                        raise BadAnswer(f"exchange: the answer has {len(call.answer[what])} results for {items} items of {what}")
            else:
                call.answer = {"complete": [], "fail": [], "extend": [], "reservations": []}
        except Error as error:
            call.error = error
            yield from self._rest(error, call.failures)

    def poll(self, poll: Poll) -> Procedure[None]:
        """Wait for work. An answer without any is followed by a pause, so that a server that does not wait is not asked in a tight loop."""
        body = b'{"max":%d,"wait_ms":%d,%s' % (poll.room, math.ceil(self.options.wait * 1000), self._reserve)
        request = self._request("", body, "reserve")
        request.wait = self.options.wait
        try:
            reply = yield from self.core.call(request)
            poll.answer = read_object("reserve", reply.body, "reservations")
        except Error as error:
            poll.error = error
            yield from self._rest(error, poll.failures)
            return
        if not poll.answer["reservations"]:
            pause = self.core.random.uniform(0.0, 0.1) + min((poll.answer.get("retry_after_ms") or 0) / 1000, 1.0)
            yield Pause(pause)

    def attach(self) -> Procedure[None]:
        """Stay attached to the server until the shell ends this."""
        yield from self.core.attach(self.options.queue, self.options.consumer, lambda: self.incarnation)
        self.unknown = True
        yield Tell(None)

    def detach(self) -> Procedure[None]:
        """Tell the server that we leave, even if no hello came yet. If that fails, the server notices the lost stream, and we hold nothing
        by then."""
        below = path("/v1/queues/{}/consumers/{}/detach", self.options.queue, self.options.consumer)
        try:
            request = Request("detach", "POST", below, safe=True, patience=DETACH_SECONDS)
            endpoint = self.core.addresses.of(request)
            reply: Reply = yield Try(request, endpoint)
            owner = self.core.addresses.heard(request, endpoint, reply)
            if reply.status == 421 and owner is not None:
                yield Try(request, owner)
        except Error:
            pass

    def _rest(self, error: Error, failures: int) -> Procedure[None]:
        """The pause after a call that failed in all its attempts. There is none after a refusal for good."""
        if may_pass(error):
            yield Pause(self.core.backoff(failures + 3, error))

    def _request(self, verb: str, body: bytes, what: str = "") -> Request:
        below = path("/v1/queues/{}/reservations", self.options.queue) + ("/" + verb if verb else "")
        return Request(what or verb, "POST", below, body, {"Content-Type": "application/json"}, safe=True)

    def _body(self, call: Exchange) -> bytes:
        parts = []
        for name, failed in ((b"complete", False), (b"fail", True)):
            if items := [held.item for held in call.outcomes if held.failed is failed]:
                parts.append(b'"%s":[%s]' % (name, b",".join(items)))
        if call.extends:
            # each extension repeats the progress, because a restarted server does not know it
            extends = [{"token": held.token, "timeout_ms": self.timeout_ms, **held.progress} for held in call.extends]
            parts.append(b'"extend":%s,"consumer":%s' % (write_json(extends).encode(), write_json(self.options.consumer).encode()))
        if call.asked:
            parts.append(b'"reserve":{"max":%d,%s' % (call.asked, self._reserve))
        return b"{%s}" % b",".join(parts)

    # Answers.

    def _accept(self, answer: Any, hellos: int) -> None:
        """Take new reservations; after the beginning of the drain they go back at once. If the server took some of them back, the stream
        may have said so first."""
        if answer.get("reason") == "draining":
            self.leave()
        for raw in answer["reservations"]:
            held = Held(raw, self.shell)
            if self.draining or len(self.held) >= self.options.concurrency + self.ahead.most:
                self.releases.append(held)
                continue
            self.held.add(held)
            self.by_token[held.token] = held
            if held.token in self.early:
                held.result = self.early[held.token]
                held.lost = held.cancelled = True  # no handler begins with it
            self.shell.hand_out(held)
        self._extend_since(hellos)

    def _warn(self, answer: Any) -> None:
        """Report each part of the strategy that has no effect: once, until the warnings change."""
        warnings = answer.get("warnings") or []
        for warning in warnings:
            if warning not in self.warned:
                self.shell.report(StrategyWithoutEffect(warning.get("pointer", ""), warning.get("detail", "")))
        self.warned = warnings

    def _settle(self, call: Exchange) -> None:
        results = {True: iter(call.answer["fail"]), False: iter(call.answer["complete"])}
        for held in call.outcomes:
            result = next(results[held.failed])
            if result["status"] not in ("ok", "already"):
                self._report_result(held, _lost(result))
            elif held.failed and self.shell.hook(held):
                self.hooks += 1
            if result["status"] == "refused":  # the chunk is still ours, and its submissions may find room at another attempt
                held.retry(result.get("detail", ""))
                self.outcomes.append(held)
        taken = []
        for held, result in zip(call.extends, call.answer["extend"]):
            held.extending = False
            status = result["status"]
            if status in ("ok", "already"):
                held.age = 0
            elif status == "invalid":
                self._report_result(held, _lost(result))
            elif held in self.held:
                taken.append((held, _lost(result)))
        self._lose(taken)

    def _lose(self, taken: list[tuple[Held, Lost]]) -> None:
        """End the handlers of chunks that are not ours any more. A handler that ends makes room for the next chunk, which may be one of
        them. So all are marked before the first handler is cancelled."""
        for held, result in taken:
            held.result, held.lost = result, True
        for held, _ in taken:
            held.cancelled = True
            self.shell.cancel(held)

    def _revoke(self, results: dict[str, Lost]) -> None:
        taken = []
        for token, result in results.items():
            held = self.by_token.get(token)
            if held is None:
                if self.asked or self.polling:  # the stream may have overtaken the answer
                    self.early[token] = result
            elif not held.lost:
                taken.append((held, result))
        self._lose(taken)

    def extend_all(self) -> None:
        """Extend everything now."""
        for held in self.held:
            self._extend(held)

    def _extend(self, held: Held) -> None:
        if not held.extending and not held.lost:
            held.extending = True
            self.extends.append(held)

    def _extend_since(self, hellos: int) -> None:
        """Extend everything if the server said hello since a call began: a restarted server has forgotten the chunks that the call brought
        and extended."""
        if self.hellos > hellos:
            self.extend_all()

    def _put_back(self, call: Exchange) -> None:
        self.outcomes[:0] = call.outcomes
        self.releases[:0] = call.releases

    def _shrink(self, call: Exchange, error: TooLarge) -> None:
        """Answer a refusal for size with smaller calls, and in the end fail the one chunk whose output is too much."""
        if len(call.outcomes) > 1:
            self.budget = max(self.budget // 2, 1)
            self._put_back(call)
            return
        self.releases[:0] = call.releases
        held = call.outcomes[0]
        if held.failed:
            self.undelivered += 1
            self.shell.report(error)
            return
        reason = f"the output of about {len(held.item)} bytes is more than the server takes (1 MiB at most): put it into object storage and return its key"
        if held.then:
            reason = f"the server refused the output and the submissions that follow: {error.detail or 'they are too large'}"
        self._refuse(held, error, reason)
        self.outcomes.insert(0, held)

    def _set_aside(self, call: Exchange, error: Refused) -> bool:
        """Settle each item that a refusal points at by itself, and send the others again: a fault of one chunk costs no other chunk its
        result. Return whether the refusal points at an item."""
        bad = _pointed_at(call, error)
        if not bad:
            return False
        again = []
        for held in call.outcomes:
            where, detail = bad.get(held, ("", ""))
            if where and (held.refused or where == "token"):
                self._report_result(held, _refusal_of(error, where, detail))  # a failure would be refused, too
                continue
            if where:
                self._refuse(held, error, f"the server refused the {where}: it {detail}")
            again.append(held)
        self.outcomes[:0] = again
        self.releases[:0] = [held for held in call.releases if held not in bad]
        taken = []
        for held in call.extends:
            if held not in self.held:
                continue
            if held not in bad:
                self._extend(held)
                continue
            result = _refusal_of(error, *bad[held])
            if bad[held][0] == "token":
                taken.append((held, result))
            else:
                self._report_result(held, result)  # the next tick asks again
        self._lose(taken)
        return True

    def _refuse(self, held: Held, error: Refused, reason: str) -> None:
        """Turn the result of a chunk into a failure for good, with the reason why the server did not take the result."""
        held.refuse(reason)
        self._report_result(held, ("invalid", error.code, reason))

    def _report_result(self, held: Held, result: Lost) -> None:
        """Report a result that does not count."""
        self.shell.report(ReservationLost(held.chunk.submission, held.chunk.index, *result))


def may_pass(error: Error) -> bool:
    """Whether a worker goes on after an error. A wrong answer may come from something between us and the server."""
    return passing(error) or isinstance(error, BadAnswer)


def _count(call: Exchange, failed: bool) -> int:
    return sum(held.failed is failed for held in call.outcomes)


def _pointed_at(call: Exchange, error: Refused) -> dict[Held, tuple[str, str]]:
    """The items that a refusal points at, with the field and the fault; none if it is about the call as a whole."""
    lists = {
        "complete": [held for held in call.outcomes if not held.failed],
        "fail": [held for held in call.outcomes if held.failed],
        "extend": call.extends,
        "items": call.releases,
    }
    found = {}
    for problem in error.problems:
        _, name, index, where = [*problem.get("pointer", "").split("/", 3), "", "", ""][:4]
        items = lists.get(name, [])
        if index.isdecimal() and int(index) < len(items):
            found[items[int(index)]] = (where or "result", problem.get("detail", ""))
    return found


def _refusal_of(error: Refused, where: str, detail: str) -> Lost:
    return "invalid", error.code, f"the {where} {detail}"


def _lost(result: dict[str, str]) -> Lost:
    return result["status"], result.get("code", ""), result.get("detail", "")


def taken_as(reason: str) -> Lost:
    """The result of a reservation that the server took back for this reason."""
    if reason == "submission_ended":
        return "gone", reason, "the submission ended (cancelled or failed), or the chunk is out of attempts"
    return "lost", "revoked", f"the reservation was taken: {reason}"
