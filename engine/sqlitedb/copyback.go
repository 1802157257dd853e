package sqlitedb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/quern-queue/quern/engine/queue"
)

// SQLite copies a long log back into the main file, and begins the log again with the next commit. If someone copies the main file before
// that, and the log after it, the copy lacks the pages that were copied back in between, and is often a sound database all the same. So the
// row in table identity counts the logs, in the column log_step. It shows whether the main file and its log are of one moment:
//
//   - an even number: the log with this row is being written. The content of the logs before it is in the main file;
//   - an odd number: all that was in the log before this row is in the main file.
//
// First everything in the log is copied back, while a reader keeps SQLite from beginning the log again. Then the row gets an odd number,
// which is copied back alone: a main file with this number has the rest, too. Then, before anything else is written, the row gets an even
// number, with which the log begins again. If a reader prevents that, the log goes on behind this row instead. It still has everything that
// a main file with the odd number lacks, and the logs after it have higher numbers.
//
// A file that is opened Alone, the journal, leaves the copying to SQLite: its batches are a chain, in which none can be missing.

// backCopying is a connection's state of the copying back of its log.
type backCopying struct {
	own     bool   // copying is not left to SQLite
	busy    bool   // copying is under way
	sealed  bool   // all of the log is in the main file, which has the mark of it; the next write has to begin a log
	least   uint32 // a log of this many frames is long
	due     uint32 // it is copied back when it has this many frames
	wasOpen bool   // the main file had the mark of use before it was opened
	spared  bool   // copying is put off, see spareRoom
	pin     *Conn  // the reader that keeps SQLite from beginning the log again; nil: none
	// The index of the log, of a file that was opened by its owner. It stays open: closing it would end all locks that SQLite holds in
	// this process on the same file, and another process would take the database for one that no one has open.
	index *os.File
}

// openIndex opens the index of the log, which is there once SQLite has read the log.
func (c *Conn) openIndex() (err error) {
	c.back.index, err = os.Open(c.path + "-shm")
	return err
}

// logIndex reads the index. A connection that is not the owner's has none.
func (c *Conn) logIndex() (logIndex, error) {
	if c.back.index == nil {
		return logIndex{}, nil
	}
	x, found, err := readIndex(c.back.index)
	if err == nil && !found {
		err = errors.New("sqlitedb: the index of the log is damaged: " + c.path + "-shm")
	}
	return x, err
}

// closePin ends what pinLog began.
func (c *Conn) closePin() (err error) {
	if c.back.pin != nil {
		err = c.back.pin.Close()
		c.back.pin = nil
	}
	return err
}

// retryFrames is how many frames longer the log gets before the next try to copy it back, after a reader prevented it.
const retryFrames = 100

// startRoom is how many bytes a log that is copied back at a start leaves free, because the other files need room too.
const startRoom = 2 << 20

// spareRoom puts the copying back off when it could take the room that other files need at a start: the logs of all queues could make their
// files longer by more than the room that is kept for a start. The next commits make the log longer instead, by a page or two with each
// start.
func (c *Conn) spareRoom() error {
	x, err := c.logIndex()
	if err != nil || !c.back.wasOpen || x.frames == 0 {
		return err
	}
	longer, err := c.longer()
	var disk unix.Statfs_t
	if err != nil || longer <= 0 || unix.Statfs(filepath.Dir(c.path), &disk) != nil || int64(disk.Bavail)*disk.Bsize >= longer+startRoom {
		return err
	}
	c.back.spared, c.back.due = true, x.frames+retryFrames
	if c.back.own {
		return nil
	}
	return c.Exec("PRAGMA wal_autocheckpoint = 0")
}

// longer is how many bytes the main file grows when all of the log is copied into it.
func (c *Conn) longer() (int64, error) {
	pages, err := c.Int("PRAGMA page_count")
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(c.path)
	if err != nil {
		return 0, err
	}
	return pages*c.pageSize - info.Size(), nil
}

// copyAgain ends what spareRoom began, for a file of which SQLite copies the log back.
func (c *Conn) copyAgain() {
	if c.back.spared = false; !c.back.own {
		_ = c.setPages() // it would have failed at the open
	}
}

// copyLongBack copies the log back when it is long. The commit before it is durable, also if this fails.
func (c *Conn) copyLongBack() {
	if c.back.busy {
		return
	}
	x, err := c.logIndex()
	if err != nil || x.frames < c.back.due {
		return
	}
	whole, err := c.copyBack()
	if err != nil {
		_ = c.failed(err) // the next write reports a failed sync
	}
	if c.back.due = x.frames + retryFrames; whole {
		c.back.due = c.back.least
	}
}

// copyBack copies the log into the main file as far as readers let it, and says whether that is all of it.
func (c *Conn) copyBack() (whole bool, err error) {
	if !c.back.own {
		return c.copied()
	}
	c.back.busy = true
	defer func() { c.back.busy = false }()
	x, err := c.logIndex()
	if err != nil || x.whole() && c.back.pin == nil {
		return err == nil, err
	}
	if whole, err = c.sealLog(); err != nil || !whole {
		return false, err
	}
	whole, err = c.copied()
	c.back.sealed = whole
	return whole, err
}

// sealLog copies everything in the log back, and then adds the mark of it to the log; false: readers keep some of the log.
func (c *Conn) sealLog() (whole bool, err error) {
	if err := c.pinLog(); err != nil {
		return false, err
	}
	if whole, err = c.copied(); err == nil && whole {
		err = c.putStep(sealedStep)
	}
	return whole, errors.Join(err, c.unpinLog())
}

// beginLog begins the log again. If readers hold the log, it marks in it where the next one would begin.
func (c *Conn) beginLog() error {
	c.back.sealed = false // not for the statements of this
	err := c.putStep(begunStep)
	c.back.sealed = err != nil
	return err
}

// sealedStep is the odd number after step, begunStep the even number from step on.
func sealedStep(step int64) int64 { return (step + 1) | 1 }
func begunStep(step int64) int64  { return step + step&1 }

// copied copies the log back as far as readers let it, and says whether that is all of it.
func (c *Conn) copied() (whole bool, err error) {
	err = c.first("PRAGMA wal_checkpoint(PASSIVE)", func(r Row) { whole = r.Int(0) == 0 && r.Int(1) == r.Int(2) })
	return whole, err
}

// pinLog makes a reader that keeps SQLite from beginning the log again. It only works while some of the log is not copied back.
func (c *Conn) pinLog() error {
	if c.back.pin != nil { // it holds the log as it was then
		if err := c.unpinLog(); err != nil || c.back.pin != nil {
			return err
		}
	}
	reader, err := dial(c.path, "mode=ro")
	if err != nil {
		return err
	}
	if err = reader.Exec("BEGIN"); err == nil {
		_, err = reader.mark() // SQLite takes its moment, and with it a hold on the log, with the first read
	}
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	c.back.pin = reader
	return nil
}

// unpinLog lets the log go, unless all of it was copied back and it lacks the mark of that, as on a full disk. Then the next commit would
// begin it again.
func (c *Conn) unpinLog() error {
	x, err := c.logIndex()
	if err != nil || x.whole() {
		return err
	}
	return c.closePin()
}

// putStep writes the next step into the row, in its own commit.
func (c *Conn) putStep(next func(step int64) int64) error {
	m, err := c.mark()
	step := next(m.step)
	if err != nil || !m.found || step == m.step {
		return err
	}
	m.step = step
	return c.put(m)
}

// continues refuses a log that does not belong beside the main file at path. main is the row in the main file alone, m the row with the
// log.
func (l *walLog) continues(path string, pageSize uint32, main, m *mark) (err error) {
	is := true
	switch {
	case l.frames == 0 && main.open:
		is, err = l.begins(path, pageSize)
	case l.frames == 0 || main.step == 0 || m.step == 0: // a file that was just made or restored, or the journal
	default:
		copied := m.step - 1 - m.step&1 // the step at which the logs before this one were in the main file
		is = l.pages[m.page] && copied <= main.step && main.step <= m.step
	}
	if err == nil && !is {
		err = &queue.FormatError{Path: path + "-wal", Advice: adviceLog, Other: true, Reason: "does not continue " + path + ": the two " +
			"are not of one moment, as when the files of a running server are copied one by one. The writes between the two moments are " +
			"in neither"}
	}
	return err
}

// begins says whether the main file has the pages of the log before this one. SQLite begins a log with a new head, which it syncs, and then
// writes over the frames of the log before. Until the first commit is whole, most of these frames are still there. If the log before had
// only one or two, none may be left: then nothing speaks against the main file.
func (l *walLog) begins(path string, pageSize uint32) (bool, error) {
	log, err := os.Open(path + "-wal")
	if err != nil {
		return false, err
	}
	defer log.Close()
	main, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer main.Close()
	last, err := l.before(log, pageSize)
	if err != nil {
		return false, err
	}
	was, is := make([]byte, pageSize), make([]byte, pageSize)
	for page, at := range last {
		if _, err := log.ReadAt(was, at); err != nil {
			return false, err
		}
		if _, err := main.ReadAt(is, int64(page-1)*int64(pageSize)); err != nil || !bytes.Equal(is, was) {
			return false, short(err)
		}
	}
	return true, nil
}

// before says where in the file the pages of the log before this one stand, as of its last commit. Frames that are not whole are left out:
// a power cut may have left the head of one in front of a page of the log that was begun.
func (l *walLog) before(log io.ReaderAt, pageSize uint32) (map[uint32]int64, error) {
	var head [logHeaderBytes]byte
	if _, err := log.ReadAt(head[:], 0); err != nil {
		return nil, short(err)
	}
	order := sumOrder(head[:])
	for _, count := range [][]byte{head[12:16], head[16:20]} { // SQLite counts logs, and with the first half of the salt
		binary.BigEndian.PutUint32(count, binary.BigEndian.Uint32(count)-1)
	}
	last, fresh := map[uint32]int64{}, map[uint32]int64{}
	pages := uint32(0) // of the database
	frame := make([]byte, frameHeaderBytes+pageSize)
	sum, known := logSum{}, false // that of the log up to here, if the frame before this one is there
	for at := int64(logHeaderBytes); ; at += int64(len(frame)) {
		if _, err := log.ReadAt(frame, at); err != nil {
			maps.DeleteFunc(last, func(page uint32, _ int64) bool { return page > pages })
			return last, short(err)
		}
		ours := bytes.Equal(frame[8:12], head[16:20])
		if at == logHeaderBytes && ours {
			copy(head[20:], frame[12:16]) // the other half, which is drawn
			sum, known = logSum{}.add(head[:24], order), true
		}
		whole := ours && known && sum.add(frame[:8], order).add(frame[frameHeaderBytes:], order).is(frame[16:])
		sum, known = logSum{binary.BigEndian.Uint32(frame[16:]), binary.BigEndian.Uint32(frame[20:])}, ours
		if !ours {
			continue
		}
		page := binary.BigEndian.Uint32(frame)
		if fresh[page] = at + frameHeaderBytes; !whole {
			delete(fresh, page)
			delete(last, page)
		}
		if n := binary.BigEndian.Uint32(frame[4:]); n != 0 {
			pages = n
			maps.Copy(last, fresh)
			clear(fresh)
		}
	}
}

// Snapshot is a database as it was at one moment. Writers go on meanwhile. The log of the file cannot be cut until Close.
type Snapshot struct{ conn *Conn }

// Prepare opens the database at path for a snapshot. It does not have its moment before Take.
func Prepare(path string, k Kind) (*Snapshot, error) {
	conn, err := Open(path, k, Options{ReadOnly: true})
	return &Snapshot{conn}, err
}

// Take makes now the moment of the snapshot: everything committed so far is in it.
func (s *Snapshot) Take() error {
	if err := s.conn.Exec("BEGIN"); err != nil {
		return err
	}
	_, err := s.conn.Int("SELECT count(*) FROM sqlite_schema") // SQLite takes its moment with the first read
	return err
}

// Int is the number in the first column of the first row, 0 when there is none.
func (s *Snapshot) Int(sql string) (int64, error) { return s.conn.Int(sql) }

// Close ends the snapshot.
func (s *Snapshot) Close() error { return s.conn.Close() }

// copyPages is how many pages are copied at once.
const copyPages = 64

// CopyTo makes a database of the snapshot at path, where no file may be. It has this identity, and is closed in good order. It is not
// synced: a caller that needs it after a power cut syncs it. CopyTo calls pace after each few pages, with their bytes; an error of pace
// ends the copy.
func (s *Snapshot) CopyTo(path string, id queue.Identity, pace func(bytes int) error) error {
	to, err := dialNew(path)
	if err != nil {
		return err
	}
	err = to.Exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
	if err == nil {
		err = s.copyPages(to, pace)
	}
	if err == nil {
		err = to.Assign(id)
	}
	return errors.Join(err, to.Close())
}

func (s *Snapshot) copyPages(to *Conn, pace func(bytes int) error) error {
	pageSize, err := s.conn.Int("PRAGMA page_size")
	if err != nil {
		return fmt.Errorf("sqlitedb: copy %s: %w", s.conn.path, err)
	}
	work, err := to.raw.Backup("main", s.conn.raw, "main")
	if err != nil {
		return fmt.Errorf("sqlitedb: copy %s: %w", s.conn.path, err)
	}
	for done := false; !done && err == nil; {
		if done, err = work.Step(copyPages); err == nil {
			err = pace(copyPages * int(pageSize))
		}
	}
	if err = errors.Join(err, work.Finish()); err != nil {
		return fmt.Errorf("sqlitedb: copy %s: %w", s.conn.path, damage(s.conn.path, err))
	}
	return nil
}

// Assign writes that the file belongs to id, and was closed in good order.
func (c *Conn) Assign(id queue.Identity) error { return c.putRow(&mark{id: id}) }

// Assign gives the database at path, which is not in use and has no log, this identity, as one that was closed in good order, durably.
func Assign(path string, id queue.Identity) error {
	c, err := dial(path, "mode=rw")
	if err != nil {
		return err
	}
	return errors.Join(c.Assign(id), c.Close())
}
