package web

// Bulk operations of a queue of several shards: one operation in each shard, which all run at the same time. Together
// they are one operation for the client. Its id is made of theirs, so no server has to keep which ones belong together:
//
//	POST {"queue":"orders"} ─► b71, b84, b92, b95     ─► the id b71.b84.b92.b95
//	GET  b71.b84.b92.b95    ─► each shard's operation ─► counts added up, running until the last has ended
//
// The list of a queue shows the operations of the shards one by one, each with the shard that it works in.

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// bulkPath is the path of bulk operations.
const bulkPath = "/v1/bulk-operations"

// bulkIDs are the operations that an id is made of; nil: it is that of one. An id has 20 digits at most, so those of 16
// shards are a path of 350 characters.
func bulkIDs(id string) []string {
	if list := strings.Split(id, "."); len(list) > 1 && len(list) <= queue.MaxQueueShards {
		return list
	}
	return nil
}

// namedQueue is the queue of a call whose path names none: it is in the query or in the body. Only bulk operations are
// such calls. An event stream names several queues, and has its own way (watching.shardsOf).
func namedQueue(c echo.Context) string {
	if c.Request().Method != http.MethodPost {
		return c.QueryParam("queue")
	}
	var body struct{ Queue string }
	if c.Path() != bulkPath || peek(c, &body) != nil {
		return ""
	}
	return body.Queue
}

// startBulkInShards starts an operation in each shard. A rate is divided among them. Limits cannot be divided: only
// when all shards have looked is it known which of all matches are the first.
func startBulkInShards(x *shardCall) error {
	var body api.BulkRequest
	if err := x.readBody(); err != nil {
		return err
	}
	if err := wire.Decode(x.body, &body); err != nil {
		return wireProblem[api.BulkRequest](err, x.body, contentJSON)
	}
	parts := x.parts()
	if id, err := queue.ParseSubmissionID(body.Filter.Submission); err == nil {
		number := max(1, x.engine.NumberIn(x.queue, id))
		parts = parts[number-1 : number]
	}
	if len(parts) > 1 && (body.Limit > 0 || body.Filter.Oldest > 0) {
		pointer := "/limit"
		if body.Limit == 0 {
			pointer = "/filter/oldest"
		}
		return queue.Invalid(pointer, "is for one shard, because the queue has several: name it, as in %q",
			queue.ShardName(x.queue, 1))
	}
	rate := uint64(body.RatePerSecond) + uint64(len(parts)) - 1
	if body.RatePerSecond > 0 {
		body.RatePerSecond = uint32(rate / uint64(len(parts)))
	}
	for _, p := range parts {
		body.Queue = p.name
		text, err := json.Marshal(&body)
		if err != nil {
			return err
		}
		p.body = text
	}
	if err := x.change(parts, false); err != nil {
		return err
	}
	return x.answerBulk(parts)
}

// bulkInShards reads or cancels the operations of an id. Cancelling one that has ended changes nothing, so a call that
// failed half way can be sent again.
func bulkInShards(x *shardCall) error {
	var parts []*shardPart
	for i, id := range bulkIDs(x.c.Param("id")) {
		p := x.part(i + 1)
		p.path = strings.Replace(x.c.Path(), ":id", url.PathEscape(id), 1)
		if n, ok := queue.ParseBulkID(id); ok && x.f.nodes != nil {
			if at := x.f.nodes.ElsewhereOf(queue.SubmissionID(n)); at != nil {
				p.at = *at
			}
		}
		parts = append(parts, p)
	}
	if err := x.askPlaced(parts); err != nil {
		return err
	}
	if i := slices.IndexFunc(parts, func(p *shardPart) bool { return !p.good() }); i >= 0 {
		return parts[i].problem()
	}
	return x.answerBulk(parts)
}

// The answer names the whole queue, as the client did, and its Location leads to the operation as a whole.
//
// answerBulk answers with the joined operations of the shards.
func (x *shardCall) answerBulk(parts []*shardPart) error {
	sum, err := total(parts, addBulk)
	if err != nil {
		return err
	}
	sum.Queue, _ = queue.CutShard(sum.Queue)
	if parts[0].status == http.StatusAccepted {
		x.c.Response().Header().Set("Location", bulkPath+"/"+sum.ID)
	}
	return x.c.JSON(parts[0].status, sum)
}

// addBulk joins the operations of two shards. The filter, the action and the caller are the same in all. The percentage
// is of all items together, so it does not jump when a small shard is done.
func addBulk(sum, one *api.BulkOperation) {
	sum.ID += "." + one.ID
	sum.State = bulkState(sum.State, one.State)
	sum.CreatedAt, sum.FinishedAt = earlier(sum.CreatedAt, one.CreatedAt), later(sum.FinishedAt, one.FinishedAt)
	if sum.State == api.BulkRunning {
		sum.FinishedAt = api.Time{}
	}
	sum.RatePerSecond += one.RatePerSecond
	sum.Matched += one.Matched
	sum.Done += one.Done
	sum.Unchanged += one.Unchanged
	sum.Refused += one.Refused
	if sum.Failure == "" {
		sum.Failure = one.Failure
	}
	if sum.CancelledBy == "" {
		sum.CancelledBy = one.CancelledBy
	}
	sum.Examined, sum.ToExamine = addCount(sum.Examined, one.Examined), addCount(sum.ToExamine, one.ToExamine)
	sum.Percent = nil
	if sum.Examined != nil && sum.ToExamine != nil {
		percent := 100
		if *sum.ToExamine > 0 {
			percent = int(min(*sum.Examined, *sum.ToExamine) * 100 / *sum.ToExamine)
		}
		if sum.State == api.BulkRunning {
			percent = min(percent, 99)
		}
		sum.Percent = &percent
	}
	sum.RemainingMS = max(sum.RemainingMS, one.RemainingMS)
}

// bulkState is the state of two operations together: running while one runs, then the state of one that went wrong.
func bulkState(a, b string) string {
	for _, state := range []string{api.BulkRunning, api.BulkFailed, api.BulkCancelled} {
		if a == state || b == state {
			return state
		}
	}
	return api.BulkCompleted
}

// addCount adds counts that may be unknown: no one counts the ended submissions of a queue, which a purge looks at.
func addCount(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

// The operations of the shards are listed one by one, because an operation can also be started in one shard alone, and
// no server keeps which of them belong together.
//
// bulksOverShards is the list of the operations of all shards, the newest first.
func bulksOverShards(url.Values) listOrder[api.BulkOperation] {
	return listOrder[api.BulkOperation]{all: true, at: func(b *api.BulkOperation) string {
		id, _ := queue.ParseBulkID(b.ID)
		return downwards(uint64(id))
	}}
}
