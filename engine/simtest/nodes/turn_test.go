package nodes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/queue"
)

// turn says when it is a node's turn to own the shard. The file has all that the simulation needs of package member.
type turn struct{ *member.Member }

const theShard queue.ShardID = 7

var errDeposed = errors.New("another node owns the shard")

func newTurn(l *link, name string, now func() time.Duration) turn {
	return turn{member.New(member.Options{Leases: l.Leases(), Name: name, URL: "http://" + name, Now: now,
		Logger: slog.New(slog.DiscardHandler)})}
}

// beating runs do after every beat, until it returns true or ctx ends.
func (t turn) beating(ctx context.Context, do func() bool) error {
	ctx, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	defer beats.Wait()
	defer stop()
	beats.Go(func() { t.Run(ctx) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.Looked:
			if do() {
				return nil
			}
		}
	}
}

// take waits until no other node can be the owner, and claims the shard.
func (t turn) take(ctx context.Context) error {
	if err := t.Join(ctx); err != nil {
		return err
	}
	orphan := time.Duration(-1) // since when
	return t.beating(ctx, func() bool {
		view := t.View()
		s := &member.Situation{Name: t.Name, View: &view, Shards: []queue.ShardID{theShard}, Orphans: map[queue.ShardID]time.Duration{}}
		switch {
		case len(s.Orphaned()) == 0:
			orphan = -1
		case orphan < 0:
			orphan = t.Now()
		default:
			s.Orphans[theShard] = t.Now() - orphan
		}
		return len(member.Decide(s).Claim) == 1 && t.Claim(ctx, &view, theShard) == nil
	})
}

// keep goes on until ctx ends, or another node is the owner.
func (t turn) keep(ctx context.Context) error {
	if t.beating(ctx, func() bool { return t.Epoch(theShard) == 0 }) == nil {
		return errDeposed
	}
	return nil
}

// own says that no other node can be the owner at this moment.
func (t turn) own() bool { return t.Own(theShard) }

// owner is the node that owned the shard at the last look.
func (t turn) owner() string { return t.View().Owners[theShard].Node }

// leave gives the shard free.
func (t turn) leave(ctx context.Context) error { return t.Leave(ctx) }

// within is the longest time until some node serves, when all of them can: the next owner may just have died.
const within = 2*member.TTL + 3*time.Second

// standing is how long a node has to stand still so that another one takes its place.
const standing = member.TTL
