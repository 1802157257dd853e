package sqlitedb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/quern-queue/quern/engine/queue"
)

// identityTable is the table of one row by which a file says where it belongs. Every kind has it; the row is written when the file is
// first opened by its owner.
const identityTable = `CREATE TABLE identity (one INTEGER PRIMARY KEY CHECK (one = 1), directory BLOB NOT NULL, ` +
	`shard INTEGER NOT NULL, oldest INTEGER NOT NULL, generation INTEGER NOT NULL, ` +
	`open INTEGER NOT NULL, boot TEXT NOT NULL, log_step INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT;`

// Owner describes an opening of a file to write in it.
type Owner struct {
	Identity *queue.Identity // that the file must have; nil: any
	Relaxed  bool            // its commits are not synced: after a power cut, any part of its end may be missing
}

// mark is the row of the table identity.
type mark struct {
	found bool // there is one
	id    queue.Identity
	open  bool   // the file is in use, or was when its server ended
	boot  string // the boot of the machine in which it was opened
	page  uint32 // of the database, where the row stands
	torn  bool   // the file cannot be read without its log, which is partly copied into it
	step  int64  // counts the logs, see copyback.go; 0: not known
}

func (m *mark) sum() int64 {
	b := binary.BigEndian.AppendUint64(m.id.Directory[:], uint64(m.id.Shard))
	b = binary.BigEndian.AppendUint64(b, m.id.Oldest)
	b = binary.BigEndian.AppendUint64(b, m.id.Generation)
	b = binary.AppendUvarint(b, uint64(m.step))
	if m.open {
		b = append(b, 1)
	}
	return int64(int32(crc32.Checksum(append(b, m.boot...), crc32.MakeTable(crc32.Castagnoli))))
}

// Boot names the present boot of the machine; "" if it is not known. Tests of power failures set it.
var Boot = bootID

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// mark reads the row. A file that no one has owned has none.
func (c *Conn) mark() (m mark, err error) {
	page, err := c.Int("SELECT rootpage FROM sqlite_schema WHERE name = 'identity' AND type = 'table'")
	if m.page = uint32(page); err != nil {
		return m, err
	}
	crc := int64(0)
	err = c.first("SELECT directory, shard, oldest, generation, open, boot, crc, log_step FROM identity WHERE one = 1", func(r Row) {
		m.found = copy(m.id.Directory[:], r.Blob(0)) == len(m.id.Directory)
		m.id.Shard, m.id.Oldest, m.id.Generation = r.Int(1), uint64(r.Int(2)), uint64(r.Int(3))
		m.open, m.boot, crc, m.step = r.Int(4) != 0, r.Text(5), r.Int(6), r.Int(7)
	})
	if err == nil && m.found && crc != m.sum() {
		err = &queue.FormatError{Path: c.path, Reason: "has a damaged row in table identity: its checksum does not match",
			Advice: AdviceDamaged}
	}
	return m, err
}

// put writes the row in a transaction.
func (c *Conn) put(m mark) error { return c.Tx(func() error { return c.putRow(&m) }) }

func (c *Conn) putRow(m *mark) error {
	open := int64(0)
	if m.open {
		open = 1
	}
	if c.putMark == nil {
		var err error
		c.putMark, err = c.Prepare("INSERT OR REPLACE INTO identity (one, directory, shard, oldest, generation, open, boot, " +
			"log_step, crc) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
	}
	_, err := c.putMark.Exec(m.id.Directory[:], m.id.Shard, int64(m.id.Oldest), int64(m.id.Generation), open, m.boot, m.step, m.sum())
	return err
}

// Own marks the file as in use by this identity until Close, and returns the identity that the file has then. The mark is copied into the
// main file at once, so that it outlives the loss of the log, and the log keeps a frame for as long as the file is in use. If the main file
// has the mark already, as after a kill, and the disk has little room, the copying comes later (see spareRoom).
//
// Without room the file keeps its generation. It can be read all the same, and the first write that finds room writes the mark before it.
// Else the next start would find a log beside a file that was closed without one, and refuse it.
func (c *Conn) Own(id queue.Identity) (queue.Identity, error) {
	err := c.own(id)
	if ClassOf(err) == Full {
		if m, looking := c.mark(); looking == nil && m.found {
			c.owed = &id
			return m.id, nil
		}
	}
	return id, err
}

// ownOwed does the writes that Own had no room for.
func (c *Conn) ownOwed() error {
	id := c.owed
	c.owed = nil // not for the statements of own
	err := c.own(*id)
	if err != nil {
		c.owed = id
	}
	return err
}

func (c *Conn) own(id queue.Identity) error {
	err := c.spareRoom()
	var before mark
	if err == nil {
		before, err = c.begunMark()
	}
	if err == nil {
		err = c.put(mark{id: id, open: true, boot: Boot(), step: before.step})
	}
	if err == nil && !c.back.spared {
		_, err = c.copyBack()
	}
	if err == nil && c.back.sealed {
		err = c.beginLog() // at once: a server that is killed after each start would make the log longer with each
	}
	c.owned = err == nil
	return err
}

// begunMark is the row that the next commit has to write: with the number of the log, if that commit begins the log.
func (c *Conn) begunMark() (m mark, err error) {
	if m, err = c.mark(); err != nil || !c.back.own {
		return m, err
	}
	x, err := c.logIndex()
	if x.frames == 0 {
		m.step = begunStep(max(m.step, 1))
	}
	return m, err
}

// disown marks the file as closed in good order. If that cannot be written, or if the file was in use before and was not owned since, the
// file keeps its log: the next open needs it, as after the end of the process. SQLite would delete the log once it is copied into the file.
func (c *Conn) disown() {
	m, err := c.mark()
	if err == nil && m.open && c.owned && c.lost == nil {
		closed := m
		closed.open = false
		if c.back.own {
			closed.step |= 1 // SQLite copies all of it back
		}
		if err = c.put(closed); err == nil {
			m = closed
		}
	}
	if err != nil || m.open {
		_ = c.raw.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_PERSIST_WAL, 1) // fails only where there is no file any more
		_ = c.limitLog(-1)                                                       // else the log that is kept would be emptied
	}
}

// Identity is the identity of the file; the zero Identity if no one has owned it yet.
func (c *Conn) Identity() (queue.Identity, error) {
	m, err := c.mark()
	return m.id, err
}

// takes says whether a file with this mark may be opened as id.
func (m *mark) takes(path string, id *queue.Identity) error {
	foreign := func(format string, args ...any) error {
		return &queue.FormatError{Path: path, Reason: fmt.Sprintf(format, args...), Advice: adviceForeign, Other: true}
	}
	switch {
	case !m.found && id.Oldest == 0: // a file that is being made
		return nil
	case !m.found:
		return &queue.FormatError{Path: path, Reason: "does not say where it belongs", Advice: AdviceDamaged}
	case m.id.Directory != id.Directory:
		return foreign("belongs to another data directory (%x, this one is %x)", m.id.Directory[:4], id.Directory[:4])
	case m.id.Shard != id.Shard:
		return foreign("belongs to shard %04d, not to %04d", m.id.Shard, id.Shard)
	case m.id.Generation < id.Oldest:
		return foreign("is an older copy: it was last in use in start %d of this data directory, and the other files "+
			"in start %d", m.id.Generation, id.Oldest)
	case m.id.Generation > id.Newest:
		return foreign("is newer than the catalogue of this data directory: it was last in use in start %d, and the "+
			"catalogue in start %d. The catalogue is an older copy", m.id.Generation, id.Newest)
	}
	return nil
}

// follows says whether a file can have the mark m with its log, and `main` without it.
func (m *mark) follows(main *mark) bool {
	return m.id.Directory == main.id.Directory && m.id.Shard == main.id.Shard && m.id.Generation >= main.id.Generation
}

const adviceForeign = "Nothing was changed: put the right file back, or restore the whole data directory from one backup"

// checkSize bounds the files of which a start checks every page. Of larger ones it reads only the rows that it needs, which have their own
// checksums.
const checkSize = 64 << 20

// checkPages goes through the whole file, unless it is large.
func (c *Conn) checkPages() error {
	if info, err := os.Stat(c.path); err != nil || info.Size() > checkSize {
		return err
	}
	found, err := c.text("PRAGMA integrity_check(1)")
	if err == nil && found != "ok" {
		err = &queue.FormatError{Path: c.path, Reason: "is damaged", Advice: AdviceDamaged,
			Err: errors.New(strings.Join(strings.Fields(found), " "))}
	}
	return err
}
