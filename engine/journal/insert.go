package journal

import (
	"encoding/binary"

	"github.com/quern-queue/quern/engine/queue"
)

// The flags of an insert say which optional fields follow, in this order.
const (
	hasMeta = 1 << iota
	hasPrefix
	hasTemplate
	hasGroup
	hasTrace
	hasOperations
	hasRunAt
	hasDeadDeadline
	hasMaxAttempts
	hasOnExhausted
	hasInline
	hasAttachment
	hasIdempotencyKey
	hasMaxFailed
	hasSchedule
	hasOrigin
	endOfFlags
)

func (s *Insert) flags() (flags uint64) {
	for _, field := range []struct {
		there bool
		flag  uint64
	}{
		{len(s.Meta) > 0, hasMeta}, {s.Prefix != "", hasPrefix}, {s.Template != "", hasTemplate}, {s.Group != "", hasGroup},
		{s.Trace != "", hasTrace}, {s.OperationsPerChunk > 1, hasOperations}, {s.RunAt != 0, hasRunAt},
		{s.DeadDeadline != 0, hasDeadDeadline}, {s.MaxAttempts != 0, hasMaxAttempts}, {s.OnExhausted != queue.Inherit, hasOnExhausted},
		{s.Inline, hasInline}, {s.Attachment, hasAttachment}, {s.IdempotencyKey != "", hasIdempotencyKey},
		{s.MaxFailed != 0, hasMaxFailed}, {s.Schedule != "", hasSchedule}, {s.Origin != nil, hasOrigin},
	} {
		if field.there {
			flags |= field.flag
		}
	}
	return flags
}

// texts and numbers list the optional fields in the order in which they are written.
func (s *Insert) texts() [4]struct {
	flag uint64
	text *string
} {
	return [4]struct {
		flag uint64
		text *string
	}{{hasPrefix, &s.Prefix}, {hasTemplate, &s.Template}, {hasGroup, &s.Group}, {hasTrace, &s.Trace}}
}

// AppendInsert appends the encoding of a submission's unchanging part. The store keeps the same bytes as the
// submission's row.
func AppendInsert(dst []byte, s *Insert) []byte {
	e := Encoder{buf: dst}
	e.uint(uint64(s.Seq))
	e.uint(uint64(s.ID))
	e.uint(uint64(s.Chunks))
	if e.uint(uint64(s.Mul)); s.Mul == 0 {
		e.buf = binary.LittleEndian.AppendUint64(e.buf, s.Key)
	} else {
		e.uint(uint64(s.Add))
	}
	e.int(s.Priority)
	flags := s.flags()
	e.uint(flags)
	if flags&hasMeta != 0 {
		e.meta(s.Meta)
	}
	for _, field := range s.texts() {
		if flags&field.flag != 0 {
			e.text(*field.text)
		}
	}
	for _, field := range [5]struct{ flag, number uint64 }{
		{hasOperations, uint64(s.OperationsPerChunk)}, {hasRunAt, uint64(s.RunAt)}, {hasDeadDeadline, uint64(s.DeadDeadline)},
		{hasMaxAttempts, uint64(s.MaxAttempts)}, {hasOnExhausted, uint64(s.OnExhausted)},
	} {
		if flags&field.flag != 0 {
			e.uint(field.number)
		}
	}
	if flags&hasIdempotencyKey != 0 {
		e.text(s.IdempotencyKey)
		e.buf = append(e.buf, s.Fingerprint[:]...)
	}
	if flags&hasMaxFailed != 0 {
		e.uint(uint64(s.MaxFailed))
	}
	if flags&hasSchedule != 0 {
		e.text(s.Schedule)
		e.int(int64(s.Scheduled))
	}
	if flags&hasOrigin != 0 {
		e.origin(s.Origin)
	}
	return e.buf
}

func (e *Encoder) origin(o *queue.Origin) {
	e.uint(o.Source)
	e.uint(o.Number)
	e.text(o.Queue)
	e.uint(uint64(o.Chunk.Submission))
	e.uint(uint64(o.Chunk.Index))
	e.uint(uint64(o.First))
	e.uint(uint64(o.Attempts))
	e.int(int64(o.Died))
	e.text(o.Error)
}

func (d *decoder) origin() *queue.Origin {
	return &queue.Origin{
		Source: d.uint(), Number: d.uint(), Queue: d.text(),
		Chunk: queue.ChunkID{Submission: queue.SubmissionID(d.uint()), Index: d.uint32()},
		First: d.uint32(), Attempts: d.uint32(), Died: queue.Time(d.int()), Error: d.text(),
	}
}

// A meta value is a metaInt byte and a varint, or a metaText byte and a text.
const (
	metaInt  = 0
	metaText = 1
)

func (e *Encoder) meta(meta queue.Meta) {
	e.uint(uint64(len(meta)))
	for _, entry := range meta {
		e.text(entry.Key)
		if entry.Value.IsInt() {
			e.buf = append(e.buf, metaInt)
			e.buf = binary.AppendVarint(e.buf, entry.Value.Int())
		} else {
			e.buf = append(e.buf, metaText)
			e.text(entry.Value.Text())
		}
	}
}

// DecodeInsert reads what AppendInsert wrote.
func DecodeInsert(b []byte) (*Insert, error) {
	d := decoder{b: b}
	s := new(Insert)
	d.insert(s)
	if d.bad || len(d.b) > 0 {
		return nil, errDamaged
	}
	return s, nil
}

func (d *decoder) insert(s *Insert) {
	s.Seq, s.ID, s.Chunks = d.uint32(), queue.SubmissionID(d.uint()), d.uint32()
	if s.Mul = d.uint32(); s.Mul == 0 {
		if key := d.take(8); key != nil {
			s.Key = binary.LittleEndian.Uint64(key)
		}
	} else {
		s.Add = d.uint32()
	}
	s.Priority = d.int()
	flags := d.within(endOfFlags - 1)
	if flags&hasMeta != 0 {
		s.Meta = d.meta()
	}
	for _, field := range s.texts() {
		if flags&field.flag != 0 {
			*field.text = d.text()
		}
	}
	s.OperationsPerChunk = 1
	if flags&hasOperations != 0 {
		s.OperationsPerChunk = max(d.uint32(), 1)
	}
	if flags&hasRunAt != 0 {
		s.RunAt = queue.Time(d.uint())
	}
	if flags&hasDeadDeadline != 0 {
		s.DeadDeadline = queue.Time(d.uint())
	}
	if flags&hasMaxAttempts != 0 {
		s.MaxAttempts = d.uint16()
	}
	if flags&hasOnExhausted != 0 {
		s.OnExhausted = queue.OnExhausted(d.within(uint64(queue.Skip)))
	}
	s.Inline, s.Attachment = flags&hasInline != 0, flags&hasAttachment != 0
	if flags&hasIdempotencyKey != 0 {
		s.IdempotencyKey = d.text()
		copy(s.Fingerprint[:], d.take(16))
	}
	if flags&hasMaxFailed != 0 {
		s.MaxFailed = d.uint32()
	}
	if flags&hasSchedule != 0 {
		s.Schedule, s.Scheduled = d.text(), queue.Time(d.int())
	}
	if flags&hasOrigin != 0 {
		s.Origin = d.origin()
	}
	if s.Chunks == 0 || s.Add >= s.Chunks {
		d.fail()
	}
}

func (d *decoder) meta() queue.Meta {
	n := d.within(queue.MaxMetaKeys)
	if n == 0 {
		return nil
	}
	meta := make(queue.Meta, 0, n)
	for ; n > 0 && !d.bad; n-- {
		entry := queue.MetaEntry{Key: d.text()}
		switch d.byte() {
		case metaInt:
			entry.Value = queue.IntValue(d.int())
		case metaText:
			entry.Value = queue.StringValue(d.text())
		default:
			d.fail()
		}
		meta = append(meta, entry)
	}
	return meta
}
