package reserver

import "github.com/quern-queue/quern/engine/queue"

// MaxReportedBytes bounds the memory for progress and notes: the bytes of the notes, and reportedBytes for each reservation
// that has either. That is room for 71,000 of the longest notes, or 262,000 reservations with a progress alone.
const (
	MaxReportedBytes = 24 << 20
	reportedBytes    = 96 // an entry of the map, with its share of what is free in it
)

// reported is what consumers say of the chunks that they hold, by slot. It is kept beside the table of
// reservations, so that those without a report cost nothing.
type reported struct {
	of    map[uint32]queue.Reported // nil until a consumer says something
	bytes int
}

// Report keeps what a consumer says of a chunk that it holds, until the reservation goes. What it leaves out stays as it
// was. Where there is no room nothing is kept: a hint for people must not cost a consumer its deadline.
func (r *Reserver) Report(slot uint32, says queue.Reported) {
	if says.Empty() {
		return
	}
	was, known := r.reported.of[slot]
	if !says.HasProgress {
		says.Progress, says.HasProgress = was.Progress, was.HasProgress
	}
	if says.Note == "" {
		says.Note = was.Note
	}
	more := len(says.Note) - len(was.Note)
	if !known {
		more += reportedBytes
	}
	if r.reported.bytes+more > MaxReportedBytes {
		r.Unreported++
		return
	}
	if r.reported.of == nil {
		r.reported.of = map[uint32]queue.Reported{}
	}
	r.reported.of[slot] = says
	r.reported.bytes += more
}

// Reported is what the consumer of a chunk said last of its work.
func (r *Reserver) Reported(h *Hold) queue.Reported {
	if len(r.reported.of) == 0 {
		return queue.Reported{}
	}
	slot, _ := r.Find(h.Seq, h.Index)
	return r.reported.of[slot]
}

// forget is for a reservation that goes.
func (t *reported) forget(slot uint32) {
	if len(t.of) == 0 {
		return
	}
	if was, known := t.of[slot]; known {
		t.bytes -= reportedBytes + len(was.Note)
		delete(t.of, slot)
	}
}
