package sqlitedb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/quern-queue/quern/engine/queue"
)

// Kind names a format: the application_id and user_version of its files, and the SQL that makes them.
type Kind struct {
	Name          string   // for messages, such as "journal"
	ApplicationID uint32   // four letters; `file` and other tools can show them
	Unreleased    uint32   // the application id of files that builds before the first release made; 0: there are none
	Schema        string   // SQL that makes the tables of a file of version 1, without the table identity
	Migrations    []string // SQL: the first makes a file of version 1 one of version 2, and so on
	Shrinks       bool     // its files can give back free pages one by one, see Conn.GiveBack
	PageSize      uint32   // in bytes; 0: 4,096
}

// Version is the newest version that this program knows, and that of the files that it makes.
func (k *Kind) Version() uint32 { return 1 + uint32(len(k.Migrations)) }

func (k *Kind) pageSize() uint32 {
	if k.PageSize == 0 {
		return 4096
	}
	return k.PageSize
}

// header is the part of a database's first 100 bytes that tells what it is (https://sqlite.org/fileformat.html, section 1.3).
//
//	byte 0                16         18            60             68
//	    |"SQLite format 3"| page size| ... | user_version | ... | application_id |   big endian
type header struct {
	pageSize      uint32
	version       uint32
	applicationID uint32
}

const (
	headerBytes = 100
	magic       = "SQLite format 3\x00"
)

// look reads the header without SQLite, so that a file that is not ours is not touched at all. `found` is false if there is no file.
func look(path string) (h header, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{}, false, nil
	}
	if err != nil {
		return header{}, false, err
	}
	defer f.Close()
	var b [headerBytes]byte
	if _, err := io.ReadFull(f, b[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return header{}, true, &queue.FormatError{Path: path, Reason: "is too short to be a database", Advice: AdviceDamaged}
	} else if err != nil {
		return header{}, true, err
	}
	if string(b[:len(magic)]) != magic {
		return header{}, true, &queue.FormatError{Path: path,
			Reason: "is not an SQLite database, or its first page is damaged", Advice: AdviceDamaged}
	}
	return header{
		pageSize:      uint32(binary.BigEndian.Uint16(b[16:])),
		version:       binary.BigEndian.Uint32(b[60:]),
		applicationID: binary.BigEndian.Uint32(b[68:]),
	}, true, nil
}

// check says whether a file of this application id and version may be opened. An owner brings one of an older version up to date.
func (k *Kind) check(path string, applicationID, version uint32) error {
	switch {
	case applicationID == k.Unreleased && k.Unreleased != 0:
		return &queue.FormatError{
			Path: path, Unread: true, Reason: fmt.Sprintf("is a %s that an unreleased build of Quern made (application id %#x; "+
				"releases write %#x), and no release reads it", k.Name, applicationID, k.ApplicationID),
			Advice: "Start with a new data directory. Use the build that made this one to take its unfinished work out",
		}
	case applicationID != k.ApplicationID:
		return &queue.FormatError{
			Path: path, Reason: fmt.Sprintf("is a database, but not a Quern %s (application id %#x, want %#x)", k.Name,
				applicationID, k.ApplicationID),
			Advice: "Point the server at another data directory, or move the file away",
		}
	case version > k.Version():
		return &queue.FormatError{
			Path: path, Unread: true,
			Reason: fmt.Sprintf("is a %s of version %d; this program knows versions up to %d", k.Name, version, k.Version()),
			Advice: "Run the newer Quern that wrote it, or restore a backup from before the upgrade",
		}
	case version == 0:
		return &queue.FormatError{Path: path, Reason: fmt.Sprintf("is a %s without a version", k.Name), Advice: AdviceDamaged}
	}
	return nil
}

// inspect decides whether the file at path may be opened, and changes nothing. For an owner it also checks the write-ahead log, whether the
// two belong together, and the pages. If there is a log, only the log may have the newest version, so inspect reads that too, over a
// connection that cannot write. main is the row in the main file without its log.
func (k *Kind) inspect(path string, by *Owner) (version uint32, main mark, err error) {
	h, found, err := look(path)
	if err != nil {
		return 0, main, err
	}
	if !found {
		return 0, main, fmt.Errorf("sqlitedb: %s: %w", path, fs.ErrNotExist)
	}
	if err := k.check(path, h.applicationID, h.version); err != nil {
		return 0, main, err
	}
	var log walLog
	if by != nil {
		if log, main, err = inspectLog(path, h.pageSize, by); err != nil {
			return 0, main, err
		}
	}
	mode := "mode=ro"
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		mode = alone
	}
	if by == nil && mode == alone {
		return h.version, main, nil
	}
	c, err := dial(path, mode)
	if err != nil {
		return 0, main, damage(path, err)
	}
	defer c.Close()
	version, m, err := c.inspect(k, by)
	if err == nil && main.found && !m.follows(&main) {
		err = &queue.FormatError{Path: path + "-wal", Reason: "does not belong to " + path +
			": it is older, or of another file", Advice: adviceForeign, Other: true}
	}
	if err == nil {
		err = log.continues(path, h.pageSize, &main, &m)
	}
	return version, main, damagedSchema(path, err)
}

// alone reads the main file without its log.
const alone = "mode=ro&immutable=1"

func (c *Conn) inspect(k *Kind, by *Owner) (version uint32, m mark, err error) {
	id, err := c.Int("PRAGMA application_id")
	if err != nil {
		return 0, m, err
	}
	number, err := c.Int("PRAGMA user_version")
	if err != nil {
		return 0, m, err
	}
	version = uint32(number)
	if err = k.check(c.path, uint32(id), version); err != nil || by == nil {
		return version, m, err
	}
	if err = c.checkPages(); err == nil {
		m, err = c.mark()
	}
	if err == nil && by.Identity != nil {
		err = m.takes(c.path, by.Identity)
	}
	return version, m, err
}

// inspectLog looks at the log, and at the row in the main file without it.
func inspectLog(path string, pageSize uint32, by *Owner) (log walLog, main mark, err error) {
	log, err = readLog(path, pageSize)
	if err != nil {
		return log, main, err
	}
	c, err := dial(path, alone)
	if err == nil {
		main, err = c.mark()
		err = errors.Join(err, c.Close())
	}
	if err != nil && log.frames == 0 {
		return log, main, damagedSchema(path, err)
	} else if err != nil {
		main = mark{torn: true} // the end of the server cut off the copying of the log into the file: the log has the page
	}
	return log, main, log.check(path, main, by.Relaxed)
}
