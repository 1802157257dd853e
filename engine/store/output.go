package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// How the store keeps outputs. Completions of many submissions come mixed, so writing each
// output to its own place would dirty one page of the database per output. Instead the
// outputs move in three steps, each of which writes large sorted pieces:
//
//	memtable ──flush──► log: pages that all submissions share      ┌ 7/0 9/3 7/1 ┐ ┌ 9/4 8/0 7/2 ┐
//	                     │                                         └─────────────┘ └─────────────┘
//	                  compact, when the log is long: one run of pages per submission, in index order
//	                     │                                         submission 7:  [0 1 2] [5 6]   two runs
//	                     ▼                                         submission 9:  [3 4]
//	                    runs
//	                     │ pack, when the submission has ended: its runs become one
//	                     ▼                                         submission 7:  [0 1 2 5 6]     the packed run
//	                packed run
//
// Memory knows which submissions are in which page of the log. If a chunk has several outputs,
// the latest wins: the log before the runs, a later page or run before an earlier one.

// Output is the result that a consumer returned for one chunk.
type Output struct {
	Seq, Index uint32
	Bytes      []byte // may be empty; an empty output is an output
}

const (
	logPageBytes = 16 << 10
	// The log is compacted when it is over one of these. Compacting in large portions is
	// cheaper per output, but the log is read at every start and indexed in memory.
	compactBytes   = 16 << 20
	compactEntries = 100_000
)

// outputLog knows where in the log the outputs of a submission are.
//
// mu guards the index of pages; next belongs to the writer's lock, as only a writer numbers pages.
// moves.mu comes before the writer's lock: compacting and packing take it for their whole course,
// and transactions in it.
type outputLog struct {
	moves moves
	next  int64 // number of the next page; belongs to the writer's lock

	mu        sync.Mutex
	pages     map[uint32][]int64 // by seq, ascending: the pages with outputs of it
	dropped   map[uint32]int64   // by seq: its outputs in pages up to here are deleted or moved
	last      int64              // the last page
	compacted int64              // pages up to here are in runs, and on their way out of the file
	bytes     int                // of pages that are not compacted
	entries   int
}

// logPages are the pages that one commit adds.
type logPages struct {
	first   int64
	entries []Output
	ends    []int // where in entries each page ends
	encoded [][]byte
}

func (l *outputLog) newPages() *logPages { return &logPages{first: l.next} }

func (p *logPages) add(outs []Output) { p.entries = append(p.entries, outs...) }

// finish cuts the entries into pages and encodes them.
func (p *logPages) finish() {
	start, bytes := 0, 0
	for i := range p.entries {
		bytes += len(p.entries[i].Bytes) + 12
		if bytes >= logPageBytes || i == len(p.entries)-1 {
			p.ends = append(p.ends, i+1)
			p.encoded = append(p.encoded, appendLogPage(make([]byte, 0, bytes+8), p.entries[start:i+1]))
			start, bytes = i+1, 0
		}
	}
}

func (p *logPages) write(w *writer) error {
	for i, b := range p.encoded {
		n := p.first + int64(i)
		if _, err := w.putLog.Exec(n, sum(0).number(n).bytes(b).stored(), b); err != nil {
			return err
		}
	}
	return nil
}

// publish makes committed pages known to readers.
func (l *outputLog) publish(p *logPages) {
	if len(p.encoded) == 0 {
		return
	}
	l.next = p.first + int64(len(p.encoded))
	l.mu.Lock()
	defer l.mu.Unlock()
	start := 0
	for i, end := range p.ends {
		for _, o := range p.entries[start:end] {
			l.note(o.Seq, p.first+int64(i))
		}
		l.bytes += len(p.encoded[i])
		start = end
	}
}

func (l *outputLog) note(seq uint32, page int64) {
	if known := l.pages[seq]; len(known) == 0 || known[len(known)-1] != page {
		l.pages[seq] = append(known, page)
	}
	l.entries++
	l.last = page
}

func (l *outputLog) over(times int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes > times*compactBytes || l.entries > times*compactEntries
}

// of lists the pages with outputs of a submission, ascending.
func (l *outputLog) of(seq uint32) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pages[seq])
}

// seqs lists the submissions with outputs in the log.
func (l *outputLog) seqs() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.pages))
}

func (l *outputLog) maxSeq() (largest uint32) {
	for _, seq := range l.seqs() {
		largest = max(largest, seq)
	}
	return largest
}

// drop forgets a submission's outputs in the log; they leave the file when the log is compacted.
func (l *outputLog) drop(seq uint32) { l.dropUpTo(seq, math.MaxInt64) }

// dropUpTo forgets the outputs in pages up to this one.
func (l *outputLog) dropUpTo(seq uint32, page int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page = min(page, l.last)
	if pages, known := l.pages[seq]; known {
		l.keepFrom(seq, pages, page+1)
		l.dropped[seq] = page
	}
}

func (l *outputLog) keepFrom(seq uint32, pages []int64, first int64) {
	n, _ := slices.BinarySearch(pages, first)
	if n == len(pages) {
		delete(l.pages, seq)
	} else if n > 0 {
		l.pages[seq] = slices.Clone(pages[n:])
	}
}

// uncompacted says which pages compacting has to take, those between two numbers (from excluded), and which
// outputs to leave out.
func (l *outputLog) uncompacted() (from, upTo int64, isDropped func(seq uint32, page int64) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := maps.Clone(l.dropped)
	return l.compacted, l.last, func(seq uint32, page int64) bool {
		last, known := dropped[seq]
		return known && page <= last
	}
}

// compact takes the pages up to upTo out of the index. bytes and entries are those of the pages not compacted
// before.
func (l *outputLog) compact(upTo int64, bytes, entries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for seq, pages := range l.pages {
		l.keepFrom(seq, pages, upTo+1)
	}
	for seq, page := range l.dropped {
		if page <= upTo {
			delete(l.dropped, seq)
		}
	}
	l.compacted = upTo
	l.bytes -= bytes
	l.entries -= entries
}

// indexLog builds the index from the log, at start.
func (s *Store) indexLog() error {
	l := &s.outputs
	l.pages, l.dropped, l.next = map[uint32][]int64{}, map[uint32]int64{}, 1
	bytes, _, err := s.eachLogPage(context.Background(), 0, math.MaxInt64, func(n int64, entries []logEntry) {
		for i := range entries {
			l.note(entries[i].seq, n)
		}
		l.next = n + 1
	})
	l.bytes = bytes
	return err
}

// eachLogPage reads the pages of the log between two numbers (from excluded) in slices, and counts their bytes
// and entries. The slice of entries is used again for the next page, the bytes in it are not.
func (s *Store) eachLogPage(ctx context.Context, from, upTo int64,
	fn func(n int64, entries []logEntry)) (bytes, count int, err error) {
	var entries []logEntry
	for more := true; more; {
		more = false
		err := s.scan.with(ctx, func(r *reader) error {
			return r.logPages.Query(func(row sqlitedb.Row) (_ bool, err error) {
				n, page := row.Int(0), row.Blob(2)
				if sum(0).number(n).bytes(page).stored() != row.Int(1) {
					return false, s.damaged("output_log", n)
				}
				if entries, err = logEntries(entries[:0], page); err != nil {
					return false, err
				}
				fn(n, entries)
				bytes += len(page)
				count += len(entries)
				from, more = n, true
				return true, nil
			}, from, upTo)
		})
		if err != nil {
			return bytes, count, err
		}
	}
	return bytes, count, nil
}

// Output is the output of one chunk; `found` is false when it has none. The bytes must not be changed.
//
// The loop is the reader's half of the protocol of moves. It asks the places from the newest to the oldest, so a
// found output is the right one. "Not found" counts only if nothing moved meanwhile.
func (s *Store) Output(ctx context.Context, seq, index uint32) (out []byte, found bool, err error) {
	for {
		before := s.outputs.moves.n.Load()
		if out, found = s.Memtable.output(seq, index); found {
			return out, true, nil
		}
		out, found, err = s.outputInLog(ctx, seq, index)
		if errors.Is(err, errMoved) {
			continue
		}
		if !found && err == nil {
			out, found, err = s.outputInRuns(ctx, seq, index)
		}
		if found || err != nil || s.outputs.moves.n.Load() == before {
			return out, found, wrap("output", err)
		}
	}
}

// errMoved says that outputs went to another place while they were read: look again.
var errMoved = errors.New("store: the outputs moved")

func (s *Store) outputInLog(ctx context.Context, seq, index uint32) (out []byte, found bool, err error) {
	pages := s.outputs.of(seq)
	var entries []logEntry
	err = s.hot.with(ctx, func(r *reader) error {
		for i := len(pages) - 1; i >= 0 && !found; i-- {
			if entries, err = s.logPage(r, entries[:0], pages[i], seq, index); err != nil {
				return err
			}
			for j := len(entries) - 1; j >= 0 && !found; j-- {
				if entries[j].index == index {
					out, found = entries[j].bytes, true
				}
			}
		}
		return nil
	})
	return out, found, err
}

// logPage reads the outputs of a submission, from an index on, in one page of the log; errMoved when it is gone.
func (s *Store) logPage(r *reader, dst []logEntry, n int64, seq, from uint32) ([]logEntry, error) {
	found := false
	err := r.logPage.Query(func(row sqlitedb.Row) (_ bool, err error) {
		found = true
		page := row.Blob(1)
		if sum(0).number(n).bytes(page).stored() != row.Int(0) {
			return false, s.damaged("output_log", n)
		}
		dst, err = logEntriesOf(dst, page, seq, from)
		return false, err
	}, n)
	if err == nil && !found {
		err = errMoved
	}
	return dst, err
}

// sorted brings entries into the order of seq and index; of equal ones the last stays.
func sorted(entries []logEntry) []logEntry {
	slices.SortStableFunc(entries, func(a, b logEntry) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.index, b.index))
	})
	n := 0
	for i := range entries {
		if i+1 < len(entries) && entries[i].seq == entries[i+1].seq && entries[i].index == entries[i+1].index {
			continue
		}
		entries[n] = entries[i]
		n++
	}
	clear(entries[n:])
	return entries[:n]
}
