// Package archive is the form of a backup: a tar with a manifest, and behind it the files that the manifest lists, in its order. Pure:
// it reads and writes streams, and opens nothing. docs/formats/backup.md describes it.
//
//quern:tests pure
package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

// Format is the form of a backup that this program makes, and the newest that it knows.
const Format = 1

const (
	manifestName = "manifest.json"
	// BlocksName is the entry with the checksums of all blocks.
	BlocksName  = "blocks"
	maxManifest = 1 << 20 // bytes: some 256 queues with two files each take a fifth of it
	maxFiles    = 1 + 2*1024
	block       = 512 // a tar consists of blocks
)

// Write writes a backup of the files that open opens: those of the manifest, and the one of BlocksName. read is called when all files are
// read, before the end is written.
func Write(w io.Writer, m *Manifest, open func(path string) (io.ReadCloser, error), read func()) error {
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
	for _, e := range m.entries() {
		if err := m.header(out, e.name, e.size); err != nil {
			return err
		}
		from, err := open(e.name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, from)
		if err = errors.Join(err, from.Close()); err != nil {
			return fmt.Errorf("archive: write %s: %w", e.name, err)
		}
	}
	read()
	return out.Close()
}

// entry is an entry behind the manifest.
type entry struct {
	name string
	size int64
	sum  string // in hex
	file *File  // nil: the checksums of the blocks
}

func (m *Manifest) entries() (list []entry) {
	list = append(list, entry{BlocksName, m.blocksSize(), m.Blocks, nil})
	for i := range m.Files {
		f := &m.Files[i]
		size, sum := f.stored()
		list = append(list, entry{f.Path, size, sum, f})
	}
	return list
}

// header uses the GNU form, whose headers are one block whatever the size of the file.
func (m *Manifest) header(out *tar.Writer, name string, size int64) error {
	return out.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: m.Made.Truncate(time.Second),
		Typeflag: tar.TypeReg, Format: tar.FormatGNU})
}

// Archive is a backup that is being read.
type Archive struct {
	Manifest *Manifest

	counted *counting
	in      *tar.Reader
	left    []entry
}

// Open reads the manifest of a backup.
func Open(r io.Reader) (*Archive, error) {
	counted := &counting{r: r}
	a := &Archive{counted: counted, in: tar.NewReader(counted)}
	m, err := readManifest(a.in)
	if err != nil {
		return nil, err
	}
	a.Manifest, a.left = m, m.entries()
	return a, nil
}

// Read reads a backup to its end and checks everything in it.
func Read(r io.Reader) (*Manifest, error) {
	a, err := Open(r)
	if err != nil {
		return nil, err
	}
	return a.Manifest, a.Files(nil)
}

// Blocks reads the checksums of the blocks of all files, by their path. It comes before Files, or in its place.
func (a *Archive) Blocks(most int64) (map[string][]byte, error) {
	m := a.Manifest
	if m.blocksSize() > most {
		return nil, fmt.Errorf("archive: the backup of %s has more than %d bytes of checksums of blocks: there are no increments of it",
			m.Made.Format(time.RFC3339Nano), most)
	}
	all := make([]byte, m.blocksSize())
	err := a.next(func(_ *File, content io.Reader) error {
		_, err := io.ReadFull(content, all)
		return cut(err)
	})
	if err != nil {
		return nil, err
	}
	blocks := map[string][]byte{}
	for i := range m.Files {
		n := blocksOf(m.Files[i].Size) * SumSize
		blocks[m.Files[i].Path], all = all[:n:n], all[n:]
	}
	return blocks, nil
}

// Files gives fn each file, and reads the rest that fn leaves; with a nil fn it only reads. It checks that the archive has exactly the
// files of the manifest, in its order, with its sizes and checksums, and the end. The bytes that fn read of a file are proven right when fn
// is called for the next file, or Files returns no error.
func (a *Archive) Files(fn func(f *File, content io.Reader) error) error {
	for len(a.left) > 0 {
		to := fn
		if a.left[0].file == nil {
			to = nil
		}
		if err := a.next(to); err != nil {
			return err
		}
	}
	if _, err := a.in.Next(); err != io.EOF {
		return errors.Join(errors.New("archive: the backup goes on behind the last file of its manifest, or its end is damaged"), err)
	}
	if _, err := io.Copy(io.Discard, a.counted); err != nil {
		return cut(err)
	}
	if want, err := a.Manifest.Size(); err != nil || a.counted.n != want {
		return errors.Join(fmt.Errorf("archive: the backup has %d bytes and should have %d: it was cut, or something was added",
			a.counted.n, want), err)
	}
	return nil
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

// next reads the next entry.
func (a *Archive) next(fn func(*File, io.Reader) error) error {
	e := a.left[0]
	a.left = a.left[1:]
	h, err := a.in.Next()
	if err != nil {
		return cut(err)
	}
	if h.Name != e.name || h.Typeflag != tar.TypeReg || h.Size != e.size {
		return fmt.Errorf("archive: the backup has %q (%d bytes) where its manifest has %s (%d bytes)", h.Name, h.Size, e.name, e.size)
	}
	hash := sha256.New()
	content := io.TeeReader(a.in, hash)
	if fn != nil {
		if err := fn(e.file, content); err != nil {
			return cut(err)
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return cut(err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != e.sum {
		return fmt.Errorf("archive: %s is damaged: its checksum is %s and the manifest has %s", e.name, got, e.sum)
	}
	return nil
}

// cut gives an end that came too early its meaning.
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

// This file compares files by their blocks. An increment has the blocks of each file that differ from the backup before it.

const (
	// BlockSize is the length of a block of a file; the last one may be shorter. A few pages of SQLite: with smaller ones the checksums
	// take more room, with larger ones an increment has more that did not change.
	BlockSize = 16 << 10
	// SumSize is the length of the checksum of a block: the first bytes of its SHA-256. Two blocks with the same checksum would be taken
	// for the same, so it is long enough that no one can make two.
	SumSize    = 16
	numberSize = 4
	maxFile    = BlockSize << 32 >> 1 // bytes; the numbers of blocks have 32 bits
)

func blocksOf(size int64) int64 { return (size + BlockSize - 1) / BlockSize }

// Sum reads a file and describes it: its size and checksum. It writes the checksums of its blocks to sums. To changed, if it is not nil, it
// writes the blocks that differ from `before`, the checksums of an earlier state.
func Sum(from io.Reader, sums io.Writer, before []byte, changed io.Writer) (f File, err error) {
	whole, part := sha256.New(), (*changes)(nil)
	if changed != nil {
		part = &changes{w: bufio.NewWriter(changed), hash: sha256.New()}
	}
	buf := make([]byte, BlockSize)
	for number := 0; ; number++ {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			whole.Write(buf[:n])
			sum := sha256.Sum256(buf[:n])
			if _, err := sums.Write(sum[:SumSize]); err != nil {
				return f, err
			}
			f.Size += int64(n)
			was := before[min(number*SumSize, len(before)):]
			if part != nil && !bytes.HasPrefix(was, sum[:SumSize]) {
				part.add(uint32(number), buf[:n])
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return f, err
		}
	}
	f.SHA256 = hex.EncodeToString(whole.Sum(nil))
	if part != nil {
		f.Changed = &Changed{Size: part.size, SHA256: hex.EncodeToString(part.hash.Sum(nil))}
		err = part.w.Flush()
	}
	return f, err
}

// changes writes the entry of a file in an increment: for each changed block, its number and its bytes.
type changes struct {
	w    *bufio.Writer
	hash hash.Hash
	size int64
}

// add adds a block. Flush returns any error of the writer again.
func (c *changes) add(number uint32, block []byte) {
	head := binary.BigEndian.AppendUint32(nil, number)
	for _, b := range [][]byte{head, block} {
		_, _ = c.w.Write(b)
		c.hash.Write(b)
		c.size += int64(len(b))
	}
}

// Apply writes the changed blocks of a file of this size to their places.
func Apply(changed io.Reader, size int64, to io.WriterAt) error {
	from, buf := bufio.NewReader(changed), make([]byte, BlockSize)
	var head [numberSize]byte
	for next := int64(0); ; {
		if _, err := io.ReadFull(from, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return cut(err)
		}
		number := int64(binary.BigEndian.Uint32(head[:]))
		if number < next || number >= blocksOf(size) {
			return fmt.Errorf("archive: a file of %d blocks has block %d behind block %d", blocksOf(size), number, next-1)
		}
		next = number + 1
		block := buf[:min(BlockSize, size-number*BlockSize)]
		if _, err := io.ReadFull(from, block); err != nil {
			return cut(err)
		}
		if _, err := to.WriteAt(block, number*BlockSize); err != nil {
			return err
		}
	}
}
