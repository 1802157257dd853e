"""A client that works on one chunk at a time, with Python's standard library alone. It passes the tier `sequential` of the suite:

    go run ./sdk/conformance -tier sequential python3 sdk/conformance/sequential.py
"""

import base64, http.client, json, os, random, secrets, signal, ssl, sys, time, traceback
import urllib.error, urllib.request

TRIES = 6  # of a call; a worker that is not told to leave goes on
WITHOUT_END = 1_000_000
LONGEST_PAUSE_MS = 30 * 24 * 3600 * 1000


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status, body, retry_after):
        problem = json.loads(body) if body.startswith(b"{") else {}
        self.status, self.code, self.retry_after = status, problem.get("code", ""), float(retry_after or 0)
        self.about = " ".join([problem.get("detail", ""), *(one["detail"] for one in problem.get("errors", []))])
        super().__init__(f"{status} {self.code} {self.about}")

    passing = property(lambda self: self.status in (429, 502, 503, 504))


class Away(Exception):
    """No server answered, or the answer broke off: the server may have done the work."""

    passing, retry_after = True, 0.0


class Leaving(Exception):
    """A signal came while the client waited for work."""


class Client:
    def __init__(self, address, token, log):
        self.address, self.token, self.log = address, token, log
        self.logged, self.reached, self.leaving, self.waiting = {}, False, False, False

    def once(self, method, path, body=None, headers=(), wait=0.0):
        """One try of a call."""
        request = urllib.request.Request(self.address + path, None if body is None else json.dumps(body).encode(), dict(headers), method=method)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=30 + wait) as answer:
                self.reached = True
                return answer.read()
        except urllib.error.HTTPError as error:
            self.reached = True
            raise Refused(error.code, error.read(), error.headers.get("Retry-After")) from None
        except (OSError, http.client.HTTPException) as error:
            if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                raise
            raise Away(f"no answer from {self.address}: {error}") from None

    def call(self, method, path, body=None, headers=(), wait=0.0, tries=TRIES, read=json.loads):
        """A call that may be made twice: again after what may pass, with growing random pauses on top of the Retry-After."""
        for done in range(tries):
            try:
                return read(self.once(method, path, body, headers, wait))
            except (Refused, Away) as error:
                self.warn(error)
                if not error.passing or done >= (TRIES if self.leaving else tries) - 1:
                    raise
                time.sleep(error.retry_after + random.uniform(0, min(0.1 * 2 ** min(done, 10), 5)))

    def warn(self, error, text=""):
        """Logs each kind of trouble once a minute."""
        kind = f"{type(error).__name__} {getattr(error, 'status', '')}"
        if self.log and time.monotonic() - self.logged.get(kind, -60) >= 60:
            self.logged[kind] = time.monotonic()
            print(text or error, file=sys.stderr, flush=True)

    def leave(self, *_):
        """SIGTERM: a handler that runs ends first."""
        self.leaving = True
        if self.waiting:
            raise Leaving


def say(*words):
    print(*words, flush=True)


def bytes_of(value):
    return value.encode() if isinstance(value, str) else value["text"].encode() if "text" in value else base64.b64decode(value["base64"])


def wire(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


class Worker:
    def __init__(self, client, options, handler):
        self.client, self.options, self.handler = client, options, handler
        self.queue = "/v1/queues/default/"

    def run(self):
        try:
            while not self.client.leaving and (chunk := self.next()) is not None:
                self.deliver(*self.work(chunk))
        except Leaving:
            pass
        self.client.once("POST", self.queue + f"consumers/{self.options['consumer']}/detach")  # gives back what a poll may have brought

    def next(self):
        """The next chunk, for which it waits as long as it takes; None when the consumer is to leave."""
        o = self.options
        body = {"max": 1, "consumer": o["consumer"], "wait_ms": o["wait_ms"], "timeout_ms": o["timeout_ms"]}
        while True:
            try:
                self.client.waiting = True
                got = self.client.call("POST", self.queue + "reservations", body, wait=o["wait_ms"] / 1000, tries=WITHOUT_END)
                self.client.waiting = False
                if got["reservations"] or got["reason"] == "draining":
                    return next(iter(got["reservations"]), None)
                self.client.waiting = True
                time.sleep((got["retry_after_ms"] or 0) / 1000 + random.uniform(0, 0.1))
            except Leaving:
                if self.client.reached:
                    raise
                raise Away("no server ever answered") from None
            finally:
                self.client.waiting = False

    def work(self, chunk):
        """The call that tells the result, and its item."""
        token = {"token": chunk["token"]}
        try:
            output = self.handler(chunk)
            return chunk, "complete", token if output is None else {**token, "output": wire(output)}
        except Failed as error:
            return chunk, error.verb, {**token, **error.fields}
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}\n  at {last.name} ({last.filename}:{last.lineno})"
            self.client.warn(error, f"chunk {chunk['submission']}/{chunk['index']}: {text}")
            return chunk, "fail", {**token, "error": text[:250]}

    def deliver(self, chunk, verb, item):
        """Report a result. If the server refuses it, the chunk fails for good."""
        try:
            [result] = self.client.call("POST", self.queue + "reservations/" + verb, {"items": [item]}, tries=WITHOUT_END)["results"]
        except Refused as error:
            if error.status not in (413, 422) or item.get("fatal"):
                raise
            reason = f"the server refused the result: {error.about} {item.get('error', '')}"
            return self.deliver(chunk, "fail", {"token": item["token"], "error": reason[:250], "fatal": True})
        if result["status"] not in ("ok", "already"):
            say("lost", chunk["index"])


class Failed(Exception):
    """A handler raises it for a failure, or for a release for later."""

    def __init__(self, verb="fail", **fields):
        self.verb, self.fields = verb, fields


snoozed = set()


def crash(text):
    raise KeyError(text)


def act(chunk):
    """Do what a chunk of the suite says, see README.md."""
    text, first = bytes_of(chunk["content"]).decode(), chunk["attempt"] == 1
    verb, _, rest = text.partition(" ")
    if verb == "echo":
        return rest.encode()
    if verb == "bytes":
        return bytes.fromhex(rest)
    if verb == "size":
        return b"x" * int(rest.split(" ")[0])
    if verb == "wait":
        while not os.path.exists(rest.split(" ")[0]):
            time.sleep(0.01)
    if verb == "fail" and first:
        raise Failed(error=rest)
    if verb == "fatal":
        raise Failed(error=rest, fatal=True)
    if verb == "retry" and first:
        ms, _, error = rest.partition(" ")
        raise Failed(error=error, retry_after_ms=min(int(ms), LONGEST_PAUSE_MS))
    if verb == "snooze" and chunk["index"] not in snoozed:
        snoozed.add(chunk["index"])
        raise Failed("release", delay_ms=int(rest))
    if verb == "crash" and first:
        crash(rest)
    return None


def handle(chunk):
    say("begin", chunk["index"])
    try:
        return act(chunk)
    finally:
        say("end", chunk["index"])


def produce(client, contents):
    key = {"Idempotency-Key": secrets.token_hex(16)}
    submission = client.call("POST", "/v1/queues/default/submissions", {"chunks": {"inline": contents}}, key)
    path = f"/v1/submissions/{submission['id']}"
    say("inserted", submission["id"])
    while submission["state"] == "open":
        submission = client.call("GET", path, headers={"Prefer": "wait=30"}, wait=30)
    say("ended", submission["state"])
    for line in client.call("GET", path + "/outputs", read=bytes.splitlines):
        output = json.loads(line)
        say("output", output["index"], bytes_of(output["output"]).hex())


def main():
    o = json.loads(sys.argv[-1])
    client = Client(o["addresses"][0], o.get("token", ""), o.get("log", False))
    signal.signal(signal.SIGTERM, client.leave)
    try:
        if o["role"] == "work":
            Worker(client, o, handle).run()
        else:
            produce(client, o["chunks"])
    except Refused as error:
        say("error", error.status, error.code)
        sys.exit(1)
    except (Away, OSError) as error:
        say("error", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
