package machine

import "github.com/quern-queue/quern/engine/shard/indexset"

// delays is the part of the machine that knows which chunks wait for another try.
type delays struct{ m *Machine }

// begin makes a taken chunk wait until t.notBefore.
func (p *delays) begin(r *Record, index uint32, t *Try) {
	m := p.m
	if !t.Waiting {
		p.Note(r, index, t)
		m.Stats.Waiting++
	}
	m.Lifecycle.Schedule(KindRetry, Due{At: t.NotBefore, Seq: r.Seq, index: index})
}

// Note notes that a taken chunk waits.
func (p *delays) Note(r *Record, index uint32, t *Try) {
	m := p.m
	m.Changing(r)
	t.Waiting = true
	r.Waiting++
	m.Counting.tallied(r, t).Waiting++
	if r.Delays == nil {
		r.Delays = &indexset.Set{}
	}
	r.Delays.Add(index)
}

// end ends a chunk's waiting; it stays taken.
func (p *delays) end(r *Record, index uint32, t *Try) {
	m := p.m
	if t.Waiting {
		m.Changing(r)
		m.Suspects.unshelve(r, t)
		m.Loose.note(r, index)
		t.Waiting = false
		r.Waiting--
		m.Counting.tallied(r, t).Waiting--
		r.Delays.Remove(index)
		m.Stats.Waiting--
	}
}
