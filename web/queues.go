package web

// Queues themselves: their settings, numbers, views and ledgers. PUT replaces all settings and
// PATCH changes the named ones, so an old client that does not know a new setting resets it with
// PUT and leaves it with PATCH.
//
// Settings are checked by queue.AllSettings, the table that the command line and the dashboard's forms use, too.
// This file only decides which of the two meanings a missing setting has:
//
//	PUT    defaults ─► overlay the body ─► replace          missing: its default
//	PATCH  present  ─► overlay the body ─► replace          missing: as it is

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// queues are the handlers of queues themselves, and of the numbers of one as a whole.
type queues struct {
	engine *engine.Engine
	nodes  *forwarding
}

// routes are the part of the table about queues themselves.
func (x queues) routes(r *router) {
	register(r, operation{id: "list-queues", method: "GET", path: "/v1/queues", scope: scopeRead, narrow: inHandler,
		tag: tagQueues, compress: true, spread: x.listAll,
		summary: "List the queues"}, x.list)
	register(r, operation{id: "get-queue", method: "GET", path: "/v1/queues/{queue}", scope: scopeRead, narrow: inQueue,
		tag: tagQueues, summary: "Read a queue's settings"}, x.get)
	register(r, operation{id: "put-queue", act: act{"queue.set", ""},
		brings: true, method: "PUT", path: "/v1/queues/{queue}", scope: scopeAdmin,
		tag: tagQueues, creates: reflect.TypeFor[api.Queue](),
		summary: "Create a queue or replace its settings",
		about: "Replaces all settings: one that you leave out gets its default, except `shards`, which stays. A " +
			"new queue answers 201. With `If-None-Match: *` the server only creates a new queue; one that exists " +
			"stays as it is, and answers 412."}, x.put)
	register(r, operation{id: "change-queue", act: act{"queue.change", ""},
		method: "PATCH", path: "/v1/queues/{queue}", scope: scopeAdmin, tag: tagQueues,
		summary: "Change some settings of a queue",
		about: "Absent settings stay as they are. Changes take effect with the next " +
			"decision, also for chunks in flight. With If-Match, the server changes only settings with this ETag, " +
			"else it answers 412."}, x.change)
	register(r, operation{id: "delete-queue", act: act{"queue.delete", ""},
		method: "DELETE", path: "/v1/queues/{queue}", scope: scopeAdmin, tag: tagQueues,
		summary: "Delete a queue", about: "The queue must have no open submissions, and must not be named " +
			"default. `quarantined=true` deletes a queue in quarantine, whose files are damaged or missing, with " +
			"everything " +
			"in it; an empty queue then replaces the one named default."}, x.delete)
	register(r, operation{id: "move-queue", shards: moveShards,
		act: act{"queue.move", ""}, method: "POST", path: "/v1/queues/{queue}/move",
		scope: scopeOperate, tag: tagQueues, summary: "Move a queue to another node of the cluster",
		about: "Reservations, limits and tokens stay valid. Shards of one queue can be on different nodes: the " +
			"call moves all of them, or the one that `shard` names. A call that comes while the queue moves waits " +
			"for up to a second, and then answers 503 with the code moving. This call answers when the other node " +
			"serves the queue."}, x.move)
	register(r, operation{id: "get-stats", shards: summed(addQueueStats, addLastKnown),
		method: "GET", path: "/v1/queues/{queue}/stats", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Read a queue's numbers",
		about: "A flat object, so that a scaler can read one number by name. Reading " +
			"costs the same at any backlog. Totals count from the server's start. Of a shard that does not " +
			"serve, the answer has the last known numbers, but no totals."}, x.stats)
	registerIn(r, operation{id: "get-timeseries",
		shards: summed(addSeries, nameSeries),
		method: "GET", path: "/v1/queues/{queue}/timeseries",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagQueues, compress: true,
		summary: "Read a queue's numbers over time", about: seriesAbout}, x.series)
	registerIn(r, operation{id: "get-key-timeseries", shards: summed(addKeySeries, nil), method: "GET",
		path: "/v1/queues/{queue}/meta-keys/{key}/timeseries", scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagQueues, compress: true,
		summary: "Read the chunks in flight of a meta key's values over time", about: keySeriesAbout}, x.keySeries)
	registerIn(r, operation{id: "get-durations",
		shards: summed(addDurations, nil),
		method: "GET", path: "/v1/queues/{queue}/durations",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagQueues, freeform: true,
		summary: "Read how long chunks waited and ran", about: durationsAbout,
		params: durationsQuery().document()}, x.durations)
	registerIn(r, operation{id: "list-views",
		shards: viewsOverShards(),
		method: "GET", path: "/v1/queues/{queue}/views", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the indexes of strategies, with their memory", about: viewsAbout}, x.views)
	registerIn(r, operation{id: "list-ledgers",
		shards: ledgersOverShards(),
		method: "GET", path: "/v1/queues/{queue}/ledgers", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the Fair blocks in use"}, x.ledgers)
	registerIn(r, operation{id: "get-ledger",
		shards: inOneThatHas,
		method: "GET", path: "/v1/queues/{queue}/ledgers/{ledger}",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Read the fair and the received shares of the tenants of a Fair block", about: ledgerAbout}, x.ledger)
}

// move returns when the queue has moved, so that a script can move one queue after another. Meanwhile calls for the
// queue wait (forward.go, answers).
func (x queues) move(ctx context.Context, in *queueBody[api.MoveRequest]) (*output[api.Moved], error) {
	if shard := in.Body.value.Shard; shard != nil && *shard != 1 {
		return nil, queue.Invalid("/shard", "is %d, and %q has one shard", *shard, in.Queue)
	}
	return answered(api.Moved{Queue: in.Queue, Node: in.Body.value.Node},
		x.engine.Nodes().Move(ctx, in.Queue, in.Body.value.Node), asIs)
}

// list leaves out queues that the token does not cover. The sentence about a queue counts all its work, so a token
// that is bound to one value does not get it.
func (x queues) list(ctx context.Context, _ *struct{}) (*output[api.Page[api.Queue]], error) {
	out := &output[api.Page[api.Queue]]{Body: api.Page[api.Queue]{Items: []api.Queue{}}}
	for _, info := range x.engine.Queues() {
		if token := boundTo(ctx); token == nil || token.CoversQueue(info.Name) {
			item := apiQueue(&info)
			if q, err := x.engine.Queue(info.Name); err == nil && (token == nil || !token.Tenant()) {
				item.Sentence, item.Now = q.Questions.Brief(ctx)
			}
			out.Body.Items = append(out.Body.Items, item)
		}
	}
	return out, nil
}

// listAll is list in a cluster. Only the node that has a queue knows its numbers, and whether it is in quarantine. If
// a node does not answer, its queues are listed from the catalogue, without numbers: operators need the list most
// when a node is away.
func (x queues) listAll(c echo.Context) (bool, error) {
	parts := x.nodes.everywhere(c)
	if refused := x.nodes.askAll(c, parts); refused != nil {
		return true, refused.relay(c)
	}
	var all api.Page[api.Queue]
	at := map[string]*api.Queue{}
	for _, p := range parts { // this node's comes first, which has all queues
		if p.err != nil || p.status != http.StatusOK {
			continue
		}
		var one api.Page[api.Queue]
		if err := json.Unmarshal(p.text, &one); err != nil {
			return true, fmt.Errorf("web: the queues of %s: %w", p.name(), err)
		}
		if p.at.URL == "" {
			all = one
			for i := range all.Items {
				at[all.Items[i].Name] = &all.Items[i]
			}
		}
		for _, q := range one.Items {
			if known := at[q.Name]; known != nil && known.Now == nil && (q.Now != nil || q.Quarantined != nil) {
				*known = q
			}
		}
	}
	return true, c.JSON(http.StatusOK, all)
}

func (x queues) get(_ context.Context, in *QueuePath) (*tagged[api.Queue], error) {
	info, err := x.engine.QueueInfo(in.Queue)
	return answeredTagged(apiQueue(&info), settingsETag(&info.Settings), err)
}

// settingsETag is the ETag of a queue: a change replaces its settings.
func settingsETag(settings *queue.Settings) string {
	var says api.QueueSettings
	showFields(queue.AllSettings(), settings, &says)
	text, err := json.Marshal(says)
	if err != nil {
		text = []byte(err.Error()) // cannot be: it is made of numbers, texts and booleans
	}
	return queue.ETag(0, text)
}

type putQueueInput struct {
	QueuePath
	IfNoneMatch string `header:"If-None-Match" doc:"*: the queue must not exist yet"`
	Body        decoded[api.PutQueueRequest]
}

// The condition is checked twice: here against no version at all, which refuses If-None-Match with anything but a
// star, and in PutQueue under its lock, where the queue may have appeared meanwhile.
func (x queues) put(ctx context.Context, in *putQueueInput) (*creation[api.Queue], error) {
	settings := engine.DefaultSettings(x.engine)
	if err := readFields(queue.AllSettings(), &in.Body.value.Settings, &settings); err != nil {
		return nil, prefixed(err, "/settings")
	}
	if now, err := x.engine.QueueInfo(in.Queue); err == nil && in.Body.value.Settings.Shards == nil {
		settings.Shards = now.Settings.Shards // the default would mostly be too few, as their number can only rise
	}
	condition := Conditions{IfNoneMatch: in.IfNoneMatch}
	if err := condition.hold("queue", 0, ""); err != nil {
		return nil, err
	}
	var exists []error
	if in.IfNoneMatch != "" {
		exists = append(exists, newProblem(codePrecondition,
			fmt.Sprintf("There is a queue %q already. Its settings stay as they are.", in.Queue)))
	}
	// The error for a queue that exists is passed in: only under the lock is it certain that it does.
	info, created, err := x.engine.PutQueue(ctx, in.Queue, settings, exists...)
	out := apiQueue(&info)
	if now := info.Settings.Shards; settings.Shards < now {
		out.Warnings = append(out.Warnings, fmt.Sprintf("The queue keeps its %d shards, although the request has %d: "+
			"the number can only rise. To use fewer shards, name the others in draining_shards", now, settings.Shards))
	}
	return answeredCreation(out, created, "/v1/queues/"+info.Name, prefixed(err, "/settings"))
}

// deleteQueueInput has no condition: a queue is safe because it must be empty.
type deleteQueueInput struct {
	QueuePath
	Quarantined bool `query:"quarantined" doc:"Delete a queue in quarantine, with everything in it"`
}

// A queue in quarantine cannot be asked whether it has open submissions, so the caller has to say that all of it
// may go. For a healthy queue the same flag is refused: it would look like a way around the check.
func (x queues) delete(ctx context.Context, in *deleteQueueInput) (*struct{}, error) {
	return nil, x.engine.DeleteQueue(ctx, in.Queue, in.Quarantined)
}

// changeQueueInput has no If-None-Match: a PATCH makes no queue.
type changeQueueInput struct {
	QueuePath
	Match
	Body decoded[api.ChangeQueueRequest]
}

// change runs the condition and the overlay inside ChangeQueue, on the settings as they are then. Two PATCHes of
// different settings at the same time therefore both take effect, unless the condition of one of them fails.
func (x queues) change(ctx context.Context, in *changeQueueInput) (*tagged[api.Queue], error) {
	info, err := x.engine.ChangeQueue(ctx, in.Queue, func(settings *queue.Settings) error {
		if err := in.hold(settingsETag(settings)); err != nil {
			return err
		}
		return readFields(queue.AllSettings(), &in.Body.value.Settings, settings)
	})
	return answeredTagged(apiQueue(&info), settingsETag(&info.Settings), prefixed(err, "/settings"))
}

// stats is flat and has no nested lists, so that the configuration of a scaler can name a number by one key. Those of
// several shards are added up.
func (x queues) stats(_ context.Context, in *QueuePath) (*output[api.Stats], error) {
	q, err := x.engine.Queue(in.Queue)
	if err != nil {
		return nil, err
	}
	return &output[api.Stats]{Body: q.Stats().Stats}, nil
}

const viewsAbout = "Every branch of a strategy needs an index in memory (a view), which the server builds at its " +
	"first use. The option view-memory limits the memory of all views together. Views that only questions use may " +
	"take a quarter of it in addition. The server removes the least recently used views to make room. If there is " +
	"no room for a view, the call answers 429."

type listInput struct {
	QueuePath
	Cursor
}

// views sorts by memory, largest first, because the reader wants to know what fills view-memory. A branch has no
// short name, so its hash makes the order total, and the cursor stable.
func (x queues) views(_ context.Context, q *engine.Queue, in *listInput) (*output[api.Views], error) {
	all := q.Views()
	largest := func(v *api.View) string { return downwards(v.Bytes) + "." + hashed(v.Branch) }
	arrange(all.Items, largest)
	var err error
	all.Items, all.Next, err = pageOf(behind(all.Items, in.Cursor.Cursor, largest), "", largest, asIs)
	return answered(all, err, asIs)
}

// apiQueue shows the settings. The present numbers of a queue are in its stats.
func apiQueue(info *engine.QueueInfo) api.Queue {
	out := api.Queue{Name: info.Name, CreatedAt: info.Created.API(), Quarantined: info.Quarantined,
		Warnings: info.Settings.Warnings()}
	showFields(queue.AllSettings(), &info.Settings, &out.Settings)
	return out
}
