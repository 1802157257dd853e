package journal

// Snapshot says of what the store can be made again, should it be lost: of a copy that is kept
// elsewhere, and of the journal behind its position. From the first one on, every byte that a client
// brings is in the journal. A later one takes its place, so applying it twice is applying it once.
type Snapshot struct {
	Kept     bool     // false: of nothing, snapshots are not kept any more
	Key      string   // of the copy; "": there is none yet, the journal has everything from its first batch on
	Position Position // up to which the rows of the copy are true
	Size     uint64   // of the copy, in bytes
	Sum      string   // SHA-256 of the copy, in hex
}

// snapshotVersion is the first byte of a Snapshot as the store keeps it.
const snapshotVersion = 1

func (s *Snapshot) fields(c *coder) {
	if c.yes(&s.Kept); s.Kept {
		if c.text(&s.Key); s.Key != "" {
			unsigned(c, &s.Position)
			unsigned(c, &s.Size)
			c.text(&s.Sum)
			c.must(s.Position > 0)
		}
	}
}

// AppendSnapshot appends the encoding of a Snapshot as the store keeps it, described in
// docs/formats/ops.md.
func AppendSnapshot(dst []byte, s *Snapshot) []byte {
	return appendRow(dst, snapshotVersion, (*Snapshot).fields, s)
}

// DecodeSnapshot reads what AppendSnapshot wrote.
func DecodeSnapshot(b []byte) (Snapshot, error) {
	return readRow(b, snapshotVersion, (*Snapshot).fields)
}
