package wire

import "sync"

// Buffers lends byte buffers for documents. The zero value is ready; it may be used from many goroutines and must not be
// copied. It belongs to a server or a client rather than to the package, so that nothing here changes behind its back.
type Buffers struct{ pool sync.Pool }

// Buffer is a lent buffer; B is empty with whatever capacity it has grown to.
type Buffer struct{ B []byte }

// Get lends a buffer.
func (p *Buffers) Get() *Buffer {
	if b, ok := p.pool.Get().(*Buffer); ok {
		b.B = b.B[:0]
		return b
	}
	return &Buffer{B: make([]byte, 0, 4096)}
}

// Put takes a buffer back; nothing may point into it any more. Buffers of more than 1 MiB are left to the collector.
func (p *Buffers) Put(b *Buffer) {
	if cap(b.B) <= maxKept {
		p.pool.Put(b)
	}
}
