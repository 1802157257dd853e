package access

import (
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// Restriction is what a token is bound to: it sees and touches nothing else. The zero value is bound to nothing.
type Restriction struct {
	Queues []string        // names of queues; empty: all
	Entry  queue.MetaEntry // submissions with this value of this meta key; no key: all
}

// Restricted says whether the token is bound to anything.
func (r *Restriction) Restricted() bool { return len(r.Queues) > 0 || r.Tenant() }

// Tenant says whether the token is bound to a value of a meta key.
func (r *Restriction) Tenant() bool { return r.Entry.Key != "" }

// Bounds is the restriction in words.
func (r *Restriction) Bounds() string {
	var parts []string
	if len(r.Queues) > 0 {
		parts = append(parts, "the queues "+strings.Join(r.Queues, ", "))
	}
	if r.Tenant() {
		parts = append(parts, r.Entry.Key+" = "+r.Entry.Value.Quoted())
	}
	return strings.Join(parts, " and ")
}

// CoversQueue says whether the queue of this name is within. A name may be that of one shard of a queue.
func (r *Restriction) CoversQueue(name string) bool {
	whole, _ := queue.CutShard(name)
	return len(r.Queues) == 0 || slices.Contains(r.Queues, whole)
}

// CoversMeta says whether a submission with this meta is within.
func (r *Restriction) CoversMeta(meta queue.Meta) bool {
	if !r.Tenant() {
		return true
	}
	value, ok := meta.Find(r.Entry.Key)
	return ok && value == r.Entry.Value
}
