package values

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Total has the sums of a value over open submissions that are computed only for a caller. Keeping
// them up to date would cost each completion a step for each key of its submission.
type Total struct {
	Waiting uint64     // chunks that wait for a retry or for run_at
	Dead    uint64     // dead chunks
	Done    uint64     // completed chunks
	Oldest  queue.Time // when the oldest submission with a ready chunk was inserted; 0: there is none
}

// totalsSlice is how many places of submissions one hold of the mutex looks at: some 100 µs.
const totalsSlice = 500

// Totals adds up the chunks of open submissions, by their value of the key: for all values or, with all false, for
// those in `of`. It looks at every open submission, in slices, between which all others have a turn, so the sums are of
// several moments.
func (v Values) Totals(key queue.MetaKey, of map[queue.MetaValue]Total, all bool) {
	var walked *machine.Machine
	for from, more := uint32(0), true; more; {
		v.Look(func(m *machine.Machine) {
			if walked != m { // the state was loaded again: its submissions are others
				walked, from = m, 0
				for value := range of {
					of[value] = Total{}
				}
			}
			slots := m.Backlog.Slots()
			for to := min(from+totalsSlice, slots); from < to; from++ {
				sub := m.Backlog.InSlot(from)
				if sub == nil {
					continue
				}
				value, has := sub.Find(key)
				total, known := of[value]
				if has && (known || all) {
					total.add(sub.Data.(*machine.Record))
					of[value] = total
				}
			}
			more = from < slots
		})
	}
}

func (t *Total) add(r *machine.Record) {
	t.Waiting += uint64(r.Waiting)
	t.Dead += uint64(r.Dead)
	t.Done += uint64(r.Done)
	switch available := r.Sub.Available(); {
	case r.Parked:
		t.Waiting += uint64(available)
	case available > 0 && r.Sub.Ruling() == queue.Unruled && (t.Oldest == 0 || r.ID.Time() < t.Oldest):
		t.Oldest = r.ID.Time()
	}
}
