package store

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// EndedScan says which submissions of the history are listed, and how many are looked at.
type EndedScan struct {
	Before queue.SubmissionID // only smaller ids; 0: any
	States []queue.SubmissionState
	Meta   queue.Meta // pages without these entries are passed over
	// whether a submission is listed; nil: all are. It looks at the meta itself
	Want  func(*checkpoint.Ended) (bool, error)
	Limit int // listed submissions
	Bytes int // of listed submissions, about; 0: any number
	Look  int // about this many submissions are read; 0: any number
}

// ScanEnded lists ended submissions, the newest id first. The list has all wanted ones from the id `to` on: 0 says
// that there are no others. `to` is always smaller than Before, so each call makes progress.
func (h *History) ScanEnded(ctx context.Context, s EndedScan) (list []checkpoint.Ended, to queue.SubmissionID,
	err error) {
	if s.Limit <= 0 {
		return nil, s.Before, nil
	}
	o := newest(below(s.Before), maskOf(s.States))
	if len(s.Meta) > 0 {
		o.pass, o.noted = func(p *span) bool { return !p.meta.may(s.Meta) }, true
	}
	err = unmoved(func() error {
		list, to = list[:0], 0
		o.scan = &scan{look: s.Look, start: ^uint64(below(s.Before) - 1)}
		bytes := 0
		err := h.walk(ctx, o, func(e *checkpoint.Ended, _ int64, _ int) (bool, error) {
			if s.Want != nil {
				if wanted, err := s.Want(e); err != nil || !wanted {
					return err == nil, err
				}
			}
			list = append(list, e.Own())
			bytes += sizeInHistory(e)
			if full := len(list) == s.Limit || s.Bytes > 0 && bytes >= s.Bytes; full {
				to = e.ID
				return false, nil
			}
			return true, nil
		})
		if o.scan.ended {
			to = queue.SubmissionID(^o.scan.at) + 1
		}
		return err
	})
	return list, to, wrap("list ended", err)
}

// scan bounds the reading of a walk. Keys fall from the newest id on, as those of the walk do: a key is the
// complement of an id.
type scan struct {
	look, looked int
	start, at    uint64 // keys: of the first wanted submission, and of the first that the walk did not reach
	ended        bool
}

// may says whether one more page may be read. The first ones may, up to one that only has keys
// behind the start: else a scan that begins again where this one ended would come no further.
func (s *scan) may(key uint64, p *span) bool {
	if s.look > 0 && s.looked >= s.look && key > s.start {
		s.ended, s.at = true, key
		return false
	}
	s.looked += int(p.count)
	return true
}

// metaFilter is a Bloom filter of the entries of meta in a page of the history, of about a
// byte for each. It is made when the page is first read for a list by meta, and kept in
// memory. A page never changes, so all spans of one share it.
type metaFilter struct{ bits atomic.Pointer[[]uint64] }

// metaBits are the two bits of an entry in a filter. One hash serves both bits, half each: with a byte per entry some
// five of a hundred pages are read for nothing, and reading one is cheap.
func metaBits(bits []uint64, e *queue.MetaEntry) (a, b uint64) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(e.Key)) // never fails
	_, _ = io.WriteString(h, e.Value.String())
	n, most := h.Sum64(), uint64(len(bits))*64
	return n >> 32 % most, n & math.MaxUint32 % most
}

// may says whether the page may have a submission with all of these entries. Without a filter the page has to be
// read, which makes the filter.
func (f *metaFilter) may(meta queue.Meta) bool {
	bits := f.bits.Load()
	if bits == nil {
		return true
	}
	for i := range meta {
		if a, b := metaBits(*bits, &meta[i]); (*bits)[a/64]>>(a%64)&1 == 0 || (*bits)[b/64]>>(b%64)&1 == 0 {
			return false
		}
	}
	return true
}

// note makes the filter of a page. Two readers may make it at once. Both filters are the same, so it does not matter
// whose is kept.
func (f *metaFilter) note(page []checkpoint.Ended) error {
	if f.bits.Load() != nil {
		return nil
	}
	entries := map[queue.MetaEntry]struct{}{}
	for i := range page {
		spec, err := journal.DecodeInsert(page[i].Spec)
		if err != nil {
			return fmt.Errorf("history of %s: %w", page[i].ID, err)
		}
		for _, e := range spec.Meta {
			entries[e] = struct{}{}
		}
	}
	bits := make([]uint64, len(entries)/8+1)
	for e := range entries {
		a, b := metaBits(bits, &e)
		bits[a/64] |= 1 << (a % 64)
		bits[b/64] |= 1 << (b % 64)
	}
	f.bits.Store(&bits)
	return nil
}
