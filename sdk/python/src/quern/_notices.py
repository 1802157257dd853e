"""The log of errors after which a client goes on by itself, and which nothing else reports."""

from __future__ import annotations

import logging
import threading
import time
from typing import Optional

from .errors import Error, HandlerFailed, Refused, ReservationLost, StrategyWithoutEffect

logger = logging.getLogger("quern")

EVERY = 60.0  # seconds in which each kind of trouble is logged once
KINDS = 100  # that are told apart at a time


class Notices:
    """Logs each kind of trouble at most once a minute: a server that is away, or a handler that always fails, does not fill the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: dict[str, tuple[float, int]] = {}  # when the next is logged, and how many were not since the last

    def warn(self, error: Error, about: str = "") -> None:
        """Log an error, unless one of its kind was logged a moment ago."""
        missed = self.due(kind_of(error), time.monotonic())
        if missed is not None:
            more = f" ({missed} more like it were not logged)" if missed else ""
            cause = error.__cause__ if isinstance(error, HandlerFailed) else None
            logger.warning("%s%s%s", about and about + ": ", error, more, exc_info=cause)

    def due(self, kind: str, now: float) -> Optional[int]:
        """How many of a kind were not logged since the last that was, if one is to be logged now; else None."""
        with self._lock:
            if len(self._kinds) >= KINDS and kind not in self._kinds:
                self._kinds = {name: one for name, one in self._kinds.items() if now < one[0]}
                if len(self._kinds) >= KINDS:
                    kind = ""  # the others share one
            until, missed = self._kinds.get(kind, (now, 0))
            if now < until:
                self._kinds[kind] = until, missed + 1
                return None
            self._kinds[kind] = now + EVERY, 0
            return missed


def kind_of(error: Error) -> str:
    """Which errors are alike."""
    if isinstance(error, HandlerFailed):
        return f"handler {type(error.__cause__).__name__}"
    if isinstance(error, Refused):
        return f"refused {error.status} {error.code}"
    if isinstance(error, ReservationLost):
        return f"chunk {error.status} {error.code}"
    if isinstance(error, StrategyWithoutEffect):
        return f"strategy {error.detail}"
    return type(error).__name__
