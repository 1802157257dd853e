"""Requests become bytes and bytes become answers, however they are cut."""

from __future__ import annotations

import unittest

from quern._http import AnswerReader, Endpoint, Reply, Request
from quern.errors import BadAnswer, NoAnswer

BODY = b'{"results":[{"status":"ok"}]}'


def read(answer: bytes, size: int) -> AnswerReader:
    reader = AnswerReader()
    for start in range(0, len(answer), size):
        reader.feed(answer[start : start + size])
    if not reader.done:
        reader.feed(b"")
    return reader


class Answers(unittest.TestCase):
    def test_every_framing_is_read(self) -> None:
        """Every framing that HTTP/1.1 allows is read, in pieces of any size, and it is known whether the connection can go on."""
        for name, keep, answer in (
            ("length", True, b"HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n" + BODY),
            ("lower case, twice", True, b"HTTP/1.1 200\r\ncontent-length:29\r\nContent-Length: 29\r\n\r\n" + BODY),
            ("chunked", True, b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"res\r\n018;x=y\r\nults":[{"status":"ok"}]}\r\n0\r\n\r\n'),
            ("trailer", True, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n" + BODY + b"\r\n0\r\nTrailer: x\r\n\r\n"),
            ("interim", True, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n" + BODY),
            ("close", False, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY),
            ("1.0", False, b"HTTP/1.0 200 OK\r\n\r\n" + BODY),
            ("more than the answer", False, b"HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n" + BODY + b"x"),
        ):
            for size in (1, 2, 3, 7, 1000):
                with self.subTest(name, size=size):
                    reader = read(answer, size)
                    self.assertEqual(reader.take(), BODY)
                    self.assertTrue(reader.done)
                    if size == 1000 or name != "more than the answer":
                        self.assertEqual(reader.keep, keep)

    def test_broken_answers_are_errors(self) -> None:
        """An answer that is not HTTP, or breaks off, is an error and never taken for an answer."""
        for answer in (
            b"", b"nonsense\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", b"HTTP/1.1 200OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Type",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"X: x\r\n" * 12_000,
        ):  # fmt: skip
            for size in (1, 1000):
                with self.subTest(answer[:60], size=size), self.assertRaises((BadAnswer, NoAnswer)):
                    read(answer, size)

    def test_retry_after(self) -> None:
        """Seconds, or a date that counts from the answer's own."""
        date = "Sun, 22 Nov 2026 10:00:00 GMT"
        cases: list[tuple[dict[str, str], float]] = [
            ({"retry-after": "7"}, 7.0),
            ({"retry-after": "Sun, 22 Nov 2026 10:00:09 GMT", "date": date}, 9.0),
            ({"retry-after": "Sun, 22 Nov 2026 09:00:00 GMT", "date": date}, 0.0),
            ({"retry-after": "soon", "date": date}, 0.0),
            ({"retry-after": "Sun, 22 Nov 2026 10:00:09 GMT"}, 0.0),
            ({}, 0.0),
        ]
        for headers, want in cases:
            with self.subTest(headers):
                self.assertEqual(Reply(429, headers).retry_after, want)


class Requests(unittest.TestCase):
    def test_bytes(self) -> None:
        """Head and body are as given, below the path of the address, and with the token."""
        endpoint = Endpoint.parse("http://h:1/deep/er/")
        request = Request("release", "POST", "/v1/x?y=1", b"{}", {"Content-Type": "application/json"})
        self.assertEqual(
            request.encode(endpoint, "secret"),
            b"POST /deep/er/v1/x?y=1 HTTP/1.1\r\nHost: h:1\r\nUser-Agent: quern-python\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer secret\r\nContent-Length: 2\r\n\r\n{}",
        )

    def test_addresses(self) -> None:
        """Addresses are read with their default ports; any other text is refused with how to write one."""
        self.assertEqual(Endpoint.parse("https://queue.example"), Endpoint("queue.example", 443, True, "queue.example", ""))
        self.assertEqual(Endpoint.parse("http://[::1]:7700/a b"), Endpoint("::1", 7700, False, "[::1]:7700", "/a%20b"))
        for address in ("", "127.0.0.1:7700", "ftp://x", "http://", "http://x?y", "http://x#y", "http://u:p@x", "http://x:y", "http://x\r\ny"):
            with self.subTest(address), self.assertRaisesRegex(ValueError, "address"):
                Endpoint.parse(address)


if __name__ == "__main__":
    unittest.main()
