package store

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// This file keeps outputs away from completions that they do not belong to.
//
// An output is written before its completion is committed, so that a committed completion never lacks its output. When the commit
// fails, or the server ends before it, the output is stored all the same, and not read, as its chunk is not done. A later
// completion of the chunk with an output of its own comes behind it in the log and wins; one without an output has to take the stray
// one away first (WithdrawOutputs). Which chunks that concerns is in doubts. It is found again at a start (DoubtLogged) because an output
// in doubt never leaves the log: settling moves only those that are trusted, and leaves the others where they are, in their order.

// doubts are chunks that are not known to be done, while an output of them is in the log or on its way there.
type doubts struct {
	n      atomic.Int64 // of chunks; nearly always 0, and then nothing else is looked at
	mu     sync.Mutex
	chunks map[uint32]map[uint32]struct{} // by seq, by index
}

func (d *doubts) add(seq, index uint32) {
	of := d.chunks[seq]
	if of == nil {
		if d.chunks == nil {
			d.chunks = map[uint32]map[uint32]struct{}{}
		}
		of = map[uint32]struct{}{}
		d.chunks[seq] = of
	}
	before := len(of)
	of[index] = struct{}{}
	d.n.Add(int64(len(of) - before))
}

func (d *doubts) remove(seq, index uint32) {
	of := d.chunks[seq]
	before := len(of)
	delete(of, index)
	d.n.Add(int64(len(of) - before))
	if before > 0 && len(of) == 0 {
		delete(d.chunks, seq)
	}
}

// Holds says whether the chunk is in doubt: it may have an output in the log that belongs to no committed completion.
func (d *doubts) Holds(seq, index uint32) bool {
	if !d.Any() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, in := d.chunks[seq][index]
	return in
}

// holdsAny says whether some chunk of the submission is in doubt.
func (d *doubts) holdsAny(seq uint32) bool {
	if !d.Any() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.chunks[seq]) > 0
}

// Add notes that these outputs are about to be appended for completions that are not committed yet. Their Bytes are not looked at.
func (d *doubts) Add(outs []Output) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range outs {
		d.add(outs[i].Seq, outs[i].Index)
	}
}

// Trust says that a completion of the chunk is committed: what is in the log for it, if anything, is its output.
func (d *doubts) Trust(seq, index uint32) {
	if !d.Any() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(seq, index)
}

// TrustAll says that no chunk of the submission will be completed any more: readers of its outputs know which are done.
func (d *doubts) TrustAll(seq uint32) {
	if !d.Any() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n.Add(-int64(len(d.chunks[seq])))
	delete(d.chunks, seq)
}

// TrustDone trusts every chunk in doubt for which done says so: after a reload, that its completion was committed all the same.
func (d *doubts) TrustDone(done func(seq, index uint32) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for seq, of := range d.chunks {
		for index := range of {
			if done(seq, index) {
				d.remove(seq, index)
			}
		}
	}
}

// Any says whether any chunk is in doubt. It costs one load.
func (d *doubts) Any() bool { return d.n.Load() != 0 }

// DoubtLogged goes through the log and doubts every output for which stray says so: at a start, that its chunk is not done. It must
// come before the first SettleOutputs or PackOutputs.
func (s *Store) DoubtLogged(ctx context.Context, stray func(seq, index uint32) bool) error {
	_, _, err := s.eachLogPage(ctx, 0, math.MaxInt64, func(_ int64, entries []logEntry) {
		for i := range entries {
			if e := &entries[i]; stray(e.seq, e.index) {
				s.Doubts.mu.Lock()
				s.Doubts.add(e.seq, e.index)
				s.Doubts.mu.Unlock()
			}
		}
	})
	return wrap("doubt outputs", err)
}

// Logged says whether the log holds outputs of the submission.
func (s *Store) Logged(seq uint32) bool { return len(s.outputs.of(seq)) > 0 }

// WithdrawOutputs takes what the log has for these chunks out of it, durably: they are about to be completed without an output, and
// no other call may be completing them. Their Bytes are not looked at. It waits for a settling that is under way.
func (s *Store) WithdrawOutputs(ctx context.Context, chunks []Output) error {
	s.outputs.moves.mu.Lock()
	defer s.outputs.moves.mu.Unlock()
	for i := range chunks {
		seq, index := chunks[i].Seq, chunks[i].Index
		for _, n := range s.outputs.of(seq) {
			if err := s.withdraw(ctx, n, seq, index); err != nil {
				return wrap("withdraw outputs", err)
			}
		}
		s.Doubts.Trust(seq, index)
	}
	return nil
}

// WithdrawDoubted takes all outputs in doubt out of the log, durably. No call may be completing anything.
func WithdrawDoubted(ctx context.Context, s *Store) error {
	var all []Output
	s.Doubts.mu.Lock()
	for seq, of := range s.Doubts.chunks {
		for index := range of {
			all = append(all, Output{Seq: seq, Index: index})
		}
	}
	s.Doubts.mu.Unlock()
	return s.WithdrawOutputs(ctx, all)
}

// withdraw rewrites a page of the log without what it has for a chunk. The page stays, if need be empty: readers have its number.
func (s *Store) withdraw(ctx context.Context, n int64, seq, index uint32) error {
	var entries []logEntry
	err := s.scan.with(ctx, func(r *reader) (err error) {
		entries, err = s.logPage(r, nil, n)
		return err
	})
	if err != nil {
		return err
	}
	before, count := len(logPageOf(entries)), len(entries)
	entries = slices.DeleteFunc(entries, func(e logEntry) bool { return e.seq == seq && e.index == index })
	if len(entries) == count {
		return nil
	}
	page := logPageOf(entries)
	if err := s.tx(ctx, func(w *writer) error { return w.rewriteLog(n, page) }); err != nil {
		return err
	}
	s.outputs.shrink(n, before-len(page), count-len(entries))
	return nil
}

func (w *writer) rewriteLog(n int64, page []byte) error {
	_, err := w.resetLog.Exec(sum(0).number(n).bytes(page).stored(), page, n)
	return err
}

// logPageOf packs entries into a page.
func logPageOf(entries []logEntry) []byte {
	outs := make([]Output, len(entries))
	for i := range entries {
		outs[i] = Output{Seq: entries[i].seq, Index: entries[i].index, Bytes: entries[i].bytes}
	}
	return appendLogPage(nil, outs)
}
