package store

// The second and third step of an output's way (output.go has the picture): from the log into runs,
// and from runs into one packed run.
//
// Each step writes the new place first, raises the count of moves, and only then deletes the old
// place, in transactions of bounded size. A crash in between leaves outputs in two places. That is
// harmless, as the places are asked in an order in which the newer one wins. A reader that finds
// nothing compares the count of moves before and after, and looks again if it changed: without
// that, it could miss an output that moved from where it had not looked yet to where it had.
//
// Page numbers of a submission tell the two kinds apart:
//
//	0 ........ firstPacked-1     runs, each beginning behind the last one
//	firstPacked ..... lastNumber  the packed run; `run` of its pages is the largest run number that is in it

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

const compactTx = 1 << 20 // bytes of one transaction of compacting and packing: others wait no longer than for a commit

// CompactOutputs sorts the log of outputs into runs when it is long enough to be worth it,
// and does nothing otherwise. Call it every now and then from a background loop; it works
// in short transactions, and others append and read meanwhile.
// The size is asked twice: before the lock, because it is nearly always too small, and behind it, as another may
// have been faster.
func (s *Store) CompactOutputs(ctx context.Context) error {
	if !s.outputs.over(1) {
		return nil
	}
	s.outputs.moves.mu.Lock()
	defer s.outputs.moves.mu.Unlock()
	if !s.outputs.over(1) { // another caller did it while we waited
		return nil
	}
	return wrap("compact outputs", s.compact(ctx))
}

// compact moves all of the log into runs. A crash at any point leaves some outputs in both
// places, which is harmless: the log is asked first, and compacting again makes a run more.
// Outputs of submissions that are gone (isDropped) are left out here, so a log full of them shrinks without being
// copied.
func (s *Store) compact(ctx context.Context) error {
	from, upTo, isDropped := s.outputs.uncompacted()
	var entries []logEntry
	bytes, count, err := s.eachLogPage(ctx, from, upTo, func(n int64, page []logEntry) {
		for i := range page {
			if !isDropped(page[i].seq, n) {
				entries = append(entries, page[i])
			}
		}
	})
	if err != nil {
		return err
	}
	if err := s.writeRuns(ctx, sorted(entries)); err != nil {
		return err
	}
	s.outputs.moves.n.Add(1)
	s.outputs.compact(upTo, bytes, count)
	return s.dropLogged(ctx, upTo) // on failure the rest goes with the next compacting
}

// writeRuns writes sorted entries, a run for each submission. The runs of many submissions share transactions: most
// of them have a few outputs in the log.
func (s *Store) writeRuns(ctx context.Context, entries []logEntry) error {
	out := pageWriter{store: s}
	for start := 0; start < len(entries); {
		end := start + 1
		for end < len(entries) && entries[end].seq == entries[start].seq {
			end++
		}
		if err := out.run(ctx, entries[start].seq, entries[start:end]); err != nil {
			return err
		}
		start = end
	}
	return out.flush(ctx)
}

// dropLogged deletes the pages of the log up to upTo, the oldest first.
func (s *Store) dropLogged(ctx context.Context, upTo int64) error {
	for gone := false; !gone; {
		err := s.tx(ctx, func(w *writer) (err error) {
			gone, err = eraseRange(w.sizeLog, w.dropLog, 0, upTo, &budget{rows: eraseRows, bytes: eraseBytes})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pageWriter writes output pages in transactions of about compactTx bytes.
type pageWriter struct {
	store *Store
	rows  []outputRow
	bytes int
}

type outputRow struct {
	key, run, crc int64
	bytes         []byte
}

// run writes sorted entries of one submission as a new run.
func (p *pageWriter) run(ctx context.Context, seq uint32, entries []logEntry) error {
	first := uint32(0)
	err := p.store.scan.with(ctx, func(r *reader) (err error) {
		first, err = nextRun(r, seq)
		return err
	})
	if err != nil {
		return err
	}
	for number := first; len(entries) > 0; number++ {
		n := cutRun(entries)
		if err := p.page(ctx, seq, number, first, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// page writes one page.
func (p *pageWriter) page(ctx context.Context, seq, number, run uint32, entries []logEntry) error {
	if number == lastNumber {
		return fmt.Errorf("seq %d has used up its output pages", seq)
	}
	size := 8
	for i := range entries {
		size += sizeInRun(&entries[i])
	}
	b := packPage(appendRunPage(make([]byte, 0, size), entries))
	key := keyOf(seq, number)
	p.rows = append(p.rows, outputRow{key, int64(run), sum(0).number(key).number(int64(run)).bytes(b).stored(), b})
	if p.bytes += len(b); p.bytes >= compactTx || len(p.rows) >= 4*eraseRows {
		return p.flush(ctx)
	}
	return nil
}

// A page is written with others in one transaction of about 1 MiB: fewer commits, and none that keeps others
// waiting.
func (p *pageWriter) flush(ctx context.Context) error {
	if len(p.rows) == 0 {
		return nil
	}
	err := p.store.tx(ctx, func(w *writer) error {
		for i := range p.rows {
			if _, err := w.putOutput.Exec(p.rows[i].key, p.rows[i].run, p.rows[i].crc, p.rows[i].bytes); err != nil {
				return err
			}
		}
		return nil
	})
	clear(p.rows)
	p.rows, p.bytes = p.rows[:0], 0
	return err
}

func sizeInRun(e *logEntry) int { return len(e.bytes) + 7 }

// At least one entry: an output that is larger than a page has one of its own.
func cutRun(entries []logEntry) int {
	return cut(len(entries), func(i int) int { return sizeInRun(&entries[i]) })
}

// nextRun is the number of the first page of a submission's next run. Numbers that the
// packed run counts as its own are not used again.
func nextRun(r *reader, seq uint32) (uint32, error) {
	last, top, found, err := lastOutput(r, seq, lastNumber)
	if err != nil || !found {
		return 0, err
	}
	if last < firstPacked {
		return last + 1, nil
	}
	below, _, found, err := lastOutput(r, seq, firstPacked-1)
	if err != nil || !found {
		return top + 1, err
	}
	return max(top, below) + 1, nil
}

// PackOutputs merges the runs of a submission into one, so that reading its outputs is one
// walk through its pages. Call it when the submission has ended. It is cheap if the outputs lie in order already, as
// those of most small submissions do. It may be called again after a crash or an error, and goes on where it was.
func (s *Store) PackOutputs(ctx context.Context, seq uint32) error {
	s.outputs.moves.mu.Lock()
	defer s.outputs.moves.mu.Unlock()
	for {
		if err := s.pack(ctx, seq); !errors.Is(err, errMoved) { // else a flush came in between: it goes on where it was
			return wrap("pack outputs", err)
		}
	}
}

// Outputs that come after packing (a redriven chunk) make a run of their own beside the packed one. Packing again
// would rewrite all of it for a few.
func (s *Store) pack(ctx context.Context, seq uint32) error {
	var (
		all    []run
		packed *run
		upTo   uint32
	)
	find := func() error {
		return s.scan.with(ctx, func(r *reader) (err error) {
			all, packed, upTo, err = s.runs(r, seq)
			return err
		})
	}
	if err := find(); err != nil || len(all) == 0 { // outputs that are only in the log will be compacted as one run
		return err
	}
	if packed == nil {
		logged := len(s.outputs.of(seq)) > 0
		if len(all) == 1 && !logged {
			return nil
		}
		if logged {
			if err := s.compactOne(ctx, seq); err != nil {
				return err
			}
			if err := find(); err != nil {
				return err
			}
		}
		upTo = all[0].last
	}
	for len(all) > 0 && all[0].first > upTo { // late outputs, after an earlier packing: they stay beside it
		all = all[1:]
	}
	if len(all) == 0 {
		return nil
	}
	if err := s.writePacked(ctx, seq, all, packed, upTo); err != nil {
		return err
	}
	s.outputs.moves.n.Add(1)
	return s.dropRuns(ctx, seq, upTo)
}

// compactOne moves the outputs of one submission from the log into a run of its own. The log itself is not rewritten:
// the entries in it are marked as moved, and go with the next compacting.
func (s *Store) compactOne(ctx context.Context, seq uint32) error {
	pages := s.outputs.of(seq)
	entries, err := s.logOf(ctx, seq, 0, pages)
	if err != nil || len(entries) == 0 {
		return err
	}
	out := pageWriter{store: s}
	if err := out.run(ctx, seq, entries); err != nil {
		return err
	}
	if err := out.flush(ctx); err != nil {
		return err
	}
	s.outputs.moves.n.Add(1)
	s.outputs.dropUpTo(seq, pages[len(pages)-1]) // not outputs that were appended meanwhile
	return nil
}

// writePacked merges runs into the packed run, after its present pages.
// It goes on behind the last packed index in the file, so a crash in the middle loses no finished work.
func (s *Store) writePacked(ctx context.Context, seq uint32, all []run, packed *run, upTo uint32) error {
	from, number := uint32(0), uint32(firstPacked)
	m := &merger{store: s, seq: seq, moved: s.outputs.moves.n.Load()}
	err := s.scan.with(ctx, func(r *reader) error {
		if packed != nil {
			_, entries, found, err := s.pageFrom(r, seq, packed.last, packed.last)
			if err != nil {
				return err
			}
			if !found || entries[len(entries)-1].index == math.MaxUint32 {
				return s.damaged("output", keyOf(seq, packed.last))
			}
			from, number = entries[len(entries)-1].index+1, packed.last+1
		}
		return m.add(r, all, from)
	})
	if err != nil {
		return err
	}
	out := pageWriter{store: s}
	var pending []logEntry
	room := 0
	for {
		e, more, err := m.next(ctx)
		if err != nil {
			return err
		}
		if more {
			pending = append(pending, e)
			room += sizeInRun(&e)
		}
		for len(pending) > 0 && (!more || room > 2*largePage) { // enough entries to choose the best end of the page
			n := cutRun(pending)
			if err := out.page(ctx, seq, number, upTo, pending[:n]); err != nil {
				return err
			}
			for i := range pending[:n] {
				room -= sizeInRun(&pending[i])
			}
			pending = append(pending[:0], pending[n:]...)
			number++
		}
		if !more {
			return out.flush(ctx)
		}
	}
}

// dropRuns deletes the pages up to this number, the oldest first: while some are left, the
// newer of two outputs still wins.
func (s *Store) dropRuns(ctx context.Context, seq, upTo uint32) error {
	for gone := false; !gone; {
		err := s.tx(ctx, func(w *writer) (err error) {
			gone, err = eraseRange(w.sizeOutput, w.dropOutput, keyOf(seq, 0), keyOf(seq, upTo),
				&budget{rows: eraseRows, bytes: eraseBytes})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Giving room back to the disk. SQLite keeps the pages of deleted rows in a list of free ones. To
// give them back it moves pages from the end of the file into free ones, which costs writes. So some pages stay free
// for the next rows, and on a full disk nearly none.

// Free pages are kept for the next rows, up to a quarter of the file's contents, or freeBytes if that is more. On a
// full disk others need the room, so then almost none are kept.
const (
	freeBytes      = 16 << 20
	freeBytesTight = 1 << 20
)

// Space is the room that a store has inside its file.
type Space struct {
	s    *Store
	free atomic.Int64
}

// Shrink has the file give free room back to the disk, about `most` bytes in one
// transaction; more says that there is more to give back. `tight` says that the disk is
// full. Other writes wait for one call no longer than for each other.
func (p *Space) Shrink(ctx context.Context, tight bool, most int64) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err = p.s.writing(func(w *writer) (err error) {
		more, err = shrink(w.conn, tight, most)
		if err == nil {
			_, free, unknown := w.conn.Usage()
			p.free.Store(free)
			err = unknown
		}
		return err
	})
	return more, wrap("shrink", err)
}

// Free is how many bytes of the file were free inside it when Shrink was called last:
// inserts have this room also on a full disk.
func (p *Space) Free() int64 { return p.free.Load() }

// Shrink is that of the catalogue.
func (c *Catalogue) Shrink(tight bool, most int64) (more bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more, err = shrink(c.conn, tight, most)
	return more, wrap("shrink", err)
}

func shrink(conn *sqlitedb.Conn, tight bool, most int64) (more bool, err error) {
	used, free, err := conn.Usage()
	if err != nil {
		return false, err
	}
	keep := max(freeBytes, used/4)
	if tight {
		keep = freeBytesTight
	}
	if free > keep {
		more, err = conn.GiveBack(min(most, free-keep))
		more = more && free-most > keep
	}
	if err == nil && !more {
		err = conn.CutFile()
	}
	return more, err
}
