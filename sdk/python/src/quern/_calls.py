"""Every call of the server that is not written by hand.

Written by generate.py from the server's OpenAPI document; changes go there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from . import types
from ._core import meta_text, path, query
from ._http import Request
from ._values import write_json


def _request(
    what: str,
    method: str,
    target: str,
    body: Any = None,
    headers: Optional[Mapping[str, Optional[str]]] = None,
    safe: bool = False,
    media: str = "application/json",
) -> Request:
    given = {name: value for name, value in (headers or {}).items() if value is not None}
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else write_json(body).encode()
        given["Content-Type"] = media
    asked = body.get("reserve", body) if isinstance(body, Mapping) else {}  # the server may be asked to wait
    return Request(what, method, target, data, given, asked.get("wait_ms", 0) / 1000, safe)


class Calls:
    """The calls of :class:`quern.Client`."""

    def _fetch(self, request: Request) -> Any:
        raise NotImplementedError

    def _bytes(self, request: Request) -> bytes:
        raise NotImplementedError

    def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> Iterator[Any]:
        raise NotImplementedError

    def activate_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score. A version is named by its version text (the newest of that text), or by the first 8 or more digits of
        its sha256. A version that is quarantined needs `force`, and so does one that refuses what strategies in use send:
        configurations that are stored, or that consumers sent within the last hour; 409 lists those. With If-Match only the
        plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds from the next reservation on, and
        no reservation sees half of it.
        """
        found: types.Plugin = self._fetch(_request("activate plugin", "POST", path("/v1/plugins/{}/activate", name), body, headers={"If-Match": if_match}))
        return found

    def backfill_schedule(self, queue: str, name: str, body: types.BackfillRequest, *, key: Optional[str] = None) -> types.Backfilled:
        """Insert for ticks of the past. Inserts what ticks of the past would have inserted, regardless of what became of them then.
        With `dry_run` they are only counted. With an `Idempotency-Key` each tick's submission is inserted once for 24 hours,
        however often the request is sent.
        """
        found: types.Backfilled = self._fetch(_request("backfill schedule", "POST", path("/v1/queues/{}/schedules/{}/backfill", queue, name), body, headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    def backup(self, *, body: Optional[bytes] = None) -> bytes:
        """Make a backup of the whole server. The answer is a tar with a manifest and the files that it lists, with their SHA-256:
        everything that was acknowledged before the request, of all queues as of one moment, the access tokens and the plugins
        too. Work goes on meanwhile. The copies are made first, beside the data, and take its room on the disk until the answer is
        read; without that room the answer is 507. One backup is made at a time: 409 for another. It holds what the data directory
        holds: keep it as safe. `quern backup` checks the answer while it is written to a file, and `quern restore` makes a data
        directory of it.  With the beginning of an earlier backup as the body, its entries `manifest.json` and `blocks`, the
        answer is an increment: it has the blocks of files that changed since that one, and is restored behind it. The earlier one
        may be an increment itself. One of another data directory is refused with 409: a restored server is another.
        """
        return self._bytes(_request("backup", "POST", path("/v1/backup"), body, media="application/x-tar"))

    def canary_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score for a share of the reservations. `percent` of the reservations, drawn by their seed, are scored by
        this version; 0 ends it. With If-Match only the plugin at this revision is changed (`etag`), else 412. The change is one
        swap: it holds from the next reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = self._fetch(_request("canary plugin", "POST", path("/v1/plugins/{}/canary", name), body, headers={"If-Match": if_match}))
        return found

    def cancel_bulk_operation(self, id: Union[str, int], *, actor: Optional[str] = None) -> types.BulkOperation:
        """Stop a bulk operation. What it did stays done. One that has ended stays as it is, also who cancelled it."""
        found: types.BulkOperation = self._fetch(_request("cancel bulk operation", "POST", query(path("/v1/bulk-operations/{}/cancel", id), {"actor": actor}), safe=True))
        return found

    def cancel_submission(self, id: Union[str, int]) -> types.Submission:
        """Cancel a submission. Chunks that are not done are skipped; reservations of it are gone. Cancelling what has ended changes
        nothing and answers with it as it stands.
        """
        found: types.Submission = self._fetch(_request("cancel submission", "POST", path("/v1/submissions/{}/cancel", id), safe=True))
        return found

    def change_queue(self, queue: str, body: types.ChangeQueueRequest) -> types.Queue:
        """Change some settings of a queue. What is left out stays as it is; the next decisions read what is changed, also about what
        is in flight.
        """
        found: types.Queue = self._fetch(_request("change queue", "PATCH", path("/v1/queues/{}", queue), body))
        return found

    def change_submission(self, id: Union[str, int], body: types.SubmissionChange) -> types.Submission:
        """Change the priority of an open submission. CustomPriority sees it at its new place from the next reservation on. A
        submission that has ended answers 409. The priority that it has already is no mistake.
        """
        found: types.Submission = self._fetch(_request("change submission", "PATCH", path("/v1/submissions/{}", id), body, safe=True))
        return found

    def compare(self, queue: str, body: types.CompareRequest) -> types.CompareAnswer:
        """Compare what two strategies would hand out now. Both are previewed on the same state with the same seed: how many values
        of each meta key get something, how evenly, and what the two have in common.
        """
        found: types.CompareAnswer = self._fetch(_request("compare", "POST", path("/v1/queues/{}/strategies/compare", queue), body, safe=True))
        return found

    def complete(self, queue: str, body: types.CompleteRequest) -> types.ResultsAnswer:
        """Report chunks as done. One result per item, in order: ok, already (done before by this very token), lost, gone, unknown or
        invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("complete", "POST", path("/v1/queues/{}/reservations/complete", queue), body, safe=True))
        return found

    def config(self) -> types.ServerOptions:
        """Say with which options the server runs, and who set them."""
        found: types.ServerOptions = self._fetch(_request("config", "GET", path("/v1/config"), safe=True))
        return found

    def create_token(self, body: types.NewToken) -> types.Token:
        """Make an access token. The answer has the token's text, this once: the server keeps only a hash of it. What is done with
        the token is recorded under its name, which no other token may have. `queues` and `meta` (one key with one value) bind it:
        it inserts, sees and changes nothing else. From the first token on every request needs one, for good; the first one needs
        the scope admin. Admin implies all other scopes.
        """
        found: types.Token = self._fetch(_request("create token", "POST", path("/v1/tokens"), body))
        return found

    def deactivate_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Take a plugin out of use. Strategies that name it go on with their next branch. With If-Match only the plugin at this
        revision is changed (`etag`), else 412. The change is one swap: it holds from the next reservation on, and no reservation
        sees half of it.
        """
        found: types.Plugin = self._fetch(_request("deactivate plugin", "POST", path("/v1/plugins/{}/deactivate", name), headers={"If-Match": if_match}))
        return found

    def delete_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> None:
        """Give a dead chunk up for good. It counts as skipped from then on."""
        self._bytes(_request("delete dead letter", "DELETE", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index)))

    def delete_meta_value(self, queue: str, key: str, value: Union[str, int], *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Remove what is set for a value of a meta key. It is not limited any more, from the next reservation on, and weighs 1. If-
        Match as for PUT.
        """
        self._bytes(_request("delete meta value", "DELETE", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_plugin(self, name: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a plugin with all its versions. Only one that is not active, and that no stored strategy names: 409 lists those,
        and `force=true` deletes it all the same. They go on with their next branch then; a strategy that is written out in a
        reservation and names it is refused.
        """
        self._bytes(_request("delete plugin", "DELETE", query(path("/v1/plugins/{}", name), {"force": force}), headers={"If-Match": if_match}))

    def delete_plugin_version(self, name: str, version: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a version that is not in use. Not one that strategies in use pin, or that alone takes a configuration that they
        send, unless with `force=true`. A version is named by its version text (the newest of that text), or by the first 8 or
        more digits of its sha256.
        """
        self._bytes(_request("delete plugin version", "DELETE", query(path("/v1/plugins/{}/versions/{}", name, version), {"force": force}), headers={"If-Match": if_match}))

    def delete_queue(self, queue: str, *, quarantined: Optional[bool] = None) -> None:
        """Delete a queue. Only a queue without open submissions can be deleted, and never the one named default. A queue in
        quarantine, whose files are damaged or missing, is deleted with `quarantined=true`, with everything in it; of the one
        named default an empty one takes the place.
        """
        self._bytes(_request("delete queue", "DELETE", query(path("/v1/queues/{}", queue), {"quarantined": quarantined})))

    def delete_schedule(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a schedule. What it inserted stays. If-Match as for PUT."""
        self._bytes(_request("delete schedule", "DELETE", path("/v1/queues/{}/schedules/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_strategy(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a named strategy with all its versions. Reservations that ask for it are refused from then on. If-Match as for PUT."""
        self._bytes(_request("delete strategy", "DELETE", path("/v1/queues/{}/strategies/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def detach_consumer(self, queue: str, consumer: str) -> types.Released:
        """Let a consumer leave. The consumer leaves: its streams end, orders for it are forgotten, and what it holds goes back with
        no try counted. To be called when it has finished.
        """
        found: types.Released = self._fetch(_request("detach consumer", "POST", path("/v1/queues/{}/consumers/{}/detach", queue, consumer)))
        return found

    def diagnose_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.Diagnosis:
        """Say why the chunks of a value move or do not. One sentence, and what it is made of: the open chunks by what keeps them
        from being handed out, judged by the rules, the limits and the strategies that consumers reserved by in the last hour
        (`.../strategies/in-use`). Whose turn it is does not enter. A chunk that is in flight is no cause. It is looked at in
        slices, between which others work, so under load it is of slightly different moments; of very many submissions a part is
        looked at, and `examined` says how many. The value stands in the path as `meta.KEY=VALUE` has it in filters: a whole
        number is the integer, `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text,
        `values/s:` the empty text); what else is not unreserved is percent-encoded (`a%2Fb`).
        """
        found: types.Diagnosis = self._fetch(_request("diagnose meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}/diagnosis", queue, key, meta_text(value)), safe=True))
        return found

    def diagnose_submission(self, id: Union[str, int]) -> types.Diagnosis:
        """Say why the chunks of a submission move or do not. One sentence, and what it is made of: the open chunks by what keeps
        them from being handed out, judged by the rules, the limits and the strategies that consumers reserved by in the last hour
        (`.../strategies/in-use`). Whose turn it is does not enter. A chunk that is in flight is no cause. It is looked at in
        slices, between which others work, so under load it is of slightly different moments; of very many submissions a part is
        looked at, and `examined` says how many. .
        """
        found: types.Diagnosis = self._fetch(_request("diagnose submission", "GET", path("/v1/submissions/{}/diagnosis", id), safe=True))
        return found

    def docs_page(self, page: str, *, q: Optional[str] = None) -> str:
        """A page of the documents, or a search in them."""
        return (self._bytes(_request("docs page", "GET", query(path("/docs/{}", page), {"q": q}), safe=True))).decode()

    def drain_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Tell a consumer to finish and leave. It gets nothing new, and is asked to finish what it holds and leave: by the event
        `drain` if it is attached, and by the reason `draining` of its reserves. An order holds until it is taken back with
        `resume`; it is forgotten when the consumer leaves or is lost, when it is not attached and not heard of for an hour, and
        at a restart of the server.
        """
        found: types.Consumer = self._fetch(_request("drain consumer", "POST", path("/v1/queues/{}/consumers/{}/drain", queue, consumer), safe=True))
        return found

    def dry_run_plugin(self, name: str, version: str, body: types.PluginDryRun) -> types.PluginTried:
        """Try a version without any effect. Nothing is reserved. Synthetic candidates are always scored; with `queue` also those
        that a strategy has now, and `picks` says what would be taken, `gained` and `lost` how that differs. `recording` scores a
        recorded batch again and compares the scores bit for bit. A version is named by its version text (the newest of that
        text), or by the first 8 or more digits of its sha256.
        """
        found: types.PluginTried = self._fetch(_request("dry run plugin", "POST", path("/v1/plugins/{}/versions/{}/dry-run", name, version), body, safe=True))
        return found

    def exchange(self, queue: str, body: types.ExchangeRequest) -> types.ExchangeAnswer:
        """Finish chunks and reserve the next in one call. What is finished is committed first; then chunks are reserved. The fast
        path of consumers.
        """
        found: types.ExchangeAnswer = self._fetch(_request("exchange", "POST", path("/v1/queues/{}/reservations/exchange", queue), body, safe=True))
        return found

    def explain(self, queue: str, body: types.PreviewRequest) -> types.ExplainAnswer:
        """Show how a strategy stands. The blocks of the strategy with what reaches each and what it refuses, by value; what limits
        of operators withhold from all of it; the branches, under Fair with whose turn it is; and for each chunk that would be
        handed out what kept the earlier branches from it. What is counted is looked at in slices, between which others work, so
        under load it is of slightly different moments.
        """
        found: types.ExplainAnswer = self._fetch(_request("explain", "POST", path("/v1/queues/{}/strategies/explain", queue), body, safe=True))
        return found

    def extend(self, queue: str, body: types.ExtendRequest) -> types.ResultsAnswer:
        """Move the deadlines of reservations. One result per item, in order: ok, already (done before by this very token), lost,
        gone, unknown or invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("extend", "POST", path("/v1/queues/{}/reservations/extend", queue), body, safe=True))
        return found

    def fail(self, queue: str, body: types.FailRequest) -> types.ResultsAnswer:
        """Report tries that did not succeed. One result per item, in order: ok, already (done before by this very token), lost,
        gone, unknown or invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("fail", "POST", path("/v1/queues/{}/reservations/fail", queue), body, safe=True))
        return found

    def forward_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int], body: types.ForwardRequest) -> types.Submission:
        """Have a dead chunk go on to another queue. It becomes a submission of one chunk there, with its content, meta and
        attachment, and `forwarded_from` says where it came from; here it counts as skipped, in the same commit that puts it on
        its way. It arrives exactly once, also through a crash.
        """
        found: types.Submission = self._fetch(_request("forward dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/forward", queue, submission, index), body))
        return found

    def get_bulk_operation(self, id: Union[str, int]) -> types.BulkOperation:
        """Read how far a bulk operation got."""
        found: types.BulkOperation = self._fetch(_request("get bulk operation", "GET", path("/v1/bulk-operations/{}", id), safe=True))
        return found

    def get_chunk(self, id: Union[str, int], index: Union[str, int]) -> types.Chunk:
        """Read one chunk."""
        found: types.Chunk = self._fetch(_request("get chunk", "GET", path("/v1/submissions/{}/chunks/{}", id, index), safe=True))
        return found

    def get_chunk_map(self, id: Union[str, int], *, from_: Optional[int] = None, to: Optional[int] = None, cells: Optional[int] = None) -> types.ChunkMap:
        """Count a submission's chunks by state, stretch by stretch. The chunks from index `from` up to `to`, counted by state in
        cells of one size; at most 1,048,576 chunks are looked at, and `to` of the answer says where to go on. What moves
        meanwhile is counted where it was met.
        """
        found: types.ChunkMap = self._fetch(_request("get chunk map", "GET", query(path("/v1/submissions/{}/map", id), {"from": from_, "to": to, "cells": cells}), safe=True))
        return found

    def get_consumer(self, queue: str, consumer: str, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> types.ConsumerDetail:
        """Read a consumer and what it holds."""
        found: types.ConsumerDetail = self._fetch(_request("get consumer", "GET", query(path("/v1/queues/{}/consumers/{}", queue, consumer), {"cursor": cursor, "limit": limit}), safe=True))
        return found

    def get_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.DeadLetter:
        """Read a dead letter with the history of its last 10 tries."""
        found: types.DeadLetter = self._fetch(_request("get dead letter", "GET", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index), safe=True))
        return found

    def get_key_timeseries(self, queue: str, key: str) -> types.KeySeries:
        """Read the chunks in flight of a meta key's values over time. From memory: the last ten minutes in steps of five seconds, of
        the values that were among those with most in flight. -1 where a value was not among them, so that it is not known.
        """
        found: types.KeySeries = self._fetch(_request("get key timeseries", "GET", path("/v1/queues/{}/meta-keys/{}/timeseries", queue, key), safe=True))
        return found

    def get_ledger(self, queue: str, ledger: str, *, sort: Optional[str] = None, value: Optional[str] = None, limit: Optional[int] = None) -> types.LedgerTenants:
        """Read what the tenants of a Fair block were entitled to and what they received. `sort` is received (who got most), behind
        (who is owed most) or ahead. Of what an ideal division would have handed out, no tenant is ever more than a few chunks
        away: GUARANTEES.md has the numbers.
        """
        found: types.LedgerTenants = self._fetch(_request("get ledger", "GET", query(path("/v1/queues/{}/ledgers/{}", queue, ledger), {"sort": sort, "value": value, "limit": limit}), safe=True))
        return found

    def get_lifecycle(self, queue: str) -> types.Lifecycle:
        """Tell how a queue's life-cycle worker is doing. The worker does what time demands: deadlines, retries, run_at,
        dead_deadline, the rest of ended submissions, retention, schedules, the ends of rules. It also recounts what is kept as
        counters, see recount. An action that fails again and again is parked: left alone until it is retried, or the server
        restarts.
        """
        found: types.Lifecycle = self._fetch(_request("get lifecycle", "GET", path("/v1/queues/{}/lifecycle", queue), safe=True))
        return found

    def get_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.ValueCount:
        """Read a value of a meta key: what is ready, in flight and set. The value stands in the path as `meta.KEY=VALUE` has it in
        filters: a whole number is the integer, `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the
        text, `values/s:` the empty text); what else is not unreserved is percent-encoded (`a%2Fb`).
        """
        found: types.ValueCount = self._fetch(_request("get meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), safe=True))
        return found

    def get_plugin(self, name: str) -> types.Plugin:
        """Read a plugin: what is in use of it, and the state of its breaker."""
        found: types.Plugin = self._fetch(_request("get plugin", "GET", path("/v1/plugins/{}", name), safe=True))
        return found

    def get_plugin_logs(self, name: str, *, after: Optional[int] = None, limit: Optional[int] = None) -> types.PluginLogs:
        """Read what a plugin logged. The last 1,000 lines, the oldest first; ask again with `after` for what followed."""
        found: types.PluginLogs = self._fetch(_request("get plugin logs", "GET", query(path("/v1/plugins/{}/logs", name), {"after": after, "limit": limit}), safe=True))
        return found

    def get_plugin_module(self, name: str, version: str) -> bytes:
        """Download a version's module."""
        return self._bytes(_request("get plugin module", "GET", path("/v1/plugins/{}/versions/{}/wasm", name, version), safe=True))

    def get_plugin_recording(self, name: str, id: Union[str, int]) -> bytes:
        """Download a recorded batch. A .qbatch file, which `quern plugin run` replays."""
        return self._bytes(_request("get plugin recording", "GET", path("/v1/plugins/{}/recordings/{}", name, id), safe=True))

    def get_plugin_stats(self, name: str) -> types.PluginStats:
        """Read a plugin's numbers since the start of the server."""
        found: types.PluginStats = self._fetch(_request("get plugin stats", "GET", path("/v1/plugins/{}/stats", name), safe=True))
        return found

    def get_plugin_version(self, name: str, version: str) -> types.PluginVersion:
        """Read a version of a plugin: its manifest, and what its dry run found. A version is named by its version text (the newest
        of that text), or by the first 8 or more digits of its sha256.
        """
        found: types.PluginVersion = self._fetch(_request("get plugin version", "GET", path("/v1/plugins/{}/versions/{}", name, version), safe=True))
        return found

    def get_queue(self, queue: str) -> types.Queue:
        """Read a queue's settings."""
        found: types.Queue = self._fetch(_request("get queue", "GET", path("/v1/queues/{}", queue), safe=True))
        return found

    def get_rule(self, queue: str, id: Union[str, int]) -> types.Rule:
        """Read a rule."""
        found: types.Rule = self._fetch(_request("get rule", "GET", path("/v1/queues/{}/rules/{}", queue, id), safe=True))
        return found

    def get_schedule(self, queue: str, name: str) -> types.Schedule:
        """Read a schedule and how it stands."""
        found: types.Schedule = self._fetch(_request("get schedule", "GET", path("/v1/queues/{}/schedules/{}", queue, name), safe=True))
        return found

    def get_stats(self, queue: str) -> types.Stats:
        """Read a queue's numbers. Flat, so that a scaler can read one by name. Reading costs the same at any backlog. Totals count
        from the server's start.
        """
        found: types.Stats = self._fetch(_request("get stats", "GET", path("/v1/queues/{}/stats", queue), safe=True))
        return found

    def get_strategy(self, queue: str, name: str, *, version: Optional[int] = None) -> types.NamedStrategy:
        """Read a named strategy, or an older version of it."""
        found: types.NamedStrategy = self._fetch(_request("get strategy", "GET", query(path("/v1/queues/{}/strategies/{}", queue, name), {"version": version}), safe=True))
        return found

    def get_submission(self, id: Union[str, int]) -> types.Submission:
        """Read a submission. With `Prefer: wait=N` (seconds, at most 60) the answer comes when the submission leaves the state open,
        or after N seconds.
        """
        found: types.Submission = self._fetch(_request("get submission", "GET", path("/v1/submissions/{}", id), safe=True))
        return found

    def get_timeseries(self, queue: str, *, step: Optional[str] = None, after: Optional[str] = None) -> types.Series:
        """Read a queue's numbers over time. From memory, so it begins at the server's start: a point a second for ten minutes, a
        point a minute for a day, or a point an hour for 30 days.
        """
        found: types.Series = self._fetch(_request("get timeseries", "GET", query(path("/v1/queues/{}/timeseries", queue), {"step": step, "after": after}), safe=True))
        return found

    def get_token(self, id: Union[str, int]) -> types.Token:
        """Read what is known of an access token."""
        found: types.Token = self._fetch(_request("get token", "GET", path("/v1/tokens/{}", id), safe=True))
        return found

    def insert_batch(self, queue: str, body: types.InsertManyRequest) -> types.InsertManyAnswer:
        """Insert many submissions in one commit. Up to 10,000 submissions, each as in a single insert, with an `idempotency_key` of
        its own if it likes. All go to the disk in one commit, and the answer has one result per submission, in order: created,
        replayed (inserted before with the same key; the submission is as it is now), invalid or refused. Those that are invalid
        or refused keep no other from being inserted, unless `atomic` is true: then nothing is inserted, and the others are
        refused with the code batch_refused. As `application/x-ndjson` each line is one submission, and the call is not atomic. An
        error of the whole call (such as 503 commit_failed) says nothing of any submission: with keys it can be sent again safely.
        """
        found: types.InsertManyAnswer = self._fetch(_request("insert batch", "POST", path("/v1/queues/{}/submissions:batch", queue), body))
        return found

    def lift_rule(self, queue: str, id: Union[str, int], *, actor: Optional[str] = None) -> None:
        """Lift a pause or a block. What no other rule covers is handed out from then on, first to those who wait. Lifting a rule
        that has ended answers the same. Only admin lifts a block.
        """
        self._bytes(_request("lift rule", "DELETE", query(path("/v1/queues/{}/rules/{}", queue, id), {"actor": actor}), safe=True))

    def list_audit(self, *, since: Optional[str] = None, until: Optional[str] = None, actor: Optional[str] = None, action: Optional[str] = None, queue: Optional[str] = None, target: Optional[str] = None, outcome: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.AuditEntry]:
        """Read the audit log. Who changed what, the latest first. An entry is durable together with what it tells of: there is no
        change without its entry, and no entry of a change that did not happen. An act that the token did not allow has the
        outcome `refused`, and `after` has the `code` and `detail` of the answer. The first sixty of a token get an entry each,
        then one a minute does; its `left_out` is the number since the previous entry that have none. `next` is the cursor of
        older ones; a page may be short, or empty, and still have a next one, as only so many entries are looked at for one page.
        `incomplete`, and the header `Quern-Audit-Incomplete` of every form of the answer, name the queues in quarantine whose
        latest entries the log may lack. With `Accept: application/x-ndjson` the answer is all that match, a line each. With
        `Accept: text/event-stream` it is those to come, or those from `since` on, the oldest first; the ids that it sends, also
        those without an event, tell how far it has come, and `Last-Event-ID` takes it up there. Then entries of ten seconds
        before that one may come again, and their ids tell. When the log cannot be read any further, the last event is `problem`,
        with a problem as its data. `cursor`, `limit` and `until` do not go with it.
        """
        return self._pages("list audit", path("/v1/audit"), {"since": since, "until": until, "actor": actor, "action": action, "queue": queue, "target": target, "outcome": outcome, "limit": limit})

    def list_bulk_operations(self, *, queue: Optional[str] = None) -> Iterator[types.BulkOperation]:
        """List bulk operations, newest first. All that run, and of each queue the last 100 that have ended."""
        return self._pages("list bulk operations", path("/v1/bulk-operations"), {"queue": queue})

    def list_chunk_attempts(self, id: Union[str, int], index: Union[str, int]) -> Iterator[types.Attempt]:
        """List the ended tries of a chunk. The ended tries that are remembered, the oldest first: the last 10, over all redrives.
        What is remembered of a chunk is forgotten when it is done.
        """
        return self._pages("list chunk attempts", path("/v1/submissions/{}/chunks/{}/attempts", id, index), {})

    def list_chunks(self, id: Union[str, int], *, state: Optional[Sequence[str]] = None, limit: Optional[int] = None) -> Iterator[types.Chunk]:
        """List a submission's chunks by index. A page may have fewer items than its limit, or none, and still have a `next`: for one
        page only so much is looked at, and it has only so many bytes.
        """
        return self._pages("list chunks", path("/v1/submissions/{}/chunks", id), {"state": state, "limit": limit})

    def list_consumers(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.Consumer]:
        """List a queue's consumers by name. Those that are attached or were a moment ago, hold something, or have an order. A
        consumer without a name is listed too, but has no path.
        """
        return self._pages("list consumers", path("/v1/queues/{}/consumers", queue), {"limit": limit})

    def list_dead_letter_groups(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, cursor: Optional[str] = None) -> types.DeadGroups:
        """Group dead letters by the fingerprint of their errors. Errors that differ only in numbers, hexadecimal ids, UUIDs and
        quoted parts have one fingerprint. Every dead letter that the filter means is counted. There are at most 10,000 groups;
        `others` counts the letters that are in none, as more kinds of errors came. A filter by `fingerprint` finds those too.
        """
        found: types.DeadGroups = self._fetch(_request("list dead letter groups", "GET", query(path("/v1/queues/{}/dead-letters/groups", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "cursor": cursor}), safe=True))
        return found

    def list_dead_letters(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> Iterator[types.DeadLetter]:
        """List dead letters. Chunks out of attempts whose submission is open or completed with dead ones: of the newest submission
        first, and of one submission by index. They stay until they are redriven or deleted, or until the retention of their
        submission, which begins when it ends. A page may have fewer items than its limit, or none, and still have a `next`: for
        one page only so much is looked at, and it has only so many bytes.
        """
        return self._pages("list dead letters", path("/v1/queues/{}/dead-letters", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "limit": limit})

    def list_ledgers(self, queue: str) -> Iterator[types.Ledger]:
        """List the Fair blocks that are in use."""
        return self._pages("list ledgers", path("/v1/queues/{}/ledgers", queue), {})

    def list_meta_keys(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.MetaKey]:
        """List the meta keys with how many values they have. Of the submissions that are open; a key for which something is set is
        listed also when no submission has it.
        """
        return self._pages("list meta keys", path("/v1/queues/{}/meta-keys", queue), {"limit": limit})

    def list_meta_values(self, queue: str, key: str, *, sort: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.ValueCount]:
        """List the values of a meta key with what is ready, in flight and set."""
        return self._pages("list meta values", path("/v1/queues/{}/meta-keys/{}/values", queue, key), {"sort": sort, "limit": limit})

    def list_plugin_recordings(self, name: str) -> Iterator[types.PluginRecording]:
        """List the batches that were recorded. One of 10,000, and those that faulted; the last of each are kept in memory."""
        return self._pages("list plugin recordings", path("/v1/plugins/{}/recordings", name), {})

    def list_plugin_scores(self, name: str) -> Iterator[types.PluginScores]:
        """Read how a plugin's versions score live traffic. One entry for each version and configuration that is open, those in use
        first: how many batches it scored and which failed, and of a sample of them how the scores of the last 4,096 candidates
        are spread, and of how many of these something was taken. Whole batches are sampled, one in 64 and at most four a second
        beside, so that it costs those who reserve next to nothing. It starts from zero when a version is opened: at a start of
        the server, and after five minutes out of use.
        """
        return self._pages("list plugin scores", path("/v1/plugins/{}/scores", name), {})

    def list_plugin_versions(self, name: str) -> Iterator[types.PluginVersion]:
        """List a plugin's versions, the newest first."""
        return self._pages("list plugin versions", path("/v1/plugins/{}/versions", name), {})

    def list_plugins(self, *, limit: Optional[int] = None) -> Iterator[types.Plugin]:
        """List the plugins by name."""
        return self._pages("list plugins", path("/v1/plugins"), {"limit": limit})

    def list_queues(self) -> Iterator[types.Queue]:
        """List the queues."""
        return self._pages("list queues", path("/v1/queues"), {})

    def list_reservations(self, queue: str, *, sort: Optional[str] = None, overdue: Optional[bool] = None, consumer: Optional[str] = None, submission: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> Iterator[types.HeldReservation]:
        """List the chunks that consumers hold. Who holds what, since when and until when: the chunks that are held for longest
        first, or with `sort=deadline` those whose deadline comes first. Filters are `overdue=true` (held for longer than the
        queue's `reservation_timeout_ms`), `consumer=NAME`, `submission=ID` and `meta.KEY=VALUE` as in the list of submissions;
        all must match. A page is about several moments: a chunk that is reserved or finished meanwhile may be missing, and a page
        with a `next` may have fewer items than its limit. With `sort=deadline` a chunk that is extended between two pages may be
        in both. Tokens are not shown.
        """
        return self._pages("list reservations", path("/v1/queues/{}/reservations", queue), {"sort": sort, "overdue": overdue, "consumer": consumer, "submission": submission, "meta": meta, "limit": limit})

    def list_rules(self, queue: str, *, state: Optional[str] = None) -> Iterator[types.Rule]:
        """List a queue's pauses and blocks. Those that hold, by ascending id. `state=ended` lists the last 1,000 that were lifted or
        are over, the one that ended last first: how it ended, when, and who lifted it.
        """
        return self._pages("list rules", path("/v1/queues/{}/rules", queue), {"state": state})

    def list_schedule_ticks(self, queue: str, name: str, *, n: Optional[int] = None) -> types.SchedulePreview:
        """List the next ticks of a schedule."""
        found: types.SchedulePreview = self._fetch(_request("list schedule ticks", "GET", query(path("/v1/queues/{}/schedules/{}/ticks", queue, name), {"n": n}), safe=True))
        return found

    def list_schedules(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.Schedule]:
        """List a queue's schedules by name."""
        return self._pages("list schedules", path("/v1/queues/{}/schedules", queue), {"limit": limit})

    def list_strategies(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.NamedStrategy]:
        """List a queue's named strategies by name."""
        return self._pages("list strategies", path("/v1/queues/{}/strategies", queue), {"limit": limit})

    def list_strategies_in_use(self, queue: str, *, cursor: Optional[str] = None) -> types.StrategiesInUse:
        """List the strategies that consumers reserved by in the last hour. Those that handed out most chunks first. At most 256 are
        distinguished: the one that was unused for longest makes room. Rates are over the last one to two minutes, empty reserves
        included. `consumers` is an estimate of how many names reserved by it in the last half hour to hour: rarely wrong up to
        20, and by a few percent beyond. Nothing is known of the time before `since`: the list begins again with the server.
        """
        found: types.StrategiesInUse = self._fetch(_request("list strategies in use", "GET", query(path("/v1/queues/{}/strategies/in-use", queue), {"cursor": cursor}), safe=True))
        return found

    def list_submissions(self, queue: str, *, created_before: Optional[str] = None, created_after: Optional[str] = None, state: Optional[Sequence[str]] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, schedule: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.Submission]:
        """List submissions, newest first. Newest first. Filters are `state=STATE` (repeated or comma-separated for several) and
        `meta.KEY=VALUE` (repeated for several keys, all of which must match): a whole number is the integer, `s:` before a value
        makes it a string (`meta.company=123` is the integer, `meta.company=s:123` the text). `created_before=TIME` and
        `created_after=TIME` bound when they were inserted: before that time, and at that time or later. `next` is the cursor of
        the next page and absent on the last. A page may have fewer items than its limit, or none, and still have a `next`: for
        one page only so much is looked at, and it has only so many bytes.
        """
        return self._pages("list submissions", path("/v1/queues/{}/submissions", queue), {"created_before": created_before, "created_after": created_after, "state": state, "meta": meta, "schedule": schedule, "limit": limit})

    def list_tokens(self) -> Iterator[types.Token]:
        """List the access tokens, the oldest first. Without their secrets, which no one has but their holders."""
        return self._pages("list tokens", path("/v1/tokens"), {})

    def list_views(self, queue: str, *, cursor: Optional[str] = None) -> types.Views:
        """List the indexes that strategies stand on, with the memory that they take. Every branch of a strategy stands on an index
        in memory (a view), which is made when it is used first. All of them together may take what the option view-memory says,
        and those that only questions made a quarter of that beyond it. The least recently used ones go when room is needed; a
        call for which there is none is answered 429.
        """
        found: types.Views = self._fetch(_request("list views", "GET", query(path("/v1/queues/{}/views", queue), {"cursor": cursor}), safe=True))
        return found

    def livez(self) -> str:
        """Say that the process serves requests."""
        return (self._bytes(_request("livez", "GET", path("/livez"), safe=True))).decode()

    def metrics(self) -> str:
        """Prometheus metrics."""
        return (self._bytes(_request("metrics", "GET", path("/metrics"), safe=True))).decode()

    def openapi(self) -> str:
        """This document."""
        return (self._bytes(_request("openapi", "GET", path("/openapi.json"), safe=True))).decode()

    def pause_schedule(self, queue: str, name: str, *, reason: Optional[str] = None) -> types.Schedule:
        """Pause a schedule. Ticks that pass meanwhile are missed ones when it is resumed. A paused schedule stays as it is."""
        found: types.Schedule = self._fetch(_request("pause schedule", "POST", query(path("/v1/queues/{}/schedules/{}/pause", queue, name), {"reason": reason})))
        return found

    def preview(self, queue: str, body: types.PreviewRequest) -> types.PreviewAnswer:
        """Say what a reserve would hand out now. Nothing is reserved and nothing changes. A reserve that comes later may get
        something else, and Random draws again each time.
        """
        found: types.PreviewAnswer = self._fetch(_request("preview", "POST", path("/v1/queues/{}/strategies/preview", queue), body, safe=True))
        return found

    def preview_schedule(self, queue: str, body: types.SchedulePreviewRequest) -> types.SchedulePreview:
        """Say in plain words when a spec is due, with its next ticks. Nothing is stored. `@every` counts from `start`, or from now."""
        found: types.SchedulePreview = self._fetch(_request("preview schedule", "POST", path("/v1/queues/{}/schedules/preview", queue), body, safe=True))
        return found

    def put_meta_value(self, queue: str, key: str, value: Union[str, int], body: types.ValueSettings, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.ValueCount:
        """Set a limit and a weight for a value of a meta key. Both settings are replaced: one that is left out or null is not set
        any more. `limit` holds for every reservation of the queue, with any strategy; MaxSimultaneous can only be tighter. 0
        hands out nothing of the value. What is in flight stays. `weight` is the value's share under Fair. Both hold from the next
        reservation on, and before any submission has the value. The same settings as before change nothing. With If-Match only
        settings with this ETag are replaced, with `If-None-Match: *` only where nothing is set; else 412. Where nothing was set
        it answers 201. The value stands in the path as `meta.KEY=VALUE` has it in filters: a whole number is the integer, `s:`
        before a value makes it a string (`values/7` is the integer, `values/s:7` the text, `values/s:` the empty text); what else
        is not unreserved is percent-encoded (`a%2Fb`).
        """
        found: types.ValueCount = self._fetch(_request("put meta value", "PUT", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def put_plugin_settings(self, name: str, body: types.PluginSettings, *, if_match: Optional[str] = None) -> types.Plugin:
        """Hold a plugin's breaker, and set its limits. All settings are replaced: one that is left out gets its default. With If-
        Match only the plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds from the next
        reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = self._fetch(_request("put plugin settings", "PUT", path("/v1/plugins/{}/settings", name), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    def put_queue(self, queue: str, body: types.PutQueueRequest) -> types.Queue:
        """Create a queue or replace its settings. All settings are replaced: one that is left out gets its default. A new queue
        answers 201.
        """
        found: types.Queue = self._fetch(_request("put queue", "PUT", path("/v1/queues/{}", queue), body, safe=True))
        return found

    def put_schedule(self, queue: str, name: str, body: types.ScheduleDefinition, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Schedule:
        """Create a schedule, or redefine it. What a tick inserts is committed together with the note that the tick is done: also
        over crashes each tick is emitted once, or dropped by `missed` or `overlap` and counted. The same definition as before
        changes nothing. As long as spec, seconds, tz, start and end stay, a schedule continues where it was; otherwise its ticks
        begin after now. With If-Match only a version with this ETag is replaced, with `If-None-Match: *` only a new name is made;
        else 412. A new name answers 201.
        """
        found: types.Schedule = self._fetch(_request("put schedule", "PUT", path("/v1/queues/{}/schedules/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def put_strategy(self, queue: str, name: str, body: types.StrategyRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.NamedStrategy:
        """Name a strategy, or change the one behind a name. The same strategy as before, in any spelling, changes nothing; another
        one becomes the next version, and the next reservation uses it. With If-Match only a version with this ETag is replaced,
        with `If-None-Match: *` only a new name is made; else 412. A new name answers 201.
        """
        found: types.NamedStrategy = self._fetch(_request("put strategy", "PUT", path("/v1/queues/{}/strategies/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def quiet_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Keep work from a consumer. It gets nothing new, but stays; its reserves answer with the reason `quiet`. An order holds
        until it is taken back with `resume`; it is forgotten when the consumer leaves or is lost, when it is not attached and not
        heard of for an hour, and at a restart of the server.
        """
        found: types.Consumer = self._fetch(_request("quiet consumer", "POST", path("/v1/queues/{}/consumers/{}/quiet", queue, consumer), safe=True))
        return found

    def readyz(self, *, verbose: Optional[str] = None) -> types.Readiness:
        """Say whether all parts work. 503 while one does not; errors[] names it. With `?verbose` every check is listed."""
        found: types.Readiness = self._fetch(_request("readyz", "GET", query(path("/readyz"), {"verbose": verbose}), safe=True))
        return found

    def redrive_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.Submission:
        """Offer a dead chunk again. The chunk is ready again with no try counted; its history stays. A submission that completed
        with dead chunks is open again. 409 if its dead_deadline passed.
        """
        found: types.Submission = self._fetch(_request("redrive dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/redrive", queue, submission, index)))
        return found

    def release(self, queue: str, body: types.ReleaseRequest) -> types.ResultsAnswer:
        """Give chunks back unworked. One result per item, in order: ok, already (done before by this very token), lost, gone,
        unknown or invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("release", "POST", path("/v1/queues/{}/reservations/release", queue), body, safe=True))
        return found

    def release_chunk(self, id: Union[str, int], index: Union[str, int], *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.HeldReservation:
        """Take a chunk back from the consumer that holds it. The chunk is offered again at once, with no try counted, and the answer
        says what was taken back from whom. An attached consumer gets the event `revoked`. The consumer may still work on the
        chunk: what it completes counts until the chunk is handed out again. 409 if no consumer holds the chunk. The audit log
        keeps who held it and the reason.
        """
        found: types.HeldReservation = self._fetch(_request("release chunk", "POST", query(path("/v1/submissions/{}/chunks/{}/release", id, index), {"actor": actor, "reason": reason})))
        return found

    def release_consumer(self, queue: str, consumer: str, *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.Released:
        """Take from a consumer what it holds. What it holds is offered again at once, with no try counted; if it is attached it gets
        the event `revoked`. It may get other chunks; see drain and quiet.
        """
        found: types.Released = self._fetch(_request("release consumer", "POST", query(path("/v1/queues/{}/consumers/{}/release", queue, consumer), {"actor": actor, "reason": reason})))
        return found

    def reserve(self, queue: str, body: types.ReserveRequest) -> types.ReserveAnswer:
        """Reserve chunks. Takes up to `max` chunks in the order of the strategy: fewer where their contents, attachments and
        metadata have more than 4 MiB, and the others come with the next call. With `wait_ms` an empty answer is put off until
        there is work for this strategy, at most so long. An empty answer says why in `reason`, and with `all_limited` names some
        of the values that are at their limit in `limited`.
        """
        found: types.ReserveAnswer = self._fetch(_request("reserve", "POST", path("/v1/queues/{}/reservations", queue), body, safe=True))
        return found

    def reset_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Close a plugin's breakers and forget its faults. A quarantine ends by activating with force, and not by this. With If-
        Match only the plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds from the next
        reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = self._fetch(_request("reset plugin", "POST", path("/v1/plugins/{}/reset", name), headers={"If-Match": if_match}))
        return found

    def resume_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Take drain or quiet back."""
        found: types.Consumer = self._fetch(_request("resume consumer", "POST", path("/v1/queues/{}/consumers/{}/resume", queue, consumer), safe=True))
        return found

    def resume_schedule(self, queue: str, name: str) -> types.Schedule:
        """Resume a paused schedule. What was missed meanwhile is emitted or dropped as `missed` says. A schedule that is not paused
        stays as it is.
        """
        found: types.Schedule = self._fetch(_request("resume schedule", "POST", path("/v1/queues/{}/schedules/{}/resume", queue, name)))
        return found

    def retry_lifecycle(self, queue: str) -> types.Retried:
        """Try parked life-cycle actions again. All parked actions are looked at again at once, and pauses after failures end. What
        is still broken is parked again.
        """
        found: types.Retried = self._fetch(_request("retry lifecycle", "POST", path("/v1/queues/{}/lifecycle/retry", queue)))
        return found

    def revoke_token(self, id: Union[str, int]) -> None:
        """Revoke an access token. Requests with it are refused from the answer on, and its sessions and streams end. Revoking the
        last token does not open the server: if none with the scope admin is left, the next start writes one to the file admin-
        token in the data directory.
        """
        self._bytes(_request("revoke token", "DELETE", path("/v1/tokens/{}", id), safe=True))

    def rollback_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Activate what was active before. With If-Match only the plugin at this revision is changed (`etag`), else 412. The change
        is one swap: it holds from the next reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = self._fetch(_request("rollback plugin", "POST", path("/v1/plugins/{}/rollback", name), headers={"If-Match": if_match}))
        return found

    def rotate_token(self, id: Union[str, int], body: types.RotateToken) -> types.Token:
        """Give an access token another secret. The answer has the token's new text. The secret before stays good for
        `overlap_seconds` (0 if absent), so that holders can be changed one by one; one from an earlier rotation that was still
        good ends.
        """
        found: types.Token = self._fetch(_request("rotate token", "POST", path("/v1/tokens/{}/rotate", id), body))
        return found

    def set_rule(self, queue: str, body: types.RuleRequest) -> types.Rule:
        """Pause or block a queue, a value of a meta key or a submission. From its answer on nothing that the rule covers is handed
        out, by any strategy; chunks that are held may be finished. A block counts before a pause, and the two are set and lifted
        by themselves. There is one rule for each action and match: the same again changes nothing and answers 200, another
        reason, end or effect changes that rule. `effects.insert` refuses inserts with 423 (rules about a submission have none to
        refuse), `effects.revoke` releases reservations without counting a try. With the scope consume or operate one may pause;
        only admin blocks. Retries, run_at and deadlines of reservations go on; a dead_deadline waits until the rule ends, and
        then for one reservation timeout more.
        """
        found: types.Rule = self._fetch(_request("set rule", "POST", path("/v1/queues/{}/rules", queue), body))
        return found

    def shadow_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score beside the active one without deciding. The statistics say how much both agree. An empty `version`
        ends it. With If-Match only the plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds
        from the next reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = self._fetch(_request("shadow plugin", "POST", path("/v1/plugins/{}/shadow", name), body, headers={"If-Match": if_match}))
        return found

    def start_bulk_operation(self, body: types.BulkRequest) -> types.BulkOperation:
        """Do something with much at once. Does something with all that the filter means of a queue, as it is now, in the background:
        redrive, delete or forward (to another queue) dead letters, retry chunks that wait for a retry now, cancel or reprioritize
        open submissions. It continues after a restart where it was. A dry run counts what would come of it.
        """
        found: types.BulkOperation = self._fetch(_request("start bulk operation", "POST", path("/v1/bulk-operations"), body))
        return found

    def trigger_schedule(self, queue: str, name: str, *, key: Optional[str] = None) -> types.Submission:
        """Insert once, now. Inserts what a tick would insert, at once, regardless of the state of the schedule, its overlap and its
        ticks, which stay as they are. The submission's scheduled_at is now.
        """
        found: types.Submission = self._fetch(_request("trigger schedule", "POST", path("/v1/queues/{}/schedules/{}/trigger", queue, name), headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    def upload_plugin(self, module: bytes) -> types.PluginVersion:
        """Upload a version of a plugin. As `application/wasm` the body is the module, with its manifest in the section
        `quern.manifest`. As `multipart/form-data` the parts are `module`, `manifest` (JSON, for languages that cannot embed one)
        and `config` (JSON, for the dry run of a plugin that does not start without). The module is scanned, instrumented,
        compiled in a process of its own and tried; 422 lists everything that is wrong with it, with pointers such as
        /module/code/functions/12/offset/345. The same bytes are the same version: they answer 200 and are not checked again. A
        version scores nothing before it is activated.
        """
        found: types.PluginVersion = self._fetch(_request("upload plugin", "POST", path("/v1/plugins"), module, media="application/wasm"))
        return found

    def validate_strategy(self, queue: str, body: types.StrategyRequest) -> types.ValidStrategy:
        """Say what a strategy means. Answers the canonical forms, the branches that it compiles to, and warnings of what in it has
        no effect. Nothing is stored or reserved. A strategy that is not valid answers 422, as a reservation would.
        """
        found: types.ValidStrategy = self._fetch(_request("validate strategy", "POST", path("/v1/queues/{}/strategies/validate", queue), body, safe=True))
        return found

    def version(self) -> types.Version:
        """Say what is running."""
        found: types.Version = self._fetch(_request("version", "GET", path("/version"), safe=True))
        return found

    def wait_submissions(self, body: types.WaitRequest) -> types.WaitAnswer:
        """Wait until one of many submissions ends, or all. The answer comes when one of the submissions has ended, or with `all`
        when all have, or after `wait_ms`; it has all that have ended by then. They may be of several queues. An id that is not
        known, or is beyond what the token is bound to, is in `unknown`; it will never end, so it counts as one that has. To go
        on, leave out what was answered. An answer has only so many bytes: those that have ended and do not fit are counted in
        `open`, and come with the next call.
        """
        found: types.WaitAnswer = self._fetch(_request("wait submissions", "POST", path("/v1/submissions:wait"), body, safe=True))
        return found

    def whoami(self) -> types.Whoami:
        """Say who the server takes the caller for. Any token may ask. Where no token is needed, the scopes are all."""
        found: types.Whoami = self._fetch(_request("whoami", "GET", path("/v1/whoami"), safe=True))
        return found

    def why(self, id: Union[str, int], index: Union[str, int], body: types.WhyRequest) -> types.WhyAnswer:
        """Say what keeps a strategy from handing out a chunk now. For each branch the first obstacle, and about where the chunk
        stands: how many come before it, and how long that takes at the rate of the last minute.
        """
        found: types.WhyAnswer = self._fetch(_request("why", "POST", path("/v1/submissions/{}/chunks/{}/why", id, index), body, safe=True))
        return found


class AsyncCalls:
    """The calls of :class:`quern.AsyncClient`."""

    async def _fetch(self, request: Request) -> Any:
        raise NotImplementedError

    async def _bytes(self, request: Request) -> bytes:
        raise NotImplementedError

    def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> AsyncIterator[Any]:
        raise NotImplementedError

    async def activate_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score. A version is named by its version text (the newest of that text), or by the first 8 or more digits of
        its sha256. A version that is quarantined needs `force`, and so does one that refuses what strategies in use send:
        configurations that are stored, or that consumers sent within the last hour; 409 lists those. With If-Match only the
        plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds from the next reservation on, and
        no reservation sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("activate plugin", "POST", path("/v1/plugins/{}/activate", name), body, headers={"If-Match": if_match}))
        return found

    async def backfill_schedule(self, queue: str, name: str, body: types.BackfillRequest, *, key: Optional[str] = None) -> types.Backfilled:
        """Insert for ticks of the past. Inserts what ticks of the past would have inserted, regardless of what became of them then.
        With `dry_run` they are only counted. With an `Idempotency-Key` each tick's submission is inserted once for 24 hours,
        however often the request is sent.
        """
        found: types.Backfilled = await self._fetch(_request("backfill schedule", "POST", path("/v1/queues/{}/schedules/{}/backfill", queue, name), body, headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    async def backup(self, *, body: Optional[bytes] = None) -> bytes:
        """Make a backup of the whole server. The answer is a tar with a manifest and the files that it lists, with their SHA-256:
        everything that was acknowledged before the request, of all queues as of one moment, the access tokens and the plugins
        too. Work goes on meanwhile. The copies are made first, beside the data, and take its room on the disk until the answer is
        read; without that room the answer is 507. One backup is made at a time: 409 for another. It holds what the data directory
        holds: keep it as safe. `quern backup` checks the answer while it is written to a file, and `quern restore` makes a data
        directory of it.  With the beginning of an earlier backup as the body, its entries `manifest.json` and `blocks`, the
        answer is an increment: it has the blocks of files that changed since that one, and is restored behind it. The earlier one
        may be an increment itself. One of another data directory is refused with 409: a restored server is another.
        """
        return await self._bytes(_request("backup", "POST", path("/v1/backup"), body, media="application/x-tar"))

    async def canary_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score for a share of the reservations. `percent` of the reservations, drawn by their seed, are scored by
        this version; 0 ends it. With If-Match only the plugin at this revision is changed (`etag`), else 412. The change is one
        swap: it holds from the next reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("canary plugin", "POST", path("/v1/plugins/{}/canary", name), body, headers={"If-Match": if_match}))
        return found

    async def cancel_bulk_operation(self, id: Union[str, int], *, actor: Optional[str] = None) -> types.BulkOperation:
        """Stop a bulk operation. What it did stays done. One that has ended stays as it is, also who cancelled it."""
        found: types.BulkOperation = await self._fetch(_request("cancel bulk operation", "POST", query(path("/v1/bulk-operations/{}/cancel", id), {"actor": actor}), safe=True))
        return found

    async def cancel_submission(self, id: Union[str, int]) -> types.Submission:
        """Cancel a submission. Chunks that are not done are skipped; reservations of it are gone. Cancelling what has ended changes
        nothing and answers with it as it stands.
        """
        found: types.Submission = await self._fetch(_request("cancel submission", "POST", path("/v1/submissions/{}/cancel", id), safe=True))
        return found

    async def change_queue(self, queue: str, body: types.ChangeQueueRequest) -> types.Queue:
        """Change some settings of a queue. What is left out stays as it is; the next decisions read what is changed, also about what
        is in flight.
        """
        found: types.Queue = await self._fetch(_request("change queue", "PATCH", path("/v1/queues/{}", queue), body))
        return found

    async def change_submission(self, id: Union[str, int], body: types.SubmissionChange) -> types.Submission:
        """Change the priority of an open submission. CustomPriority sees it at its new place from the next reservation on. A
        submission that has ended answers 409. The priority that it has already is no mistake.
        """
        found: types.Submission = await self._fetch(_request("change submission", "PATCH", path("/v1/submissions/{}", id), body, safe=True))
        return found

    async def compare(self, queue: str, body: types.CompareRequest) -> types.CompareAnswer:
        """Compare what two strategies would hand out now. Both are previewed on the same state with the same seed: how many values
        of each meta key get something, how evenly, and what the two have in common.
        """
        found: types.CompareAnswer = await self._fetch(_request("compare", "POST", path("/v1/queues/{}/strategies/compare", queue), body, safe=True))
        return found

    async def complete(self, queue: str, body: types.CompleteRequest) -> types.ResultsAnswer:
        """Report chunks as done. One result per item, in order: ok, already (done before by this very token), lost, gone, unknown or
        invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("complete", "POST", path("/v1/queues/{}/reservations/complete", queue), body, safe=True))
        return found

    async def config(self) -> types.ServerOptions:
        """Say with which options the server runs, and who set them."""
        found: types.ServerOptions = await self._fetch(_request("config", "GET", path("/v1/config"), safe=True))
        return found

    async def create_token(self, body: types.NewToken) -> types.Token:
        """Make an access token. The answer has the token's text, this once: the server keeps only a hash of it. What is done with
        the token is recorded under its name, which no other token may have. `queues` and `meta` (one key with one value) bind it:
        it inserts, sees and changes nothing else. From the first token on every request needs one, for good; the first one needs
        the scope admin. Admin implies all other scopes.
        """
        found: types.Token = await self._fetch(_request("create token", "POST", path("/v1/tokens"), body))
        return found

    async def deactivate_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Take a plugin out of use. Strategies that name it go on with their next branch. With If-Match only the plugin at this
        revision is changed (`etag`), else 412. The change is one swap: it holds from the next reservation on, and no reservation
        sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("deactivate plugin", "POST", path("/v1/plugins/{}/deactivate", name), headers={"If-Match": if_match}))
        return found

    async def delete_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> None:
        """Give a dead chunk up for good. It counts as skipped from then on."""
        await self._bytes(_request("delete dead letter", "DELETE", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index)))

    async def delete_meta_value(self, queue: str, key: str, value: Union[str, int], *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Remove what is set for a value of a meta key. It is not limited any more, from the next reservation on, and weighs 1. If-
        Match as for PUT.
        """
        await self._bytes(_request("delete meta value", "DELETE", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_plugin(self, name: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a plugin with all its versions. Only one that is not active, and that no stored strategy names: 409 lists those,
        and `force=true` deletes it all the same. They go on with their next branch then; a strategy that is written out in a
        reservation and names it is refused.
        """
        await self._bytes(_request("delete plugin", "DELETE", query(path("/v1/plugins/{}", name), {"force": force}), headers={"If-Match": if_match}))

    async def delete_plugin_version(self, name: str, version: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a version that is not in use. Not one that strategies in use pin, or that alone takes a configuration that they
        send, unless with `force=true`. A version is named by its version text (the newest of that text), or by the first 8 or
        more digits of its sha256.
        """
        await self._bytes(_request("delete plugin version", "DELETE", query(path("/v1/plugins/{}/versions/{}", name, version), {"force": force}), headers={"If-Match": if_match}))

    async def delete_queue(self, queue: str, *, quarantined: Optional[bool] = None) -> None:
        """Delete a queue. Only a queue without open submissions can be deleted, and never the one named default. A queue in
        quarantine, whose files are damaged or missing, is deleted with `quarantined=true`, with everything in it; of the one
        named default an empty one takes the place.
        """
        await self._bytes(_request("delete queue", "DELETE", query(path("/v1/queues/{}", queue), {"quarantined": quarantined})))

    async def delete_schedule(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a schedule. What it inserted stays. If-Match as for PUT."""
        await self._bytes(_request("delete schedule", "DELETE", path("/v1/queues/{}/schedules/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_strategy(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a named strategy with all its versions. Reservations that ask for it are refused from then on. If-Match as for PUT."""
        await self._bytes(_request("delete strategy", "DELETE", path("/v1/queues/{}/strategies/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def detach_consumer(self, queue: str, consumer: str) -> types.Released:
        """Let a consumer leave. The consumer leaves: its streams end, orders for it are forgotten, and what it holds goes back with
        no try counted. To be called when it has finished.
        """
        found: types.Released = await self._fetch(_request("detach consumer", "POST", path("/v1/queues/{}/consumers/{}/detach", queue, consumer)))
        return found

    async def diagnose_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.Diagnosis:
        """Say why the chunks of a value move or do not. One sentence, and what it is made of: the open chunks by what keeps them
        from being handed out, judged by the rules, the limits and the strategies that consumers reserved by in the last hour
        (`.../strategies/in-use`). Whose turn it is does not enter. A chunk that is in flight is no cause. It is looked at in
        slices, between which others work, so under load it is of slightly different moments; of very many submissions a part is
        looked at, and `examined` says how many. The value stands in the path as `meta.KEY=VALUE` has it in filters: a whole
        number is the integer, `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text,
        `values/s:` the empty text); what else is not unreserved is percent-encoded (`a%2Fb`).
        """
        found: types.Diagnosis = await self._fetch(_request("diagnose meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}/diagnosis", queue, key, meta_text(value)), safe=True))
        return found

    async def diagnose_submission(self, id: Union[str, int]) -> types.Diagnosis:
        """Say why the chunks of a submission move or do not. One sentence, and what it is made of: the open chunks by what keeps
        them from being handed out, judged by the rules, the limits and the strategies that consumers reserved by in the last hour
        (`.../strategies/in-use`). Whose turn it is does not enter. A chunk that is in flight is no cause. It is looked at in
        slices, between which others work, so under load it is of slightly different moments; of very many submissions a part is
        looked at, and `examined` says how many. .
        """
        found: types.Diagnosis = await self._fetch(_request("diagnose submission", "GET", path("/v1/submissions/{}/diagnosis", id), safe=True))
        return found

    async def docs_page(self, page: str, *, q: Optional[str] = None) -> str:
        """A page of the documents, or a search in them."""
        return (await self._bytes(_request("docs page", "GET", query(path("/docs/{}", page), {"q": q}), safe=True))).decode()

    async def drain_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Tell a consumer to finish and leave. It gets nothing new, and is asked to finish what it holds and leave: by the event
        `drain` if it is attached, and by the reason `draining` of its reserves. An order holds until it is taken back with
        `resume`; it is forgotten when the consumer leaves or is lost, when it is not attached and not heard of for an hour, and
        at a restart of the server.
        """
        found: types.Consumer = await self._fetch(_request("drain consumer", "POST", path("/v1/queues/{}/consumers/{}/drain", queue, consumer), safe=True))
        return found

    async def dry_run_plugin(self, name: str, version: str, body: types.PluginDryRun) -> types.PluginTried:
        """Try a version without any effect. Nothing is reserved. Synthetic candidates are always scored; with `queue` also those
        that a strategy has now, and `picks` says what would be taken, `gained` and `lost` how that differs. `recording` scores a
        recorded batch again and compares the scores bit for bit. A version is named by its version text (the newest of that
        text), or by the first 8 or more digits of its sha256.
        """
        found: types.PluginTried = await self._fetch(_request("dry run plugin", "POST", path("/v1/plugins/{}/versions/{}/dry-run", name, version), body, safe=True))
        return found

    async def exchange(self, queue: str, body: types.ExchangeRequest) -> types.ExchangeAnswer:
        """Finish chunks and reserve the next in one call. What is finished is committed first; then chunks are reserved. The fast
        path of consumers.
        """
        found: types.ExchangeAnswer = await self._fetch(_request("exchange", "POST", path("/v1/queues/{}/reservations/exchange", queue), body, safe=True))
        return found

    async def explain(self, queue: str, body: types.PreviewRequest) -> types.ExplainAnswer:
        """Show how a strategy stands. The blocks of the strategy with what reaches each and what it refuses, by value; what limits
        of operators withhold from all of it; the branches, under Fair with whose turn it is; and for each chunk that would be
        handed out what kept the earlier branches from it. What is counted is looked at in slices, between which others work, so
        under load it is of slightly different moments.
        """
        found: types.ExplainAnswer = await self._fetch(_request("explain", "POST", path("/v1/queues/{}/strategies/explain", queue), body, safe=True))
        return found

    async def extend(self, queue: str, body: types.ExtendRequest) -> types.ResultsAnswer:
        """Move the deadlines of reservations. One result per item, in order: ok, already (done before by this very token), lost,
        gone, unknown or invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("extend", "POST", path("/v1/queues/{}/reservations/extend", queue), body, safe=True))
        return found

    async def fail(self, queue: str, body: types.FailRequest) -> types.ResultsAnswer:
        """Report tries that did not succeed. One result per item, in order: ok, already (done before by this very token), lost,
        gone, unknown or invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("fail", "POST", path("/v1/queues/{}/reservations/fail", queue), body, safe=True))
        return found

    async def forward_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int], body: types.ForwardRequest) -> types.Submission:
        """Have a dead chunk go on to another queue. It becomes a submission of one chunk there, with its content, meta and
        attachment, and `forwarded_from` says where it came from; here it counts as skipped, in the same commit that puts it on
        its way. It arrives exactly once, also through a crash.
        """
        found: types.Submission = await self._fetch(_request("forward dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/forward", queue, submission, index), body))
        return found

    async def get_bulk_operation(self, id: Union[str, int]) -> types.BulkOperation:
        """Read how far a bulk operation got."""
        found: types.BulkOperation = await self._fetch(_request("get bulk operation", "GET", path("/v1/bulk-operations/{}", id), safe=True))
        return found

    async def get_chunk(self, id: Union[str, int], index: Union[str, int]) -> types.Chunk:
        """Read one chunk."""
        found: types.Chunk = await self._fetch(_request("get chunk", "GET", path("/v1/submissions/{}/chunks/{}", id, index), safe=True))
        return found

    async def get_chunk_map(self, id: Union[str, int], *, from_: Optional[int] = None, to: Optional[int] = None, cells: Optional[int] = None) -> types.ChunkMap:
        """Count a submission's chunks by state, stretch by stretch. The chunks from index `from` up to `to`, counted by state in
        cells of one size; at most 1,048,576 chunks are looked at, and `to` of the answer says where to go on. What moves
        meanwhile is counted where it was met.
        """
        found: types.ChunkMap = await self._fetch(_request("get chunk map", "GET", query(path("/v1/submissions/{}/map", id), {"from": from_, "to": to, "cells": cells}), safe=True))
        return found

    async def get_consumer(self, queue: str, consumer: str, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> types.ConsumerDetail:
        """Read a consumer and what it holds."""
        found: types.ConsumerDetail = await self._fetch(_request("get consumer", "GET", query(path("/v1/queues/{}/consumers/{}", queue, consumer), {"cursor": cursor, "limit": limit}), safe=True))
        return found

    async def get_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.DeadLetter:
        """Read a dead letter with the history of its last 10 tries."""
        found: types.DeadLetter = await self._fetch(_request("get dead letter", "GET", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index), safe=True))
        return found

    async def get_key_timeseries(self, queue: str, key: str) -> types.KeySeries:
        """Read the chunks in flight of a meta key's values over time. From memory: the last ten minutes in steps of five seconds, of
        the values that were among those with most in flight. -1 where a value was not among them, so that it is not known.
        """
        found: types.KeySeries = await self._fetch(_request("get key timeseries", "GET", path("/v1/queues/{}/meta-keys/{}/timeseries", queue, key), safe=True))
        return found

    async def get_ledger(self, queue: str, ledger: str, *, sort: Optional[str] = None, value: Optional[str] = None, limit: Optional[int] = None) -> types.LedgerTenants:
        """Read what the tenants of a Fair block were entitled to and what they received. `sort` is received (who got most), behind
        (who is owed most) or ahead. Of what an ideal division would have handed out, no tenant is ever more than a few chunks
        away: GUARANTEES.md has the numbers.
        """
        found: types.LedgerTenants = await self._fetch(_request("get ledger", "GET", query(path("/v1/queues/{}/ledgers/{}", queue, ledger), {"sort": sort, "value": value, "limit": limit}), safe=True))
        return found

    async def get_lifecycle(self, queue: str) -> types.Lifecycle:
        """Tell how a queue's life-cycle worker is doing. The worker does what time demands: deadlines, retries, run_at,
        dead_deadline, the rest of ended submissions, retention, schedules, the ends of rules. It also recounts what is kept as
        counters, see recount. An action that fails again and again is parked: left alone until it is retried, or the server
        restarts.
        """
        found: types.Lifecycle = await self._fetch(_request("get lifecycle", "GET", path("/v1/queues/{}/lifecycle", queue), safe=True))
        return found

    async def get_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.ValueCount:
        """Read a value of a meta key: what is ready, in flight and set. The value stands in the path as `meta.KEY=VALUE` has it in
        filters: a whole number is the integer, `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the
        text, `values/s:` the empty text); what else is not unreserved is percent-encoded (`a%2Fb`).
        """
        found: types.ValueCount = await self._fetch(_request("get meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), safe=True))
        return found

    async def get_plugin(self, name: str) -> types.Plugin:
        """Read a plugin: what is in use of it, and the state of its breaker."""
        found: types.Plugin = await self._fetch(_request("get plugin", "GET", path("/v1/plugins/{}", name), safe=True))
        return found

    async def get_plugin_logs(self, name: str, *, after: Optional[int] = None, limit: Optional[int] = None) -> types.PluginLogs:
        """Read what a plugin logged. The last 1,000 lines, the oldest first; ask again with `after` for what followed."""
        found: types.PluginLogs = await self._fetch(_request("get plugin logs", "GET", query(path("/v1/plugins/{}/logs", name), {"after": after, "limit": limit}), safe=True))
        return found

    async def get_plugin_module(self, name: str, version: str) -> bytes:
        """Download a version's module."""
        return await self._bytes(_request("get plugin module", "GET", path("/v1/plugins/{}/versions/{}/wasm", name, version), safe=True))

    async def get_plugin_recording(self, name: str, id: Union[str, int]) -> bytes:
        """Download a recorded batch. A .qbatch file, which `quern plugin run` replays."""
        return await self._bytes(_request("get plugin recording", "GET", path("/v1/plugins/{}/recordings/{}", name, id), safe=True))

    async def get_plugin_stats(self, name: str) -> types.PluginStats:
        """Read a plugin's numbers since the start of the server."""
        found: types.PluginStats = await self._fetch(_request("get plugin stats", "GET", path("/v1/plugins/{}/stats", name), safe=True))
        return found

    async def get_plugin_version(self, name: str, version: str) -> types.PluginVersion:
        """Read a version of a plugin: its manifest, and what its dry run found. A version is named by its version text (the newest
        of that text), or by the first 8 or more digits of its sha256.
        """
        found: types.PluginVersion = await self._fetch(_request("get plugin version", "GET", path("/v1/plugins/{}/versions/{}", name, version), safe=True))
        return found

    async def get_queue(self, queue: str) -> types.Queue:
        """Read a queue's settings."""
        found: types.Queue = await self._fetch(_request("get queue", "GET", path("/v1/queues/{}", queue), safe=True))
        return found

    async def get_rule(self, queue: str, id: Union[str, int]) -> types.Rule:
        """Read a rule."""
        found: types.Rule = await self._fetch(_request("get rule", "GET", path("/v1/queues/{}/rules/{}", queue, id), safe=True))
        return found

    async def get_schedule(self, queue: str, name: str) -> types.Schedule:
        """Read a schedule and how it stands."""
        found: types.Schedule = await self._fetch(_request("get schedule", "GET", path("/v1/queues/{}/schedules/{}", queue, name), safe=True))
        return found

    async def get_stats(self, queue: str) -> types.Stats:
        """Read a queue's numbers. Flat, so that a scaler can read one by name. Reading costs the same at any backlog. Totals count
        from the server's start.
        """
        found: types.Stats = await self._fetch(_request("get stats", "GET", path("/v1/queues/{}/stats", queue), safe=True))
        return found

    async def get_strategy(self, queue: str, name: str, *, version: Optional[int] = None) -> types.NamedStrategy:
        """Read a named strategy, or an older version of it."""
        found: types.NamedStrategy = await self._fetch(_request("get strategy", "GET", query(path("/v1/queues/{}/strategies/{}", queue, name), {"version": version}), safe=True))
        return found

    async def get_submission(self, id: Union[str, int]) -> types.Submission:
        """Read a submission. With `Prefer: wait=N` (seconds, at most 60) the answer comes when the submission leaves the state open,
        or after N seconds.
        """
        found: types.Submission = await self._fetch(_request("get submission", "GET", path("/v1/submissions/{}", id), safe=True))
        return found

    async def get_timeseries(self, queue: str, *, step: Optional[str] = None, after: Optional[str] = None) -> types.Series:
        """Read a queue's numbers over time. From memory, so it begins at the server's start: a point a second for ten minutes, a
        point a minute for a day, or a point an hour for 30 days.
        """
        found: types.Series = await self._fetch(_request("get timeseries", "GET", query(path("/v1/queues/{}/timeseries", queue), {"step": step, "after": after}), safe=True))
        return found

    async def get_token(self, id: Union[str, int]) -> types.Token:
        """Read what is known of an access token."""
        found: types.Token = await self._fetch(_request("get token", "GET", path("/v1/tokens/{}", id), safe=True))
        return found

    async def insert_batch(self, queue: str, body: types.InsertManyRequest) -> types.InsertManyAnswer:
        """Insert many submissions in one commit. Up to 10,000 submissions, each as in a single insert, with an `idempotency_key` of
        its own if it likes. All go to the disk in one commit, and the answer has one result per submission, in order: created,
        replayed (inserted before with the same key; the submission is as it is now), invalid or refused. Those that are invalid
        or refused keep no other from being inserted, unless `atomic` is true: then nothing is inserted, and the others are
        refused with the code batch_refused. As `application/x-ndjson` each line is one submission, and the call is not atomic. An
        error of the whole call (such as 503 commit_failed) says nothing of any submission: with keys it can be sent again safely.
        """
        found: types.InsertManyAnswer = await self._fetch(_request("insert batch", "POST", path("/v1/queues/{}/submissions:batch", queue), body))
        return found

    async def lift_rule(self, queue: str, id: Union[str, int], *, actor: Optional[str] = None) -> None:
        """Lift a pause or a block. What no other rule covers is handed out from then on, first to those who wait. Lifting a rule
        that has ended answers the same. Only admin lifts a block.
        """
        await self._bytes(_request("lift rule", "DELETE", query(path("/v1/queues/{}/rules/{}", queue, id), {"actor": actor}), safe=True))

    def list_audit(self, *, since: Optional[str] = None, until: Optional[str] = None, actor: Optional[str] = None, action: Optional[str] = None, queue: Optional[str] = None, target: Optional[str] = None, outcome: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.AuditEntry]:
        """Read the audit log. Who changed what, the latest first. An entry is durable together with what it tells of: there is no
        change without its entry, and no entry of a change that did not happen. An act that the token did not allow has the
        outcome `refused`, and `after` has the `code` and `detail` of the answer. The first sixty of a token get an entry each,
        then one a minute does; its `left_out` is the number since the previous entry that have none. `next` is the cursor of
        older ones; a page may be short, or empty, and still have a next one, as only so many entries are looked at for one page.
        `incomplete`, and the header `Quern-Audit-Incomplete` of every form of the answer, name the queues in quarantine whose
        latest entries the log may lack. With `Accept: application/x-ndjson` the answer is all that match, a line each. With
        `Accept: text/event-stream` it is those to come, or those from `since` on, the oldest first; the ids that it sends, also
        those without an event, tell how far it has come, and `Last-Event-ID` takes it up there. Then entries of ten seconds
        before that one may come again, and their ids tell. When the log cannot be read any further, the last event is `problem`,
        with a problem as its data. `cursor`, `limit` and `until` do not go with it.
        """
        return self._pages("list audit", path("/v1/audit"), {"since": since, "until": until, "actor": actor, "action": action, "queue": queue, "target": target, "outcome": outcome, "limit": limit})

    def list_bulk_operations(self, *, queue: Optional[str] = None) -> AsyncIterator[types.BulkOperation]:
        """List bulk operations, newest first. All that run, and of each queue the last 100 that have ended."""
        return self._pages("list bulk operations", path("/v1/bulk-operations"), {"queue": queue})

    def list_chunk_attempts(self, id: Union[str, int], index: Union[str, int]) -> AsyncIterator[types.Attempt]:
        """List the ended tries of a chunk. The ended tries that are remembered, the oldest first: the last 10, over all redrives.
        What is remembered of a chunk is forgotten when it is done.
        """
        return self._pages("list chunk attempts", path("/v1/submissions/{}/chunks/{}/attempts", id, index), {})

    def list_chunks(self, id: Union[str, int], *, state: Optional[Sequence[str]] = None, limit: Optional[int] = None) -> AsyncIterator[types.Chunk]:
        """List a submission's chunks by index. A page may have fewer items than its limit, or none, and still have a `next`: for one
        page only so much is looked at, and it has only so many bytes.
        """
        return self._pages("list chunks", path("/v1/submissions/{}/chunks", id), {"state": state, "limit": limit})

    def list_consumers(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.Consumer]:
        """List a queue's consumers by name. Those that are attached or were a moment ago, hold something, or have an order. A
        consumer without a name is listed too, but has no path.
        """
        return self._pages("list consumers", path("/v1/queues/{}/consumers", queue), {"limit": limit})

    async def list_dead_letter_groups(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, cursor: Optional[str] = None) -> types.DeadGroups:
        """Group dead letters by the fingerprint of their errors. Errors that differ only in numbers, hexadecimal ids, UUIDs and
        quoted parts have one fingerprint. Every dead letter that the filter means is counted. There are at most 10,000 groups;
        `others` counts the letters that are in none, as more kinds of errors came. A filter by `fingerprint` finds those too.
        """
        found: types.DeadGroups = await self._fetch(_request("list dead letter groups", "GET", query(path("/v1/queues/{}/dead-letters/groups", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "cursor": cursor}), safe=True))
        return found

    def list_dead_letters(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> AsyncIterator[types.DeadLetter]:
        """List dead letters. Chunks out of attempts whose submission is open or completed with dead ones: of the newest submission
        first, and of one submission by index. They stay until they are redriven or deleted, or until the retention of their
        submission, which begins when it ends. A page may have fewer items than its limit, or none, and still have a `next`: for
        one page only so much is looked at, and it has only so many bytes.
        """
        return self._pages("list dead letters", path("/v1/queues/{}/dead-letters", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "limit": limit})

    def list_ledgers(self, queue: str) -> AsyncIterator[types.Ledger]:
        """List the Fair blocks that are in use."""
        return self._pages("list ledgers", path("/v1/queues/{}/ledgers", queue), {})

    def list_meta_keys(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.MetaKey]:
        """List the meta keys with how many values they have. Of the submissions that are open; a key for which something is set is
        listed also when no submission has it.
        """
        return self._pages("list meta keys", path("/v1/queues/{}/meta-keys", queue), {"limit": limit})

    def list_meta_values(self, queue: str, key: str, *, sort: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.ValueCount]:
        """List the values of a meta key with what is ready, in flight and set."""
        return self._pages("list meta values", path("/v1/queues/{}/meta-keys/{}/values", queue, key), {"sort": sort, "limit": limit})

    def list_plugin_recordings(self, name: str) -> AsyncIterator[types.PluginRecording]:
        """List the batches that were recorded. One of 10,000, and those that faulted; the last of each are kept in memory."""
        return self._pages("list plugin recordings", path("/v1/plugins/{}/recordings", name), {})

    def list_plugin_scores(self, name: str) -> AsyncIterator[types.PluginScores]:
        """Read how a plugin's versions score live traffic. One entry for each version and configuration that is open, those in use
        first: how many batches it scored and which failed, and of a sample of them how the scores of the last 4,096 candidates
        are spread, and of how many of these something was taken. Whole batches are sampled, one in 64 and at most four a second
        beside, so that it costs those who reserve next to nothing. It starts from zero when a version is opened: at a start of
        the server, and after five minutes out of use.
        """
        return self._pages("list plugin scores", path("/v1/plugins/{}/scores", name), {})

    def list_plugin_versions(self, name: str) -> AsyncIterator[types.PluginVersion]:
        """List a plugin's versions, the newest first."""
        return self._pages("list plugin versions", path("/v1/plugins/{}/versions", name), {})

    def list_plugins(self, *, limit: Optional[int] = None) -> AsyncIterator[types.Plugin]:
        """List the plugins by name."""
        return self._pages("list plugins", path("/v1/plugins"), {"limit": limit})

    def list_queues(self) -> AsyncIterator[types.Queue]:
        """List the queues."""
        return self._pages("list queues", path("/v1/queues"), {})

    def list_reservations(self, queue: str, *, sort: Optional[str] = None, overdue: Optional[bool] = None, consumer: Optional[str] = None, submission: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> AsyncIterator[types.HeldReservation]:
        """List the chunks that consumers hold. Who holds what, since when and until when: the chunks that are held for longest
        first, or with `sort=deadline` those whose deadline comes first. Filters are `overdue=true` (held for longer than the
        queue's `reservation_timeout_ms`), `consumer=NAME`, `submission=ID` and `meta.KEY=VALUE` as in the list of submissions;
        all must match. A page is about several moments: a chunk that is reserved or finished meanwhile may be missing, and a page
        with a `next` may have fewer items than its limit. With `sort=deadline` a chunk that is extended between two pages may be
        in both. Tokens are not shown.
        """
        return self._pages("list reservations", path("/v1/queues/{}/reservations", queue), {"sort": sort, "overdue": overdue, "consumer": consumer, "submission": submission, "meta": meta, "limit": limit})

    def list_rules(self, queue: str, *, state: Optional[str] = None) -> AsyncIterator[types.Rule]:
        """List a queue's pauses and blocks. Those that hold, by ascending id. `state=ended` lists the last 1,000 that were lifted or
        are over, the one that ended last first: how it ended, when, and who lifted it.
        """
        return self._pages("list rules", path("/v1/queues/{}/rules", queue), {"state": state})

    async def list_schedule_ticks(self, queue: str, name: str, *, n: Optional[int] = None) -> types.SchedulePreview:
        """List the next ticks of a schedule."""
        found: types.SchedulePreview = await self._fetch(_request("list schedule ticks", "GET", query(path("/v1/queues/{}/schedules/{}/ticks", queue, name), {"n": n}), safe=True))
        return found

    def list_schedules(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.Schedule]:
        """List a queue's schedules by name."""
        return self._pages("list schedules", path("/v1/queues/{}/schedules", queue), {"limit": limit})

    def list_strategies(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.NamedStrategy]:
        """List a queue's named strategies by name."""
        return self._pages("list strategies", path("/v1/queues/{}/strategies", queue), {"limit": limit})

    async def list_strategies_in_use(self, queue: str, *, cursor: Optional[str] = None) -> types.StrategiesInUse:
        """List the strategies that consumers reserved by in the last hour. Those that handed out most chunks first. At most 256 are
        distinguished: the one that was unused for longest makes room. Rates are over the last one to two minutes, empty reserves
        included. `consumers` is an estimate of how many names reserved by it in the last half hour to hour: rarely wrong up to
        20, and by a few percent beyond. Nothing is known of the time before `since`: the list begins again with the server.
        """
        found: types.StrategiesInUse = await self._fetch(_request("list strategies in use", "GET", query(path("/v1/queues/{}/strategies/in-use", queue), {"cursor": cursor}), safe=True))
        return found

    def list_submissions(self, queue: str, *, created_before: Optional[str] = None, created_after: Optional[str] = None, state: Optional[Sequence[str]] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, schedule: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.Submission]:
        """List submissions, newest first. Newest first. Filters are `state=STATE` (repeated or comma-separated for several) and
        `meta.KEY=VALUE` (repeated for several keys, all of which must match): a whole number is the integer, `s:` before a value
        makes it a string (`meta.company=123` is the integer, `meta.company=s:123` the text). `created_before=TIME` and
        `created_after=TIME` bound when they were inserted: before that time, and at that time or later. `next` is the cursor of
        the next page and absent on the last. A page may have fewer items than its limit, or none, and still have a `next`: for
        one page only so much is looked at, and it has only so many bytes.
        """
        return self._pages("list submissions", path("/v1/queues/{}/submissions", queue), {"created_before": created_before, "created_after": created_after, "state": state, "meta": meta, "schedule": schedule, "limit": limit})

    def list_tokens(self) -> AsyncIterator[types.Token]:
        """List the access tokens, the oldest first. Without their secrets, which no one has but their holders."""
        return self._pages("list tokens", path("/v1/tokens"), {})

    async def list_views(self, queue: str, *, cursor: Optional[str] = None) -> types.Views:
        """List the indexes that strategies stand on, with the memory that they take. Every branch of a strategy stands on an index
        in memory (a view), which is made when it is used first. All of them together may take what the option view-memory says,
        and those that only questions made a quarter of that beyond it. The least recently used ones go when room is needed; a
        call for which there is none is answered 429.
        """
        found: types.Views = await self._fetch(_request("list views", "GET", query(path("/v1/queues/{}/views", queue), {"cursor": cursor}), safe=True))
        return found

    async def livez(self) -> str:
        """Say that the process serves requests."""
        return (await self._bytes(_request("livez", "GET", path("/livez"), safe=True))).decode()

    async def metrics(self) -> str:
        """Prometheus metrics."""
        return (await self._bytes(_request("metrics", "GET", path("/metrics"), safe=True))).decode()

    async def openapi(self) -> str:
        """This document."""
        return (await self._bytes(_request("openapi", "GET", path("/openapi.json"), safe=True))).decode()

    async def pause_schedule(self, queue: str, name: str, *, reason: Optional[str] = None) -> types.Schedule:
        """Pause a schedule. Ticks that pass meanwhile are missed ones when it is resumed. A paused schedule stays as it is."""
        found: types.Schedule = await self._fetch(_request("pause schedule", "POST", query(path("/v1/queues/{}/schedules/{}/pause", queue, name), {"reason": reason})))
        return found

    async def preview(self, queue: str, body: types.PreviewRequest) -> types.PreviewAnswer:
        """Say what a reserve would hand out now. Nothing is reserved and nothing changes. A reserve that comes later may get
        something else, and Random draws again each time.
        """
        found: types.PreviewAnswer = await self._fetch(_request("preview", "POST", path("/v1/queues/{}/strategies/preview", queue), body, safe=True))
        return found

    async def preview_schedule(self, queue: str, body: types.SchedulePreviewRequest) -> types.SchedulePreview:
        """Say in plain words when a spec is due, with its next ticks. Nothing is stored. `@every` counts from `start`, or from now."""
        found: types.SchedulePreview = await self._fetch(_request("preview schedule", "POST", path("/v1/queues/{}/schedules/preview", queue), body, safe=True))
        return found

    async def put_meta_value(self, queue: str, key: str, value: Union[str, int], body: types.ValueSettings, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.ValueCount:
        """Set a limit and a weight for a value of a meta key. Both settings are replaced: one that is left out or null is not set
        any more. `limit` holds for every reservation of the queue, with any strategy; MaxSimultaneous can only be tighter. 0
        hands out nothing of the value. What is in flight stays. `weight` is the value's share under Fair. Both hold from the next
        reservation on, and before any submission has the value. The same settings as before change nothing. With If-Match only
        settings with this ETag are replaced, with `If-None-Match: *` only where nothing is set; else 412. Where nothing was set
        it answers 201. The value stands in the path as `meta.KEY=VALUE` has it in filters: a whole number is the integer, `s:`
        before a value makes it a string (`values/7` is the integer, `values/s:7` the text, `values/s:` the empty text); what else
        is not unreserved is percent-encoded (`a%2Fb`).
        """
        found: types.ValueCount = await self._fetch(_request("put meta value", "PUT", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def put_plugin_settings(self, name: str, body: types.PluginSettings, *, if_match: Optional[str] = None) -> types.Plugin:
        """Hold a plugin's breaker, and set its limits. All settings are replaced: one that is left out gets its default. With If-
        Match only the plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds from the next
        reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("put plugin settings", "PUT", path("/v1/plugins/{}/settings", name), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    async def put_queue(self, queue: str, body: types.PutQueueRequest) -> types.Queue:
        """Create a queue or replace its settings. All settings are replaced: one that is left out gets its default. A new queue
        answers 201.
        """
        found: types.Queue = await self._fetch(_request("put queue", "PUT", path("/v1/queues/{}", queue), body, safe=True))
        return found

    async def put_schedule(self, queue: str, name: str, body: types.ScheduleDefinition, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Schedule:
        """Create a schedule, or redefine it. What a tick inserts is committed together with the note that the tick is done: also
        over crashes each tick is emitted once, or dropped by `missed` or `overlap` and counted. The same definition as before
        changes nothing. As long as spec, seconds, tz, start and end stay, a schedule continues where it was; otherwise its ticks
        begin after now. With If-Match only a version with this ETag is replaced, with `If-None-Match: *` only a new name is made;
        else 412. A new name answers 201.
        """
        found: types.Schedule = await self._fetch(_request("put schedule", "PUT", path("/v1/queues/{}/schedules/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def put_strategy(self, queue: str, name: str, body: types.StrategyRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.NamedStrategy:
        """Name a strategy, or change the one behind a name. The same strategy as before, in any spelling, changes nothing; another
        one becomes the next version, and the next reservation uses it. With If-Match only a version with this ETag is replaced,
        with `If-None-Match: *` only a new name is made; else 412. A new name answers 201.
        """
        found: types.NamedStrategy = await self._fetch(_request("put strategy", "PUT", path("/v1/queues/{}/strategies/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def quiet_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Keep work from a consumer. It gets nothing new, but stays; its reserves answer with the reason `quiet`. An order holds
        until it is taken back with `resume`; it is forgotten when the consumer leaves or is lost, when it is not attached and not
        heard of for an hour, and at a restart of the server.
        """
        found: types.Consumer = await self._fetch(_request("quiet consumer", "POST", path("/v1/queues/{}/consumers/{}/quiet", queue, consumer), safe=True))
        return found

    async def readyz(self, *, verbose: Optional[str] = None) -> types.Readiness:
        """Say whether all parts work. 503 while one does not; errors[] names it. With `?verbose` every check is listed."""
        found: types.Readiness = await self._fetch(_request("readyz", "GET", query(path("/readyz"), {"verbose": verbose}), safe=True))
        return found

    async def redrive_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.Submission:
        """Offer a dead chunk again. The chunk is ready again with no try counted; its history stays. A submission that completed
        with dead chunks is open again. 409 if its dead_deadline passed.
        """
        found: types.Submission = await self._fetch(_request("redrive dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/redrive", queue, submission, index)))
        return found

    async def release(self, queue: str, body: types.ReleaseRequest) -> types.ResultsAnswer:
        """Give chunks back unworked. One result per item, in order: ok, already (done before by this very token), lost, gone,
        unknown or invalid. One bad item does not spoil the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("release", "POST", path("/v1/queues/{}/reservations/release", queue), body, safe=True))
        return found

    async def release_chunk(self, id: Union[str, int], index: Union[str, int], *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.HeldReservation:
        """Take a chunk back from the consumer that holds it. The chunk is offered again at once, with no try counted, and the answer
        says what was taken back from whom. An attached consumer gets the event `revoked`. The consumer may still work on the
        chunk: what it completes counts until the chunk is handed out again. 409 if no consumer holds the chunk. The audit log
        keeps who held it and the reason.
        """
        found: types.HeldReservation = await self._fetch(_request("release chunk", "POST", query(path("/v1/submissions/{}/chunks/{}/release", id, index), {"actor": actor, "reason": reason})))
        return found

    async def release_consumer(self, queue: str, consumer: str, *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.Released:
        """Take from a consumer what it holds. What it holds is offered again at once, with no try counted; if it is attached it gets
        the event `revoked`. It may get other chunks; see drain and quiet.
        """
        found: types.Released = await self._fetch(_request("release consumer", "POST", query(path("/v1/queues/{}/consumers/{}/release", queue, consumer), {"actor": actor, "reason": reason})))
        return found

    async def reserve(self, queue: str, body: types.ReserveRequest) -> types.ReserveAnswer:
        """Reserve chunks. Takes up to `max` chunks in the order of the strategy: fewer where their contents, attachments and
        metadata have more than 4 MiB, and the others come with the next call. With `wait_ms` an empty answer is put off until
        there is work for this strategy, at most so long. An empty answer says why in `reason`, and with `all_limited` names some
        of the values that are at their limit in `limited`.
        """
        found: types.ReserveAnswer = await self._fetch(_request("reserve", "POST", path("/v1/queues/{}/reservations", queue), body, safe=True))
        return found

    async def reset_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Close a plugin's breakers and forget its faults. A quarantine ends by activating with force, and not by this. With If-
        Match only the plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds from the next
        reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("reset plugin", "POST", path("/v1/plugins/{}/reset", name), headers={"If-Match": if_match}))
        return found

    async def resume_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Take drain or quiet back."""
        found: types.Consumer = await self._fetch(_request("resume consumer", "POST", path("/v1/queues/{}/consumers/{}/resume", queue, consumer), safe=True))
        return found

    async def resume_schedule(self, queue: str, name: str) -> types.Schedule:
        """Resume a paused schedule. What was missed meanwhile is emitted or dropped as `missed` says. A schedule that is not paused
        stays as it is.
        """
        found: types.Schedule = await self._fetch(_request("resume schedule", "POST", path("/v1/queues/{}/schedules/{}/resume", queue, name)))
        return found

    async def retry_lifecycle(self, queue: str) -> types.Retried:
        """Try parked life-cycle actions again. All parked actions are looked at again at once, and pauses after failures end. What
        is still broken is parked again.
        """
        found: types.Retried = await self._fetch(_request("retry lifecycle", "POST", path("/v1/queues/{}/lifecycle/retry", queue)))
        return found

    async def revoke_token(self, id: Union[str, int]) -> None:
        """Revoke an access token. Requests with it are refused from the answer on, and its sessions and streams end. Revoking the
        last token does not open the server: if none with the scope admin is left, the next start writes one to the file admin-
        token in the data directory.
        """
        await self._bytes(_request("revoke token", "DELETE", path("/v1/tokens/{}", id), safe=True))

    async def rollback_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Activate what was active before. With If-Match only the plugin at this revision is changed (`etag`), else 412. The change
        is one swap: it holds from the next reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("rollback plugin", "POST", path("/v1/plugins/{}/rollback", name), headers={"If-Match": if_match}))
        return found

    async def rotate_token(self, id: Union[str, int], body: types.RotateToken) -> types.Token:
        """Give an access token another secret. The answer has the token's new text. The secret before stays good for
        `overlap_seconds` (0 if absent), so that holders can be changed one by one; one from an earlier rotation that was still
        good ends.
        """
        found: types.Token = await self._fetch(_request("rotate token", "POST", path("/v1/tokens/{}/rotate", id), body))
        return found

    async def set_rule(self, queue: str, body: types.RuleRequest) -> types.Rule:
        """Pause or block a queue, a value of a meta key or a submission. From its answer on nothing that the rule covers is handed
        out, by any strategy; chunks that are held may be finished. A block counts before a pause, and the two are set and lifted
        by themselves. There is one rule for each action and match: the same again changes nothing and answers 200, another
        reason, end or effect changes that rule. `effects.insert` refuses inserts with 423 (rules about a submission have none to
        refuse), `effects.revoke` releases reservations without counting a try. With the scope consume or operate one may pause;
        only admin blocks. Retries, run_at and deadlines of reservations go on; a dead_deadline waits until the rule ends, and
        then for one reservation timeout more.
        """
        found: types.Rule = await self._fetch(_request("set rule", "POST", path("/v1/queues/{}/rules", queue), body))
        return found

    async def shadow_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score beside the active one without deciding. The statistics say how much both agree. An empty `version`
        ends it. With If-Match only the plugin at this revision is changed (`etag`), else 412. The change is one swap: it holds
        from the next reservation on, and no reservation sees half of it.
        """
        found: types.Plugin = await self._fetch(_request("shadow plugin", "POST", path("/v1/plugins/{}/shadow", name), body, headers={"If-Match": if_match}))
        return found

    async def start_bulk_operation(self, body: types.BulkRequest) -> types.BulkOperation:
        """Do something with much at once. Does something with all that the filter means of a queue, as it is now, in the background:
        redrive, delete or forward (to another queue) dead letters, retry chunks that wait for a retry now, cancel or reprioritize
        open submissions. It continues after a restart where it was. A dry run counts what would come of it.
        """
        found: types.BulkOperation = await self._fetch(_request("start bulk operation", "POST", path("/v1/bulk-operations"), body))
        return found

    async def trigger_schedule(self, queue: str, name: str, *, key: Optional[str] = None) -> types.Submission:
        """Insert once, now. Inserts what a tick would insert, at once, regardless of the state of the schedule, its overlap and its
        ticks, which stay as they are. The submission's scheduled_at is now.
        """
        found: types.Submission = await self._fetch(_request("trigger schedule", "POST", path("/v1/queues/{}/schedules/{}/trigger", queue, name), headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    async def upload_plugin(self, module: bytes) -> types.PluginVersion:
        """Upload a version of a plugin. As `application/wasm` the body is the module, with its manifest in the section
        `quern.manifest`. As `multipart/form-data` the parts are `module`, `manifest` (JSON, for languages that cannot embed one)
        and `config` (JSON, for the dry run of a plugin that does not start without). The module is scanned, instrumented,
        compiled in a process of its own and tried; 422 lists everything that is wrong with it, with pointers such as
        /module/code/functions/12/offset/345. The same bytes are the same version: they answer 200 and are not checked again. A
        version scores nothing before it is activated.
        """
        found: types.PluginVersion = await self._fetch(_request("upload plugin", "POST", path("/v1/plugins"), module, media="application/wasm"))
        return found

    async def validate_strategy(self, queue: str, body: types.StrategyRequest) -> types.ValidStrategy:
        """Say what a strategy means. Answers the canonical forms, the branches that it compiles to, and warnings of what in it has
        no effect. Nothing is stored or reserved. A strategy that is not valid answers 422, as a reservation would.
        """
        found: types.ValidStrategy = await self._fetch(_request("validate strategy", "POST", path("/v1/queues/{}/strategies/validate", queue), body, safe=True))
        return found

    async def version(self) -> types.Version:
        """Say what is running."""
        found: types.Version = await self._fetch(_request("version", "GET", path("/version"), safe=True))
        return found

    async def wait_submissions(self, body: types.WaitRequest) -> types.WaitAnswer:
        """Wait until one of many submissions ends, or all. The answer comes when one of the submissions has ended, or with `all`
        when all have, or after `wait_ms`; it has all that have ended by then. They may be of several queues. An id that is not
        known, or is beyond what the token is bound to, is in `unknown`; it will never end, so it counts as one that has. To go
        on, leave out what was answered. An answer has only so many bytes: those that have ended and do not fit are counted in
        `open`, and come with the next call.
        """
        found: types.WaitAnswer = await self._fetch(_request("wait submissions", "POST", path("/v1/submissions:wait"), body, safe=True))
        return found

    async def whoami(self) -> types.Whoami:
        """Say who the server takes the caller for. Any token may ask. Where no token is needed, the scopes are all."""
        found: types.Whoami = await self._fetch(_request("whoami", "GET", path("/v1/whoami"), safe=True))
        return found

    async def why(self, id: Union[str, int], index: Union[str, int], body: types.WhyRequest) -> types.WhyAnswer:
        """Say what keeps a strategy from handing out a chunk now. For each branch the first obstacle, and about where the chunk
        stands: how many come before it, and how long that takes at the rate of the last minute.
        """
        found: types.WhyAnswer = await self._fetch(_request("why", "POST", path("/v1/submissions/{}/chunks/{}/why", id, index), body, safe=True))
        return found
