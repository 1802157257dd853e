package store

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Ends lists the ends behind a place and up to a position, in their order, about `limit` wanted ones
// at most: all of one position are listed, or none. It looks at `look` ends at most, also about;
// `to` is the place up to which it has listed all.
func (h *History) Ends(ctx context.Context, after queue.EndPlace, upTo journal.Position, limit, look int,
	want func(*checkpoint.Ended) (bool, error)) (list []checkpoint.Ended, to queue.EndPlace, err error) {
	inside := func(e *checkpoint.Ended) bool { return e.EndPlace().Compare(after) > 0 && e.Position <= upTo }
	o := walk{
		match: func(p *span) bool { return uint64(p.lastPos) >= after.Position && p.firstPos <= upTo },
		from:  func(p *span) uint64 { return uint64(p.firstPos) },
		want:  inside,
		key:   func(e *checkpoint.Ended) uint64 { return uint64(e.Position) },
	}
	err = unmoved(func() error {
		list, to = list[:0], queue.EndPlace{Position: uint64(upTo), Seq: lastNumber}
		last, looked := journal.Position(0), 0
		return h.walk(ctx, o, func(e *checkpoint.Ended, _ int64, _ int) (bool, error) {
			if e.Position != last && (len(list) >= limit || looked >= look) {
				to = queue.EndPlace{Position: uint64(last), Seq: lastNumber}
				return false, nil
			}
			last = e.Position
			looked++
			wanted, err := want(e)
			if wanted {
				list = append(list, e.Own())
			}
			return true, err
		})
	})
	slices.SortFunc(list, func(a, b checkpoint.Ended) int { return a.EndPlace().Compare(b.EndPlace()) })
	return list, to, wrap("ends", err)
}

// goneName is the name under which the store keeps the last place whose end retention has removed.
const goneName = "ends"

// Gone is the last place whose end retention has removed: of the ends before it, not all are there
// any more.
func (h *History) Gone() queue.EndPlace {
	h.index.mu.RLock()
	defer h.index.mu.RUnlock()
	return h.gone
}

// loadGone reads the place that noteGone wrote.
func (h *History) loadGone(ctx context.Context) error {
	b, err := h.s.Standing(ctx, goneName)
	if err != nil || b == nil {
		return err
	}
	d := pageReader{rest: b}
	h.gone = queue.EndPlace{Position: d.uint(), Seq: uint32(d.uint())}
	if d.err() != nil {
		return h.s.damaged("standing", 1)
	}
	return nil
}

// noteGone records that ends are gone, in the transaction that removes them.
func (h *History) noteGone(w *writer, list []Outlived) (last queue.EndPlace, err error) {
	last = h.Gone()
	before := last
	for i := range list {
		if list[i].place.Compare(last) > 0 {
			last = list[i].place
		}
	}
	if last == before {
		return last, nil
	}
	b := binary.AppendUvarint(binary.AppendUvarint(nil, last.Position), uint64(last.Seq))
	_, err = w.putStanding.Exec(goneName, sum(0).bytes([]byte(goneName)).bytes(b).stored(), b)
	return last, err
}
