package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A single is the content of a submission with one small chunk and no attachment. Most submissions that bring
// bytes are like that. A row of its own would cost a statement to write and a query to read, which take longer
// than all other work for the chunk. So the singles of a checkpoint share pages: those of submissions whose
// numbers follow each other, sorted, in the encoding of a page of outputs with the seq in place of the index. No
// two pages overlap, so a single is in the last page that begins at or before its seq, or nowhere.

//	table content_page: n = the first seq     bytes = a page of outputs, seq in the place of the index
//
//	  n=17   [17 "a"] [18 "b"] [21 "c"]       n=40   [40 "d"] ...
//
//	a look-up of 19: the last page with n <= 19 is 17; it has no 19: the submission has no single
//
// singleOf is the single that these contents are, if they are one.
func singleOf(c *journal.Contents) (e logEntry, is bool) {
	if c.Attachment != nil || len(c.Pages) != 1 || c.Pages[0].First != 0 {
		return e, false
	}
	d := pageReader{rest: c.Pages[0].Bytes}
	if n, size := d.uint(), d.uint(); n != 1 || size > loneBytes || size != uint64(len(d.rest)) {
		return e, false
	}
	return logEntry{index: c.Seq, bytes: d.rest}, true
}

// nearSingles bounds the distance of two neighbours in a page. A write has to read the singles that are already in
// its span, so a page whose neighbours are far apart would be read for every single that comes in between.
const nearSingles = 4096

// putSingles writes singles, which are sorted by seq.
func (w *writer) putSingles(s *Store, list []logEntry) error {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].index-list[n-1].index < nearSingles {
			n++
		}
		if err := w.putNear(s, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// putNear writes singles, together with those of the pages that they overlap. There are such pages when a replay
// begins before a flush that was followed by a crash. Of two singles with the same seq, which a replay brings, the
// first in the sorted list stays. They are equal: contents never change.
func (w *writer) putNear(s *Store, list []logEntry) error {
	first, last := list[0].index, list[len(list)-1].index
	overlapped, err := w.overlapped(s, first, last)
	if err != nil {
		return err
	}
	var there []logEntry
	for i := range overlapped {
		if err := w.dropPageOf(s, &overlapped[i]); err != nil {
			return err
		}
		if there, err = runEntries(there, 0, overlapped[i].bytes); err != nil {
			return err
		}
	}
	if len(there) > 0 {
		list = slices.Concat(list, there)
		slices.SortStableFunc(list, func(a, b logEntry) int { return cmp.Compare(a.index, b.index) })
		list = slices.CompactFunc(list, func(a, b logEntry) bool { return a.index == b.index })
	}
	return w.putPages(list)
}

// singlesBytes is about how large a page of singles is. A larger page would take fewer statements to write, but
// longer to read for one single.
const singlesBytes = 4000

// putPages makes pages of singles, which are sorted by seq.
func (w *writer) putPages(list []logEntry) error {
	for len(list) > 0 {
		n, size := 1, sizeInRun(&list[0])
		for ; n < len(list) && size+sizeInRun(&list[n]) <= singlesBytes; n++ {
			size += sizeInRun(&list[n])
		}
		key, page := int64(list[0].index), w.make(func(dst []byte) []byte { return appendRunPage(dst, list[:n]) })
		if _, err := w.putSinglePage.Exec(key, sum(0).number(key).bytes(page).stored(), page); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (w *writer) dropPageOf(s *Store, p *singlePage) error {
	s.Singles.kept.drop(p)
	_, err := w.dropSinglePage.Exec(int64(p.first))
	return err
}

// overlapped are the pages that have singles between two seqs, by seq.
func (w *writer) overlapped(s *Store, first, last uint32) (pages []singlePage, err error) {
	read := func(row sqlitedb.Row) (bool, error) {
		p, err := s.Singles.page(row.Int(0), row.Int(1), row.Blob(2))
		if err == nil && p.last >= first {
			pages = append(pages, p)
		}
		return true, err
	}
	if err := w.singlesBefore.Query(read, int64(first)); err != nil {
		return nil, err
	}
	return pages, w.singlesIn.Query(read, int64(first), int64(last))
}

// eraseSingles deletes the singles of these submissions, which are sorted by seq, if they
// have any. A damaged page stays, as its singles are unknown. One page often holds many submissions that end
// together, so the page is read once for all of them, and rewritten without them only if it had any.
func (w *writer) eraseSingles(s *Store, seqs []uint32) error {
	for len(seqs) > 0 {
		pages, err := w.overlapped(s, seqs[0], seqs[0])
		if _, damaged := err.(*queue.FormatError); err != nil && !damaged {
			return err
		}
		if len(pages) == 0 {
			seqs = seqs[1:]
			continue
		}
		p := &pages[0]
		n, _ := slices.BinarySearch(seqs, p.last)
		if n < len(seqs) && seqs[n] == p.last {
			n++
		}
		left, err := runEntries(nil, 0, p.bytes)
		if err != nil {
			return err
		}
		before := len(left)
		left = slices.DeleteFunc(left, func(e logEntry) bool {
			_, gone := slices.BinarySearch(seqs[:n], e.index)
			return gone
		})
		if len(left) < before {
			if err := w.dropPageOf(s, p); err != nil {
				return err
			}
			if err := w.putPages(left); err != nil {
				return err
			}
		}
		seqs = seqs[n:]
	}
	return nil
}

// singlePage is a page of singles; there is at least one in it.
type singlePage struct {
	first, last uint32
	bytes       []byte
}

// page reads a row.
func (x *Singles) page(n, crc int64, page []byte) (singlePage, error) {
	return x.pageInto(nil, n, crc, page)
}

// pageInto reads a row with the memory of dst, if that is enough.
// The first index must be the key of the row: a page under another key would answer for submissions that are not
// its own.
func (x *Singles) pageInto(dst []byte, n, crc int64, page []byte) (p singlePage, err error) {
	if sum(0).number(n).bytes(page).stored() == crc {
		var whole bool
		if p.bytes, err = unpackInto(dst, page); err == nil {
			if p.first, p.last, whole = spanOfRun(p.bytes); whole && int64(p.first) == n {
				return p, nil
			}
		}
	}
	return p, x.s.damaged("content_page", n)
}

// spanOfRun is the first and the last index of a page in the encoding of outputs; whole:
// it has both, and all of its bytes.
func spanOfRun(page []byte) (first, last uint32, whole bool) {
	d, bytes := pageReader{rest: page}, uint64(0)
	n := d.uint()
	for i := uint64(0); i < n && !d.short; i++ {
		if last += uint32(d.uint()); i == 0 {
			first = last
		}
		bytes += d.uint()
	}
	return first, last, n > 0 && !d.short && bytes == uint64(len(d.rest))
}

// content is that of a submission; nil: it is not in this page. It walks over at most a few hundred lengths. An
// index in the page would cost more bytes than it saves time.
func (p *singlePage) content(seq uint32) []byte {
	d, at, before, size, found := pageReader{rest: p.bytes}, uint32(0), uint64(0), uint64(0), false
	for n := d.uint(); n > 0; n-- {
		at += uint32(d.uint())
		length := d.uint()
		if at < seq {
			before += length
		}
		if at == seq {
			size, found = length, true
		}
	}
	if !found {
		return nil
	}
	d.bytes(before)
	return d.bytes(size)
}

// Singles are the contents of a store that share pages.
type Singles struct {
	s    *Store
	kept singlesKept
}

// ReadFirst reads the chunk 0 of several submissions: fn gets each content, with its place
// in the list. It stops reading from the file when it has more than `most` bytes from there. The first n
// submissions, 1 or more, were read. The bytes must not be changed.
func (x *Singles) ReadFirst(ctx context.Context, seqs []uint32, most int,
	fn func(i int, content []byte)) (n int, err error) {
	// Memory is asked before the transaction begins, and rest lists the contents that are only in the file. In the
	// other order a flush could write a single and drop it from memory in between: the transaction would not see
	// it yet, and memory no longer.
	var rest []int
	for i, seq := range seqs {
		content, err := x.inMemory(seq)
		switch {
		case err != nil:
			return 0, wrap("read content", err)
		case content != nil:
			fn(i, content)
		default:
			rest = append(rest, i)
		}
	}
	if n = len(seqs); len(rest) == 0 {
		return n, nil
	}
	err = x.s.hot.with(ctx, func(r *reader) error {
		return r.conn.Reading(len(rest) > 1, func() error {
			for _, i := range rest {
				if most < 0 && i > 0 {
					n = i
					return nil
				}
				content := x.kept.content(seqs[i]) // a page of another one may have it
				if content == nil {
					var err error
					if content, err = x.read(r, seqs[i]); err != nil {
						return err
					}
				}
				fn(i, content)
				most -= len(content)
			}
			return nil
		})
	})
	return n, wrap("read content", err)
}

// inMemory is the chunk 0 of a submission, if it is in memory.
func (x *Singles) inMemory(seq uint32) (content []byte, err error) {
	kept := x.s.Memtable.content(seq)
	if kept == nil {
		return x.kept.content(seq), nil
	}
	start, page, err := pageOf(kept.Pages, 0, func(index uint32) error { return missingChunk(seq, index) })
	if err != nil || start != 0 {
		return nil, err
	}
	content, found, err := chunkOf(page, 0)
	if err == nil && !found {
		err = missingChunk(seq, 0)
	}
	return content, err
}

// read reads it from the table that has it, of two. If the page of singles is damaged, a row of its own may still
// have the content. The damage is only reported when neither has it.
func (x *Singles) read(r *reader, seq uint32) (content []byte, err error) {
	var damage error
	err = r.singlesBefore.Query(func(row sqlitedb.Row) (bool, error) {
		var p singlePage
		if p, damage = x.pageInto(r.scratch, row.Int(0), row.Int(1), row.Blob(2)); damage != nil || seq > p.last {
			return false, nil
		}
		r.scratch = p.bytes
		if x.kept.again(p.first) {
			p.bytes = slices.Clone(p.bytes)
			x.kept.keep(&p)
			content = p.content(seq)
		} else {
			content = slices.Clone(p.content(seq))
		}
		return false, nil
	}, int64(seq))
	if err != nil || content != nil {
		return content, err
	}
	_, page, err := x.s.contentPage(r, seq, 0)
	if err == nil {
		content, _, err = chunkOf(page, 0)
	} else if errors.Is(err, ErrMissing) && damage != nil {
		err = damage
	}
	return content, err
}

// visit calls fn for the seq of every single, in order. It passes over damaged pages: a read of their content
// reports the damage.
func (x *Singles) visit(ctx context.Context, fn func(seq uint32) error) error {
	for from := int64(0); ; {
		var list []logEntry
		found := false
		err := x.s.scan.with(ctx, func(r *reader) error {
			return r.nextSingles.Query(func(row sqlitedb.Row) (bool, error) {
				found, from = true, row.Int(0)+1
				p, err := x.page(row.Int(0), row.Int(1), row.Blob(2))
				if err == nil {
					list, err = runEntries(nil, 0, p.bytes)
				}
				if _, damaged := err.(*queue.FormatError); damaged {
					err = nil
				}
				return false, err
			}, from)
		})
		if err != nil || !found {
			return err
		}
		for i := range list {
			if err := fn(list[i].index); err != nil {
				return err
			}
		}
	}
}

// singlesKept has pages of singles that were read twice lately, so that consumers who take
// submissions in about the order in which they came do not read each page for each of
// them. Consumers who take them at random out of a large backlog would fill the memory with pages that no one asks
// for again, which costs more than to read a page. Each slot is for a range of seqs; a page is in the slots of all
// its singles. A single never changes: one that is read while it is deleted may stay here, with the same bytes.
type singlesKept struct {
	slots atomic.Pointer[singleSlots] // nil until the first page
	seen  [512]atomic.Uint64          // by a hash of the first seq: the page that was read last, plus one
}

// again notes that a page was read, and says whether it was the last one of its place that was.
// seen has one place per hash, without a lock: a lost update only means that a page is kept one read later.
func (k *singlesKept) again(first uint32) bool {
	place := &k.seen[first*0x9E3779B1>>23]
	return place.Swap(uint64(first)+1) == uint64(first)+1
}

type singleSlots [4096]atomic.Pointer[singlePage] // for 4 MiB of pages

// slotSeqs is how many seqs share a slot. A page holds the singles of more than that, so it stands in several
// slots, and each look-up goes to one.
const slotSeqs = 8

func (s *singleSlots) of(seq uint32) *atomic.Pointer[singlePage] {
	return &s[seq/slotSeqs%uint32(len(s))]
}

func (k *singlesKept) content(seq uint32) []byte {
	slots := k.slots.Load()
	if slots == nil {
		return nil
	}
	p := slots.of(seq).Load()
	if p == nil || seq < p.first || seq > p.last {
		return nil
	}
	return p.content(seq)
}

func (k *singlesKept) keep(p *singlePage) {
	slots := k.slots.Load()
	if slots == nil {
		k.slots.CompareAndSwap(nil, new(singleSlots))
		slots = k.slots.Load()
	}
	p.each(slots, func(slot *atomic.Pointer[singlePage]) { slot.Store(p) })
}

// drop forgets a page that goes from the file.
func (k *singlesKept) drop(p *singlePage) {
	if slots := k.slots.Load(); slots != nil {
		p.each(slots, func(slot *atomic.Pointer[singlePage]) {
			if old := slot.Load(); old != nil && old.first == p.first {
				slot.Store(nil)
			}
		})
	}
}

// each calls fn for the slots of a page's singles.
func (p *singlePage) each(slots *singleSlots, fn func(*atomic.Pointer[singlePage])) {
	var last *atomic.Pointer[singlePage]
	d, seq := pageReader{rest: p.bytes}, uint32(0)
	for n := d.uint(); n > 0; n-- {
		seq += uint32(d.uint())
		d.uint() // its length
		if slot := slots.of(seq); slot != last {
			fn(slot)
			last = slot
		}
	}
}

// lastSingle is the largest seq of a single, 0 without one.
func (r *reader) lastSingle(s *Store) (seq uint32, err error) {
	err = r.singlesBefore.Query(func(row sqlitedb.Row) (bool, error) {
		seq = uint32(row.Int(0))
		if p, err := s.Singles.page(row.Int(0), row.Int(1), row.Blob(2)); err == nil {
			seq = p.last
		}
		return false, nil
	}, int64(lastNumber))
	if err != nil {
		return 0, fmt.Errorf("the last page of contents: %w", err)
	}
	return seq, nil
}
