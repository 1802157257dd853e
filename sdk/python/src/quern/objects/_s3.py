"""A bucket on S3, or on what speaks like it, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import http.client
import io
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Optional, Union, cast

from ._bucket import Object, plain

PART_BYTES = 8 << 20  # what is longer is uploaded in parts of this
TRIES = 5
IDLE = 32  # connections that are kept
SECONDS = 60.0  # for which a server may say nothing


@dataclass(frozen=True)
class Credentials:
    """What requests are signed with. ``session`` is that of a role, which is for some hours."""

    access_key: str
    secret_key: str
    session: str = ""


def from_environment() -> Credentials:
    """The credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise ValueError("there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give S3 its credentials")
    return Credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN", ""))


class S3:
    """A bucket on S3. ``endpoint`` is the URL of another server that speaks like it; most of those want ``path_style``. ``prefix`` goes before
    all keys. ``credentials`` are for good, or are asked for before every request, as those of a role end; without them the environment
    has them. What is longer than 8 MiB is uploaded in parts."""

    def __init__(
        self,
        bucket: str,
        *,
        region: str = "",
        endpoint: str = "",
        path_style: bool = False,
        prefix: str = "",
        credentials: Union[Credentials, Callable[[], Credentials], None] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self.region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        url = urllib.parse.urlsplit(endpoint or f"https://s3.{self.region}.amazonaws.com")
        if url.scheme not in ("http", "https") or not url.netloc:
            raise ValueError(f"the endpoint {endpoint!r} is not a URL such as https://storage.example.com")
        self._secure, self._prefix = url.scheme == "https", prefix
        self._host = url.netloc if path_style else f"{bucket}.{url.netloc}"
        self._root = url.path.rstrip("/") + (f"/{bucket}/" if path_style else "/")
        self._given = credentials
        self._context = ssl_context or (ssl.create_default_context() if self._secure else None)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._name = f"s3://{bucket}/{prefix}"

    def __repr__(self) -> str:
        return f"S3({self._name!r})"

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def read(self, key: str) -> BinaryIO:
        connection, response = self._ask("GET", self._prefix + plain(key))
        return cast(BinaryIO, io.BufferedReader(_Body(self, connection, response), 64 << 10))

    def write(self, key: str, content: BinaryIO, *, replace: bool = True) -> None:
        name = self._prefix + plain(key)
        condition = {} if replace else {"If-None-Match": "*"}
        try:
            first = _part(content)
            if len(first) < PART_BYTES:
                self._call("PUT", name, body=first, headers=condition)
            else:
                self._write_parts(name, first, content, condition)
        except Refusal as refused:
            if replace or refused.status != 412:
                raise

    def _write_parts(self, name: str, part: bytes, content: BinaryIO, condition: Mapping[str, str]) -> None:
        upload = {"uploadId": _text(self._call("POST", name, {"uploads": ""}), "UploadId")}
        try:
            parts = ""
            number = 0
            while part:
                number += 1
                tag = self._call("PUT", name, {**upload, "partNumber": str(number)}, part, header="ETag")
                parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
                part = _part(content)
            whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
            self._call("POST", name, upload, whole, condition)
        except BaseException:
            with contextlib.suppress(OSError):
                self._call("DELETE", name, upload)
            raise

    def list(self, prefix: str) -> Iterator[Object]:
        query = {"list-type": "2", "prefix": self._prefix + prefix}
        while True:
            page = xml.etree.ElementTree.fromstring(self._call("GET", "", query))
            for entry in page.iterfind("{*}Contents"):
                at = datetime.datetime.fromisoformat((entry.findtext("{*}LastModified") or "").replace("Z", "+00:00"))
                yield Object((entry.findtext("{*}Key") or "").removeprefix(self._prefix), at)
            token = page.findtext("{*}NextContinuationToken")
            if not token:
                return
            query["continuation-token"] = token

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._call("DELETE", self._prefix + plain(key))

    def _call(self, *args: Any, header: str = "", **more: Any) -> str:
        """Make a request, read its answer whole, and return that, or one of its headers."""
        connection, response = self._ask(*args, **more)
        with _broken(self._name):
            body = response.read()
        self._give(connection, response)
        if b"<Error>" in body[:200]:  # an upload's completion can fail after its status was sent
            raise _refusal(self._name, response.status, body)
        return (response.headers[header] or "") if header else body.decode()

    def _ask(
        self, method: str, name: str, query: Mapping[str, str] = {}, body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Make a request, again after what passes by, and return the answer before its body is read."""
        path = urllib.parse.quote(self._root + name, safe="/-_.~")
        text = "&".join(f"{_quote(k)}={_quote(v)}" for k, v in sorted(query.items()))
        for attempt in range(TRIES):
            if attempt > 0:
                time.sleep(random.uniform(0.0, 0.1 * 2**attempt))
            now = datetime.datetime.now(datetime.timezone.utc)
            signed = sign(self._credentials(), self.region, method, self._host, path, text, body, headers, now)
            connection = self._take()
            try:
                connection.request(method, f"{path}?{text}" if text else path, body, signed)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as fault:
                connection.close()
                self.close()  # the others may have been closed by the server as well
                error: OSError = ConnectionError(f"{self._name}: no answer from {self._host}: {fault!r}")
                continue
            if response.status < 300:
                return connection, response
            with _broken(self._name):
                refused = _refusal(self._name + name.removeprefix(self._prefix), response.status, response.read())
            self._give(connection, response)
            if not refused.passes:
                raise refused.as_known()
            error = refused
        raise error

    def _credentials(self) -> Credentials:
        if self._given is None:
            return from_environment()
        return self._given if isinstance(self._given, Credentials) else self._given()

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        if self._secure:
            return http.client.HTTPSConnection(self._host, timeout=SECONDS, context=self._context)
        return _Connection(self._host, timeout=SECONDS)

    def _give(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, whole: bool = True) -> None:
        """Take back a connection, for another request if its answer was read to its end."""
        if whole and response.isclosed() and not response.will_close:
            with self._lock:
                if len(self._idle) < IDLE:
                    self._idle.append(connection)
                    return
        response.close()
        connection.close()


class _Connection(http.client.HTTPConnection):
    """Sends head and body without waiting in between."""

    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Body(io.RawIOBase):
    """An object as it comes. One that ends early is an error, where http.client has an end."""

    def __init__(self, bucket: S3, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._bucket, self._connection, self._response = bucket, connection, response
        self._left = response.length  # None: it comes in pieces, and http.client knows the end

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        with _broken(repr(self._bucket)):
            n = 0 if self._left == 0 else self._response.readinto(into)
        if self._left is not None:
            if self._left > 0 and n == 0:
                raise ConnectionError(f"{self._bucket!r}: the object broke off, {self._left} bytes before its end")
            self._left -= n
        return n

    def close(self) -> None:
        if not self.closed:
            self._response.read(0)  # closes an answer that has come to its end
            self._bucket._give(self._connection, self._response, whole=not self._left)
        super().close()


class Refusal(OSError):
    """What S3 answers in place of what it was asked for."""

    def __init__(self, what: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{what}: {message or 'refused'} ({code or 'status'}, {status})")
        self.status, self.code = status, code

    @property
    def passes(self) -> bool:
        return self.status in (429, 500, 502, 503, 504) or self.code in ("ConditionalRequestConflict", "RequestTimeout")

    def as_known(self) -> OSError:
        """The exception that Python has for it."""
        kinds: dict[int, type[OSError]] = {404: FileNotFoundError, 403: PermissionError}
        return kinds[self.status](str(self)) if self.status in kinds else self


@contextlib.contextmanager
def _broken(what: str) -> Iterator[None]:
    """What http.client raises of an answer that breaks off as an error of the connection."""
    try:
        yield
    except http.client.HTTPException as fault:
        raise ConnectionError(f"{what}: the answer broke off: {fault!r}") from None


def _refusal(what: str, status: int, body: bytes) -> Refusal:
    code = message = ""
    with contextlib.suppress(xml.etree.ElementTree.ParseError):
        answer = xml.etree.ElementTree.fromstring(body)
        code, message = answer.findtext("{*}Code") or "", answer.findtext("{*}Message") or ""
    return Refusal(what, status, code, message)


def _text(answer: str, name: str) -> str:
    found = xml.etree.ElementTree.fromstring(answer).findtext("{*}" + name)
    if not found:
        raise OSError(f"the answer has no {name}: it is not from S3")
    return found


def _part(content: BinaryIO) -> bytes:
    """The next part of what is uploaded; short at the end only."""
    pieces = []
    left = PART_BYTES
    while left > 0 and (piece := content.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


def sign(
    credentials: Credentials,
    region: str,
    method: str,
    host: str,
    path: str,
    query: str,
    body: bytes,
    headers: Mapping[str, str],
    at: datetime.datetime,
) -> dict[str, str]:
    """The headers of a request with its signature of version 4. Path and query are as they are sent, the query in order."""
    time_text, payload = at.strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(body).hexdigest()
    own = {"Host": host, "X-Amz-Date": time_text, "X-Amz-Content-Sha256": payload, **headers}
    if credentials.session:
        own["X-Amz-Security-Token"] = credentials.session
    listed = sorted((name.lower(), " ".join(value.split())) for name, value in own.items())
    names = ";".join(name for name, _ in listed)
    canonical = "\n".join([method, path, query, *(f"{name}:{value}" for name, value in listed), "", names, payload])
    scope = f"{time_text[:8]}/{region}/s3/aws4_request"
    signing = "\n".join(["AWS4-HMAC-SHA256", time_text, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (*scope.split("/"), signing):
        key = hmac.digest(key, part.encode(), "sha256")
    own["Authorization"] = f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return own
