"""Where calls go: to the addresses of a client, and to owners of queues that answers name."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Optional, TypeVar

from ._http import Endpoint, Reply, Request
from .errors import BrokenOff, Busy, NotTrusted, passing

K = TypeVar("K")
V = TypeVar("V")

MAX_QUEUES = 256  # whose owners are remembered
MAX_NODES = 64  # that are not trusted; a cluster has no more
MAX_URL = 2048  # of an owner


class Addresses:
    """Which address a call goes to. Safe for threads."""

    def __init__(self, given: Sequence[str], direct: bool, draw: random.Random) -> None:
        self.given = [Endpoint.parse(address) for address in given]
        draw.shuffle(self.given)  # so that clients spread
        self.direct = direct  # calls of a queue go to its owner
        self._at = 0
        self._lock = threading.Lock()
        self._owners: dict[str, Endpoint] = {}  # by the name of a queue, as paths spell it
        self._distrusted: dict[Endpoint, bool] = {}

    @property
    def others(self) -> int:
        """How many other addresses a call may try before it pauses."""
        return len(self.given) - (not self.direct)

    def of(self, request: Request) -> Endpoint:
        """Where a call goes now."""
        owner = self._owners.get(queue_of(request.path)) if self._owners else None
        return owner or self.given[self._at]

    def leave(self, request: Request, endpoint: Endpoint, error: BaseException) -> bool:
        """Send the next calls elsewhere, if the error shows that this address does not serve. Return whether they go elsewhere.

        A server that is only busy (429) would be as busy by another way. An owner that is not trusted is called no more.
        """
        distrusted = isinstance(error, NotTrusted) and endpoint not in self.given
        if not distrusted and (not passing(error) or isinstance(error, (Busy, BrokenOff))):
            return False
        queue = queue_of(request.path)
        with self._lock:
            if distrusted:
                put(self._distrusted, MAX_NODES, endpoint, True)
            if self._owners.get(queue) == endpoint:
                del self._owners[queue]
                return True
            if self.given[self._at] == endpoint:
                self._at = (self._at + 1) % len(self.given)
        return distrusted or len(self.given) > 1

    def heard(self, request: Request, endpoint: Endpoint, reply: Reply) -> Optional[Endpoint]:
        """Remember the owner that an answer names, and return it if calls may go there.

        A token goes only to the client's own addresses, and to others of the same scheme: an answer over https never leads to a call
        without TLS, and an answer from a socket never leads into the network.
        """
        url = reply.headers.get("quern-owner", "")
        if not url or len(url) > MAX_URL or not self.direct and reply.status != 421:
            return None
        try:
            owner = Endpoint.parse(url)
        except ValueError:
            return None
        if owner not in self.given and (endpoint.path or owner.path or owner.secure != endpoint.secure or owner in self._distrusted):
            return None
        if self.direct and (queue := queue_of(request.path)):
            with self._lock:
                put(self._owners, MAX_QUEUES, queue, owner)
        return owner


def put(into: dict[K, V], most: int, key: K, value: V) -> None:
    """Add to a dict of bounded size, in the place of its oldest entry when it is full."""
    if key not in into and len(into) >= most:
        del into[next(iter(into))]
    into[key] = value


def queue_of(path: str) -> str:
    """The queue that a path is about, as the path spells it; ``""`` if there is none."""
    parts = path.split("?")[0].split("/", 4)
    return parts[3] if len(parts) > 3 and parts[2] == "queues" else ""
