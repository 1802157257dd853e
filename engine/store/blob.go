package store

// Blobs that are kept in the store: parts of contents that are too large for a batch of the
// journal. They are durable before the op that names them. So an insert has two commits, and a
// crash between them leaves a blob that no op names; the next claim deletes it.
//
//	too large for a batch ─► Put: blob and pages, one commit ─► op with the key, in the journal
//	                            │ crash here: the blob has no op          │
//	                            └──── the next claim deletes it ◄─────────┘ no op names it

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Blobs are the blobs in the file of a shard: contents that are too large for a batch of the journal.
// They are written before the op that names them and stay where they are. It implements blobs.Blobs.
//
// A blob is a row of the table blob, and its pages. A blob of content pages keeps these, with the number of the
// first chunk in the key, so that one query reads a chunk, as for other content. Any other blob is cut into pieces,
// each the only chunk of a page.
type Blobs struct{ s *Store }

// cutBlob is a blob in pages.
type cutBlob struct {
	key   string
	seq   int64 // the submission that it belongs to; noSeq: none
	size  int64
	raw   bool // it was cut into pieces
	pages []journal.Page
}

const noSeq = -1

// newBlob cuts a blob. Its pages lie in b if that consists of pages.
// A blob of content pages is kept page by page, so that reading one chunk of a large submission reads one page, not
// all of it. Any other bytes, such as an attachment, are read as a whole, and cut into pieces of the size of a
// page.
func newBlob(key string, b []byte) *cutBlob {
	c := &cutBlob{key: key, seq: noSeq, size: int64(len(b))}
	if _, seq, _, is := blobs.ParseKey(key); is {
		c.seq = int64(seq)
	}
	if pages, are := PagesOf(b); are {
		c.pages = pages
		return c
	}
	c.raw = true
	const piece = largePage - 16
	for first := uint32(0); len(b) > 0; first++ {
		n := min(len(b), piece)
		c.pages = append(c.pages, journal.Page{First: first, Bytes: appendContentPage(nil, [][]byte{b[:n]})})
		b = b[n:]
	}
	return c
}

// PagesOf takes bytes apart that are pages of content one behind the other. are: they are.
// Every length is checked against the rest of the bytes before it is used: a blob may be any bytes that only look
// like pages.
func PagesOf(b []byte) (pages []journal.Page, are bool) {
	first := uint64(0)
	for d := (pageReader{rest: b}); len(d.rest) > 0; {
		page := d.rest
		n, size := d.uint(), uint64(0)
		if n == 0 || n > uint64(len(page)) {
			return nil, false
		}
		for range n {
			// A length beyond the bytes is cut to "one too many": the sum cannot overflow, and d.bytes still
			// refuses it.
			size += min(d.uint(), uint64(len(b))+1)
		}
		if d.bytes(size); d.short || first+n > 1<<32 {
			return nil, false
		}
		end := len(page) - len(d.rest)
		pages = append(pages, journal.Page{First: uint32(first), Bytes: page[:end:end]})
		first += n
	}
	return pages, true
}

// sum is over all fields of a row of the table blob. The length of the key comes before the key, so that no two
// rows with shifted bytes have the same sum.
func (c *cutBlob) sum(n int64) sum {
	return sum(0).number(n).number(int64(len(c.key))).bytes([]byte(c.key)).number(c.seq).number(c.size).number(
		flag(c.raw))
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// Put implements blobs.Blobs. Puts at the same time share a commit.
// One call's refusal (its key has other bytes already) must not fail the commit that others share, so it goes
// around the transaction's error.
func (x *Blobs) Put(ctx context.Context, key string, b []byte) error {
	if err := blobs.Check(key, len(b)); err != nil {
		return wrap("put blob", err)
	}
	var refused error // of this call: others that share the commit do not fail with it
	err := x.s.commit(ctx, &request{bytes: len(b), apply: func(w *writer) (err error) {
		refused, err = w.newBlob(x.s, key, b)
		return err
	}})
	if err == nil {
		err = refused
	}
	return wrap("put blob "+key, err)
}

// newBlob writes a blob, unless there is one under its key.
// The same bytes under the same key are no error: a client that lost the answer uploads again.
func (w *writer) newBlob(s *Store, key string, b []byte) (refused, err error) {
	there, found, err := w.blobs.read(s, key)
	switch {
	case found && (err != nil || !bytes.Equal(there, b)):
		return blobs.ErrExists, nil
	case found || err != nil:
		return nil, err
	}
	return nil, w.putBlob(newBlob(key, b))
}

// putBlob writes a new blob.
func (w *writer) putBlob(c *cutBlob) error {
	n := int64(1)
	err := w.lastBlob.Query(func(row sqlitedb.Row) (bool, error) { n = row.Int(0) + 1; return false, nil })
	if err != nil {
		return err
	}
	if _, err := w.putBlobRow.Exec(n, c.key, c.seq, c.size, flag(c.raw), c.sum(n).stored()); err != nil {
		return err
	}
	for i := range c.pages {
		key, page := keyOf(uint32(n), c.pages[i].First), w.pack(c.pages[i].Bytes)
		if _, err := w.putBlobPage.Exec(key, sum(0).number(key).bytes(page).stored(), page); err != nil {
			return err
		}
	}
	return nil
}

// blobStmts read blobs, with either connection.
type blobStmts struct{ blob, blobPages *sqlitedb.Stmt }

func (q *blobStmts) prepared() []prepared {
	return []prepared{
		{&q.blob, "SELECT n, key, seq, size, raw, crc FROM blob WHERE key = ?"},
		{&q.blobPages, "SELECT k, crc, bytes FROM blob_page WHERE k BETWEEN ? AND ? ORDER BY k"},
	}
}

// find reads the row of a blob; nil: there is none.
func (q *blobStmts) find(s *Store, key string) (c *cutBlob, n int64, err error) {
	err = q.blob.Query(func(row sqlitedb.Row) (bool, error) {
		n = row.Int(0)
		c = &cutBlob{key: row.Text(1), seq: row.Int(2), size: row.Int(3), raw: row.Int(4) == 1}
		if c.sum(n).stored() != row.Int(5) || c.size < 0 || c.size > blobs.MaxBytes {
			return false, s.damaged("blob", n)
		}
		return false, nil
	}, key)
	return c, n, err
}

// read reads a whole blob. found: there is one, also if it is damaged.
func (q *blobStmts) read(s *Store, key string) (b []byte, found bool, err error) {
	c, n, err := q.find(s, key)
	if c == nil || err != nil {
		return nil, c != nil, err
	}
	b = make([]byte, 0, c.size)
	err = q.blobPages.Query(func(row sqlitedb.Row) (bool, error) {
		page, err := s.blobPage(row)
		if err == nil && c.raw {
			page, _, err = chunkOf(page, 0)
		}
		b = append(b, page...)
		return err == nil, err
	}, keyOf(uint32(n), 0), keyOf(uint32(n), lastNumber))
	if err == nil && int64(len(b)) != c.size {
		err = s.Lacks("pages of the blob " + key)
	}
	return b, true, err
}

// blobPage reads k, crc, bytes.
func (s *Store) blobPage(row sqlitedb.Row) ([]byte, error) {
	page := row.Blob(2)
	if sum(0).number(row.Int(0)).bytes(page).stored() != row.Int(1) {
		return nil, s.damaged("blob_page", row.Int(0))
	}
	return unpackPage(page)
}

// Get implements blobs.Blobs.
func (x *Blobs) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b, err := x.all(ctx, key)
	if err == nil {
		b, err = blobs.Section(b, off, n)
	}
	if format, is := errors.AsType[*queue.FormatError](err); is {
		return nil, fmt.Errorf("%w: %w", blobs.ErrDamaged, format)
	}
	if err != nil {
		return nil, wrap("get blob "+key, err)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// all is a whole blob.
func (x *Blobs) all(ctx context.Context, key string) (b []byte, err error) {
	err = x.s.scan.with(ctx, func(r *reader) error {
		var found bool
		if b, found, err = r.blobs.read(x.s, key); err == nil && !found {
			err = blobs.ErrMissing
		}
		return err
	})
	return b, err
}

// List implements blobs.Blobs.
func (x *Blobs) List(ctx context.Context, prefix, after string, most int) (list []blobs.Blob, err error) {
	err = x.s.scan.with(ctx, func(r *reader) error {
		// behind every key with the prefix, as no key has a character from DEL on
		return r.listBlobs.Query(func(row sqlitedb.Row) (bool, error) {
			list = append(list, blobs.Blob{Key: row.Text(0), Bytes: row.Int(1)})
			return true, nil
		}, after, prefix, prefix+"\x7f", int64(min(most, blobs.MaxList)))
	})
	return list, wrap("list blobs", err)
}

// Delete implements blobs.Blobs.
func (x *Blobs) Delete(ctx context.Context, key string) error {
	return wrap("delete blob "+key, x.s.tx(ctx, func(w *writer) error {
		x.s.Memtable.dropBlob(key)
		n := int64(0)
		err := w.blobs.blob.Query(func(row sqlitedb.Row) (bool, error) { n = row.Int(0); return false, nil }, key)
		if err != nil || n == 0 {
			return err
		}
		_, err = w.dropBlob(n)
		return err
	}))
}

// dropBlob deletes a blob, and returns how many rows it had. A blob is small enough for one transaction.
func (w *writer) dropBlob(n int64) (rows int64, err error) {
	if rows, err = w.dropBlobPages.Exec(keyOf(uint32(n), 0), keyOf(uint32(n), lastNumber)); err == nil {
		_, err = w.dropBlobRow.Exec(n)
	}
	return rows + 1, err
}

// eraseBlobs deletes the blobs of a submission as far as the budget goes; `gone` says that
// there is none left.
// The row of a blob goes with its pages in one transaction. A crash between two blobs leaves the others for the
// next round, as they are found by the number of their submission.
func (w *writer) eraseBlobs(seq uint32, room *budget) (gone bool, err error) {
	for {
		n, size := int64(0), int64(0)
		err := w.blobOf.Query(func(row sqlitedb.Row) (bool, error) {
			n, size = row.Int(0), row.Int(1)
			return false,
				nil
		}, int64(seq))
		if err != nil || n == 0 || room.spent() {
			return n == 0, err
		}
		rows, err := w.dropBlob(n)
		if err != nil {
			return false, err
		}
		room.rows -= rows
		room.bytes -= size
	}
}

// Has says whether a blob is there, in memory or in the file, and of how many bytes it is.
func (x *Blobs) Has(ctx context.Context, key string) (size int64, there bool, err error) {
	if c := x.s.Memtable.blob(key); c != nil {
		return c.size, true, nil
	}
	err = x.s.hot.with(ctx, func(r *reader) error {
		c, _, err := r.blobs.find(x.s, key)
		if c != nil && err == nil {
			size, there = c.size, true
		}
		return err
	})
	return size, there, wrap("find blob "+key, err)
}

// ReadChunks is ReadContents for chunks in a blob, which are counted from the first one in it.
// A blob that was just put is in memory until the next checkpoint. ReadChunks looks there first, as all reads of
// the store do: the file may not have it yet.
func (x *Blobs) ReadChunks(ctx context.Context, key string, indexes []uint32, most int) (contents [][]byte, err error) {
	missing := func(index uint32) error {
		return fmt.Errorf("chunk %d of blob %s: %w", index, key, ErrMissing)
	}
	if c := x.s.Memtable.blob(key); c != nil {
		contents, err = chunksOf(indexes, most, missing, func(index uint32) (uint32, []byte, error) {
			return pageOf(c.pages, index, missing)
		})
	} else {
		err = x.s.hot.with(ctx, func(r *reader) (err error) {
			contents, err = chunksOf(indexes, most, missing, func(index uint32) (start uint32, page []byte, err error) {
				err = r.blobPageAt.Query(func(row sqlitedb.Row) (bool, error) {
					start = numberOf(row.Int(0))
					page, err = x.s.blobPage(row)
					return false, err
				}, key, int64(index))
				if err == nil && page == nil {
					err = missing(index)
				}
				return start, page, err
			})
			return err
		})
	}
	if err != nil {
		return nil, wrap("read content", err)
	}
	return contents, nil
}

// ReadAll is all of a blob, from memory or from the file.
func (x *Blobs) ReadAll(ctx context.Context, key string) (b []byte, err error) {
	c := x.s.Memtable.blob(key)
	if c == nil {
		b, err = x.all(ctx, key)
		return b, wrap("read blob "+key, err)
	}
	b = make([]byte, 0, c.size)
	for i := range c.pages {
		page := c.pages[i].Bytes
		if c.raw {
			page, _, err = chunkOf(page, 0)
		}
		b = append(b, page...)
	}
	return b, err
}
