package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// meaningVersion is the first byte that Meaning hashes. A new field changes the meaning of every request, so it raises the version.
const meaningVersion = 1

// Meaning is the fingerprint of a request, however it was written: in any order of its fields and of its meta, with a default left out or
// spelled out, alone or as one of many. Meta must be in order. Fields that only say how the request came are left out: its trace, its
// idempotency key.
func (n *NewSubmission) Meaning() (fingerprint [16]byte) {
	h := sha256.New()
	b := append(make([]byte, 0, 512), meaningVersion)
	number := func(n uint64) { b = binary.AppendUvarint(b, n) }
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, m := range n.Meta {
		text(m.Key)
		if m.Value.IsInt() {
			b = append(b, 'i')
			number(uint64(m.Value.Int()))
		} else {
			b = append(b, 't')
			text(m.Value.Text())
		}
	}
	text("") // no key of meta is empty
	number(uint64(n.Priority))
	number(uint64(max(n.OperationsPerChunk, 1)))
	number(uint64(n.RunAt))
	number(uint64(n.DeadDeadline))
	number(uint64(n.MaxAttempts))
	number(uint64(n.OnExhausted))
	number(uint64(n.MaxFailedChunks))
	text(n.Group)
	number(uint64(n.Chunks.Count))
	text(n.Chunks.Prefix)
	text(n.Chunks.Template)
	number(uint64(len(n.Chunks.Inline)))
	bytes := func(content []byte) { // large ones are hashed where they are
		number(uint64(len(content)))
		if len(b)+len(content) > cap(b) {
			h.Write(b)
			b = b[:0]
		}
		if len(content) > cap(b) {
			h.Write(content)
		} else {
			b = append(b, content...)
		}
	}
	for _, content := range n.Chunks.Inline {
		bytes(content)
	}
	bytes(n.Attachment)
	if u := n.Unique; u != nil { // behind all else, so that a request without one has the same fingerprint as before unique keys existed
		text(u.Key)
		number(uint64(u.For))
		text(u.OnConflict())
	}
	if n.RetryBackoff != nil { // likewise; a unique key is never empty
		text("")
		number(uint64(n.RetryBackoff.Kind))
		number(uint64(n.RetryBackoff.Jitter))
		number(uint64(n.RetryBackoff.Base))
		number(uint64(n.RetryBackoff.Cap))
		number(math.Float64bits(n.RetryBackoff.Factor))
		for _, ms := range n.RetryBackoff.Delays.MS() {
			number(uint64(ms))
		}
	}
	if n.After != nil { // likewise: no other tail begins with two empty texts
		b = n.After.meaning(append(b, 0, 0))
	}
	if n.AttemptTimeout != 0 { // likewise, with three
		b = binary.AppendUvarint(append(b, 0, 0, 0), uint64(n.AttemptTimeout))
	}
	h.Write(b)
	copy(fingerprint[:], h.Sum(nil))
	return fingerprint
}
