package machine

// The bytes of open submissions, for quotas of bytes: the contents and attachments that came with their
// inserts. They are counted only for keys that ever had such a quota, because a counter for each value of each key
// would take memory even without such quotas. So the first quota of a key walks over all open submissions.

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// openBytes are the counters. The key "" is that of the queue.
type openBytes struct {
	keys map[queue.MetaKey]bool
	of   map[scope]uint64
}

// watch is called before a quota of bytes of the key holds. The counting never ends, because an operator may set the
// quota again.
func (p *openBytes) watch(backlog *backlog.Backlog, key queue.MetaKey) {
	if p.keys[key] {
		return
	}
	if p.keys == nil {
		p.keys, p.of = map[queue.MetaKey]bool{}, map[scope]uint64{}
	}
	p.keys[key] = true
	for slot := range backlog.Slots() {
		if sub := backlog.InSlot(slot); sub != nil && sub.Bytes > 0 {
			p.add(sub.Meta(), key, uint64(sub.Bytes))
		}
	}
}

// add counts bytes of a submission with this meta for its scope of a key; those of one that ends are negative.
func (p *openBytes) add(meta queue.Meta, key queue.MetaKey, bytes uint64) {
	of := scope{}
	if key != "" {
		value, has := meta.Find(key)
		if !has {
			return
		}
		of = scopeOf(queue.MetaEntry{Key: key, Value: value})
	}
	if p.of[of] += bytes; p.of[of] == 0 {
		delete(p.of, of)
	}
}

// opened counts an open submission, and closed no longer.
func (p *quotas) opened(r *Record) { p.changed(r, uint64(r.Sub.Bytes)) }
func (p *quotas) closed(r *Record) { p.changed(r, -uint64(r.Sub.Bytes)) }

func (p *quotas) changed(r *Record, bytes uint64) {
	if bytes == 0 || len(p.bytes.keys) == 0 {
		return
	}
	meta := r.Sub.Meta()
	for key := range p.bytes.keys {
		p.bytes.add(meta, key, bytes)
	}
}
