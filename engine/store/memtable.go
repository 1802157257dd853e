package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
)

// Memtable has the contents, attachments and outputs that the journal holds and the file does not hold
// yet. They are durable already, so a client never waits for the file: a checkpoint writes them, before
// it lets the journal forget them, and until then they are read from here. After a crash the replay of
// the journal fills the memtable again. (The name and the two tables, one that grows while the other is
// written, are those of log-structured stores: O'Neil et al., "The Log-Structured Merge-Tree", 1996.)
//
//	KeepContents, KeepOutput, KeepBlob ─► active ─┐ Flush swaps them        ┌─► file, in transactions of commitBytes
//	                                             └──────────► frozen ──────┘
//	readers look into active, then frozen, then the file
//
// Order of locks: flushing, the writer's lock, mu. An entry leaves frozen only after its
// transaction is durable. So a reader that looks in this order finds every entry in one place or
// the other, or, if it was on its way, the count of moves tells it to look again (output.go).
//
// Without the second table, a Keep call would wait for the disk while a checkpoint writes.
type Memtable struct {
	s     *Store
	bytes atomic.Int64

	flushing sync.Mutex // one Flush at a time; taken before mu and the writer's lock

	mu     sync.RWMutex
	active table
	// being written to the file; changes under the writer's lock too, so that it can be
	// read with that alone
	frozen table
}

// table is one generation of a memtable. Its entries never change.
type table struct {
	contents map[uint32]*journal.Contents // by seq
	// seqs of contents in order of arrival, so that neighbours are so in the file; some may be gone
	arrived []uint32
	outputs map[int64][]byte    // by keyOf(seq, index)
	indexes map[uint32][]uint32 // by seq: the chunks that have an output here, in order of completion
	blobs   map[string]*cutBlob // by key: copies of blobs of another medium
}

// entryCost is the approximate memory of an entry beside its bytes.
const entryCost = 128

func newTable() table {
	return table{contents: map[uint32]*journal.Contents{}, outputs: map[int64][]byte{}, indexes: map[uint32][]uint32{},
		blobs: map[string]*cutBlob{}}
}

func (t *table) empty() bool { return len(t.contents) == 0 && len(t.outputs) == 0 && len(t.blobs) == 0 }

// drop removes the table's entries of a submission. It returns the memory that became free, which the caller takes
// off the sum of both tables.
func (t *table) drop(seq uint32) (bytes int64) {
	bytes = t.dropContents(seq)
	for _, index := range t.indexes[seq] {
		bytes += t.dropOutput(seq, index)
	}
	delete(t.indexes, seq)
	for key, c := range t.blobs {
		if c.seq == int64(seq) {
			bytes += t.dropBlob(key)
		}
	}
	return bytes
}

func (t *table) dropBlob(key string) (bytes int64) {
	c := t.blobs[key]
	if c == nil {
		return 0
	}
	delete(t.blobs, key)
	return c.size + entryCost
}

func (t *table) dropContents(seq uint32) (bytes int64) {
	c := t.contents[seq]
	if c == nil {
		return 0
	}
	delete(t.contents, seq)
	return sizeOf(c)
}

func (t *table) dropOutput(seq, index uint32) (bytes int64) {
	key := keyOf(seq, index)
	b, is := t.outputs[key]
	if !is {
		return 0
	}
	delete(t.outputs, key)
	return int64(len(b)) + entryCost
}

// It must give the same for the same contents at any time, because the size that was added to the sum is later
// subtracted.
func sizeOf(c *journal.Contents) (bytes int64) {
	for i := range c.Pages {
		bytes += int64(len(c.Pages[i].Bytes))
	}
	return bytes + int64(len(c.Attachment)) + entryCost
}

func (m *Memtable) init(s *Store) { m.s, m.active, m.frozen = s, newTable(), newTable() }

// both calls fn for the tables, the younger first, until it returns true.
func (m *Memtable) both(fn func(*table) bool) bool { return fn(&m.active) || fn(&m.frozen) }

// content returns the submission's content and attachment in this memtable; nil: none. The bytes are not copied:
// entries never change, and a reader that has one keeps it alive when it is dropped here.
func (m *Memtable) content(seq uint32) (c *journal.Contents) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.both(func(t *table) bool { c = t.contents[seq]; return c != nil })
	return c
}

// output is the output of a chunk, if it is here.
func (m *Memtable) output(seq, index uint32) (b []byte, found bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.both(func(t *table) bool { b, found = t.outputs[keyOf(seq, index)]; return found })
	return b, found
}

// tableSlice is how many entries one hold of the lock collects or drops. It bounds how long a Keep call waits.
const tableSlice = 512

// outputsOf lists the outputs of a submission from an index on, by index.
func (m *Memtable) outputsOf(seq, from uint32) (entries []logEntry) {
	m.mu.RLock()
	indexes := slices.Concat(m.frozen.indexes[seq], m.active.indexes[seq])
	m.mu.RUnlock()
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	first, _ := slices.BinarySearch(indexes, from)
	for indexes = indexes[first:]; len(indexes) > 0; {
		n := min(len(indexes), tableSlice)
		m.mu.RLock()
		for _, index := range indexes[:n] {
			m.both(func(t *table) bool {
				b, found := t.outputs[keyOf(seq, index)]
				if found {
					entries = append(entries, logEntry{seq, index, b})
				}
				return found // else it went to the file meanwhile, which the reader notices
			})
		}
		m.mu.RUnlock()
		indexes = indexes[n:]
	}
	return entries
}

// seqs lists the submissions with entries in this memtable.
func (m *Memtable) seqs() []uint32 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[uint32]struct{}{}
	m.both(func(t *table) bool {
		for seq := range t.contents {
			all[seq] = struct{}{}
		}
		for seq := range t.indexes {
			all[seq] = struct{}{}
		}
		return false
	})
	return slices.Collect(maps.Keys(all))
}

// drop removes the entries of a submission. The caller holds the writer's lock.
func (m *Memtable) drop(seq uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes.Add(-m.active.drop(seq) - m.frozen.drop(seq))
}

// KeepContents keeps a copy of a submission's bytes, which the journal has made durable,
// until a Flush writes them.
func (m *Memtable) KeepContents(c *journal.Contents) {
	c = c.Clone()
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.active.contents[c.Seq]; old != nil {
		m.bytes.Add(-sizeOf(old)) // the same, out of a journal that is read again
	} else {
		m.active.arrived = append(m.active.arrived, c.Seq)
	}
	m.active.contents[c.Seq] = c
	m.bytes.Add(sizeOf(c))
}

// KeepOutput keeps a copy of the output of a chunk, which the journal has made durable,
// until a Flush writes it.
func (m *Memtable) KeepOutput(o *journal.Output) {
	key, own := keyOf(o.Seq, o.Index), append([]byte{}, o.Bytes...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, is := m.active.outputs[key]; is {
		m.bytes.Add(int64(-len(old)) - entryCost)
	} else {
		m.active.indexes[o.Seq] = append(m.active.indexes[o.Seq], o.Index)
	}
	m.active.outputs[key] = own
	m.bytes.Add(int64(len(own)) + entryCost)
}

// KeepBlob keeps a blob, which is durable elsewhere, until a Flush writes it. b is the
// memtable's from then on.
func (m *Memtable) KeepBlob(key string, b []byte) {
	c := newBlob(key, b)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes.Add(c.size + entryCost - m.active.dropBlob(key))
	m.active.blobs[key] = c
}

// blob is a blob that is here; nil: it is not.
func (m *Memtable) blob(key string) (c *cutBlob) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.both(func(t *table) bool { c = t.blobs[key]; return c != nil })
	return c
}

// dropBlob forgets a blob. The caller has the writer's lock.
func (m *Memtable) dropBlob(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes.Add(-m.active.dropBlob(key) - m.frozen.dropBlob(key))
}

// Bytes is how much memory waits for a Flush.
func (m *Memtable) Bytes() int64 { return m.bytes.Load() }

// Flush writes everything that was kept before its call. It works in transactions of bounded
// size, so after a crash or an error some of it is in the file, and the rest is written by
// the next call. When CompactOutputs is not called for long, it does that work too.
//
// It makes two rounds, because frozen may still hold entries of a failed call. One round would write only these,
// and a checkpoint would then trim the journal of bytes that are in memory alone.
func (m *Memtable) Flush(ctx context.Context) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	for range 2 { // the entries that an earlier call left, then those that came since
		m.mu.Lock()
		if m.frozen.empty() {
			m.active, m.frozen = newTable(), m.active
		}
		m.mu.Unlock()
		if err := m.flushFrozen(ctx); err != nil {
			return wrap("flush", err)
		}
	}
	if m.s.outputs.over(2) {
		// The outputs are safe already. If the disk has no room for compacting, the next call tries again.
		if err := m.s.CompactOutputs(ctx); err != nil && !errors.Is(err, journal.ErrFull) {
			return err
		}
	}
	return nil
}

// flushFrozen writes the frozen table.
func (m *Memtable) flushFrozen(ctx context.Context) error {
	for {
		m.mu.RLock()
		done := m.frozen.empty()
		m.mu.RUnlock()
		if done {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.s.writing(m.flushPortion); err != nil {
			return err
		}
	}
}

// flushPortion writes some of the frozen table in one transaction. Entries that Forget removes before it are not in
// it; entries that Forget removes later are in the file by then. The entries stay readable in the frozen table
// until the transaction is durable; only then flushed drops them.
func (m *Memtable) flushPortion(w *writer) error {
	s, f := m.s, m.portion()
	pages := s.outputs.newPages()
	pages.add(f.outputs)
	pages.finish()
	err := w.conn.Tx(func() error {
		singles := make([]logEntry, 0, len(f.contents))
		for _, c := range f.contents {
			if e, is := singleOf(c); is {
				singles = append(singles, e)
			} else if err := w.contents(c); err != nil {
				return err
			}
		}
		if err := w.putSingles(s, singles); err != nil {
			return err
		}
		for _, c := range f.blobs {
			if err := w.putBlob(c); err != nil {
				return err
			}
		}
		return pages.write(w)
	})
	if err == nil {
		s.outputs.publish(pages)
		s.outputs.moves.n.Add(1)
		m.flushed(f)
	}
	return err
}

// portion is the part of a flush in one transaction, in the order of the file's tables.
type portion struct {
	contents []*journal.Contents
	seqs     int // how many of `arrived` the contents cover
	outputs  []Output
	blobs    []*cutBlob
}

// portion needs no lock but the writer's: no one else changes the frozen table, and a Keep call must not wait for
// this.
func (m *Memtable) portion() portion {
	f, bytes := portion{}, int64(0)
	for ; len(m.frozen.arrived) > f.seqs && bytes < commitBytes; f.seqs++ {
		if c := m.frozen.contents[m.frozen.arrived[f.seqs]]; c != nil {
			f.contents = append(f.contents, c)
			bytes += sizeOf(c)
		}
	}
	for _, c := range m.frozen.blobs {
		if bytes >= commitBytes {
			break
		}
		f.blobs = append(f.blobs, c)
		bytes += c.size + entryCost
	}
	for seq, indexes := range m.frozen.indexes {
		for _, index := range indexes {
			if bytes >= commitBytes {
				break
			}
			if b, is := m.frozen.outputs[keyOf(seq, index)]; is {
				f.outputs = append(f.outputs, Output{Seq: seq, Index: index, Bytes: b})
				bytes += int64(len(b)) + entryCost
			}
		}
	}
	slices.SortFunc(f.contents, func(a, b *journal.Contents) int { return cmp.Compare(a.Seq, b.Seq) })
	sort.Slice(f.outputs, func(i, j int) bool {
		return keyOf(f.outputs[i].Seq, f.outputs[i].Index) < keyOf(f.outputs[j].Seq, f.outputs[j].Index)
	})
	return f
}

// flushed removes a written portion from the frozen table.
func (m *Memtable) flushed(f portion) {
	m.mu.Lock()
	m.frozen.arrived = m.frozen.arrived[f.seqs:]
	for _, c := range f.blobs {
		m.bytes.Add(-m.frozen.dropBlob(c.key))
	}
	m.mu.Unlock()
	for list := range slices.Chunk(f.contents, tableSlice) {
		m.mu.Lock()
		for _, c := range list {
			m.bytes.Add(-m.frozen.dropContents(c.Seq))
		}
		m.mu.Unlock()
	}
	for list := range slices.Chunk(f.outputs, tableSlice) {
		m.mu.Lock()
		for i := range list {
			m.bytes.Add(-m.frozen.dropOutput(list[i].Seq, list[i].Index))
		}
		if len(m.frozen.outputs) == 0 {
			m.frozen.indexes = map[uint32][]uint32{}
		}
		m.mu.Unlock()
	}
}

// contents writes the pages and the attachment of a submission.
func (w *writer) contents(c *journal.Contents) error {
	for i := range c.Pages {
		key, page := keyOf(c.Seq, c.Pages[i].First), w.pack(c.Pages[i].Bytes)
		if _, err := w.putContent.Exec(key, sum(0).number(key).bytes(page).stored(), page); err != nil {
			return err
		}
	}
	if c.Attachment == nil {
		return nil
	}
	_, err := w.putAttachment.Exec(int64(c.Seq), sum(0).number(int64(c.Seq)).bytes(c.Attachment).stored(), c.Attachment)
	return err
}
