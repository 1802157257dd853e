// Package archive is the form of a backup: a tar with a manifest, and behind it the files that the manifest lists, in its order. Pure:
// it reads and writes streams, and opens nothing. docs/formats/backup.md describes it.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// Format is the newest form of a backup that this program knows.
const Format = 1

const (
	manifestName = "manifest.json"
	maxManifest  = 1 << 20 // bytes: some 256 queues with two files each take a fifth of it
	maxFiles     = 1 + 2*1024
	block        = 512 // a tar consists of blocks
)

// Manifest says what is in a backup, and of which moment.
type Manifest struct {
	Format    int       `json:"format"`
	Made      time.Time `json:"made"`      // the moment of the backup
	By        string    `json:"by"`        // the version of the program that made it
	Directory string    `json:"directory"` // the id of the data directory that it was made of, in hex
	Queues    []Queue   `json:"queues"`
	Files     []File    `json:"files"`
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
	Path   string `json:"path"` // below the data directory, with slashes
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256"` // in hex
}

// paths are the names that a file of a backup may have. No other name is ever opened, so none leads out of a directory.
var paths = regexp.MustCompile(`^(quern\.db|shards/[0-9]{4}/(store|journal)\.db)$`)

func (m *Manifest) valid() error {
	if m.Format != Format {
		return fmt.Errorf("archive: the backup has format %d, and this program knows format %d: use the Quern that made it, %q",
			m.Format, Format, m.By)
	}
	if len(m.Files) == 0 || len(m.Files) > maxFiles {
		return fmt.Errorf("archive: the manifest lists %d files; a backup has 1 to %d", len(m.Files), maxFiles)
	}
	known := map[string]bool{}
	for _, f := range m.Files {
		sum, err := hex.DecodeString(f.SHA256)
		switch {
		case !paths.MatchString(f.Path):
			return fmt.Errorf("archive: the manifest lists %q, which is no file of a data directory", f.Path)
		case known[f.Path]:
			return fmt.Errorf("archive: the manifest lists %s twice", f.Path)
		case f.Size < 0 || f.Size > 1<<60 || err != nil || len(sum) != sha256.Size:
			return fmt.Errorf("archive: the manifest has a size or a checksum of %s that cannot be", f.Path)
		}
		known[f.Path] = true
	}
	if !known["quern.db"] {
		return errors.New("archive: the manifest lists no catalogue quern.db")
	}
	return nil
}

func padded(size int64) int64 { return (size + block - 1) / block * block }

// Size is the length of the whole backup in bytes.
func (m *Manifest) Size() (int64, error) {
	text, err := m.text()
	total := block + padded(int64(len(text))) + 2*block // a tar ends with two empty blocks
	for _, f := range m.Files {
		total += block + padded(f.Size)
	}
	return total, err
}

func (m *Manifest) text() ([]byte, error) { return json.MarshalIndent(m, "", "  ") }

// Write writes a backup of the files that open opens.
func Write(w io.Writer, m *Manifest, open func(path string) (io.ReadCloser, error)) error {
	if err := m.valid(); err != nil {
		return err
	}
	text, err := m.text()
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := m.header(out, manifestName, int64(len(text))); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := m.header(out, f.Path, f.Size); err != nil {
			return err
		}
		from, err := open(f.Path)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, from)
		if err = errors.Join(err, from.Close()); err != nil {
			return fmt.Errorf("archive: write %s: %w", f.Path, err)
		}
	}
	return out.Close()
}

// header uses the GNU form, whose headers are one block whatever the size of the file.
func (m *Manifest) header(out *tar.Writer, name string, size int64) error {
	return out.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: m.Made.Truncate(time.Second),
		Typeflag: tar.TypeReg, Format: tar.FormatGNU})
}

// Reader is who a backup is read for.
type Reader struct {
	Begin func(m *Manifest) error // told of the manifest, before the files; nil: not told
	// given each file; what it leaves of content is read; nil: all is read
	File func(m *Manifest, f *File, content io.Reader) error
}

// Read reads a backup to its end and checks everything in it: nothing but what the manifest lists, in its order, with these sizes and
// checksums, and the end. What File has read of a file is known to be right when Read goes on to the next one, or ends without an error.
func Read(r io.Reader, to Reader) (*Manifest, error) {
	counted := &counting{r: r}
	in := tar.NewReader(counted)
	m, err := readManifest(in)
	if err == nil && to.Begin != nil {
		err = to.Begin(m)
	}
	if err != nil {
		return nil, err
	}
	for i := range m.Files {
		if err := m.readFile(in, &m.Files[i], to.File); err != nil {
			return nil, err
		}
	}
	if _, err := in.Next(); err != io.EOF {
		return nil, errors.Join(errors.New("archive: the backup goes on behind the last file of its manifest, or its end is damaged"), err)
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return nil, cut(err)
	}
	if want, err := m.Size(); err != nil || counted.n != want {
		return nil, errors.Join(fmt.Errorf("archive: the backup has %d bytes and should have %d: it was cut, or something was added",
			counted.n, want), err)
	}
	return m, nil
}

func readManifest(in *tar.Reader) (*Manifest, error) {
	h, err := in.Next()
	if err != nil {
		return nil, fmt.Errorf("archive: this is no backup, or its first bytes are damaged: %w", err)
	}
	if h.Name != manifestName || h.Typeflag != tar.TypeReg || h.Size > maxManifest {
		return nil, fmt.Errorf("archive: this is no backup: it begins with %q and not with a manifest", h.Name)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, cut(err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("archive: the manifest cannot be read: %w", err)
	}
	if err := m.valid(); err != nil {
		return nil, err
	}
	if same, err := m.text(); err != nil || !bytes.Equal(same, text) {
		return nil, errors.Join(errors.New("archive: the manifest is not as it was written"), err)
	}
	return m, nil
}

func (m *Manifest) readFile(in *tar.Reader, f *File, to func(*Manifest, *File, io.Reader) error) error {
	h, err := in.Next()
	if err != nil {
		return cut(err)
	}
	if h.Name != f.Path || h.Typeflag != tar.TypeReg || h.Size != f.Size {
		return fmt.Errorf("archive: the backup has %q (%d bytes) where its manifest has %s (%d bytes)", h.Name, h.Size, f.Path, f.Size)
	}
	hash := sha256.New()
	content := io.TeeReader(in, hash)
	if to != nil {
		if err := to(m, f, content); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return cut(err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("archive: %s is damaged: its checksum is %s and the manifest has %s", f.Path, got, f.SHA256)
	}
	return nil
}

// cut says what an end means that came too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("archive: the backup is cut: its end is missing (%w)", err)
	}
	return err
}

type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
