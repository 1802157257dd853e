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
        """Activate a version. Name a version by its version text (the newest with that text) or by the first 8 or more digits of its
        sha256. A quarantined version needs `force`. So does a version that refuses configurations in use: stored ones, and those
        that consumers sent within the last hour. 409 lists them. With If-Match, the server changes the plugin only at this
        revision (`etag`), else the answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("activate plugin", "POST", path("/v1/plugins/{}/activate", name), body, headers={"If-Match": if_match}))
        return found

    def backfill_schedule(self, queue: str, name: str, body: types.BackfillRequest, *, key: Optional[str] = None) -> types.Backfilled:
        """Insert the work of past ticks. Inserts the submissions of past ticks, whether they were emitted or not. With `dry_run` it
        only counts them. With an `Idempotency-Key`, each tick's submission is inserted once within 24 hours, however often you
        send the request.
        """
        found: types.Backfilled = self._fetch(_request("backfill schedule", "POST", path("/v1/queues/{}/schedules/{}/backfill", queue, name), body, headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    def backup(self, *, queue: Optional[str] = None, body: Optional[bytes] = None) -> bytes:
        """Make a backup of the whole server. The answer is a tar with a manifest and the files that it lists, with their SHA-256. It
        has everything acknowledged before the request, of all queues as of one moment, with the access tokens and the plugins.
        Work continues meanwhile. The server makes the copies first, beside the data, and they take disk space until the answer is
        read; without that space the answer is 507. The server makes one backup at a time and answers 409 to another. A backup has
        the same secrets as the data directory: keep it as safe. `quern backup` checks the answer while it writes a file, and
        `quern restore` makes a data directory from it.  Without a body, the answer is a full backup. For an increment, send the
        beginning of an earlier backup as the body: its entries `manifest.json` and `blocks`. An increment has the blocks of files
        that changed since then. You restore the earlier backup first, and then the increment. The earlier backup may be an
        increment itself. If it is of another data directory, the answer is 409; a restore makes a new data directory.  With
        `queue`, the backup has one queue or one shard only. `quern restore --queue` brings it back into the same data directory,
        beside the other queues.
        """
        return self._bytes(_request("backup", "POST", query(path("/v1/backup"), {"queue": queue}), body, media="application/x-tar"))

    def canary_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score a share of the reservations. This version scores `percent` of the reservations, drawn by their seed; 0
        ends it. With If-Match, the server changes the plugin only at this revision (`etag`), else the answer is 412. The change
        takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("canary plugin", "POST", path("/v1/plugins/{}/canary", name), body, headers={"If-Match": if_match}))
        return found

    def cancel_bulk_operation(self, id: Union[str, int], *, actor: Optional[str] = None) -> types.BulkOperation:
        """Stop a bulk operation. The changes that it has made stay. Cancelling an operation that has ended changes nothing."""
        found: types.BulkOperation = self._fetch(_request("cancel bulk operation", "POST", query(path("/v1/bulk-operations/{}/cancel", id), {"actor": actor}), safe=True))
        return found

    def cancel_chunk(self, id: Union[str, int], index: Union[str, int]) -> types.Chunk:
        """Cancel one chunk. Skips the chunk: it is not handed out again, no attempt is counted, and its consumer loses it. The other
        chunks go on. A chunk that is done, dead or skipped does not change. The answer is the chunk in its present state.
        """
        found: types.Chunk = self._fetch(_request("cancel chunk", "POST", path("/v1/submissions/{}/chunks/{}/cancel", id, index), safe=True))
        return found

    def cancel_submission(self, id: Union[str, int]) -> types.Submission:
        """Cancel a submission. Skips unfinished chunks and ends their reservations. Cancelling an ended submission changes nothing
        and answers with its present state.
        """
        found: types.Submission = self._fetch(_request("cancel submission", "POST", path("/v1/submissions/{}/cancel", id), safe=True))
        return found

    def change_queue(self, queue: str, body: types.ChangeQueueRequest, *, if_match: Optional[str] = None) -> types.Queue:
        """Change some settings of a queue. Absent settings stay as they are. Changes take effect with the next decision, also for
        chunks in flight. With If-Match, the server changes only settings with this ETag, else it answers 412.
        """
        found: types.Queue = self._fetch(_request("change queue", "PATCH", path("/v1/queues/{}", queue), body, headers={"If-Match": if_match}))
        return found

    def change_submission(self, id: Union[str, int], body: types.SubmissionChange, *, if_match: Optional[str] = None) -> types.Submission:
        """Change the priority of an open submission. CustomPriority uses it from the next reservation on. An ended submission
        answers 409. With If-Match, the server changes only a priority with this ETag, else it answers 412. Setting the present
        priority is allowed.
        """
        found: types.Submission = self._fetch(_request("change submission", "PATCH", path("/v1/submissions/{}", id), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    def compare(self, queue: str, body: types.CompareRequest) -> types.CompareAnswer:
        """Compare what two strategies would hand out now. Previews both on the same state with the same seed: the values of each
        meta key that get chunks, how evenly they share, and the common chunks.
        """
        found: types.CompareAnswer = self._fetch(_request("compare", "POST", path("/v1/queues/{}/strategies/compare", queue), body, safe=True))
        return found

    def complete(self, queue: str, body: types.CompleteRequest) -> types.ResultsAnswer:
        """Report chunks as done. One result per item, in order: ok, already (done before with this token), lost, gone, unknown or
        invalid. A bad item does not affect the others. With `insert`, the server inserts submissions into this queue in the
        commit of the chunk's completion: all of them and the completion, or nothing. The caller then needs the scope produce,
        too. A token that completes nothing inserts nothing, so you can safely send the same request again. If the server cannot
        insert one of the submissions now, it refuses the item, and the chunk stays reserved.
        """
        found: types.ResultsAnswer = self._fetch(_request("complete", "POST", path("/v1/queues/{}/reservations/complete", queue), body, safe=True))
        return found

    def config(self) -> types.ServerOptions:
        """Read the server's options and their sources."""
        found: types.ServerOptions = self._fetch(_request("config", "GET", path("/v1/config"), safe=True))
        return found

    def create_token(self, body: types.NewToken) -> types.Token:
        """Make an access token. The answer has the token's text. The server shows it only this once, and keeps a hash. The server
        records changes under the token's name, which is unique. `queues` and `meta` (one key with one value) bind the token: it
        inserts, sees and changes nothing else. Once a token exists, every request needs one, for good. The first token needs the
        scope admin. Admin includes all other scopes.
        """
        found: types.Token = self._fetch(_request("create token", "POST", path("/v1/tokens"), body))
        return found

    def deactivate_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Deactivate a plugin. Strategies that name it use their next branch. With If-Match, the server changes the plugin only at
        this revision (`etag`), else the answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("deactivate plugin", "POST", path("/v1/plugins/{}/deactivate", name), headers={"If-Match": if_match}))
        return found

    def delete_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> None:
        """Delete a dead letter for good. It counts as skipped from then on."""
        self._bytes(_request("delete dead letter", "DELETE", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index)))

    def delete_group(self, queue: str, group: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete an empty group. The server forgets its limits and description. If the group has open submissions, the answer is
        409. If-Match works as for PUT.
        """
        self._bytes(_request("delete group", "DELETE", path("/v1/queues/{}/groups/{}", queue, group), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_meta_key(self, queue: str, key: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Remove the default limit, weight, rate and quota of all values of a meta key. From the next reservation on, only a value's
        own settings apply to it. If-Match works as for PUT.
        """
        self._bytes(_request("delete meta key", "DELETE", path("/v1/queues/{}/meta-keys/{}", queue, key), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_meta_value(self, queue: str, key: str, value: Union[str, int], *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Remove the limit, weight, rate and quota of a value of a meta key. From the next reservation on, the value has no limit
        and no rate, and its weight is 1. If-Match works as for PUT.
        """
        self._bytes(_request("delete meta value", "DELETE", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_plugin(self, name: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a plugin with all its versions. The plugin must be inactive. If a stored strategy names it, 409 lists those
        strategies. `force=true` deletes it anyway: they then use their next branch, and the server refuses a reserve whose own
        strategy names it.
        """
        self._bytes(_request("delete plugin", "DELETE", query(path("/v1/plugins/{}", name), {"force": force}), headers={"If-Match": if_match}))

    def delete_plugin_version(self, name: str, version: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a version that is not in use. The answer is 409 if strategies in use name this version, or if it alone accepts one
        of their configurations; `force=true` deletes it anyway. Name a version by its version text (the newest with that text) or
        by the first 8 or more digits of its sha256.
        """
        self._bytes(_request("delete plugin version", "DELETE", query(path("/v1/plugins/{}/versions/{}", name, version), {"force": force}), headers={"If-Match": if_match}))

    def delete_queue(self, queue: str, *, quarantined: Optional[bool] = None) -> None:
        """Delete a queue. The queue must have no open submissions, and must not be named default. `quarantined=true` deletes a queue
        in quarantine, whose files are damaged or missing, with everything in it; an empty queue then replaces the one named
        default.
        """
        self._bytes(_request("delete queue", "DELETE", query(path("/v1/queues/{}", queue), {"quarantined": quarantined})))

    def delete_schedule(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a schedule. Its submissions stay. If-Match works as in PUT."""
        self._bytes(_request("delete schedule", "DELETE", path("/v1/queues/{}/schedules/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_strategy(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a named strategy with all its versions. From then on, the server refuses reserves that name it. If-Match works as
        for PUT.
        """
        self._bytes(_request("delete strategy", "DELETE", path("/v1/queues/{}/strategies/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    def delete_submission(self, id: Union[str, int], *, cancel: Optional[bool] = None) -> None:
        """Delete an ended submission. Removes its meta, contents, outputs, attempts and dead letters for good, before the retention
        of the queue would. The answer comes when all of this is gone. An open submission answers 409, unless `cancel=true` ends
        it first. 503 means that the server has noted the deletion and finishes it by itself, also after a restart. Backups keep
        their copies until you delete them. Its idempotency key stays known, as a hash, for 24 hours.
        """
        self._bytes(_request("delete submission", "DELETE", query(path("/v1/submissions/{}", id), {"cancel": cancel})))

    def detach_consumer(self, queue: str, consumer: str) -> types.Released:
        """Detach a consumer. The consumer leaves: its streams end, the server forgets its orders, and its chunks go back without
        counting an attempt. Call this when it has finished.
        """
        found: types.Released = self._fetch(_request("detach consumer", "POST", path("/v1/queues/{}/consumers/{}/detach", queue, consumer)))
        return found

    def diagnose_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.Diagnosis:
        """Explain why the chunks of a value wait. One sentence, and its parts: the open chunks, counted by the cause that holds them
        back. It considers the rules, the limits, and the strategies that consumers used in the last hour (`.../strategies/in-
        use`), but not whose turn is next. A chunk in flight has no cause. The server examines chunks in slices and does other
        work between them, so under load the counts are of slightly different moments. If there are very many submissions, it
        examines a part of them, and `examined` says how many. Write the value in the path as in the filter `meta.KEY=VALUE`: a
        whole number is the integer, and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text,
        `values/s:` the empty text). Percent-encode characters that are special in a path (`a%2Fb`).
        """
        found: types.Diagnosis = self._fetch(_request("diagnose meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}/diagnosis", queue, key, meta_text(value)), safe=True))
        return found

    def diagnose_queue(self, queue: str) -> types.Diagnosis:
        """Explain what the chunks of a queue wait for. One sentence about the whole queue, and its parts: the chunks that wait at
        limits of values, behind rules, for a time, or for a consumer, with the end of each wait. The server makes it from
        counters once a second, so it costs the same at any backlog. It names the 10 causes with the most chunks. If several meta
        keys have limits, it names the key that holds back the most chunks. Where a value does not move, it names the consumer
        that holds its place, unless more than 10,000 chunks are in flight. It does not consider the filters of strategies.
        """
        found: types.Diagnosis = self._fetch(_request("diagnose queue", "GET", path("/v1/queues/{}/diagnosis", queue), safe=True))
        return found

    def diagnose_submission(self, id: Union[str, int]) -> types.Diagnosis:
        """Explain why the chunks of a submission wait. One sentence, and its parts: the open chunks, counted by the cause that holds
        them back. It considers the rules, the limits, and the strategies that consumers used in the last hour
        (`.../strategies/in-use`), but not whose turn is next. A chunk in flight has no cause. The server examines chunks in
        slices and does other work between them, so under load the counts are of slightly different moments. If there are very
        many submissions, it examines a part of them, and `examined` says how many. .
        """
        found: types.Diagnosis = self._fetch(_request("diagnose submission", "GET", path("/v1/submissions/{}/diagnosis", id), safe=True))
        return found

    def docs_page(self, page: str, *, q: Optional[str] = None) -> str:
        """A page of the documents, or a search in them."""
        return (self._bytes(_request("docs page", "GET", query(path("/docs/{}", page), {"q": q}), safe=True))).decode()

    def drain_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Tell a consumer to finish and leave. The consumer gets no new work, and should finish its chunks and leave. The event
        `drain` tells it if it is attached, and the reason `draining` of its reserves tells it in any case. `resume` takes an
        order back. The server forgets it when the consumer leaves or is lost, after an hour without a stream or a call, and at a
        restart.
        """
        found: types.Consumer = self._fetch(_request("drain consumer", "POST", path("/v1/queues/{}/consumers/{}/drain", queue, consumer), safe=True))
        return found

    def drain_shard(self, queue: str, shard: str) -> None:
        """Drain a shard. The shard gets no new groups, and its groups move to other shards as soon as they have no open submissions.
        This changes the setting `draining_shards`.
        """
        self._bytes(_request("drain shard", "POST", path("/v1/queues/{}/shards/{}/drain", queue, shard)))

    def dry_run_plugin(self, name: str, version: str, body: types.PluginDryRun, *, node: Optional[str] = None) -> types.PluginTried:
        """Try a version without any effect. Reserves nothing. It always scores synthetic candidates. With `queue` it also scores the
        present candidates of a strategy: `picks` has the chunks that would be taken, and `gained` and `lost` the difference to
        the order without it. `recording` scores a recorded batch again and compares the scores bit for bit. A recording is on one
        node of a cluster: name it with `node`. Name a version by its version text (the newest with that text) or by the first 8
        or more digits of its sha256.
        """
        found: types.PluginTried = self._fetch(_request("dry run plugin", "POST", query(path("/v1/plugins/{}/versions/{}/dry-run", name, version), {"node": node}), body, safe=True))
        return found

    def exchange(self, queue: str, body: types.ExchangeRequest) -> types.ExchangeAnswer:
        """Finish chunks and reserve the next ones in one call. The server commits the results first, and then reserves. This is the
        fast path of consumers. Completions take `insert`, as those of a complete do.
        """
        found: types.ExchangeAnswer = self._fetch(_request("exchange", "POST", path("/v1/queues/{}/reservations/exchange", queue), body, safe=True))
        return found

    def explain(self, queue: str, body: types.PreviewRequest) -> types.ExplainAnswer:
        """Explain a strategy. Shows the blocks of the strategy, with the chunks that reach each block and those that it refuses, by
        value. It counts the chunks that operators' limits hold back from the whole strategy. It lists the branches, under Fair
        with the next tenant. For each chunk that would be handed out, it names the obstacle in each earlier branch. The server
        counts in slices and does other work between them, so under load the counts are of slightly different moments.
        """
        found: types.ExplainAnswer = self._fetch(_request("explain", "POST", path("/v1/queues/{}/strategies/explain", queue), body, safe=True))
        return found

    def extend(self, queue: str, body: types.ExtendRequest) -> types.ResultsAnswer:
        """Move the deadlines of reservations. One result per item, in order: ok, already (done before with this token), lost, gone,
        unknown or invalid. A bad item does not affect the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("extend", "POST", path("/v1/queues/{}/reservations/extend", queue), body, safe=True))
        return found

    def fail(self, queue: str, body: types.FailRequest) -> types.ResultsAnswer:
        """Report failed attempts. One result per item, in order: ok, already (done before with this token), lost, gone, unknown or
        invalid. A bad item does not affect the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("fail", "POST", path("/v1/queues/{}/reservations/fail", queue), body, safe=True))
        return found

    def forward_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int], body: types.ForwardRequest) -> types.Submission:
        """Forward a dead chunk to another queue. The chunk becomes a submission of one chunk in the other queue, with its content,
        meta and attachment; `forwarded_from` there says where it came from. Here it counts as skipped, in the same commit. It
        arrives exactly once, even after a crash.
        """
        found: types.Submission = self._fetch(_request("forward dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/forward", queue, submission, index), body))
        return found

    def get_bulk_operation(self, id: Union[str, int]) -> types.BulkOperation:
        """Read the progress of a bulk operation."""
        found: types.BulkOperation = self._fetch(_request("get bulk operation", "GET", path("/v1/bulk-operations/{}", id), safe=True))
        return found

    def get_chunk(self, id: Union[str, int], index: Union[str, int]) -> types.Chunk:
        """Read one chunk."""
        found: types.Chunk = self._fetch(_request("get chunk", "GET", path("/v1/submissions/{}/chunks/{}", id, index), safe=True))
        return found

    def get_chunk_map(self, id: Union[str, int], *, from_: Optional[int] = None, to: Optional[int] = None, cells: Optional[int] = None) -> types.ChunkMap:
        """Count a submission's chunks by state, in ranges of indexes. The chunks from index `from` up to `to`, counted by state in
        cells of equal size. The server examines at most 1,048,576 chunks. Of a longer range it examines one chunk in `every`: ask
        for a shorter range to count all of them. A chunk that changes meanwhile counts as the server met it.
        """
        found: types.ChunkMap = self._fetch(_request("get chunk map", "GET", query(path("/v1/submissions/{}/map", id), {"from": from_, "to": to, "cells": cells}), safe=True))
        return found

    def get_consumer(self, queue: str, consumer: str, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> types.ConsumerDetail:
        """Read a consumer and its reservations."""
        found: types.ConsumerDetail = self._fetch(_request("get consumer", "GET", query(path("/v1/queues/{}/consumers/{}", queue, consumer), {"cursor": cursor, "limit": limit}), safe=True))
        return found

    def get_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.DeadLetter:
        """Read a dead letter with its last 10 attempts."""
        found: types.DeadLetter = self._fetch(_request("get dead letter", "GET", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index), safe=True))
        return found

    def get_durations(self, queue: str, *, meta: Optional[Mapping[str, Union[str, int]]] = None) -> types.Durations:
        """Read how long chunks waited and ran. From memory: the last 30 to 60 minutes. `meta.KEY=VALUE` selects submissions with
        this value; give it at most once. The server measures up to 256 values of a queue: those that had work, or that a call
        asked about, most recently. If it did not measure a value yet, it begins with this call, and `since` is the time of the
        call. Beyond about 10,000 chunks a second it measures a random share of them, and scales the counts up.
        """
        found: types.Durations = self._fetch(_request("get durations", "GET", query(path("/v1/queues/{}/durations", queue), {"meta": meta}), safe=True))
        return found

    def get_group(self, queue: str, group: str) -> types.Group:
        """Read a group."""
        found: types.Group = self._fetch(_request("get group", "GET", path("/v1/queues/{}/groups/{}", queue, group), safe=True))
        return found

    def get_initial_rule(self, id: Union[str, int]) -> types.Rule:
        """Read a rule that new queues begin with."""
        found: types.Rule = self._fetch(_request("get initial rule", "GET", path("/v1/initial-rules/{}", id), safe=True))
        return found

    def get_key_timeseries(self, queue: str, key: str) -> types.KeySeries:
        """Read the chunks in flight of a meta key's values over time. From memory: the last ten minutes in steps of five seconds,
        for the values that were among those with the most in flight. -1 means unknown, because the value was not among them.
        """
        found: types.KeySeries = self._fetch(_request("get key timeseries", "GET", path("/v1/queues/{}/meta-keys/{}/timeseries", queue, key), safe=True))
        return found

    def get_ledger(self, queue: str, ledger: str, *, sort: Optional[str] = None, value: Optional[str] = None, limit: Optional[int] = None) -> types.LedgerTenants:
        """Read the fair and the received shares of the tenants of a Fair block. Shares per tenant. `sort` is received (the largest
        first), behind (furthest behind first) or ahead. No tenant is ever more than a few chunks from an ideal division:
        STRATEGIES.md has the numbers.
        """
        found: types.LedgerTenants = self._fetch(_request("get ledger", "GET", query(path("/v1/queues/{}/ledgers/{}", queue, ledger), {"sort": sort, "value": value, "limit": limit}), safe=True))
        return found

    def get_lifecycle(self, queue: str) -> types.Lifecycle:
        """Read the state of a queue's life-cycle worker. The worker runs the timed work: deadlines, retries, run_at, dead_deadline,
        cleanup of ended submissions, retention, schedules, the ends of rules. It also recounts the counters, see recount. It
        parks an action that fails again and again, until you retry it or the server restarts.
        """
        found: types.Lifecycle = self._fetch(_request("get lifecycle", "GET", path("/v1/queues/{}/lifecycle", queue), safe=True))
        return found

    def get_meta_key(self, queue: str, key: str) -> types.MetaKey:
        """Read a meta key, with the default of its values."""
        found: types.MetaKey = self._fetch(_request("get meta key", "GET", path("/v1/queues/{}/meta-keys/{}", queue, key), safe=True))
        return found

    def get_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.ValueCount:
        """Read a value of a meta key, with its chunks and settings. Write the value in the path as in the filter `meta.KEY=VALUE`: a
        whole number is the integer, and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text,
        `values/s:` the empty text). Percent-encode characters that are special in a path (`a%2Fb`).
        """
        found: types.ValueCount = self._fetch(_request("get meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), safe=True))
        return found

    def get_plugin(self, name: str) -> types.Plugin:
        """Read a plugin, with its versions in use and the state of its breaker. Each node of a cluster has a breaker of its own. The
        state is that of the breaker that needs attention most, and `breaker.node` names its node. A plugin is `active` when it
        scores on all nodes.
        """
        found: types.Plugin = self._fetch(_request("get plugin", "GET", path("/v1/plugins/{}", name), safe=True))
        return found

    def get_plugin_logs(self, name: str, *, node: Optional[str] = None, after: Optional[int] = None, cursor: Optional[str] = None, limit: Optional[int] = None) -> types.PluginLogs:
        """Read the log of a plugin. The last 1,000 lines of each node, the oldest first. For later lines, send `cursor` of this
        answer, or, of a single node, `next` as `after`. In a cluster the answer is about all nodes, unless `node` names one;
        `missing` names those that did not answer.
        """
        found: types.PluginLogs = self._fetch(_request("get plugin logs", "GET", query(path("/v1/plugins/{}/logs", name), {"node": node, "after": after, "cursor": cursor, "limit": limit}), safe=True))
        return found

    def get_plugin_module(self, name: str, version: str) -> bytes:
        """Download a version's module."""
        return self._bytes(_request("get plugin module", "GET", path("/v1/plugins/{}/versions/{}/wasm", name, version), safe=True))

    def get_plugin_recording(self, name: str, id: Union[str, int]) -> bytes:
        """Download a recorded batch. A .qbatch file, which `quern plugin run` replays."""
        return self._bytes(_request("get plugin recording", "GET", path("/v1/plugins/{}/recordings/{}", name, id), safe=True))

    def get_plugin_stats(self, name: str, *, node: Optional[str] = None) -> types.PluginStats:
        """Read a plugin's numbers since the start of the server. In a cluster the answer is about all nodes, unless `node` names
        one; `missing` names those that did not answer.
        """
        found: types.PluginStats = self._fetch(_request("get plugin stats", "GET", query(path("/v1/plugins/{}/stats", name), {"node": node}), safe=True))
        return found

    def get_plugin_version(self, name: str, version: str) -> types.PluginVersion:
        """Read a version of a plugin, with its manifest and dry run. Name a version by its version text (the newest with that text)
        or by the first 8 or more digits of its sha256.
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
        """Read a schedule and its state."""
        found: types.Schedule = self._fetch(_request("get schedule", "GET", path("/v1/queues/{}/schedules/{}", queue, name), safe=True))
        return found

    def get_stats(self, queue: str) -> types.Stats:
        """Read a queue's numbers. A flat object, so that a scaler can read one number by name. Reading costs the same at any
        backlog. Totals count from the server's start. Of a shard that does not serve, the answer has the last known numbers, but
        no totals.
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
        """Read an access token."""
        found: types.Token = self._fetch(_request("get token", "GET", path("/v1/tokens/{}", id), safe=True))
        return found

    def insert_batch(self, queue: str, body: types.InsertManyRequest) -> types.InsertManyAnswer:
        """Insert many submissions in one commit. Up to 10,000 submissions, each as in a single insert and optionally with its own
        `idempotency_key`. All go to disk in one commit. The answer has one result per submission, in order: created, existing
        (another submission holds its `unique` key), replayed (inserted before with the same idempotency key, in its present
        state), invalid or refused. An invalid or refused submission does not prevent the others, unless `atomic` is true: then
        nothing is inserted, and the others are refused with the code batch_refused. As `application/x-ndjson`, each line is one
        submission, and the call is not atomic. An error of the whole call (such as 503 commit_failed) does not tell what
        happened; with keys you can safely send it again.
        """
        found: types.InsertManyAnswer = self._fetch(_request("insert batch", "POST", path("/v1/queues/{}/submissions:batch", queue), body))
        return found

    def lift_initial_rule(self, id: Union[str, int], *, actor: Optional[str] = None) -> None:
        """Have new queues begin without a rule. Queues that are created from then on begin without the rule. Queues that began with
        it keep it until it is lifted in them. Lifting it again answers the same. Only admin may lift a block.
        """
        self._bytes(_request("lift initial rule", "DELETE", query(path("/v1/initial-rules/{}", id), {"actor": actor})))

    def lift_rule(self, queue: str, id: Union[str, int], *, actor: Optional[str] = None) -> None:
        """Lift a pause or a block. From then on, the server hands out the chunks that no other rule covers, first to waiting
        consumers. Lifting a rule that has ended answers the same. Only admin may lift a block.
        """
        self._bytes(_request("lift rule", "DELETE", query(path("/v1/queues/{}/rules/{}", queue, id), {"actor": actor}), safe=True))

    def list_audit(self, *, since: Optional[str] = None, until: Optional[str] = None, actor: Optional[str] = None, action: Optional[str] = None, queue: Optional[str] = None, target: Optional[str] = None, outcome: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.AuditEntry]:
        """Read the audit log. The log of changes and refused acts, the latest first. A change and its entry are one commit, so
        neither exists without the other. If the token did not allow an act, its entry has the outcome `refused`, and `after` has
        the `code` and `detail` of the answer. The first sixty refused acts of a token get an entry each, and later ones one entry
        per minute. Its `left_out` counts the refused acts without an entry since the previous one. `next` is the cursor of older
        entries. The server limits how many entries it examines per page, so a page with a `next` may be short or empty.
        `incomplete`, and the header `Quern-Audit-Incomplete` of every form of the answer, name the queues whose latest entries
        may be missing: those in quarantine, and in a cluster those whose node did not answer in 2 seconds. With `Accept:
        application/x-ndjson` the answer has all matching entries, one per line. With `Accept: text/event-stream` it follows the
        log, from `since` or from now on, the oldest entry first. `Last-Event-ID` continues after the last id, which may have come
        without an event. Entries of the ten seconds before that id may then come again, with the same ids. If the server cannot
        read the log any further, the last event is `problem`, with a problem as its data. A stream does not allow `cursor`,
        `limit` and `until`.
        """
        return self._pages("list audit", path("/v1/audit"), {"since": since, "until": until, "actor": actor, "action": action, "queue": queue, "target": target, "outcome": outcome, "limit": limit})

    def list_bulk_operations(self, *, queue: Optional[str] = None) -> Iterator[types.BulkOperation]:
        """List bulk operations, newest first. All running operations, and the last 100 ended ones of each queue. In a cluster the
        nodes have two seconds to answer; `missing` names those that did not.
        """
        return self._pages("list bulk operations", path("/v1/bulk-operations"), {"queue": queue})

    def list_chunk_attempts(self, id: Union[str, int], index: Union[str, int]) -> Iterator[types.Attempt]:
        """List the ended attempts of a chunk. The last 10 ended attempts, over all redrives, the oldest first. The server forgets
        them when the chunk is done.
        """
        return self._pages("list chunk attempts", path("/v1/submissions/{}/chunks/{}/attempts", id, index), {})

    def list_chunks(self, id: Union[str, int], *, state: Optional[Sequence[str]] = None, limit: Optional[int] = None) -> Iterator[types.Chunk]:
        """List a submission's chunks by index. A page with a `next` may have fewer items than its limit, or none: the server limits
        how many items it examines per page, and the size of a page.
        """
        return self._pages("list chunks", path("/v1/submissions/{}/chunks", id), {"state": state, "limit": limit})

    def list_consumers(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.Consumer]:
        """List a queue's consumers by name. Lists the consumers that are attached or were until just now, hold a chunk, or have an
        operator's order. It includes consumers without a name, but they have no path.
        """
        return self._pages("list consumers", path("/v1/queues/{}/consumers", queue), {"limit": limit})

    def list_dead_letter_groups(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, cursor: Optional[str] = None) -> types.DeadGroups:
        """Group dead letters by the fingerprint of their errors. Errors that differ only in numbers, hexadecimal ids, UUIDs and
        quoted parts have one fingerprint. The groups count every matching dead letter. There are at most 10,000 groups. If there
        are more kinds of errors, `others` counts the dead letters in no group; a filter by `fingerprint` finds those too.
        """
        found: types.DeadGroups = self._fetch(_request("list dead letter groups", "GET", query(path("/v1/queues/{}/dead-letters/groups", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "cursor": cursor}), safe=True))
        return found

    def list_dead_letters(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> Iterator[types.DeadLetter]:
        """List dead letters. Dead chunks of submissions that are open or completed with dead chunks: the newest submission first,
        and within one submission by index. A dead letter stays until you redrive, forward or delete it, or until a retention of
        the queue removes it. A page with a `next` may have fewer items than its limit, or none: the server limits how many items
        it examines per page, and the size of a page.
        """
        return self._pages("list dead letters", path("/v1/queues/{}/dead-letters", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "limit": limit})

    def list_groups(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.Group]:
        """List the groups of a queue. A submission names its group with `group`, or with the meta key `group`. All submissions of a
        group are in one shard of the queue. The list is in the order of the names.
        """
        return self._pages("list groups", path("/v1/queues/{}/groups", queue), {"limit": limit})

    def list_initial_rules(self) -> Iterator[types.Rule]:
        """List the rules that new queues begin with. By ascending id. A rule whose `until` has passed is not in the list."""
        return self._pages("list initial rules", path("/v1/initial-rules"), {})

    def list_ledgers(self, queue: str) -> Iterator[types.Ledger]:
        """List the Fair blocks in use."""
        return self._pages("list ledgers", path("/v1/queues/{}/ledgers", queue), {})

    def list_meta_keys(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.MetaKey]:
        """List the meta keys with the number of their values. Keys of open submissions, and keys with a setting."""
        return self._pages("list meta keys", path("/v1/queues/{}/meta-keys", queue), {"limit": limit})

    def list_meta_values(self, queue: str, key: str, *, sort: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.ValueCount]:
        """List the values of a meta key with their chunks and settings. The largest by `sort` come first; by `oldest`, the values
        whose ready chunks were inserted longest ago. The server looks at each value of the key, and at each open submission for
        the numbers that it does not keep: `waiting`, `dead`, `done` and `oldest_ready_at`.
        """
        return self._pages("list meta values", path("/v1/queues/{}/meta-keys/{}/values", queue, key), {"sort": sort, "limit": limit})

    def list_nodes(self) -> Iterator[types.Node]:
        """List the nodes of the cluster, and the queues that each owns. Lists the nodes of the cluster by name, each with the queues
        that it owns. `epoch` is the number of the owner's claim to a queue, and `lease_ms` the time left of its lease. The node
        that answers measures all leases by its own clock, from the last heartbeat that it saw. A node without queues leaves the
        list after 5 seconds of silence. A server without a cluster lists itself, with `lease_ms` null.
        """
        return self._pages("list nodes", path("/v1/nodes"), {})

    def list_plugin_recordings(self, name: str, *, node: Optional[str] = None) -> Iterator[types.PluginRecording]:
        """List the recorded batches. The server records one batch in 10,000, and every batch that faulted. It keeps the latest of
        both in memory. In a cluster each node has its own; without `node` they are those of the node that answers.
        """
        return self._pages("list plugin recordings", path("/v1/plugins/{}/recordings", name), {"node": node})

    def list_plugin_scores(self, name: str, *, node: Optional[str] = None) -> Iterator[types.PluginScores]:
        """Read how a plugin's versions score live traffic. One entry per open version and configuration, those in use first: its
        batches and failures, and for a sample the distribution of the last 4,096 scores and the share that gave a chunk. The
        sample has whole batches, one in 64 and at most four more per second, so reserves stay fast. The numbers start at zero
        when the server opens a version: at a start, and after five minutes out of use. In a cluster each node has its own;
        without `node` they are those of the node that answers.
        """
        return self._pages("list plugin scores", path("/v1/plugins/{}/scores", name), {"node": node})

    def list_plugin_versions(self, name: str) -> Iterator[types.PluginVersion]:
        """List a plugin's versions, the newest first."""
        return self._pages("list plugin versions", path("/v1/plugins/{}/versions", name), {})

    def list_plugins(self, *, limit: Optional[int] = None) -> Iterator[types.Plugin]:
        """List the plugins by name. Each node of a cluster has a breaker of its own. The state is that of the breaker that needs
        attention most, and `breaker.node` names its node. A plugin is `active` when it scores on all nodes.
        """
        return self._pages("list plugins", path("/v1/plugins"), {"limit": limit})

    def list_queue_outputs(self, queue: str, *, created_before: Optional[str] = None, created_after: Optional[str] = None, state: Optional[Sequence[str]] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, schedule: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.SubmissionOutput]:
        """List the outputs of many submissions. Outputs of the newest submission come first, and within a submission they are in the
        order of their indexes. The filters are those of the list of submissions, such as `meta.batch=7` and `state=completed`.
        Each item names its submission and chunk. If an answer was lost, ask for the same page again. The list is complete when a
        page has no `next`. Outputs of a submission that you insert meanwhile are not in it. If an output is lost, its page
        answers 500; `created_before` leaves its submission out. A page with a `next` may have fewer items than its limit, or
        none: the server limits how many items it examines per page, and the size of a page.
        """
        return self._pages("list queue outputs", path("/v1/queues/{}/outputs", queue), {"created_before": created_before, "created_after": created_after, "state": state, "meta": meta, "schedule": schedule, "limit": limit})

    def list_queues(self) -> Iterator[types.Queue]:
        """List the queues."""
        return self._pages("list queues", path("/v1/queues"), {})

    def list_reservations(self, queue: str, *, sort: Optional[str] = None, overdue: Optional[bool] = None, consumer: Optional[str] = None, submission: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> Iterator[types.HeldReservation]:
        """List the chunks that consumers hold. Each reservation with its consumer, its start and its deadline: the longest first, or
        with `sort=deadline` the next deadline first. Filters are `overdue=true` (held for longer than the queue's
        `reservation_timeout_ms`), `consumer=NAME`, `submission=ID` and `meta.KEY=VALUE` as in the list of submissions; all must
        match. A page covers several moments: a chunk that is reserved or finished meanwhile may be missing, and a page with a
        `next` may have fewer items than its limit. With `sort=deadline`, a chunk that is extended between two pages may be in
        both. The list has no tokens.
        """
        return self._pages("list reservations", path("/v1/queues/{}/reservations", queue), {"sort": sort, "overdue": overdue, "consumer": consumer, "submission": submission, "meta": meta, "limit": limit})

    def list_retries(self, queue: str, *, meta: Optional[Mapping[str, Union[str, int]]] = None, error: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.Retry]:
        """List chunks that wait for a retry after a failure. Chunks of the newest submission come first, and within a submission
        they are in the order of their indexes. `meta.KEY=VALUE` takes only submissions with this value. A page with a `next` may
        have fewer items than its limit, or none: the server limits how many items it examines per page, and the size of a page.
        """
        return self._pages("list retries", path("/v1/queues/{}/retries", queue), {"meta": meta, "error": error, "limit": limit})

    def list_retry_groups(self, queue: str, *, meta: Optional[Mapping[str, Union[str, int]]] = None) -> types.RetryGroups:
        """Group chunks that wait for a retry by their errors. Errors that differ only in numbers, hexadecimal ids, UUIDs and quoted
        parts have one fingerprint, as in groups of dead letters. `meta.KEY=VALUE` takes only submissions with this value. The
        bulk action retry with a fingerprint tries the chunks of a group now. The server examines at most 100,000 chunks of the
        newest 1,000,000 submissions, in slices, so the counts are of slightly different moments.
        """
        found: types.RetryGroups = self._fetch(_request("list retry groups", "GET", query(path("/v1/queues/{}/retries/groups", queue), {"meta": meta}), safe=True))
        return found

    def list_rules(self, queue: str, *, state: Optional[str] = None) -> Iterator[types.Rule]:
        """List a queue's pauses and blocks. Active rules, by ascending id. `state=ended` lists the last 1,000 rules that ended, the
        latest first: how and when they ended, and who lifted them.
        """
        return self._pages("list rules", path("/v1/queues/{}/rules", queue), {"state": state})

    def list_schedule_ticks(self, queue: str, name: str, *, n: Optional[int] = None) -> types.SchedulePreview:
        """List the next ticks of a schedule."""
        found: types.SchedulePreview = self._fetch(_request("list schedule ticks", "GET", query(path("/v1/queues/{}/schedules/{}/ticks", queue, name), {"n": n}), safe=True))
        return found

    def list_schedules(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.Schedule]:
        """List a queue's schedules by name."""
        return self._pages("list schedules", path("/v1/queues/{}/schedules", queue), {"limit": limit})

    def list_shards(self, queue: str) -> Iterator[types.Shard]:
        """List the shards of a queue. A queue has one shard, or as many as its setting `shards` says. `queue` is the name with which
        you ask one shard alone.
        """
        return self._pages("list shards", path("/v1/queues/{}/shards", queue), {})

    def list_strategies(self, queue: str, *, limit: Optional[int] = None) -> Iterator[types.NamedStrategy]:
        """List a queue's named strategies by name."""
        return self._pages("list strategies", path("/v1/queues/{}/strategies", queue), {"limit": limit})

    def list_strategies_in_use(self, queue: str, *, cursor: Optional[str] = None) -> types.StrategiesInUse:
        """List the strategies that consumers used in the last hour. The strategies that handed out the most chunks come first. The
        server remembers at most 256 strategies, and forgets the one that was unused for longest. Rates are over the last one to
        two minutes and include empty reserves. `consumers` estimates the number of names that reserved with it in the last half
        hour to hour: nearly exact up to 20, within a few percent beyond. The list starts with the server, at `since`.
        """
        found: types.StrategiesInUse = self._fetch(_request("list strategies in use", "GET", query(path("/v1/queues/{}/strategies/in-use", queue), {"cursor": cursor}), safe=True))
        return found

    def list_submissions(self, queue: str, *, created_before: Optional[str] = None, created_after: Optional[str] = None, sort: Optional[str] = None, state: Optional[Sequence[str]] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, schedule: Optional[str] = None, limit: Optional[int] = None) -> Iterator[types.Submission]:
        """List submissions, newest first. Newest first. Filters are `state=STATE` (repeated or comma-separated for several) and
        `meta.KEY=VALUE` (repeated for several keys, which must all match). A whole number is the integer, and `s:` before a value
        makes it a string: `meta.company=123` is the integer, `meta.company=s:123` the text. `created_before=TIME` and
        `created_after=TIME` select submissions that were inserted before that time, and at that time or later. `next` is the
        cursor of the next page, and absent on the last. `sort=largest` lists open submissions in one page, those with the most
        chunks left first. It examines the newest 1,000,000 submissions in slices, so its numbers are of slightly different
        moments. A page with a `next` may have fewer items than its limit, or none: the server limits how many items it examines
        per page, and the size of a page.
        """
        return self._pages("list submissions", path("/v1/queues/{}/submissions", queue), {"created_before": created_before, "created_after": created_after, "sort": sort, "state": state, "meta": meta, "schedule": schedule, "limit": limit})

    def list_tokens(self) -> Iterator[types.Token]:
        """List the access tokens, the oldest first. The list has no secrets."""
        return self._pages("list tokens", path("/v1/tokens"), {})

    def list_views(self, queue: str, *, cursor: Optional[str] = None) -> types.Views:
        """List the indexes of strategies, with their memory. Every branch of a strategy needs an index in memory (a view), which the
        server builds at its first use. The option view-memory limits the memory of all views together. Views that only questions
        use may take a quarter of it in addition. The server removes the least recently used views to make room. If there is no
        room for a view, the call answers 429.
        """
        found: types.Views = self._fetch(_request("list views", "GET", query(path("/v1/queues/{}/views", queue), {"cursor": cursor}), safe=True))
        return found

    def livez(self) -> str:
        """Check that the process serves requests."""
        return (self._bytes(_request("livez", "GET", path("/livez"), safe=True))).decode()

    def metrics(self) -> str:
        """Prometheus metrics."""
        return (self._bytes(_request("metrics", "GET", path("/metrics"), safe=True))).decode()

    def move_group(self, queue: str, group: str, body: types.MoveGroupRequest) -> types.Group:
        """Move a group to another shard. The group moves as soon as it has no open submissions; until then it stays, and `moving_to`
        names the new shard. No work is held back meanwhile. New submissions of the group then go to the new shard, with the
        limits of the group. To give a move up, send the number of the shard that has the group. The answer is 409 while a
        schedule inserts into the group. For 24 hours after a move, a group can only move back.
        """
        found: types.Group = self._fetch(_request("move group", "POST", path("/v1/queues/{}/groups/{}/move", queue, group), body))
        return found

    def move_queue(self, queue: str, body: types.MoveRequest) -> types.Moved:
        """Move a queue to another node of the cluster. Reservations, limits and tokens stay valid. Shards of one queue can be on
        different nodes: the call moves all of them, or the one that `shard` names. A call that comes while the queue moves waits
        for up to a second, and then answers 503 with the code moving. This call answers when the other node serves the queue.
        """
        found: types.Moved = self._fetch(_request("move queue", "POST", path("/v1/queues/{}/move", queue), body))
        return found

    def openapi(self) -> str:
        """This document."""
        return (self._bytes(_request("openapi", "GET", path("/openapi.json"), safe=True))).decode()

    def pause_schedule(self, queue: str, name: str, *, reason: Optional[str] = None) -> types.Schedule:
        """Pause a schedule. Ticks that pass meanwhile count as missed when you resume. A paused schedule stays as it is."""
        found: types.Schedule = self._fetch(_request("pause schedule", "POST", query(path("/v1/queues/{}/schedules/{}/pause", queue, name), {"reason": reason})))
        return found

    def preview(self, queue: str, body: types.PreviewRequest) -> types.PreviewAnswer:
        """Preview the chunks that a reserve would hand out now. It reserves and changes nothing. A later reserve may get other
        chunks, and Random draws again each time.
        """
        found: types.PreviewAnswer = self._fetch(_request("preview", "POST", path("/v1/queues/{}/strategies/preview", queue), body, safe=True))
        return found

    def preview_schedule(self, queue: str, body: types.SchedulePreviewRequest) -> types.SchedulePreview:
        """Describe a spec in plain words, with its next ticks. Stores nothing. `@every` counts from `start`, or from now."""
        found: types.SchedulePreview = self._fetch(_request("preview schedule", "POST", path("/v1/queues/{}/schedules/preview", queue), body, safe=True))
        return found

    def put_dead_letter_content(self, queue: str, submission: Union[str, int], index: Union[str, int], body: types.Bytes, *, if_match: Optional[str] = None) -> types.Submission:
        """Change the content of a dead chunk. The body is the new content, at most 65,536 bytes; it replaces inline contents only.
        The chunk stays dead: redrive or forward it afterwards. The audit log has both contents: size, SHA-256, and up to 1,000
        bytes of text. A queue keeps at most 1,000 changed contents of 16 MiB in all, until their submissions leave the history.
        With If-Match, the server changes only the content with the dead letter's ETag, else it answers 412.
        """
        found: types.Submission = self._fetch(_request("put dead letter content", "PUT", path("/v1/queues/{}/dead-letters/{}/{}/content", queue, submission, index), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    def put_group(self, queue: str, group: str, body: types.PutGroupRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Group:
        """Create a group, or change its limits and description. The body replaces the limits and the description. `limits.waiting`
        counts the chunks that no consumer has, without those that wait for a retry; `limits.submissions` counts open submissions.
        The server refuses an insert that would exceed a limit, with `limit_reached`, and names the present count (`current`) and
        the limit (`max`). A limit below the present count takes no work away. Submissions of schedules and redriven chunks count,
        but the server does not refuse them.
        """
        found: types.Group = self._fetch(_request("put group", "PUT", path("/v1/queues/{}/groups/{}", queue, group), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def put_meta_key(self, queue: str, key: str, body: types.ValueSettings, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.MetaKey:
        """Set a default limit, weight, rate and quota for all values of a meta key. Sets the default for all values of the key that
        have no such setting of their own, also for those that come later. It replaces all settings: one that is absent or null
        becomes unset. A value's own `limit`, `weight`, `rate` or number of `quota` takes the place of the default, so the limit
        2,147,483,647 frees one value. All take effect with the next reservation. The server does a step for each value of open
        submissions. If-Match and If-None-Match work as for a value. The first default answers 201.
        """
        found: types.MetaKey = self._fetch(_request("put meta key", "PUT", path("/v1/queues/{}/meta-keys/{}", queue, key), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def put_meta_value(self, queue: str, key: str, value: Union[str, int], body: types.ValueSettings, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.ValueCount:
        """Set a limit, a weight, a rate and a quota for a value of a meta key. Replaces all settings: one that is absent or null
        becomes unset. `limit` holds for every reservation of the queue, with any strategy; MaxSimultaneous can only be tighter.
        With the limit 0, the server hands out no chunk of the value. Chunks in flight stay. `weight` is the value's share under
        Fair. `rate` takes the place of the number in every MaxRate of the key over the same time, and may be larger or smaller.
        The server refuses an insert that would exceed `quota`, with `limit_reached`. All take effect with the next call, and you
        can set them before any submission has the value. The same settings again change nothing. With If-Match, the server
        replaces only settings with this ETag; with `If-None-Match: *` it only sets the first ones; else the answer is 412. The
        first settings answer 201. Write the value in the path as in the filter `meta.KEY=VALUE`: a whole number is the integer,
        and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text, `values/s:` the empty text).
        Percent-encode characters that are special in a path (`a%2Fb`).
        """
        found: types.ValueCount = self._fetch(_request("put meta value", "PUT", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def put_plugin_settings(self, name: str, body: types.PluginSettings, *, if_match: Optional[str] = None) -> types.Plugin:
        """Open or close a plugin's breaker by hand, and set its limits. Replaces all settings: one that you leave out gets its
        default. With If-Match, the server changes the plugin only at this revision (`etag`), else the answer is 412. The change
        takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("put plugin settings", "PUT", path("/v1/plugins/{}/settings", name), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    def put_queue(self, queue: str, body: types.PutQueueRequest, *, if_none_match: Optional[str] = None) -> types.Queue:
        """Create a queue or replace its settings. Replaces all settings: one that you leave out gets its default, except `shards`,
        which stays. A new queue answers 201. With `If-None-Match: *` the server only creates a new queue; one that exists stays
        as it is, and answers 412.
        """
        found: types.Queue = self._fetch(_request("put queue", "PUT", path("/v1/queues/{}", queue), body, headers={"If-None-Match": if_none_match}, safe=if_none_match is None))
        return found

    def put_schedule(self, queue: str, name: str, body: types.ScheduleDefinition, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Schedule:
        """Create a schedule, or redefine it. A tick and its submission are one commit. Even after a crash, each tick is emitted
        once, or dropped by `missed` or `overlap` and counted. The same definition again changes nothing. If spec, seconds, tz,
        start and end stay, a schedule continues where it was; otherwise its ticks begin after now. With If-Match, the server
        replaces only a version with this ETag; with `If-None-Match: *` it only creates a new name; else the answer is 412. A new
        name answers 201.
        """
        found: types.Schedule = self._fetch(_request("put schedule", "PUT", path("/v1/queues/{}/schedules/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def put_strategy(self, queue: str, name: str, body: types.StrategyRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.NamedStrategy:
        """Store a strategy under a name, or change it. The same strategy as before, in any spelling, changes nothing. Another one
        becomes the next version, and the next reservation uses it. With If-Match, the server replaces only a version with this
        ETag; with `If-None-Match: *` it only creates a new name; else the answer is 412. A new name answers 201.
        """
        found: types.NamedStrategy = self._fetch(_request("put strategy", "PUT", path("/v1/queues/{}/strategies/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    def quiet_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Keep new work from a consumer. The consumer gets no new work, but stays. Its reserves answer with the reason `quiet`.
        `resume` takes an order back. The server forgets it when the consumer leaves or is lost, after an hour without a stream or
        a call, and at a restart.
        """
        found: types.Consumer = self._fetch(_request("quiet consumer", "POST", path("/v1/queues/{}/consumers/{}/quiet", queue, consumer), safe=True))
        return found

    def readyz(self, *, verbose: Optional[str] = None) -> types.Readiness:
        """Check whether all parts work. If a part does not work, the answer is 503, and errors[] names the part. With `?verbose` the
        answer lists every check.
        """
        found: types.Readiness = self._fetch(_request("readyz", "GET", query(path("/readyz"), {"verbose": verbose}), safe=True))
        return found

    def redrive_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.Submission:
        """Redrive a dead chunk. The chunk is ready again with its attempts reset; its history stays. A submission that completed
        with dead chunks opens again. After its dead_deadline the answer is 409, unless the queue's on_deadline is dead_letter:
        then the submission goes on without a dead_deadline.
        """
        found: types.Submission = self._fetch(_request("redrive dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/redrive", queue, submission, index)))
        return found

    def release(self, queue: str, body: types.ReleaseRequest) -> types.ResultsAnswer:
        """Give chunks back without working on them. One result per item, in order: ok, already (done before with this token), lost,
        gone, unknown or invalid. A bad item does not affect the others.
        """
        found: types.ResultsAnswer = self._fetch(_request("release", "POST", path("/v1/queues/{}/reservations/release", queue), body, safe=True))
        return found

    def release_chunk(self, id: Union[str, int], index: Union[str, int], *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.HeldReservation:
        """Take a chunk back from its consumer. The server offers the chunk again at once, without counting an attempt; the answer
        names the chunk and its consumer. An attached consumer gets the event `revoked`. The consumer may still work on the chunk:
        its completion counts until the chunk is handed out again. The answer is 409 if no consumer holds the chunk. The audit log
        keeps the consumer and the reason.
        """
        found: types.HeldReservation = self._fetch(_request("release chunk", "POST", query(path("/v1/submissions/{}/chunks/{}/release", id, index), {"actor": actor, "reason": reason})))
        return found

    def release_consumer(self, queue: str, consumer: str, *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.Released:
        """Take back a consumer's chunks. The server offers the consumer's chunks again at once, without counting an attempt. If it
        is attached, it gets the event `revoked`. It may get other chunks; see drain and quiet.
        """
        found: types.Released = self._fetch(_request("release consumer", "POST", query(path("/v1/queues/{}/consumers/{}/release", queue, consumer), {"actor": actor, "reason": reason})))
        return found

    def reopen_shard(self, queue: str, shard: str) -> None:
        """Stop draining a shard. The shard gets new groups again."""
        self._bytes(_request("reopen shard", "DELETE", path("/v1/queues/{}/shards/{}/drain", queue, shard)))

    def reserve(self, queue: str, body: types.ReserveRequest) -> types.ReserveAnswer:
        """Reserve chunks. Takes up to `max` chunks in the order of the strategy. It takes fewer if their contents, attachments and
        metadata exceed 4 MiB; the next call gets the others. With `wait_ms`, an empty answer waits that long for work that fits
        the strategy. `reason` explains an empty answer; with `all_limited`, `limited` names some of the values at their limit.
        """
        found: types.ReserveAnswer = self._fetch(_request("reserve", "POST", path("/v1/queues/{}/reservations", queue), body, safe=True))
        return found

    def reset_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Close a plugin's breakers and forget its faults. This does not end a quarantine; activating with `force` does. With If-
        Match, the server changes the plugin only at this revision (`etag`), else the answer is 412. The change takes effect as a
        whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("reset plugin", "POST", path("/v1/plugins/{}/reset", name), headers={"If-Match": if_match}))
        return found

    def resume_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Resume a drained or quiet consumer."""
        found: types.Consumer = self._fetch(_request("resume consumer", "POST", path("/v1/queues/{}/consumers/{}/resume", queue, consumer), safe=True))
        return found

    def resume_schedule(self, queue: str, name: str) -> types.Schedule:
        """Resume a paused schedule. `missed` decides which ticks of the pause are emitted. A schedule that is not paused stays as it
        is.
        """
        found: types.Schedule = self._fetch(_request("resume schedule", "POST", path("/v1/queues/{}/schedules/{}/resume", queue, name)))
        return found

    def retry_lifecycle(self, queue: str) -> types.Retried:
        """Retry parked life-cycle actions. The worker retries all parked actions now, and ends its pauses after failures. An action
        that fails again is parked again.
        """
        found: types.Retried = self._fetch(_request("retry lifecycle", "POST", path("/v1/queues/{}/lifecycle/retry", queue)))
        return found

    def revoke_token(self, id: Union[str, int]) -> None:
        """Revoke an access token. From the answer on, the server refuses requests with the token, and its sessions and streams end.
        Revoking the last token does not open the server: if no token with the scope admin is left, the next start writes one to
        the file admin-token in the data directory.
        """
        self._bytes(_request("revoke token", "DELETE", path("/v1/tokens/{}", id), safe=True))

    def rollback_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Activate the previous version. With If-Match, the server changes the plugin only at this revision (`etag`), else the
        answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("rollback plugin", "POST", path("/v1/plugins/{}/rollback", name), headers={"If-Match": if_match}))
        return found

    def rotate_token(self, id: Union[str, int], body: types.RotateToken) -> types.Token:
        """Rotate the secret of an access token. The answer has the token's new text. The previous secret stays valid for
        `overlap_seconds` (0 if absent), so that you can change its holders one by one. If the secret of an earlier rotation is
        still valid, it ends.
        """
        found: types.Token = self._fetch(_request("rotate token", "POST", path("/v1/tokens/{}/rotate", id), body))
        return found

    def set_initial_rule(self, body: types.RuleRequest) -> types.Rule:
        """Have new queues begin with a pause or a block. Each queue that is created from the answer on begins with the rule.
        Existing queues stay as they are: set the rule in each of them too if it is to hold everywhere. There is one initial rule
        per action and match: setting it again changes its reason, end and effects, and answers 200. The match is the queue, or
        values of meta keys. The scopes consume and operate may pause; only admin may block.
        """
        found: types.Rule = self._fetch(_request("set initial rule", "POST", path("/v1/initial-rules"), body))
        return found

    def set_rule(self, queue: str, body: types.RuleRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Rule:
        """Pause or block a queue, a submission, or values of meta keys. From the answer on, no strategy hands out chunks that the
        rule covers; consumers may finish the chunks that they hold. A block takes precedence over a pause, and each is set and
        lifted by itself. There is one rule per action and match: the same rule again changes nothing and answers 200; another
        reason, end or effect changes that rule. With If-Match, the server changes only a rule with this ETag; with `If-None-
        Match: *` it only sets a new one; else the answer is 412. `effects.insert` refuses inserts with 423 (it has no effect in a
        rule about a submission). `effects.revoke` releases reservations without counting an attempt. The scopes consume and
        operate may pause; only admin may block. Retries, run_at and deadlines of reservations continue. A dead_deadline waits
        until the rule ends, and then for one reservation timeout more.
        """
        found: types.Rule = self._fetch(_request("set rule", "POST", path("/v1/queues/{}/rules", queue), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}))
        return found

    def shadow_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score in the shadow of the active one, without deciding. The statistics show how far the two versions agree.
        An empty `version` ends the shadow. With If-Match, the server changes the plugin only at this revision (`etag`), else the
        answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = self._fetch(_request("shadow plugin", "POST", path("/v1/plugins/{}/shadow", name), body, headers={"If-Match": if_match}))
        return found

    def start_bulk_operation(self, body: types.BulkRequest) -> types.BulkOperation:
        """Apply an action to everything that matches a filter. Applies an action to everything in a queue that matches the filter,
        in the background. `redrive`, `delete` and `forward` (to another queue) are for dead letters. `retry` makes chunks that
        wait for a retry ready now, and also ends the delays of released chunks (snoozes). `give_up` ends chunks that wait for a
        retry, as if their attempts were used up. `cancel` and `reprioritize` are for open submissions. `purge` deletes
        submissions, open and ended, with all that the server has of them. After a restart, the operation continues where it was.
        A dry run counts the matches and changes nothing.
        """
        found: types.BulkOperation = self._fetch(_request("start bulk operation", "POST", path("/v1/bulk-operations"), body))
        return found

    def trigger_schedule(self, queue: str, name: str, *, key: Optional[str] = None) -> types.Submission:
        """Insert the work of a tick now. Inserts the submission of a tick now, regardless of the schedule's state and overlap. Its
        ticks do not change. The submission's scheduled_at is now.
        """
        found: types.Submission = self._fetch(_request("trigger schedule", "POST", path("/v1/queues/{}/schedules/{}/trigger", queue, name), headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    def upload_plugin(self, module: bytes) -> types.PluginVersion:
        """Upload a version of a plugin. As `application/wasm`, the body is the module, with its manifest in the section
        `quern.manifest`. As `multipart/form-data`, the parts are `module`, `manifest` (JSON, for languages that cannot embed one)
        and `config` (JSON, for the dry run of a plugin that needs one to start). The server validates, instruments, compiles and
        tries the module, the last two in a separate process. 422 lists all its faults, with pointers such as
        /module/code/functions/12/offset/345. Equal bytes are the same version: they answer 200 without another check. A version
        scores nothing before you activate it.
        """
        found: types.PluginVersion = self._fetch(_request("upload plugin", "POST", path("/v1/plugins"), module, media="application/wasm"))
        return found

    def validate_strategy(self, queue: str, body: types.StrategyRequest) -> types.ValidStrategy:
        """Validate a strategy. Answers with the canonical forms, the compiled branches, and a warning for each part without effect.
        It stores and reserves nothing. An invalid strategy answers 422, as in a reserve.
        """
        found: types.ValidStrategy = self._fetch(_request("validate strategy", "POST", path("/v1/queues/{}/strategies/validate", queue), body, safe=True))
        return found

    def version(self) -> types.Version:
        """Read the version of the server."""
        found: types.Version = self._fetch(_request("version", "GET", path("/version"), safe=True))
        return found

    def wait_submissions(self, body: types.WaitRequest) -> types.WaitAnswer:
        """Wait until one of many submissions ends, or all. The answer comes when one of the submissions has ended (with `all`, when
        all have) or after `wait_ms`. It lists all that have ended by then. The submissions may be in several queues. An id that
        is unknown, or outside the token's bounds, is in `unknown`; it never ends, so it counts as ended. To continue, leave out
        the answered ids. The size of an answer is limited: ended submissions that do not fit are counted in `open`, and come with
        the next call.
        """
        found: types.WaitAnswer = self._fetch(_request("wait submissions", "POST", path("/v1/submissions:wait"), body, safe=True))
        return found

    def whoami(self) -> types.Whoami:
        """Show which identity the server sees in the request. Any token may call this. On an open server the caller has all scopes."""
        found: types.Whoami = self._fetch(_request("whoami", "GET", path("/v1/whoami"), safe=True))
        return found

    def why(self, id: Union[str, int], index: Union[str, int], body: types.WhyRequest) -> types.WhyAnswer:
        """Explain why a strategy does not hand out a chunk now. The first obstacle in each branch, and the chunk's approximate
        place: the number of chunks before it, and the wait at the rate of the last minute.
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
        """Activate a version. Name a version by its version text (the newest with that text) or by the first 8 or more digits of its
        sha256. A quarantined version needs `force`. So does a version that refuses configurations in use: stored ones, and those
        that consumers sent within the last hour. 409 lists them. With If-Match, the server changes the plugin only at this
        revision (`etag`), else the answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("activate plugin", "POST", path("/v1/plugins/{}/activate", name), body, headers={"If-Match": if_match}))
        return found

    async def backfill_schedule(self, queue: str, name: str, body: types.BackfillRequest, *, key: Optional[str] = None) -> types.Backfilled:
        """Insert the work of past ticks. Inserts the submissions of past ticks, whether they were emitted or not. With `dry_run` it
        only counts them. With an `Idempotency-Key`, each tick's submission is inserted once within 24 hours, however often you
        send the request.
        """
        found: types.Backfilled = await self._fetch(_request("backfill schedule", "POST", path("/v1/queues/{}/schedules/{}/backfill", queue, name), body, headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    async def backup(self, *, queue: Optional[str] = None, body: Optional[bytes] = None) -> bytes:
        """Make a backup of the whole server. The answer is a tar with a manifest and the files that it lists, with their SHA-256. It
        has everything acknowledged before the request, of all queues as of one moment, with the access tokens and the plugins.
        Work continues meanwhile. The server makes the copies first, beside the data, and they take disk space until the answer is
        read; without that space the answer is 507. The server makes one backup at a time and answers 409 to another. A backup has
        the same secrets as the data directory: keep it as safe. `quern backup` checks the answer while it writes a file, and
        `quern restore` makes a data directory from it.  Without a body, the answer is a full backup. For an increment, send the
        beginning of an earlier backup as the body: its entries `manifest.json` and `blocks`. An increment has the blocks of files
        that changed since then. You restore the earlier backup first, and then the increment. The earlier backup may be an
        increment itself. If it is of another data directory, the answer is 409; a restore makes a new data directory.  With
        `queue`, the backup has one queue or one shard only. `quern restore --queue` brings it back into the same data directory,
        beside the other queues.
        """
        return await self._bytes(_request("backup", "POST", query(path("/v1/backup"), {"queue": queue}), body, media="application/x-tar"))

    async def canary_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score a share of the reservations. This version scores `percent` of the reservations, drawn by their seed; 0
        ends it. With If-Match, the server changes the plugin only at this revision (`etag`), else the answer is 412. The change
        takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("canary plugin", "POST", path("/v1/plugins/{}/canary", name), body, headers={"If-Match": if_match}))
        return found

    async def cancel_bulk_operation(self, id: Union[str, int], *, actor: Optional[str] = None) -> types.BulkOperation:
        """Stop a bulk operation. The changes that it has made stay. Cancelling an operation that has ended changes nothing."""
        found: types.BulkOperation = await self._fetch(_request("cancel bulk operation", "POST", query(path("/v1/bulk-operations/{}/cancel", id), {"actor": actor}), safe=True))
        return found

    async def cancel_chunk(self, id: Union[str, int], index: Union[str, int]) -> types.Chunk:
        """Cancel one chunk. Skips the chunk: it is not handed out again, no attempt is counted, and its consumer loses it. The other
        chunks go on. A chunk that is done, dead or skipped does not change. The answer is the chunk in its present state.
        """
        found: types.Chunk = await self._fetch(_request("cancel chunk", "POST", path("/v1/submissions/{}/chunks/{}/cancel", id, index), safe=True))
        return found

    async def cancel_submission(self, id: Union[str, int]) -> types.Submission:
        """Cancel a submission. Skips unfinished chunks and ends their reservations. Cancelling an ended submission changes nothing
        and answers with its present state.
        """
        found: types.Submission = await self._fetch(_request("cancel submission", "POST", path("/v1/submissions/{}/cancel", id), safe=True))
        return found

    async def change_queue(self, queue: str, body: types.ChangeQueueRequest, *, if_match: Optional[str] = None) -> types.Queue:
        """Change some settings of a queue. Absent settings stay as they are. Changes take effect with the next decision, also for
        chunks in flight. With If-Match, the server changes only settings with this ETag, else it answers 412.
        """
        found: types.Queue = await self._fetch(_request("change queue", "PATCH", path("/v1/queues/{}", queue), body, headers={"If-Match": if_match}))
        return found

    async def change_submission(self, id: Union[str, int], body: types.SubmissionChange, *, if_match: Optional[str] = None) -> types.Submission:
        """Change the priority of an open submission. CustomPriority uses it from the next reservation on. An ended submission
        answers 409. With If-Match, the server changes only a priority with this ETag, else it answers 412. Setting the present
        priority is allowed.
        """
        found: types.Submission = await self._fetch(_request("change submission", "PATCH", path("/v1/submissions/{}", id), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    async def compare(self, queue: str, body: types.CompareRequest) -> types.CompareAnswer:
        """Compare what two strategies would hand out now. Previews both on the same state with the same seed: the values of each
        meta key that get chunks, how evenly they share, and the common chunks.
        """
        found: types.CompareAnswer = await self._fetch(_request("compare", "POST", path("/v1/queues/{}/strategies/compare", queue), body, safe=True))
        return found

    async def complete(self, queue: str, body: types.CompleteRequest) -> types.ResultsAnswer:
        """Report chunks as done. One result per item, in order: ok, already (done before with this token), lost, gone, unknown or
        invalid. A bad item does not affect the others. With `insert`, the server inserts submissions into this queue in the
        commit of the chunk's completion: all of them and the completion, or nothing. The caller then needs the scope produce,
        too. A token that completes nothing inserts nothing, so you can safely send the same request again. If the server cannot
        insert one of the submissions now, it refuses the item, and the chunk stays reserved.
        """
        found: types.ResultsAnswer = await self._fetch(_request("complete", "POST", path("/v1/queues/{}/reservations/complete", queue), body, safe=True))
        return found

    async def config(self) -> types.ServerOptions:
        """Read the server's options and their sources."""
        found: types.ServerOptions = await self._fetch(_request("config", "GET", path("/v1/config"), safe=True))
        return found

    async def create_token(self, body: types.NewToken) -> types.Token:
        """Make an access token. The answer has the token's text. The server shows it only this once, and keeps a hash. The server
        records changes under the token's name, which is unique. `queues` and `meta` (one key with one value) bind the token: it
        inserts, sees and changes nothing else. Once a token exists, every request needs one, for good. The first token needs the
        scope admin. Admin includes all other scopes.
        """
        found: types.Token = await self._fetch(_request("create token", "POST", path("/v1/tokens"), body))
        return found

    async def deactivate_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Deactivate a plugin. Strategies that name it use their next branch. With If-Match, the server changes the plugin only at
        this revision (`etag`), else the answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("deactivate plugin", "POST", path("/v1/plugins/{}/deactivate", name), headers={"If-Match": if_match}))
        return found

    async def delete_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> None:
        """Delete a dead letter for good. It counts as skipped from then on."""
        await self._bytes(_request("delete dead letter", "DELETE", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index)))

    async def delete_group(self, queue: str, group: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete an empty group. The server forgets its limits and description. If the group has open submissions, the answer is
        409. If-Match works as for PUT.
        """
        await self._bytes(_request("delete group", "DELETE", path("/v1/queues/{}/groups/{}", queue, group), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_meta_key(self, queue: str, key: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Remove the default limit, weight, rate and quota of all values of a meta key. From the next reservation on, only a value's
        own settings apply to it. If-Match works as for PUT.
        """
        await self._bytes(_request("delete meta key", "DELETE", path("/v1/queues/{}/meta-keys/{}", queue, key), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_meta_value(self, queue: str, key: str, value: Union[str, int], *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Remove the limit, weight, rate and quota of a value of a meta key. From the next reservation on, the value has no limit
        and no rate, and its weight is 1. If-Match works as for PUT.
        """
        await self._bytes(_request("delete meta value", "DELETE", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_plugin(self, name: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a plugin with all its versions. The plugin must be inactive. If a stored strategy names it, 409 lists those
        strategies. `force=true` deletes it anyway: they then use their next branch, and the server refuses a reserve whose own
        strategy names it.
        """
        await self._bytes(_request("delete plugin", "DELETE", query(path("/v1/plugins/{}", name), {"force": force}), headers={"If-Match": if_match}))

    async def delete_plugin_version(self, name: str, version: str, *, force: Optional[bool] = None, if_match: Optional[str] = None) -> None:
        """Delete a version that is not in use. The answer is 409 if strategies in use name this version, or if it alone accepts one
        of their configurations; `force=true` deletes it anyway. Name a version by its version text (the newest with that text) or
        by the first 8 or more digits of its sha256.
        """
        await self._bytes(_request("delete plugin version", "DELETE", query(path("/v1/plugins/{}/versions/{}", name, version), {"force": force}), headers={"If-Match": if_match}))

    async def delete_queue(self, queue: str, *, quarantined: Optional[bool] = None) -> None:
        """Delete a queue. The queue must have no open submissions, and must not be named default. `quarantined=true` deletes a queue
        in quarantine, whose files are damaged or missing, with everything in it; an empty queue then replaces the one named
        default.
        """
        await self._bytes(_request("delete queue", "DELETE", query(path("/v1/queues/{}", queue), {"quarantined": quarantined})))

    async def delete_schedule(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a schedule. Its submissions stay. If-Match works as in PUT."""
        await self._bytes(_request("delete schedule", "DELETE", path("/v1/queues/{}/schedules/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_strategy(self, queue: str, name: str, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> None:
        """Delete a named strategy with all its versions. From then on, the server refuses reserves that name it. If-Match works as
        for PUT.
        """
        await self._bytes(_request("delete strategy", "DELETE", path("/v1/queues/{}/strategies/{}", queue, name), headers={"If-Match": if_match, "If-None-Match": if_none_match}))

    async def delete_submission(self, id: Union[str, int], *, cancel: Optional[bool] = None) -> None:
        """Delete an ended submission. Removes its meta, contents, outputs, attempts and dead letters for good, before the retention
        of the queue would. The answer comes when all of this is gone. An open submission answers 409, unless `cancel=true` ends
        it first. 503 means that the server has noted the deletion and finishes it by itself, also after a restart. Backups keep
        their copies until you delete them. Its idempotency key stays known, as a hash, for 24 hours.
        """
        await self._bytes(_request("delete submission", "DELETE", query(path("/v1/submissions/{}", id), {"cancel": cancel})))

    async def detach_consumer(self, queue: str, consumer: str) -> types.Released:
        """Detach a consumer. The consumer leaves: its streams end, the server forgets its orders, and its chunks go back without
        counting an attempt. Call this when it has finished.
        """
        found: types.Released = await self._fetch(_request("detach consumer", "POST", path("/v1/queues/{}/consumers/{}/detach", queue, consumer)))
        return found

    async def diagnose_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.Diagnosis:
        """Explain why the chunks of a value wait. One sentence, and its parts: the open chunks, counted by the cause that holds them
        back. It considers the rules, the limits, and the strategies that consumers used in the last hour (`.../strategies/in-
        use`), but not whose turn is next. A chunk in flight has no cause. The server examines chunks in slices and does other
        work between them, so under load the counts are of slightly different moments. If there are very many submissions, it
        examines a part of them, and `examined` says how many. Write the value in the path as in the filter `meta.KEY=VALUE`: a
        whole number is the integer, and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text,
        `values/s:` the empty text). Percent-encode characters that are special in a path (`a%2Fb`).
        """
        found: types.Diagnosis = await self._fetch(_request("diagnose meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}/diagnosis", queue, key, meta_text(value)), safe=True))
        return found

    async def diagnose_queue(self, queue: str) -> types.Diagnosis:
        """Explain what the chunks of a queue wait for. One sentence about the whole queue, and its parts: the chunks that wait at
        limits of values, behind rules, for a time, or for a consumer, with the end of each wait. The server makes it from
        counters once a second, so it costs the same at any backlog. It names the 10 causes with the most chunks. If several meta
        keys have limits, it names the key that holds back the most chunks. Where a value does not move, it names the consumer
        that holds its place, unless more than 10,000 chunks are in flight. It does not consider the filters of strategies.
        """
        found: types.Diagnosis = await self._fetch(_request("diagnose queue", "GET", path("/v1/queues/{}/diagnosis", queue), safe=True))
        return found

    async def diagnose_submission(self, id: Union[str, int]) -> types.Diagnosis:
        """Explain why the chunks of a submission wait. One sentence, and its parts: the open chunks, counted by the cause that holds
        them back. It considers the rules, the limits, and the strategies that consumers used in the last hour
        (`.../strategies/in-use`), but not whose turn is next. A chunk in flight has no cause. The server examines chunks in
        slices and does other work between them, so under load the counts are of slightly different moments. If there are very
        many submissions, it examines a part of them, and `examined` says how many. .
        """
        found: types.Diagnosis = await self._fetch(_request("diagnose submission", "GET", path("/v1/submissions/{}/diagnosis", id), safe=True))
        return found

    async def docs_page(self, page: str, *, q: Optional[str] = None) -> str:
        """A page of the documents, or a search in them."""
        return (await self._bytes(_request("docs page", "GET", query(path("/docs/{}", page), {"q": q}), safe=True))).decode()

    async def drain_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Tell a consumer to finish and leave. The consumer gets no new work, and should finish its chunks and leave. The event
        `drain` tells it if it is attached, and the reason `draining` of its reserves tells it in any case. `resume` takes an
        order back. The server forgets it when the consumer leaves or is lost, after an hour without a stream or a call, and at a
        restart.
        """
        found: types.Consumer = await self._fetch(_request("drain consumer", "POST", path("/v1/queues/{}/consumers/{}/drain", queue, consumer), safe=True))
        return found

    async def drain_shard(self, queue: str, shard: str) -> None:
        """Drain a shard. The shard gets no new groups, and its groups move to other shards as soon as they have no open submissions.
        This changes the setting `draining_shards`.
        """
        await self._bytes(_request("drain shard", "POST", path("/v1/queues/{}/shards/{}/drain", queue, shard)))

    async def dry_run_plugin(self, name: str, version: str, body: types.PluginDryRun, *, node: Optional[str] = None) -> types.PluginTried:
        """Try a version without any effect. Reserves nothing. It always scores synthetic candidates. With `queue` it also scores the
        present candidates of a strategy: `picks` has the chunks that would be taken, and `gained` and `lost` the difference to
        the order without it. `recording` scores a recorded batch again and compares the scores bit for bit. A recording is on one
        node of a cluster: name it with `node`. Name a version by its version text (the newest with that text) or by the first 8
        or more digits of its sha256.
        """
        found: types.PluginTried = await self._fetch(_request("dry run plugin", "POST", query(path("/v1/plugins/{}/versions/{}/dry-run", name, version), {"node": node}), body, safe=True))
        return found

    async def exchange(self, queue: str, body: types.ExchangeRequest) -> types.ExchangeAnswer:
        """Finish chunks and reserve the next ones in one call. The server commits the results first, and then reserves. This is the
        fast path of consumers. Completions take `insert`, as those of a complete do.
        """
        found: types.ExchangeAnswer = await self._fetch(_request("exchange", "POST", path("/v1/queues/{}/reservations/exchange", queue), body, safe=True))
        return found

    async def explain(self, queue: str, body: types.PreviewRequest) -> types.ExplainAnswer:
        """Explain a strategy. Shows the blocks of the strategy, with the chunks that reach each block and those that it refuses, by
        value. It counts the chunks that operators' limits hold back from the whole strategy. It lists the branches, under Fair
        with the next tenant. For each chunk that would be handed out, it names the obstacle in each earlier branch. The server
        counts in slices and does other work between them, so under load the counts are of slightly different moments.
        """
        found: types.ExplainAnswer = await self._fetch(_request("explain", "POST", path("/v1/queues/{}/strategies/explain", queue), body, safe=True))
        return found

    async def extend(self, queue: str, body: types.ExtendRequest) -> types.ResultsAnswer:
        """Move the deadlines of reservations. One result per item, in order: ok, already (done before with this token), lost, gone,
        unknown or invalid. A bad item does not affect the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("extend", "POST", path("/v1/queues/{}/reservations/extend", queue), body, safe=True))
        return found

    async def fail(self, queue: str, body: types.FailRequest) -> types.ResultsAnswer:
        """Report failed attempts. One result per item, in order: ok, already (done before with this token), lost, gone, unknown or
        invalid. A bad item does not affect the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("fail", "POST", path("/v1/queues/{}/reservations/fail", queue), body, safe=True))
        return found

    async def forward_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int], body: types.ForwardRequest) -> types.Submission:
        """Forward a dead chunk to another queue. The chunk becomes a submission of one chunk in the other queue, with its content,
        meta and attachment; `forwarded_from` there says where it came from. Here it counts as skipped, in the same commit. It
        arrives exactly once, even after a crash.
        """
        found: types.Submission = await self._fetch(_request("forward dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/forward", queue, submission, index), body))
        return found

    async def get_bulk_operation(self, id: Union[str, int]) -> types.BulkOperation:
        """Read the progress of a bulk operation."""
        found: types.BulkOperation = await self._fetch(_request("get bulk operation", "GET", path("/v1/bulk-operations/{}", id), safe=True))
        return found

    async def get_chunk(self, id: Union[str, int], index: Union[str, int]) -> types.Chunk:
        """Read one chunk."""
        found: types.Chunk = await self._fetch(_request("get chunk", "GET", path("/v1/submissions/{}/chunks/{}", id, index), safe=True))
        return found

    async def get_chunk_map(self, id: Union[str, int], *, from_: Optional[int] = None, to: Optional[int] = None, cells: Optional[int] = None) -> types.ChunkMap:
        """Count a submission's chunks by state, in ranges of indexes. The chunks from index `from` up to `to`, counted by state in
        cells of equal size. The server examines at most 1,048,576 chunks. Of a longer range it examines one chunk in `every`: ask
        for a shorter range to count all of them. A chunk that changes meanwhile counts as the server met it.
        """
        found: types.ChunkMap = await self._fetch(_request("get chunk map", "GET", query(path("/v1/submissions/{}/map", id), {"from": from_, "to": to, "cells": cells}), safe=True))
        return found

    async def get_consumer(self, queue: str, consumer: str, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> types.ConsumerDetail:
        """Read a consumer and its reservations."""
        found: types.ConsumerDetail = await self._fetch(_request("get consumer", "GET", query(path("/v1/queues/{}/consumers/{}", queue, consumer), {"cursor": cursor, "limit": limit}), safe=True))
        return found

    async def get_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.DeadLetter:
        """Read a dead letter with its last 10 attempts."""
        found: types.DeadLetter = await self._fetch(_request("get dead letter", "GET", path("/v1/queues/{}/dead-letters/{}/{}", queue, submission, index), safe=True))
        return found

    async def get_durations(self, queue: str, *, meta: Optional[Mapping[str, Union[str, int]]] = None) -> types.Durations:
        """Read how long chunks waited and ran. From memory: the last 30 to 60 minutes. `meta.KEY=VALUE` selects submissions with
        this value; give it at most once. The server measures up to 256 values of a queue: those that had work, or that a call
        asked about, most recently. If it did not measure a value yet, it begins with this call, and `since` is the time of the
        call. Beyond about 10,000 chunks a second it measures a random share of them, and scales the counts up.
        """
        found: types.Durations = await self._fetch(_request("get durations", "GET", query(path("/v1/queues/{}/durations", queue), {"meta": meta}), safe=True))
        return found

    async def get_group(self, queue: str, group: str) -> types.Group:
        """Read a group."""
        found: types.Group = await self._fetch(_request("get group", "GET", path("/v1/queues/{}/groups/{}", queue, group), safe=True))
        return found

    async def get_initial_rule(self, id: Union[str, int]) -> types.Rule:
        """Read a rule that new queues begin with."""
        found: types.Rule = await self._fetch(_request("get initial rule", "GET", path("/v1/initial-rules/{}", id), safe=True))
        return found

    async def get_key_timeseries(self, queue: str, key: str) -> types.KeySeries:
        """Read the chunks in flight of a meta key's values over time. From memory: the last ten minutes in steps of five seconds,
        for the values that were among those with the most in flight. -1 means unknown, because the value was not among them.
        """
        found: types.KeySeries = await self._fetch(_request("get key timeseries", "GET", path("/v1/queues/{}/meta-keys/{}/timeseries", queue, key), safe=True))
        return found

    async def get_ledger(self, queue: str, ledger: str, *, sort: Optional[str] = None, value: Optional[str] = None, limit: Optional[int] = None) -> types.LedgerTenants:
        """Read the fair and the received shares of the tenants of a Fair block. Shares per tenant. `sort` is received (the largest
        first), behind (furthest behind first) or ahead. No tenant is ever more than a few chunks from an ideal division:
        STRATEGIES.md has the numbers.
        """
        found: types.LedgerTenants = await self._fetch(_request("get ledger", "GET", query(path("/v1/queues/{}/ledgers/{}", queue, ledger), {"sort": sort, "value": value, "limit": limit}), safe=True))
        return found

    async def get_lifecycle(self, queue: str) -> types.Lifecycle:
        """Read the state of a queue's life-cycle worker. The worker runs the timed work: deadlines, retries, run_at, dead_deadline,
        cleanup of ended submissions, retention, schedules, the ends of rules. It also recounts the counters, see recount. It
        parks an action that fails again and again, until you retry it or the server restarts.
        """
        found: types.Lifecycle = await self._fetch(_request("get lifecycle", "GET", path("/v1/queues/{}/lifecycle", queue), safe=True))
        return found

    async def get_meta_key(self, queue: str, key: str) -> types.MetaKey:
        """Read a meta key, with the default of its values."""
        found: types.MetaKey = await self._fetch(_request("get meta key", "GET", path("/v1/queues/{}/meta-keys/{}", queue, key), safe=True))
        return found

    async def get_meta_value(self, queue: str, key: str, value: Union[str, int]) -> types.ValueCount:
        """Read a value of a meta key, with its chunks and settings. Write the value in the path as in the filter `meta.KEY=VALUE`: a
        whole number is the integer, and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text,
        `values/s:` the empty text). Percent-encode characters that are special in a path (`a%2Fb`).
        """
        found: types.ValueCount = await self._fetch(_request("get meta value", "GET", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), safe=True))
        return found

    async def get_plugin(self, name: str) -> types.Plugin:
        """Read a plugin, with its versions in use and the state of its breaker. Each node of a cluster has a breaker of its own. The
        state is that of the breaker that needs attention most, and `breaker.node` names its node. A plugin is `active` when it
        scores on all nodes.
        """
        found: types.Plugin = await self._fetch(_request("get plugin", "GET", path("/v1/plugins/{}", name), safe=True))
        return found

    async def get_plugin_logs(self, name: str, *, node: Optional[str] = None, after: Optional[int] = None, cursor: Optional[str] = None, limit: Optional[int] = None) -> types.PluginLogs:
        """Read the log of a plugin. The last 1,000 lines of each node, the oldest first. For later lines, send `cursor` of this
        answer, or, of a single node, `next` as `after`. In a cluster the answer is about all nodes, unless `node` names one;
        `missing` names those that did not answer.
        """
        found: types.PluginLogs = await self._fetch(_request("get plugin logs", "GET", query(path("/v1/plugins/{}/logs", name), {"node": node, "after": after, "cursor": cursor, "limit": limit}), safe=True))
        return found

    async def get_plugin_module(self, name: str, version: str) -> bytes:
        """Download a version's module."""
        return await self._bytes(_request("get plugin module", "GET", path("/v1/plugins/{}/versions/{}/wasm", name, version), safe=True))

    async def get_plugin_recording(self, name: str, id: Union[str, int]) -> bytes:
        """Download a recorded batch. A .qbatch file, which `quern plugin run` replays."""
        return await self._bytes(_request("get plugin recording", "GET", path("/v1/plugins/{}/recordings/{}", name, id), safe=True))

    async def get_plugin_stats(self, name: str, *, node: Optional[str] = None) -> types.PluginStats:
        """Read a plugin's numbers since the start of the server. In a cluster the answer is about all nodes, unless `node` names
        one; `missing` names those that did not answer.
        """
        found: types.PluginStats = await self._fetch(_request("get plugin stats", "GET", query(path("/v1/plugins/{}/stats", name), {"node": node}), safe=True))
        return found

    async def get_plugin_version(self, name: str, version: str) -> types.PluginVersion:
        """Read a version of a plugin, with its manifest and dry run. Name a version by its version text (the newest with that text)
        or by the first 8 or more digits of its sha256.
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
        """Read a schedule and its state."""
        found: types.Schedule = await self._fetch(_request("get schedule", "GET", path("/v1/queues/{}/schedules/{}", queue, name), safe=True))
        return found

    async def get_stats(self, queue: str) -> types.Stats:
        """Read a queue's numbers. A flat object, so that a scaler can read one number by name. Reading costs the same at any
        backlog. Totals count from the server's start. Of a shard that does not serve, the answer has the last known numbers, but
        no totals.
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
        """Read an access token."""
        found: types.Token = await self._fetch(_request("get token", "GET", path("/v1/tokens/{}", id), safe=True))
        return found

    async def insert_batch(self, queue: str, body: types.InsertManyRequest) -> types.InsertManyAnswer:
        """Insert many submissions in one commit. Up to 10,000 submissions, each as in a single insert and optionally with its own
        `idempotency_key`. All go to disk in one commit. The answer has one result per submission, in order: created, existing
        (another submission holds its `unique` key), replayed (inserted before with the same idempotency key, in its present
        state), invalid or refused. An invalid or refused submission does not prevent the others, unless `atomic` is true: then
        nothing is inserted, and the others are refused with the code batch_refused. As `application/x-ndjson`, each line is one
        submission, and the call is not atomic. An error of the whole call (such as 503 commit_failed) does not tell what
        happened; with keys you can safely send it again.
        """
        found: types.InsertManyAnswer = await self._fetch(_request("insert batch", "POST", path("/v1/queues/{}/submissions:batch", queue), body))
        return found

    async def lift_initial_rule(self, id: Union[str, int], *, actor: Optional[str] = None) -> None:
        """Have new queues begin without a rule. Queues that are created from then on begin without the rule. Queues that began with
        it keep it until it is lifted in them. Lifting it again answers the same. Only admin may lift a block.
        """
        await self._bytes(_request("lift initial rule", "DELETE", query(path("/v1/initial-rules/{}", id), {"actor": actor})))

    async def lift_rule(self, queue: str, id: Union[str, int], *, actor: Optional[str] = None) -> None:
        """Lift a pause or a block. From then on, the server hands out the chunks that no other rule covers, first to waiting
        consumers. Lifting a rule that has ended answers the same. Only admin may lift a block.
        """
        await self._bytes(_request("lift rule", "DELETE", query(path("/v1/queues/{}/rules/{}", queue, id), {"actor": actor}), safe=True))

    def list_audit(self, *, since: Optional[str] = None, until: Optional[str] = None, actor: Optional[str] = None, action: Optional[str] = None, queue: Optional[str] = None, target: Optional[str] = None, outcome: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.AuditEntry]:
        """Read the audit log. The log of changes and refused acts, the latest first. A change and its entry are one commit, so
        neither exists without the other. If the token did not allow an act, its entry has the outcome `refused`, and `after` has
        the `code` and `detail` of the answer. The first sixty refused acts of a token get an entry each, and later ones one entry
        per minute. Its `left_out` counts the refused acts without an entry since the previous one. `next` is the cursor of older
        entries. The server limits how many entries it examines per page, so a page with a `next` may be short or empty.
        `incomplete`, and the header `Quern-Audit-Incomplete` of every form of the answer, name the queues whose latest entries
        may be missing: those in quarantine, and in a cluster those whose node did not answer in 2 seconds. With `Accept:
        application/x-ndjson` the answer has all matching entries, one per line. With `Accept: text/event-stream` it follows the
        log, from `since` or from now on, the oldest entry first. `Last-Event-ID` continues after the last id, which may have come
        without an event. Entries of the ten seconds before that id may then come again, with the same ids. If the server cannot
        read the log any further, the last event is `problem`, with a problem as its data. A stream does not allow `cursor`,
        `limit` and `until`.
        """
        return self._pages("list audit", path("/v1/audit"), {"since": since, "until": until, "actor": actor, "action": action, "queue": queue, "target": target, "outcome": outcome, "limit": limit})

    def list_bulk_operations(self, *, queue: Optional[str] = None) -> AsyncIterator[types.BulkOperation]:
        """List bulk operations, newest first. All running operations, and the last 100 ended ones of each queue. In a cluster the
        nodes have two seconds to answer; `missing` names those that did not.
        """
        return self._pages("list bulk operations", path("/v1/bulk-operations"), {"queue": queue})

    def list_chunk_attempts(self, id: Union[str, int], index: Union[str, int]) -> AsyncIterator[types.Attempt]:
        """List the ended attempts of a chunk. The last 10 ended attempts, over all redrives, the oldest first. The server forgets
        them when the chunk is done.
        """
        return self._pages("list chunk attempts", path("/v1/submissions/{}/chunks/{}/attempts", id, index), {})

    def list_chunks(self, id: Union[str, int], *, state: Optional[Sequence[str]] = None, limit: Optional[int] = None) -> AsyncIterator[types.Chunk]:
        """List a submission's chunks by index. A page with a `next` may have fewer items than its limit, or none: the server limits
        how many items it examines per page, and the size of a page.
        """
        return self._pages("list chunks", path("/v1/submissions/{}/chunks", id), {"state": state, "limit": limit})

    def list_consumers(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.Consumer]:
        """List a queue's consumers by name. Lists the consumers that are attached or were until just now, hold a chunk, or have an
        operator's order. It includes consumers without a name, but they have no path.
        """
        return self._pages("list consumers", path("/v1/queues/{}/consumers", queue), {"limit": limit})

    async def list_dead_letter_groups(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, cursor: Optional[str] = None) -> types.DeadGroups:
        """Group dead letters by the fingerprint of their errors. Errors that differ only in numbers, hexadecimal ids, UUIDs and
        quoted parts have one fingerprint. The groups count every matching dead letter. There are at most 10,000 groups. If there
        are more kinds of errors, `others` counts the dead letters in no group; a filter by `fingerprint` finds those too.
        """
        found: types.DeadGroups = await self._fetch(_request("list dead letter groups", "GET", query(path("/v1/queues/{}/dead-letters/groups", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "cursor": cursor}), safe=True))
        return found

    def list_dead_letters(self, queue: str, *, submission: Optional[str] = None, fingerprint: Optional[str] = None, died_before: Optional[str] = None, died_after: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> AsyncIterator[types.DeadLetter]:
        """List dead letters. Dead chunks of submissions that are open or completed with dead chunks: the newest submission first,
        and within one submission by index. A dead letter stays until you redrive, forward or delete it, or until a retention of
        the queue removes it. A page with a `next` may have fewer items than its limit, or none: the server limits how many items
        it examines per page, and the size of a page.
        """
        return self._pages("list dead letters", path("/v1/queues/{}/dead-letters", queue), {"submission": submission, "fingerprint": fingerprint, "died_before": died_before, "died_after": died_after, "meta": meta, "limit": limit})

    def list_groups(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.Group]:
        """List the groups of a queue. A submission names its group with `group`, or with the meta key `group`. All submissions of a
        group are in one shard of the queue. The list is in the order of the names.
        """
        return self._pages("list groups", path("/v1/queues/{}/groups", queue), {"limit": limit})

    def list_initial_rules(self) -> AsyncIterator[types.Rule]:
        """List the rules that new queues begin with. By ascending id. A rule whose `until` has passed is not in the list."""
        return self._pages("list initial rules", path("/v1/initial-rules"), {})

    def list_ledgers(self, queue: str) -> AsyncIterator[types.Ledger]:
        """List the Fair blocks in use."""
        return self._pages("list ledgers", path("/v1/queues/{}/ledgers", queue), {})

    def list_meta_keys(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.MetaKey]:
        """List the meta keys with the number of their values. Keys of open submissions, and keys with a setting."""
        return self._pages("list meta keys", path("/v1/queues/{}/meta-keys", queue), {"limit": limit})

    def list_meta_values(self, queue: str, key: str, *, sort: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.ValueCount]:
        """List the values of a meta key with their chunks and settings. The largest by `sort` come first; by `oldest`, the values
        whose ready chunks were inserted longest ago. The server looks at each value of the key, and at each open submission for
        the numbers that it does not keep: `waiting`, `dead`, `done` and `oldest_ready_at`.
        """
        return self._pages("list meta values", path("/v1/queues/{}/meta-keys/{}/values", queue, key), {"sort": sort, "limit": limit})

    def list_nodes(self) -> AsyncIterator[types.Node]:
        """List the nodes of the cluster, and the queues that each owns. Lists the nodes of the cluster by name, each with the queues
        that it owns. `epoch` is the number of the owner's claim to a queue, and `lease_ms` the time left of its lease. The node
        that answers measures all leases by its own clock, from the last heartbeat that it saw. A node without queues leaves the
        list after 5 seconds of silence. A server without a cluster lists itself, with `lease_ms` null.
        """
        return self._pages("list nodes", path("/v1/nodes"), {})

    def list_plugin_recordings(self, name: str, *, node: Optional[str] = None) -> AsyncIterator[types.PluginRecording]:
        """List the recorded batches. The server records one batch in 10,000, and every batch that faulted. It keeps the latest of
        both in memory. In a cluster each node has its own; without `node` they are those of the node that answers.
        """
        return self._pages("list plugin recordings", path("/v1/plugins/{}/recordings", name), {"node": node})

    def list_plugin_scores(self, name: str, *, node: Optional[str] = None) -> AsyncIterator[types.PluginScores]:
        """Read how a plugin's versions score live traffic. One entry per open version and configuration, those in use first: its
        batches and failures, and for a sample the distribution of the last 4,096 scores and the share that gave a chunk. The
        sample has whole batches, one in 64 and at most four more per second, so reserves stay fast. The numbers start at zero
        when the server opens a version: at a start, and after five minutes out of use. In a cluster each node has its own;
        without `node` they are those of the node that answers.
        """
        return self._pages("list plugin scores", path("/v1/plugins/{}/scores", name), {"node": node})

    def list_plugin_versions(self, name: str) -> AsyncIterator[types.PluginVersion]:
        """List a plugin's versions, the newest first."""
        return self._pages("list plugin versions", path("/v1/plugins/{}/versions", name), {})

    def list_plugins(self, *, limit: Optional[int] = None) -> AsyncIterator[types.Plugin]:
        """List the plugins by name. Each node of a cluster has a breaker of its own. The state is that of the breaker that needs
        attention most, and `breaker.node` names its node. A plugin is `active` when it scores on all nodes.
        """
        return self._pages("list plugins", path("/v1/plugins"), {"limit": limit})

    def list_queue_outputs(self, queue: str, *, created_before: Optional[str] = None, created_after: Optional[str] = None, state: Optional[Sequence[str]] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, schedule: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.SubmissionOutput]:
        """List the outputs of many submissions. Outputs of the newest submission come first, and within a submission they are in the
        order of their indexes. The filters are those of the list of submissions, such as `meta.batch=7` and `state=completed`.
        Each item names its submission and chunk. If an answer was lost, ask for the same page again. The list is complete when a
        page has no `next`. Outputs of a submission that you insert meanwhile are not in it. If an output is lost, its page
        answers 500; `created_before` leaves its submission out. A page with a `next` may have fewer items than its limit, or
        none: the server limits how many items it examines per page, and the size of a page.
        """
        return self._pages("list queue outputs", path("/v1/queues/{}/outputs", queue), {"created_before": created_before, "created_after": created_after, "state": state, "meta": meta, "schedule": schedule, "limit": limit})

    def list_queues(self) -> AsyncIterator[types.Queue]:
        """List the queues."""
        return self._pages("list queues", path("/v1/queues"), {})

    def list_reservations(self, queue: str, *, sort: Optional[str] = None, overdue: Optional[bool] = None, consumer: Optional[str] = None, submission: Optional[str] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, limit: Optional[int] = None) -> AsyncIterator[types.HeldReservation]:
        """List the chunks that consumers hold. Each reservation with its consumer, its start and its deadline: the longest first, or
        with `sort=deadline` the next deadline first. Filters are `overdue=true` (held for longer than the queue's
        `reservation_timeout_ms`), `consumer=NAME`, `submission=ID` and `meta.KEY=VALUE` as in the list of submissions; all must
        match. A page covers several moments: a chunk that is reserved or finished meanwhile may be missing, and a page with a
        `next` may have fewer items than its limit. With `sort=deadline`, a chunk that is extended between two pages may be in
        both. The list has no tokens.
        """
        return self._pages("list reservations", path("/v1/queues/{}/reservations", queue), {"sort": sort, "overdue": overdue, "consumer": consumer, "submission": submission, "meta": meta, "limit": limit})

    def list_retries(self, queue: str, *, meta: Optional[Mapping[str, Union[str, int]]] = None, error: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.Retry]:
        """List chunks that wait for a retry after a failure. Chunks of the newest submission come first, and within a submission
        they are in the order of their indexes. `meta.KEY=VALUE` takes only submissions with this value. A page with a `next` may
        have fewer items than its limit, or none: the server limits how many items it examines per page, and the size of a page.
        """
        return self._pages("list retries", path("/v1/queues/{}/retries", queue), {"meta": meta, "error": error, "limit": limit})

    async def list_retry_groups(self, queue: str, *, meta: Optional[Mapping[str, Union[str, int]]] = None) -> types.RetryGroups:
        """Group chunks that wait for a retry by their errors. Errors that differ only in numbers, hexadecimal ids, UUIDs and quoted
        parts have one fingerprint, as in groups of dead letters. `meta.KEY=VALUE` takes only submissions with this value. The
        bulk action retry with a fingerprint tries the chunks of a group now. The server examines at most 100,000 chunks of the
        newest 1,000,000 submissions, in slices, so the counts are of slightly different moments.
        """
        found: types.RetryGroups = await self._fetch(_request("list retry groups", "GET", query(path("/v1/queues/{}/retries/groups", queue), {"meta": meta}), safe=True))
        return found

    def list_rules(self, queue: str, *, state: Optional[str] = None) -> AsyncIterator[types.Rule]:
        """List a queue's pauses and blocks. Active rules, by ascending id. `state=ended` lists the last 1,000 rules that ended, the
        latest first: how and when they ended, and who lifted them.
        """
        return self._pages("list rules", path("/v1/queues/{}/rules", queue), {"state": state})

    async def list_schedule_ticks(self, queue: str, name: str, *, n: Optional[int] = None) -> types.SchedulePreview:
        """List the next ticks of a schedule."""
        found: types.SchedulePreview = await self._fetch(_request("list schedule ticks", "GET", query(path("/v1/queues/{}/schedules/{}/ticks", queue, name), {"n": n}), safe=True))
        return found

    def list_schedules(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.Schedule]:
        """List a queue's schedules by name."""
        return self._pages("list schedules", path("/v1/queues/{}/schedules", queue), {"limit": limit})

    def list_shards(self, queue: str) -> AsyncIterator[types.Shard]:
        """List the shards of a queue. A queue has one shard, or as many as its setting `shards` says. `queue` is the name with which
        you ask one shard alone.
        """
        return self._pages("list shards", path("/v1/queues/{}/shards", queue), {})

    def list_strategies(self, queue: str, *, limit: Optional[int] = None) -> AsyncIterator[types.NamedStrategy]:
        """List a queue's named strategies by name."""
        return self._pages("list strategies", path("/v1/queues/{}/strategies", queue), {"limit": limit})

    async def list_strategies_in_use(self, queue: str, *, cursor: Optional[str] = None) -> types.StrategiesInUse:
        """List the strategies that consumers used in the last hour. The strategies that handed out the most chunks come first. The
        server remembers at most 256 strategies, and forgets the one that was unused for longest. Rates are over the last one to
        two minutes and include empty reserves. `consumers` estimates the number of names that reserved with it in the last half
        hour to hour: nearly exact up to 20, within a few percent beyond. The list starts with the server, at `since`.
        """
        found: types.StrategiesInUse = await self._fetch(_request("list strategies in use", "GET", query(path("/v1/queues/{}/strategies/in-use", queue), {"cursor": cursor}), safe=True))
        return found

    def list_submissions(self, queue: str, *, created_before: Optional[str] = None, created_after: Optional[str] = None, sort: Optional[str] = None, state: Optional[Sequence[str]] = None, meta: Optional[Mapping[str, Union[str, int]]] = None, schedule: Optional[str] = None, limit: Optional[int] = None) -> AsyncIterator[types.Submission]:
        """List submissions, newest first. Newest first. Filters are `state=STATE` (repeated or comma-separated for several) and
        `meta.KEY=VALUE` (repeated for several keys, which must all match). A whole number is the integer, and `s:` before a value
        makes it a string: `meta.company=123` is the integer, `meta.company=s:123` the text. `created_before=TIME` and
        `created_after=TIME` select submissions that were inserted before that time, and at that time or later. `next` is the
        cursor of the next page, and absent on the last. `sort=largest` lists open submissions in one page, those with the most
        chunks left first. It examines the newest 1,000,000 submissions in slices, so its numbers are of slightly different
        moments. A page with a `next` may have fewer items than its limit, or none: the server limits how many items it examines
        per page, and the size of a page.
        """
        return self._pages("list submissions", path("/v1/queues/{}/submissions", queue), {"created_before": created_before, "created_after": created_after, "sort": sort, "state": state, "meta": meta, "schedule": schedule, "limit": limit})

    def list_tokens(self) -> AsyncIterator[types.Token]:
        """List the access tokens, the oldest first. The list has no secrets."""
        return self._pages("list tokens", path("/v1/tokens"), {})

    async def list_views(self, queue: str, *, cursor: Optional[str] = None) -> types.Views:
        """List the indexes of strategies, with their memory. Every branch of a strategy needs an index in memory (a view), which the
        server builds at its first use. The option view-memory limits the memory of all views together. Views that only questions
        use may take a quarter of it in addition. The server removes the least recently used views to make room. If there is no
        room for a view, the call answers 429.
        """
        found: types.Views = await self._fetch(_request("list views", "GET", query(path("/v1/queues/{}/views", queue), {"cursor": cursor}), safe=True))
        return found

    async def livez(self) -> str:
        """Check that the process serves requests."""
        return (await self._bytes(_request("livez", "GET", path("/livez"), safe=True))).decode()

    async def metrics(self) -> str:
        """Prometheus metrics."""
        return (await self._bytes(_request("metrics", "GET", path("/metrics"), safe=True))).decode()

    async def move_group(self, queue: str, group: str, body: types.MoveGroupRequest) -> types.Group:
        """Move a group to another shard. The group moves as soon as it has no open submissions; until then it stays, and `moving_to`
        names the new shard. No work is held back meanwhile. New submissions of the group then go to the new shard, with the
        limits of the group. To give a move up, send the number of the shard that has the group. The answer is 409 while a
        schedule inserts into the group. For 24 hours after a move, a group can only move back.
        """
        found: types.Group = await self._fetch(_request("move group", "POST", path("/v1/queues/{}/groups/{}/move", queue, group), body))
        return found

    async def move_queue(self, queue: str, body: types.MoveRequest) -> types.Moved:
        """Move a queue to another node of the cluster. Reservations, limits and tokens stay valid. Shards of one queue can be on
        different nodes: the call moves all of them, or the one that `shard` names. A call that comes while the queue moves waits
        for up to a second, and then answers 503 with the code moving. This call answers when the other node serves the queue.
        """
        found: types.Moved = await self._fetch(_request("move queue", "POST", path("/v1/queues/{}/move", queue), body))
        return found

    async def openapi(self) -> str:
        """This document."""
        return (await self._bytes(_request("openapi", "GET", path("/openapi.json"), safe=True))).decode()

    async def pause_schedule(self, queue: str, name: str, *, reason: Optional[str] = None) -> types.Schedule:
        """Pause a schedule. Ticks that pass meanwhile count as missed when you resume. A paused schedule stays as it is."""
        found: types.Schedule = await self._fetch(_request("pause schedule", "POST", query(path("/v1/queues/{}/schedules/{}/pause", queue, name), {"reason": reason})))
        return found

    async def preview(self, queue: str, body: types.PreviewRequest) -> types.PreviewAnswer:
        """Preview the chunks that a reserve would hand out now. It reserves and changes nothing. A later reserve may get other
        chunks, and Random draws again each time.
        """
        found: types.PreviewAnswer = await self._fetch(_request("preview", "POST", path("/v1/queues/{}/strategies/preview", queue), body, safe=True))
        return found

    async def preview_schedule(self, queue: str, body: types.SchedulePreviewRequest) -> types.SchedulePreview:
        """Describe a spec in plain words, with its next ticks. Stores nothing. `@every` counts from `start`, or from now."""
        found: types.SchedulePreview = await self._fetch(_request("preview schedule", "POST", path("/v1/queues/{}/schedules/preview", queue), body, safe=True))
        return found

    async def put_dead_letter_content(self, queue: str, submission: Union[str, int], index: Union[str, int], body: types.Bytes, *, if_match: Optional[str] = None) -> types.Submission:
        """Change the content of a dead chunk. The body is the new content, at most 65,536 bytes; it replaces inline contents only.
        The chunk stays dead: redrive or forward it afterwards. The audit log has both contents: size, SHA-256, and up to 1,000
        bytes of text. A queue keeps at most 1,000 changed contents of 16 MiB in all, until their submissions leave the history.
        With If-Match, the server changes only the content with the dead letter's ETag, else it answers 412.
        """
        found: types.Submission = await self._fetch(_request("put dead letter content", "PUT", path("/v1/queues/{}/dead-letters/{}/{}/content", queue, submission, index), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    async def put_group(self, queue: str, group: str, body: types.PutGroupRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Group:
        """Create a group, or change its limits and description. The body replaces the limits and the description. `limits.waiting`
        counts the chunks that no consumer has, without those that wait for a retry; `limits.submissions` counts open submissions.
        The server refuses an insert that would exceed a limit, with `limit_reached`, and names the present count (`current`) and
        the limit (`max`). A limit below the present count takes no work away. Submissions of schedules and redriven chunks count,
        but the server does not refuse them.
        """
        found: types.Group = await self._fetch(_request("put group", "PUT", path("/v1/queues/{}/groups/{}", queue, group), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def put_meta_key(self, queue: str, key: str, body: types.ValueSettings, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.MetaKey:
        """Set a default limit, weight, rate and quota for all values of a meta key. Sets the default for all values of the key that
        have no such setting of their own, also for those that come later. It replaces all settings: one that is absent or null
        becomes unset. A value's own `limit`, `weight`, `rate` or number of `quota` takes the place of the default, so the limit
        2,147,483,647 frees one value. All take effect with the next reservation. The server does a step for each value of open
        submissions. If-Match and If-None-Match work as for a value. The first default answers 201.
        """
        found: types.MetaKey = await self._fetch(_request("put meta key", "PUT", path("/v1/queues/{}/meta-keys/{}", queue, key), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def put_meta_value(self, queue: str, key: str, value: Union[str, int], body: types.ValueSettings, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.ValueCount:
        """Set a limit, a weight, a rate and a quota for a value of a meta key. Replaces all settings: one that is absent or null
        becomes unset. `limit` holds for every reservation of the queue, with any strategy; MaxSimultaneous can only be tighter.
        With the limit 0, the server hands out no chunk of the value. Chunks in flight stay. `weight` is the value's share under
        Fair. `rate` takes the place of the number in every MaxRate of the key over the same time, and may be larger or smaller.
        The server refuses an insert that would exceed `quota`, with `limit_reached`. All take effect with the next call, and you
        can set them before any submission has the value. The same settings again change nothing. With If-Match, the server
        replaces only settings with this ETag; with `If-None-Match: *` it only sets the first ones; else the answer is 412. The
        first settings answer 201. Write the value in the path as in the filter `meta.KEY=VALUE`: a whole number is the integer,
        and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text, `values/s:` the empty text).
        Percent-encode characters that are special in a path (`a%2Fb`).
        """
        found: types.ValueCount = await self._fetch(_request("put meta value", "PUT", path("/v1/queues/{}/meta-keys/{}/values/{}", queue, key, meta_text(value)), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def put_plugin_settings(self, name: str, body: types.PluginSettings, *, if_match: Optional[str] = None) -> types.Plugin:
        """Open or close a plugin's breaker by hand, and set its limits. Replaces all settings: one that you leave out gets its
        default. With If-Match, the server changes the plugin only at this revision (`etag`), else the answer is 412. The change
        takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("put plugin settings", "PUT", path("/v1/plugins/{}/settings", name), body, headers={"If-Match": if_match}, safe=if_match is None))
        return found

    async def put_queue(self, queue: str, body: types.PutQueueRequest, *, if_none_match: Optional[str] = None) -> types.Queue:
        """Create a queue or replace its settings. Replaces all settings: one that you leave out gets its default, except `shards`,
        which stays. A new queue answers 201. With `If-None-Match: *` the server only creates a new queue; one that exists stays
        as it is, and answers 412.
        """
        found: types.Queue = await self._fetch(_request("put queue", "PUT", path("/v1/queues/{}", queue), body, headers={"If-None-Match": if_none_match}, safe=if_none_match is None))
        return found

    async def put_schedule(self, queue: str, name: str, body: types.ScheduleDefinition, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Schedule:
        """Create a schedule, or redefine it. A tick and its submission are one commit. Even after a crash, each tick is emitted
        once, or dropped by `missed` or `overlap` and counted. The same definition again changes nothing. If spec, seconds, tz,
        start and end stay, a schedule continues where it was; otherwise its ticks begin after now. With If-Match, the server
        replaces only a version with this ETag; with `If-None-Match: *` it only creates a new name; else the answer is 412. A new
        name answers 201.
        """
        found: types.Schedule = await self._fetch(_request("put schedule", "PUT", path("/v1/queues/{}/schedules/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def put_strategy(self, queue: str, name: str, body: types.StrategyRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.NamedStrategy:
        """Store a strategy under a name, or change it. The same strategy as before, in any spelling, changes nothing. Another one
        becomes the next version, and the next reservation uses it. With If-Match, the server replaces only a version with this
        ETag; with `If-None-Match: *` it only creates a new name; else the answer is 412. A new name answers 201.
        """
        found: types.NamedStrategy = await self._fetch(_request("put strategy", "PUT", path("/v1/queues/{}/strategies/{}", queue, name), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}, safe=if_match is None and if_none_match is None))
        return found

    async def quiet_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Keep new work from a consumer. The consumer gets no new work, but stays. Its reserves answer with the reason `quiet`.
        `resume` takes an order back. The server forgets it when the consumer leaves or is lost, after an hour without a stream or
        a call, and at a restart.
        """
        found: types.Consumer = await self._fetch(_request("quiet consumer", "POST", path("/v1/queues/{}/consumers/{}/quiet", queue, consumer), safe=True))
        return found

    async def readyz(self, *, verbose: Optional[str] = None) -> types.Readiness:
        """Check whether all parts work. If a part does not work, the answer is 503, and errors[] names the part. With `?verbose` the
        answer lists every check.
        """
        found: types.Readiness = await self._fetch(_request("readyz", "GET", query(path("/readyz"), {"verbose": verbose}), safe=True))
        return found

    async def redrive_dead_letter(self, queue: str, submission: Union[str, int], index: Union[str, int]) -> types.Submission:
        """Redrive a dead chunk. The chunk is ready again with its attempts reset; its history stays. A submission that completed
        with dead chunks opens again. After its dead_deadline the answer is 409, unless the queue's on_deadline is dead_letter:
        then the submission goes on without a dead_deadline.
        """
        found: types.Submission = await self._fetch(_request("redrive dead letter", "POST", path("/v1/queues/{}/dead-letters/{}/{}/redrive", queue, submission, index)))
        return found

    async def release(self, queue: str, body: types.ReleaseRequest) -> types.ResultsAnswer:
        """Give chunks back without working on them. One result per item, in order: ok, already (done before with this token), lost,
        gone, unknown or invalid. A bad item does not affect the others.
        """
        found: types.ResultsAnswer = await self._fetch(_request("release", "POST", path("/v1/queues/{}/reservations/release", queue), body, safe=True))
        return found

    async def release_chunk(self, id: Union[str, int], index: Union[str, int], *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.HeldReservation:
        """Take a chunk back from its consumer. The server offers the chunk again at once, without counting an attempt; the answer
        names the chunk and its consumer. An attached consumer gets the event `revoked`. The consumer may still work on the chunk:
        its completion counts until the chunk is handed out again. The answer is 409 if no consumer holds the chunk. The audit log
        keeps the consumer and the reason.
        """
        found: types.HeldReservation = await self._fetch(_request("release chunk", "POST", query(path("/v1/submissions/{}/chunks/{}/release", id, index), {"actor": actor, "reason": reason})))
        return found

    async def release_consumer(self, queue: str, consumer: str, *, actor: Optional[str] = None, reason: Optional[str] = None) -> types.Released:
        """Take back a consumer's chunks. The server offers the consumer's chunks again at once, without counting an attempt. If it
        is attached, it gets the event `revoked`. It may get other chunks; see drain and quiet.
        """
        found: types.Released = await self._fetch(_request("release consumer", "POST", query(path("/v1/queues/{}/consumers/{}/release", queue, consumer), {"actor": actor, "reason": reason})))
        return found

    async def reopen_shard(self, queue: str, shard: str) -> None:
        """Stop draining a shard. The shard gets new groups again."""
        await self._bytes(_request("reopen shard", "DELETE", path("/v1/queues/{}/shards/{}/drain", queue, shard)))

    async def reserve(self, queue: str, body: types.ReserveRequest) -> types.ReserveAnswer:
        """Reserve chunks. Takes up to `max` chunks in the order of the strategy. It takes fewer if their contents, attachments and
        metadata exceed 4 MiB; the next call gets the others. With `wait_ms`, an empty answer waits that long for work that fits
        the strategy. `reason` explains an empty answer; with `all_limited`, `limited` names some of the values at their limit.
        """
        found: types.ReserveAnswer = await self._fetch(_request("reserve", "POST", path("/v1/queues/{}/reservations", queue), body, safe=True))
        return found

    async def reset_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Close a plugin's breakers and forget its faults. This does not end a quarantine; activating with `force` does. With If-
        Match, the server changes the plugin only at this revision (`etag`), else the answer is 412. The change takes effect as a
        whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("reset plugin", "POST", path("/v1/plugins/{}/reset", name), headers={"If-Match": if_match}))
        return found

    async def resume_consumer(self, queue: str, consumer: str) -> types.Consumer:
        """Resume a drained or quiet consumer."""
        found: types.Consumer = await self._fetch(_request("resume consumer", "POST", path("/v1/queues/{}/consumers/{}/resume", queue, consumer), safe=True))
        return found

    async def resume_schedule(self, queue: str, name: str) -> types.Schedule:
        """Resume a paused schedule. `missed` decides which ticks of the pause are emitted. A schedule that is not paused stays as it
        is.
        """
        found: types.Schedule = await self._fetch(_request("resume schedule", "POST", path("/v1/queues/{}/schedules/{}/resume", queue, name)))
        return found

    async def retry_lifecycle(self, queue: str) -> types.Retried:
        """Retry parked life-cycle actions. The worker retries all parked actions now, and ends its pauses after failures. An action
        that fails again is parked again.
        """
        found: types.Retried = await self._fetch(_request("retry lifecycle", "POST", path("/v1/queues/{}/lifecycle/retry", queue)))
        return found

    async def revoke_token(self, id: Union[str, int]) -> None:
        """Revoke an access token. From the answer on, the server refuses requests with the token, and its sessions and streams end.
        Revoking the last token does not open the server: if no token with the scope admin is left, the next start writes one to
        the file admin-token in the data directory.
        """
        await self._bytes(_request("revoke token", "DELETE", path("/v1/tokens/{}", id), safe=True))

    async def rollback_plugin(self, name: str, *, if_match: Optional[str] = None) -> types.Plugin:
        """Activate the previous version. With If-Match, the server changes the plugin only at this revision (`etag`), else the
        answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("rollback plugin", "POST", path("/v1/plugins/{}/rollback", name), headers={"If-Match": if_match}))
        return found

    async def rotate_token(self, id: Union[str, int], body: types.RotateToken) -> types.Token:
        """Rotate the secret of an access token. The answer has the token's new text. The previous secret stays valid for
        `overlap_seconds` (0 if absent), so that you can change its holders one by one. If the secret of an earlier rotation is
        still valid, it ends.
        """
        found: types.Token = await self._fetch(_request("rotate token", "POST", path("/v1/tokens/{}/rotate", id), body))
        return found

    async def set_initial_rule(self, body: types.RuleRequest) -> types.Rule:
        """Have new queues begin with a pause or a block. Each queue that is created from the answer on begins with the rule.
        Existing queues stay as they are: set the rule in each of them too if it is to hold everywhere. There is one initial rule
        per action and match: setting it again changes its reason, end and effects, and answers 200. The match is the queue, or
        values of meta keys. The scopes consume and operate may pause; only admin may block.
        """
        found: types.Rule = await self._fetch(_request("set initial rule", "POST", path("/v1/initial-rules"), body))
        return found

    async def set_rule(self, queue: str, body: types.RuleRequest, *, if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> types.Rule:
        """Pause or block a queue, a submission, or values of meta keys. From the answer on, no strategy hands out chunks that the
        rule covers; consumers may finish the chunks that they hold. A block takes precedence over a pause, and each is set and
        lifted by itself. There is one rule per action and match: the same rule again changes nothing and answers 200; another
        reason, end or effect changes that rule. With If-Match, the server changes only a rule with this ETag; with `If-None-
        Match: *` it only sets a new one; else the answer is 412. `effects.insert` refuses inserts with 423 (it has no effect in a
        rule about a submission). `effects.revoke` releases reservations without counting an attempt. The scopes consume and
        operate may pause; only admin may block. Retries, run_at and deadlines of reservations continue. A dead_deadline waits
        until the rule ends, and then for one reservation timeout more.
        """
        found: types.Rule = await self._fetch(_request("set rule", "POST", path("/v1/queues/{}/rules", queue), body, headers={"If-Match": if_match, "If-None-Match": if_none_match}))
        return found

    async def shadow_plugin(self, name: str, body: types.PluginSelection, *, if_match: Optional[str] = None) -> types.Plugin:
        """Let a version score in the shadow of the active one, without deciding. The statistics show how far the two versions agree.
        An empty `version` ends the shadow. With If-Match, the server changes the plugin only at this revision (`etag`), else the
        answer is 412. The change takes effect as a whole, with the next reservation.
        """
        found: types.Plugin = await self._fetch(_request("shadow plugin", "POST", path("/v1/plugins/{}/shadow", name), body, headers={"If-Match": if_match}))
        return found

    async def start_bulk_operation(self, body: types.BulkRequest) -> types.BulkOperation:
        """Apply an action to everything that matches a filter. Applies an action to everything in a queue that matches the filter,
        in the background. `redrive`, `delete` and `forward` (to another queue) are for dead letters. `retry` makes chunks that
        wait for a retry ready now, and also ends the delays of released chunks (snoozes). `give_up` ends chunks that wait for a
        retry, as if their attempts were used up. `cancel` and `reprioritize` are for open submissions. `purge` deletes
        submissions, open and ended, with all that the server has of them. After a restart, the operation continues where it was.
        A dry run counts the matches and changes nothing.
        """
        found: types.BulkOperation = await self._fetch(_request("start bulk operation", "POST", path("/v1/bulk-operations"), body))
        return found

    async def trigger_schedule(self, queue: str, name: str, *, key: Optional[str] = None) -> types.Submission:
        """Insert the work of a tick now. Inserts the submission of a tick now, regardless of the schedule's state and overlap. Its
        ticks do not change. The submission's scheduled_at is now.
        """
        found: types.Submission = await self._fetch(_request("trigger schedule", "POST", path("/v1/queues/{}/schedules/{}/trigger", queue, name), headers={"Idempotency-Key": key}, safe=key is not None))
        return found

    async def upload_plugin(self, module: bytes) -> types.PluginVersion:
        """Upload a version of a plugin. As `application/wasm`, the body is the module, with its manifest in the section
        `quern.manifest`. As `multipart/form-data`, the parts are `module`, `manifest` (JSON, for languages that cannot embed one)
        and `config` (JSON, for the dry run of a plugin that needs one to start). The server validates, instruments, compiles and
        tries the module, the last two in a separate process. 422 lists all its faults, with pointers such as
        /module/code/functions/12/offset/345. Equal bytes are the same version: they answer 200 without another check. A version
        scores nothing before you activate it.
        """
        found: types.PluginVersion = await self._fetch(_request("upload plugin", "POST", path("/v1/plugins"), module, media="application/wasm"))
        return found

    async def validate_strategy(self, queue: str, body: types.StrategyRequest) -> types.ValidStrategy:
        """Validate a strategy. Answers with the canonical forms, the compiled branches, and a warning for each part without effect.
        It stores and reserves nothing. An invalid strategy answers 422, as in a reserve.
        """
        found: types.ValidStrategy = await self._fetch(_request("validate strategy", "POST", path("/v1/queues/{}/strategies/validate", queue), body, safe=True))
        return found

    async def version(self) -> types.Version:
        """Read the version of the server."""
        found: types.Version = await self._fetch(_request("version", "GET", path("/version"), safe=True))
        return found

    async def wait_submissions(self, body: types.WaitRequest) -> types.WaitAnswer:
        """Wait until one of many submissions ends, or all. The answer comes when one of the submissions has ended (with `all`, when
        all have) or after `wait_ms`. It lists all that have ended by then. The submissions may be in several queues. An id that
        is unknown, or outside the token's bounds, is in `unknown`; it never ends, so it counts as ended. To continue, leave out
        the answered ids. The size of an answer is limited: ended submissions that do not fit are counted in `open`, and come with
        the next call.
        """
        found: types.WaitAnswer = await self._fetch(_request("wait submissions", "POST", path("/v1/submissions:wait"), body, safe=True))
        return found

    async def whoami(self) -> types.Whoami:
        """Show which identity the server sees in the request. Any token may call this. On an open server the caller has all scopes."""
        found: types.Whoami = await self._fetch(_request("whoami", "GET", path("/v1/whoami"), safe=True))
        return found

    async def why(self, id: Union[str, int], index: Union[str, int], body: types.WhyRequest) -> types.WhyAnswer:
        """Explain why a strategy does not hand out a chunk now. The first obstacle in each branch, and the chunk's approximate
        place: the number of chunks before it, and the wait at the rate of the last minute.
        """
        found: types.WhyAnswer = await self._fetch(_request("why", "POST", path("/v1/submissions/{}/chunks/{}/why", id, index), body, safe=True))
        return found
