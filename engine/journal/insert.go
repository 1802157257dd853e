package journal

// The insert op, and the row of the same bytes that the store keeps for a submission. After the insert, a submission's
// fields never change, except its priority, which has an op of its own. So the row of an open submission has two parts:
// these bytes, written once, and a state, written again at checkpoints.
//
//	seq  id  chunks  key  priority  flags │ meta? prefix? template? group? trace? ... blobs?
//	                                      └ in the order of the flags, each only if its flag is set
//
// One function, fields, both reads and writes (coder), so the two directions cannot differ. A new optional field
// gets the next flag: journals and stores that were written before it simply do not have the flag.

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/coding"
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
	hasBlobs
	hasUnique
	hasRetryBackoff
	hasAfter
	hasAttemptTimeout
	hasBytes
	endOfFlags
)

// A default is not written, as most submissions have none of these fields.
func (s *Insert) flags() (flags uint64) {
	for _, field := range []struct {
		there bool
		flag  uint64
	}{
		{len(s.Meta) > 0, hasMeta}, {s.Prefix != "", hasPrefix}, {s.Template != "", hasTemplate},
		{s.Group != "", hasGroup},
		{s.Trace != "", hasTrace}, {s.OperationsPerChunk > 1, hasOperations}, {s.RunAt != 0, hasRunAt},
		{s.DeadDeadline != 0, hasDeadDeadline}, {s.MaxAttempts != 0, hasMaxAttempts},
		{s.OnExhausted != queue.Inherit, hasOnExhausted},
		{s.Inline, hasInline}, {s.Attachment, hasAttachment}, {s.IdempotencyKey != "", hasIdempotencyKey},
		{s.MaxFailed != 0, hasMaxFailed}, {s.Schedule != "", hasSchedule}, {s.Origin != nil, hasOrigin},
		{s.Blobs != nil, hasBlobs}, {s.Unique != nil, hasUnique}, {s.RetryBackoff != nil, hasRetryBackoff},
		{s.After != nil, hasAfter}, {s.AttemptTimeout != 0, hasAttemptTimeout},
		{s.Bytes != 0, hasBytes},
	} {
		if field.there {
			flags |= field.flag
		}
	}
	return flags
}

// Flags above the known ones are refused, not passed over: they come from a newer version, and their fields cannot be
// skipped without knowing the lengths.
func (s *Insert) fields(c *coder) {
	coding.Unsigned(&c.Coder, &s.Seq)
	coding.Unsigned(&c.Coder, &s.ID)
	coding.Unsigned(&c.Coder, &s.Chunks)
	c.Fixed(&s.Key)
	coding.Signed(&c.Coder, &s.Priority)
	flags := uint64(0)
	if !c.Reading {
		flags = s.flags()
	}
	coding.AtMost(&c.Coder, &flags, endOfFlags-1)
	s.optional(c, flags)
	c.Must(s.Chunks > 0)
}

// optional are the fields that only some submissions have. The order is that of the flags, and a part of the format:
// a field can be added at the end, never moved.
func (s *Insert) optional(c *coder, flags uint64) {
	if flags&hasMeta != 0 {
		meta(c, &s.Meta)
	}
	for _, x := range [...]struct {
		flag uint64
		text *string
	}{{hasPrefix, &s.Prefix}, {hasTemplate, &s.Template}, {hasGroup, &s.Group}, {hasTrace, &s.Trace}} {
		if flags&x.flag != 0 {
			c.Text(x.text)
		}
	}
	if flags&hasOperations != 0 {
		coding.Unsigned(&c.Coder, &s.OperationsPerChunk)
	}
	if c.Reading {
		s.OperationsPerChunk = max(s.OperationsPerChunk, 1)
	}
	if flags&hasRunAt != 0 {
		since1970(c, &s.RunAt)
	}
	if flags&hasDeadDeadline != 0 {
		since1970(c, &s.DeadDeadline)
	}
	if flags&hasMaxAttempts != 0 {
		coding.Unsigned(&c.Coder, &s.MaxAttempts)
	}
	if flags&hasOnExhausted != 0 {
		coding.AtMost(&c.Coder, &s.OnExhausted, queue.Skip)
	}
	if c.Reading {
		s.Inline, s.Attachment = flags&hasInline != 0, flags&hasAttachment != 0
	}
	if flags&hasIdempotencyKey != 0 {
		c.Text(&s.IdempotencyKey)
		c.Raw(s.Fingerprint[:])
	}
	if flags&hasMaxFailed != 0 {
		coding.Unsigned(&c.Coder, &s.MaxFailed)
	}
	if flags&hasSchedule != 0 {
		c.Text(&s.Schedule)
		coding.Signed(&c.Coder, &s.Scheduled)
	}
	if flags&hasOrigin != 0 {
		if c.Reading {
			s.Origin = new(queue.Origin)
		}
		origin(c, s.Origin)
	}
	if flags&hasBlobs != 0 {
		if c.Reading {
			s.Blobs = new(Blobs)
		}
		s.Blobs.fields(c)
		// Blobs hold an inline list, an attachment, or both. If a submission with blobs has neither, the op is damaged.
		c.Must(s.Inline == (len(s.Blobs.Firsts) > 0) && (s.Inline || s.Attachment))
	}
	s.later(c, flags)
}

// later are the optional fields that came to the format last: unique key, back-off, awaited submissions, timeout of an
// attempt, and bytes for a quota.
func (s *Insert) later(c *coder, flags uint64) {
	if flags&hasUnique != 0 {
		if c.Reading {
			s.Unique = new(queue.Unique)
		}
		unique(c, s.Unique)
	}
	if flags&hasRetryBackoff != 0 {
		if c.Reading {
			s.RetryBackoff = new(queue.Backoff)
		}
		backoff(c, s.RetryBackoff)
	}
	if flags&hasAfter != 0 {
		if c.Reading {
			s.After = new(queue.After)
		}
		after(c, s.After)
	}
	if flags&hasAttemptTimeout != 0 {
		span(c, &s.AttemptTimeout, queue.MaxReservation)
		c.Must(s.AttemptTimeout > 0)
	}
	// The op has the size of the bytes that came with it, so that a start can count quotas without reading contents.
	if flags&hasBytes != 0 {
		coding.Unsigned(&c.Coder, &s.Bytes)
	}
}

// since1970 is a time that is written without a sign.
func since1970(c *coder, t *queue.Time) {
	n := uint64(*t)
	if coding.Unsigned(&c.Coder, &n); c.Reading {
		*t = queue.Time(n)
	}
}

func origin(c *coder, o *queue.Origin) {
	coding.Unsigned(&c.Coder, &o.Source)
	coding.Unsigned(&c.Coder, &o.Number)
	c.Text(&o.Queue)
	coding.Unsigned(&c.Coder, &o.Chunk.Submission)
	coding.Unsigned(&c.Coder, &o.Chunk.Index)
	coding.Unsigned(&c.Coder, &o.First)
	coding.Unsigned(&c.Coder, &o.Attempts)
	coding.Signed(&c.Coder, &o.Died)
	c.Text(&o.Error)
}

// unique has the part of the key that later inserts need, without the policy of its own insert.
func unique(c *coder, u *queue.Unique) {
	c.Text(&u.Key)
	c.Text(&u.Scope)
	span(c, &u.For, queue.MaxUniqueWindow)
}

// backoff has all fields of any kind: fields that the kind does not use take a byte each, or eight, and few submissions
// have a back-off of their own. The factor is kept bit by bit, so that it is shown as it was given.
func backoff(c *coder, b *queue.Backoff) {
	coding.AtMost(&c.Coder, &b.Kind, queue.Listed)
	coding.AtMost(&c.Coder, &b.Jitter, queue.NoJitter)
	// Both are bounded by the larger of their limits: the engine checks what is asked for, this finds damage.
	longest := time.Duration(queue.BackoffCap.Most) * time.Millisecond
	span(c, &b.Base, longest)
	span(c, &b.Cap, longest)
	factor := math.Float64bits(b.Factor)
	c.Fixed(&factor)
	list := b.Delays.MS()
	coding.Many(&c.Coder, &list, queue.MaxDelays, func(ms *uint32) { coding.Unsigned(&c.Coder, ms) })
	if c.Reading {
		b.Factor, b.Delays = math.Float64frombits(factor), queue.NewDelays(list)
		c.Must(b.Factor == 0 || queue.BackoffFactor.Holds(b.Factor))
	}
}

// span is a time of whole milliseconds.
func span(c *coder, d *time.Duration, most time.Duration) {
	ms := uint64(d.Milliseconds())
	coding.AtMost(&c.Coder, &ms, uint64(most.Milliseconds()))
	*d = time.Duration(ms) * time.Millisecond
}

// A meta value is a metaInt byte and a varint, or a metaText byte and a text.
const (
	metaInt byte = iota
	metaText
)

func meta(c *coder, m *queue.Meta) {
	coding.Many(&c.Coder, m, queue.MaxMetaKeys, func(entry *queue.MetaEntry) {
		c.Text(&entry.Key)
		metaValue(c, &entry.Value)
	})
}

func metaValue(c *coder, v *queue.MetaValue) {
	kind := metaText
	if v.IsInt() {
		kind = metaInt
	}
	coding.Octet(&c.Coder, &kind, metaText)
	if kind == metaInt {
		n := v.Int()
		if coding.Signed(&c.Coder, &n); c.Reading {
			*v = queue.IntValue(n)
		}
		return
	}
	text := v.Text()
	if c.Text(&text); c.Reading {
		*v = queue.StringValue(text)
	}
}

// AppendInsert appends the encoding of a submission's unchanging part. The store keeps the
// same bytes as the submission's row.
func AppendInsert(dst []byte, s *Insert) []byte {
	c := writer(dst)
	s.fields(&c)
	return c.B
}

// DecodeInsert reads an insert that AppendInsert wrote. It refuses bytes that are left over, because
// they would be a field that this version does not know.
func DecodeInsert(b []byte) (*Insert, error) {
	c, s := reader(b), new(Insert)
	s.fields(&c)
	if !c.Whole() {
		return nil, errDamaged
	}
	return s, nil
}
