package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Manifest lists the content of a backup, and its moment.
type Manifest struct {
	Format    int       `json:"format"`
	Made      time.Time `json:"made"`            // the moment of the backup
	By        string    `json:"by"`              // the version of the program that made it
	Directory string    `json:"directory"`       // the id of the data directory that it was made of, in hex
	Queue     string    `json:"queue,omitempty"` // the queue or the shard whose files it has, beside the catalogue; "": all
	Since     *Since    `json:"since,omitempty"` // nil: a full backup; else an increment: it has what changed since this one
	Queues    []Queue   `json:"queues"`
	Blocks    string    `json:"blocks_sha256"` // of the entry that has the checksums of all blocks, in hex
	Files     []File    `json:"files"`
}

// Since names a backup.
type Since struct {
	Made   time.Time `json:"made"`
	SHA256 string    `json:"manifest_sha256"` // of its manifest, in hex
}

// Queue says how far a queue had come: its rows are complete up to Checkpointed, and its journal goes on from there to UpTo.
type Queue struct {
	Name         string `json:"name"`
	Shard        int    `json:"shard"`
	Checkpointed uint64 `json:"checkpointed"`
	UpTo         uint64 `json:"up_to"`
}

// File is a file of a data directory.
type File struct {
	Path    string   `json:"path"` // below the data directory, with slashes
	Size    int64    `json:"size_bytes"`
	SHA256  string   `json:"sha256"`            // in hex
	Changed *Changed `json:"changed,omitempty"` // what an increment has of it: its changed blocks
}

// Changed is the entry of a file in an increment.
type Changed struct {
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256"` // in hex
}

// paths are the names that a file of a backup may have. No other name is ever opened, so none leads out of a directory.
var paths = regexp.MustCompile(`^(quern\.db|shards/[0-9]{4}/(store|journal)\.db)$`)

func (m *Manifest) valid() error {
	if m.Format < 1 || m.Format > Format {
		return fmt.Errorf("archive: the backup has format %d, and this program knows formats up to %d: a newer Quern or an unreleased "+
			"build made it (%q), restore it with that one", m.Format, Format, m.By)
	}
	if !isSum(m.Blocks) || m.Since != nil && !isSum(m.Since.SHA256) {
		return errors.New("archive: the manifest has a checksum that cannot be")
	}
	if len(m.Files) == 0 || len(m.Files) > maxFiles {
		return fmt.Errorf("archive: the manifest lists %d files; a backup has 1 to %d", len(m.Files), maxFiles)
	}
	known := map[string]bool{}
	for i := range m.Files {
		f := &m.Files[i]
		switch {
		case !paths.MatchString(f.Path):
			return fmt.Errorf("archive: the manifest lists %q, which is no file of a data directory", f.Path)
		case known[f.Path]:
			return fmt.Errorf("archive: the manifest lists %s twice", f.Path)
		case f.Size < 0 || f.Size > maxFile || !isSum(f.SHA256), !f.Changed.valid(f.Size), (f.Changed != nil) != (m.Since != nil):
			return fmt.Errorf("archive: the manifest has a size or a checksum of %s that cannot be", f.Path)
		}
		known[f.Path] = true
	}
	if !known["quern.db"] {
		return errors.New("archive: the manifest lists no catalogue quern.db")
	}
	return nil
}

// isSum says whether a text can be a SHA-256.
func isSum(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

func (c *Changed) valid(file int64) bool {
	return c == nil || c.Size >= 0 && c.Size <= file+blocksOf(file)*numberSize && isSum(c.SHA256)
}

// stored is the length and the checksum of the entry of a file.
func (f *File) stored() (size int64, sum string) {
	if f.Changed != nil {
		return f.Changed.Size, f.Changed.SHA256
	}
	return f.Size, f.SHA256
}

// Next is how an increment of this backup names it.
func (m *Manifest) Next() (Since, error) {
	text, err := m.text()
	sum := sha256.Sum256(text)
	return Since{Made: m.Made, SHA256: hex.EncodeToString(sum[:])}, err
}

// Continues refuses an increment of another backup than `before`. With nil it refuses any increment.
func (m *Manifest) Continues(before *Manifest) error {
	if before == nil {
		if m.Since == nil {
			return nil
		}
		return fmt.Errorf("archive: this is an increment: it has what changed since the backup of %s. Name that one before it",
			m.Since.Made.Format(time.RFC3339Nano))
	}
	next, err := before.Next()
	switch {
	case err != nil:
		return err
	case m.Since == nil:
		return fmt.Errorf("archive: the backup of %s is a full one: it cannot come after another", m.Made.Format(time.RFC3339Nano))
	case m.Since.SHA256 != next.SHA256:
		return fmt.Errorf("archive: the increment of %s has what changed since the backup of %s; the one before it is another, of %s",
			m.Made.Format(time.RFC3339Nano), m.Since.Made.Format(time.RFC3339Nano), next.Made.Format(time.RFC3339Nano))
	}
	return nil
}

func padded(size int64) int64 { return (size + block - 1) / block * block }

// Size is the length of the whole backup in bytes.
func (m *Manifest) Size() (int64, error) {
	total, err := m.HeadSize()
	total += 2 * block // a tar ends with two empty blocks
	for i := range m.Files {
		size, _ := m.Files[i].stored()
		total += block + padded(size)
	}
	return total, err
}

// HeadSize is the length of the part before the files, which is all that a server needs to make an increment of the backup.
func (m *Manifest) HeadSize() (int64, error) {
	text, err := m.text()
	return block + padded(int64(len(text))) + block + padded(m.blocksSize()), err
}

func (m *Manifest) blocksSize() (size int64) {
	for i := range m.Files {
		size += blocksOf(m.Files[i].Size) * SumSize
	}
	return size
}

func (m *Manifest) text() ([]byte, error) { return json.MarshalIndent(m, "", "  ") }
