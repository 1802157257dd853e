"""Following the ends of submissions: the part that both clients share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from . import types
from ._core import Core, EventReader, path, query
from ._http import Request
from .errors import Error, passing, refusal

SILENCE = 60.0  # seconds that a stream may say nothing; it has a sign of life every 15


@dataclass(frozen=True)
class End:
    """The end of a submission, at a ``place``. Save the place together with the work that follows from the end, to continue there later.
    If ``gap`` is set, there is no submission, and ends before the next one are missing: the queue's retention has removed them, or a
    restore has lost them."""

    place: str
    submission: Optional[types.Submission] = None
    gap: Optional[types.EndsGap] = None


class Follower:
    """How far a stream of ends has come."""

    def __init__(
        self,
        core: Core,
        queue: str,
        after: str,
        state: Optional[Sequence[str]],
        meta: Optional[Mapping[str, Union[str, int]]],
        schedule: Optional[str],
    ) -> None:
        self._core = core
        self._path = query(path("/v1/queues/{}/ends", queue), {"state": state, "meta": meta, "schedule": schedule})
        self._last = after
        self._begun = False
        self._failures = 0
        self._reader = EventReader()

    def request(self) -> Request:
        """The request that begins a stream, or resumes it."""
        self._reader = EventReader()
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self._last} if self._last else {})}
        return Request("ends", "GET", self._path, headers=headers, safe=True)

    def feed(self, data: bytes) -> list[End]:
        """The ends in some bytes of the stream."""
        ends: list[End] = []
        for event in self._reader.feed(data):
            self._failures = 0
            if event.name == "problem":
                if ends:
                    break  # they come first: the server refuses the next try for the same reason
                raise refusal(event.json().get("status", 0), event.data.encode(), 0.0)
            if event.name == "end":
                ends.append(End(event.id, submission=event.json()))
            elif event.name == "gap":
                ends.append(End(self._last, gap=event.json()))
        if self._reader.last_id:
            self._last, self._begun = self._reader.last_id, True
        return ends

    def pause(self, error: Optional[Error]) -> float:
        """How long to wait before the next try. It raises an error that another try does not fix."""
        if error is not None and (not self._begun or not passing(error)):
            raise error
        if error is not None:
            self._core.notices.warn(error, "the stream of ends is begun again")
        self._failures += 1
        return self._core.backoff(self._failures - 1, error)
