"""HTTP/1.1 without a connection: requests become bytes, and bytes become answers. Transports send and receive them."""

from __future__ import annotations

import email.utils
import re
import ssl
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .errors import BadAnswer, Error, NoAnswer

MAX_HEAD = 64 << 10
MAX_ANSWER = 1500 << 20  # 1,000 chunks of 1 MiB, in base64, and change
USER_AGENT = "quern-python"
_VISIBLE = re.compile("[!-~]*")
SOCKET_SCHEME = "unix:"  # before the path of a Unix socket


@dataclass(frozen=True)
class Endpoint:
    """One address of a server."""

    host: str
    port: int
    secure: bool
    authority: str  # for the Host header
    prefix: str  # path before /v1
    path: str = ""  # of a Unix socket, in the place of host and port

    @property
    def name(self) -> str:
        """The address in messages."""
        return f"{SOCKET_SCHEME}{self.path}" if self.path else f"{self.host}:{self.port}"

    @staticmethod
    def parse(address: str) -> Endpoint:
        """Read an address such as ``http://127.0.0.1:7700``, ``https://queue.example/behind/a/proxy`` or ``unix:/run/quern.sock``."""
        if address.startswith(SOCKET_SCHEME):
            path = address.removeprefix(SOCKET_SCHEME).removeprefix("//")
            if not path or "\0" in path:
                raise ValueError(f"{address!r} is not an address of a server: write the path of the socket behind unix:")
            return Endpoint("localhost", 0, False, "localhost", "", path)
        try:
            u = urllib.parse.urlsplit(address)
            port = u.port
        except ValueError as fault:
            raise ValueError(f"{address!r} is not an address: {fault}") from None
        if u.scheme not in ("http", "https") or not u.hostname or u.query or u.fragment or "@" in u.netloc or not visible(u.netloc) or not address.isprintable():
            raise ValueError(f"{address!r} is not an address of a server: write it as http://host:port, https://host:port or unix:PATH")
        secure = u.scheme == "https"
        prefix = urllib.parse.quote(urllib.parse.unquote(u.path.rstrip("/")))
        return Endpoint(u.hostname, port or (443 if secure else 80), secure, u.netloc, prefix)


def visible(text: str) -> bool:
    """Whether a text can stand in a header: nothing in it ends a line or changes its meaning."""
    return _VISIBLE.fullmatch(text) is not None


@dataclass
class Request:
    """One call, before its address is chosen."""

    what: str  # for messages
    method: str
    path: str  # escaped, with the query
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0  # seconds that the server was asked to wait
    safe: bool = False  # may be made twice
    streamed: bool = False  # the body comes in pieces, behind the head
    patience: Optional[float] = None  # seconds that one try may take, instead of the client's
    traced: bool = True  # belongs to the trace of its context
    pauses: Optional[Callable[[], None]] = None  # called when the call pauses before another attempt

    def limit(self, timeout: float) -> float:
        """How many seconds one try may take, of a client with this timeout."""
        return (timeout if self.patience is None else self.patience) + self.wait

    def encode(self, endpoint: Endpoint, token: str) -> bytes:
        """The request in bytes; of a streamed one the head."""
        lines = [f"{self.method} {endpoint.prefix}{self.path} HTTP/1.1", f"Host: {endpoint.authority}", f"User-Agent: {USER_AGENT}"]
        for name, value in self.headers.items():
            if not value.isascii() or not value.isprintable():
                raise Error(f"{self.what}: the header {name} has characters that none can have: {value!r}")
            lines.append(f"{name}: {value}")
        if token:
            lines.append(f"Authorization: Bearer {token}")
        if self.streamed:
            lines.append("Transfer-Encoding: chunked")
        elif self.body or self.method != "GET":
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + self.body


@dataclass
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes = b""
    stream: Any = None  # the source of a body that is read as it comes

    @property
    def retry_after(self) -> float:
        """How many seconds the server asked to wait. A date counts from the answer's own: the clocks need not agree."""
        value = self.headers.get("retry-after", "")
        if value.isascii() and value.isdigit():
            return float(value[:9])
        try:
            at = email.utils.parsedate_to_datetime(value)
            return max((at - email.utils.parsedate_to_datetime(self.headers.get("date", ""))).total_seconds(), 0.0)
        except (TypeError, ValueError):
            return 0.0


class AnswerReader:
    """Reads one answer from the bytes of a connection, in whatever pieces they come."""

    def __init__(self) -> None:
        self.reply: Union[Reply, None] = None  # once the head has come
        self.done = False  # the whole answer has come
        self.keep = True  # the connection can be used again
        self._raw = bytearray()
        self._body = bytearray()
        self._left = -1  # of the body, or of its current piece; -1: until the end of the connection
        self._chunked = False
        self._total = 0

    @property
    def started(self) -> bool:
        """Whether any byte has come."""
        return self.reply is not None or bool(self._raw)

    def feed(self, data: bytes) -> None:
        """Take bytes; none at all is the end of the connection."""
        if not data:
            self._end()
            return
        self._raw += data
        while self.reply is None:
            if not self._head():
                return
        if not self.done:
            self._read()

    def take(self) -> bytes:
        """The part of the body that has come since the last call."""
        out = bytes(self._body)
        self._body.clear()
        return out

    def _end(self) -> None:
        if self.reply is not None and not self._chunked and self._left < 0:
            self.done, self.keep = True, False
        elif not self.done:
            raise NoAnswer("the connection ended in the middle of the answer" if self.started else "the connection ended before an answer")

    def _head(self) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > MAX_HEAD:
                raise BadAnswer(f"the head of the answer is longer than {MAX_HEAD} bytes")
            if self._raw[:5] != b"HTTP/"[: len(self._raw)]:
                raise BadAnswer(f"this is not an answer in HTTP/1.1: {bytes(self._raw[:40])!r}")
            return False
        lines = self._raw[:end].decode("latin-1").split("\r\n")
        del self._raw[: end + 4]
        version, _, rest = lines[0].partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit() or rest[3:4] not in ("", " "):
            raise BadAnswer(f"this is not an answer in HTTP/1.1: {lines[0][:40]!r}")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t":
                raise BadAnswer(f"a line of the answer's head is broken: {line[:60]!r}")
            name = name.lower()
            value = value.strip(" \t")
            if name == "content-length" and headers.get(name, value) != value:
                raise BadAnswer("the answer has two lengths")
            headers[name] = value
        status = int(rest[:3])
        if status < 200:
            if status == 101:
                raise BadAnswer("the server switched protocols")
            return True  # an interim answer: the real one follows
        self.keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        self._frame(status, headers)
        self.reply = Reply(status, headers)
        return True

    def _frame(self, status: int, headers: dict[str, str]) -> None:
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if status in (204, 304):
            self.done = True
        elif coding is not None:
            if coding.lower() != "chunked":
                raise BadAnswer(f"the answer's Transfer-Encoding is not known: {coding[:60]!r}")
            self._chunked, self._left = True, 0
            self.keep = self.keep and length is None  # two lengths are none to build the next answer's start on
        elif length is not None:
            if not length.isascii() or not length.isdigit() or len(length) > 15:
                raise BadAnswer(f"the answer's Content-Length is broken: {length[:60]!r}")
            self._left = int(length)
            self.done = self._left == 0
        else:
            self.keep = False

    def _read(self) -> None:
        if self._chunked:
            while not self.done and self._piece():
                pass
        elif self._left < 0:
            self._move(len(self._raw))
        else:
            self._left -= self._move(min(self._left, len(self._raw)))
            self.done = self._left == 0
        if self.done and self._raw:
            self.keep = False  # more than the answer came

    def _move(self, n: int) -> int:
        self._total += n
        if self._total > MAX_ANSWER:
            raise BadAnswer("the answer is longer than a server's can be")
        self._body += self._raw[:n]
        del self._raw[:n]
        return n

    def _piece(self) -> bool:
        """Read on in a body in chunked coding; whether there may be more to read."""
        if self._left > 2:  # 2: only the end of its line is left
            if not self._raw:
                return False
            self._left -= self._move(min(self._left - 2, len(self._raw)))
            return True
        if self._left > 0:
            if len(self._raw) < 2:
                return False
            if self._raw[:2] != b"\r\n":
                raise BadAnswer("a piece of the answer is longer than it says")
            del self._raw[:2]
            self._left = 0
            return True
        end = self._raw.find(b"\r\n")
        if end < 0:
            if len(self._raw) > MAX_HEAD:
                raise BadAnswer("the size of a piece of the answer is broken")
            return False
        size = bytes(self._raw[:end]).split(b";")[0].strip()
        try:
            n = int(size, 16)
        except ValueError:
            raise BadAnswer(f"the size of a piece of the answer is broken: {size[:40]!r}") from None
        if n == 0:
            trailer = self._raw.find(b"\r\n\r\n", end)
            if self._raw[end + 2 : end + 4] == b"\r\n":
                del self._raw[: end + 4]
            elif trailer >= 0:
                del self._raw[: trailer + 4]
            elif len(self._raw) > MAX_HEAD:
                raise BadAnswer(f"the trailer of the answer is longer than {MAX_HEAD} bytes")
            else:
                return False
            self.done = True
            return False
        del self._raw[: end + 2]
        self._left = n + 2
        return True


def piece(data: bytes) -> bytes:
    """A piece of a streamed body; none ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@dataclass(frozen=True)
class Trust:
    """How connections to https addresses are secured."""

    context: ssl.SSLContext
    fingerprint: str = ""  # SHA-256 of the server's certificate in hexadecimal, in place of any authority

    @staticmethod
    def of(context: Union[ssl.SSLContext, None], ca_file: str, fingerprint: str, certificate: Union[tuple[str, str], None]) -> Trust:
        digits = fingerprint.replace(":", "").lower()
        if fingerprint and (len(digits) != 64 or any(c not in "0123456789abcdef" for c in digits)):
            raise ValueError(f"the fingerprint {fingerprint!r} is not a SHA-256 in hexadecimal: it has 64 digits, with or without colons")
        if context is None:
            context = ssl.create_default_context(cafile=ca_file or None)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if digits:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate is not None:
                context.load_cert_chain(*certificate)
        return Trust(context, digits)
