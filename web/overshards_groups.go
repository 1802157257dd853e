package web

// Groups, numbers, shards and moves of a queue of several shards.
//
// An operator looks at these when something is wrong, so none of them fails because a shard does not serve: the list of
// shards says why it does not serve, and the answers with numbers name the missing shards in a header.

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// groupsOverShards is the list of groups by name. Each group is in one shard, so there is nothing to add up. A group
// that has just been placed is listed by its shard at once, also before it has work.
func groupsOverShards(url.Values) listOrder[api.Group] {
	return listOrder[api.Group]{at: func(g *api.Group) string { return g.Group }}
}

// shardsOfQueue asks each shard for itself. One that does not answer is offline. It is in the list all the same, with
// the reason and its last known numbers, as an operator looks for it here.
func shardsOfQueue(x *shardCall) error {
	parts := x.parts()
	if err := x.ask(parts); err != nil {
		return err
	}
	page := api.Page[api.Shard]{Items: make([]api.Shard, len(parts))}
	for i, p := range parts {
		if !p.good() && !p.absent() {
			return p.problem()
		}
		if p.good() {
			var one api.Page[api.Shard]
			if err := p.decode(&one); err != nil {
				return err
			}
			page.Items[i] = one.Items[0]
		} else {
			page.Items[i] = lastKnownShard(x, p)
		}
		page.Items[i].Shard, page.Items[i].Queue = p.number, p.name
		page.Items[i].Owner = cmp.Or(p.at.Node, x.f.name())
	}
	// A shard that is being made has no number of its own yet, and no node can be asked about it. Without this line an
	// operator would see nothing while it is made, or after a kill has left it half made.
	if next := x.engine.Preparing(x.queue); next > 0 {
		page.Items = append(page.Items, api.Shard{Shard: next, Queue: queue.ShardName(x.queue, next),
			State: api.ShardPreparing})
	}
	return x.c.JSON(http.StatusOK, page)
}

// addQueueStats adds counts. The age of the oldest is the largest of all, a flag is set where one shard sets it, and a
// queue is empty if all shards are. Of several shards there is no forecast: each knows only its own pace.
func addQueueStats(sum, one *api.Stats) {
	empty := min(sum.Empty, one.Empty)
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(one).Elem()
	for i := range to.NumField() {
		switch field := to.Field(i); field.Kind() {
		case reflect.Uint64:
			field.SetUint(field.Uint() + from.Field(i).Uint())
		case reflect.Uint8:
			field.SetUint(max(field.Uint(), from.Field(i).Uint()))
		case reflect.Float64:
			field.SetFloat(max(field.Float(), from.Field(i).Float()))
		}
	}
	sum.Empty, sum.Forecast = empty, nil
}

// If a number fell because a shard moves, an autoscaler would stop workers that are needed a moment later. If a queue
// looked empty, a script would go on too early.
//
// addLastKnown adds the last known numbers of the shards that do not serve. If no node has numbers of a shard, the
// queue may have work.
func addLastKnown(x *shardCall, sum *api.Stats, missing []api.MissingShard) {
	var oldest api.Time
	for i := range missing {
		_, number := queue.CutShard(missing[i].Shard)
		last, known := x.engine.LastCounts(x.queue, number)
		if !known {
			sum.Empty = 0
			continue
		}
		addQueueStats(sum, &last.Stats)
		oldest = earlier(oldest, last.At.API())
	}
	if !oldest.IsZero() {
		x.c.Response().Header().Set(headerLastKnown, oldest.UTC().Format(api.TimeFormat))
	}
}

// lastKnownShard is a shard that does not answer, with its last known numbers.
func lastKnownShard(x *shardCall, p *shardPart) api.Shard {
	one := api.Shard{State: api.ShardOffline, Reason: p.problem().Detail}
	if last, known := x.engine.LastCounts(x.queue, p.number); known {
		n := &last.Stats
		one.Ready, one.Reserved, one.SubmissionsOpen = n.Ready, n.Reserved, n.SubmissionsOpen
		one.LastKnownAt = last.At.API()
	}
	return one
}

// moveShards moves all shards of a queue to one node, or the one that the body names. Each is moved by the node that
// serves it. If one cannot move, the answer says which have moved, and the call may be sent again.
func moveShards(x *shardCall) error {
	if err := x.readBody(); err != nil {
		return err
	}
	var asked api.MoveRequest
	parts := x.parts()
	if json.Unmarshal(x.body, &asked) == nil && asked.Shard != nil {
		i := slices.IndexFunc(parts, func(p *shardPart) bool { return p.number == int(*asked.Shard) })
		if i < 0 {
			return queue.Invalid("/shard", "is %d, and the queue has %d shards", *asked.Shard, x.count)
		}
		parts, asked.Shard = parts[i:i+1], nil
		parts[0].body, _ = json.Marshal(asked) // two texts
	}
	if err := x.change(parts, false); err != nil {
		return err
	}
	return x.c.JSON(http.StatusOK, api.Moved{Queue: x.queue, Node: asked.Node})
}
