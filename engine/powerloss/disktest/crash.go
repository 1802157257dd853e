package disktest

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sector is the number of bytes that a disk writes as a whole. A write that the power failure cuts off is torn between sectors.
const sector = 512

// Image is the state of a disk: the durable bytes of each file, and the operations since its last sync.
type Image struct {
	names []string
	files []content
}

type content struct {
	there   bool
	durable []byte
	pending []Op
}

// ImageOf reads a folder in which nothing is open, as durable bytes: the state in which the trace began.
func ImageOf(folder string, t *Trace) (*Image, error) {
	m := &Image{names: slices.Clone(t.Names)}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !slices.Contains(m.names, path) {
			m.names = append(m.names, path)
		}
		return err
	})
	m.files = make([]content, len(m.names))
	for id, name := range m.names {
		b, read := os.ReadFile(filepath.Join(folder, name))
		if read == nil {
			m.files[id] = content{there: true, durable: b}
		} else if !os.IsNotExist(read) {
			err = errors.Join(err, read)
		}
	}
	return m, err
}

func (c *content) apply(o Op) {
	switch o.Kind {
	case Write:
		c.there = true
		if end := o.At + int64(len(o.Data)); int64(len(c.durable)) < end {
			c.durable = append(c.durable, make([]byte, end-int64(len(c.durable)))...)
		}
		copy(c.durable[o.At:], o.Data)
	case Truncate:
		if int64(len(c.durable)) > o.At {
			c.durable = c.durable[:o.At]
		} else {
			c.durable = append(c.durable, make([]byte, o.At-int64(len(c.durable)))...)
		}
	case Delete:
		*c = content{}
	}
}

// Apply takes the next operation of the trace. A sync makes the pending operations of its file durable, and every deletion before it, as
// journals of file systems keep those in order.
func (m *Image) Apply(o Op) {
	switch o.Kind {
	case Marked:
	case Sync:
		for id := range m.files {
			c := &m.files[id]
			if id == o.File || slices.ContainsFunc(c.pending, func(o Op) bool { return o.Kind == Delete }) {
				pending := c.pending
				c.pending = nil
				for _, was := range pending {
					c.apply(was)
				}
			}
		}
	default:
		m.files[o.File].pending = append(m.files[o.File].pending, o)
	}
}

// Loss is which of the pending operations a power failure takes.
type Loss int

// The kinds of loss.
const (
	All  Loss = iota // of what was not synced
	None             // the disk was fast
	Some             // any of the operations, and any sectors of the writes
	Losses
)

// Crash writes what a disk may hold after the power failed now into a folder.
func (m *Image) Crash(folder string, loss Loss, rnd *rand.Rand) error {
	for id := range m.files {
		was := &m.files[id]
		c := content{there: was.there, durable: slices.Clone(was.durable)}
		for _, o := range was.pending {
			c.survive(o, loss, rnd)
		}
		if !c.there {
			continue
		}
		name := filepath.Join(folder, filepath.FromSlash(m.names[id]))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, c.durable, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// survive applies the part of an operation that a loss leaves.
func (c *content) survive(o Op, loss Loss, rnd *rand.Rand) {
	switch {
	case loss == None, loss == Some && o.Kind != Write && rnd.IntN(2) == 0:
		c.apply(o)
	case loss == Some && o.Kind == Write:
		for at := 0; at < len(o.Data); at += sector {
			if rnd.IntN(2) == 0 {
				c.apply(Op{Kind: Write, At: o.At + int64(at), Data: o.Data[at:min(at+sector, len(o.Data))]})
			}
		}
	}
}
