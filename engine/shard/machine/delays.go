package machine

import "github.com/quern-queue/quern/engine/shard/indexset"

// delays knows which chunks wait: for another try, or on the shelf of the suspects.
type delays struct {
	stats    *Stats
	counting *Counting
	loose    *Loosened
	suspects *Suspects
}

// begin makes a taken chunk wait.
func (p *delays) begin(r *Record, index uint32, t *Try) {
	if !t.Waiting {
		p.Note(r, index, t)
		p.stats.Waiting++
	}
}

// Note notes that a taken chunk waits, for all but the sum of the shard.
func (p *delays) Note(r *Record, index uint32, t *Try) {
	p.counting.Changing(r)
	t.Waiting = true
	r.Waiting++
	p.counting.tallied(r, t).Waiting++
	if r.Delays == nil {
		r.Delays = &indexset.Set{}
	}
	r.Delays.Add(index)
}

// end ends a chunk's waiting; it stays taken.
func (p *delays) end(r *Record, index uint32, t *Try) {
	if t.Waiting {
		p.counting.Changing(r)
		p.suspects.unshelve(r, t)
		p.loose.note(r, index)
		t.Waiting = false
		r.Waiting--
		p.counting.tallied(r, t).Waiting--
		r.Delays.Remove(index)
		p.stats.Waiting--
	}
}
