package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// ValidQueueName says what is wrong with the name of a queue.
func ValidQueueName(name string) error {
	if name == "" || len(name) > queue.MaxQueueNameBytes {
		return queue.Invalid("/path/queue", "has %d bytes; 1 to %d are allowed", len(name), queue.MaxQueueNameBytes)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return queue.Invalid("/path/queue", "may hold letters, digits, '-', '_' and '.', and starts with a letter or digit")
		}
	}
	return nil
}

func validPriority(priority int64) error {
	return (&queue.NewSubmission{Priority: priority}).Valid()
}

// fillIn counts inline chunks, puts the meta in order, and adds the group to it.
func fillIn(n *queue.NewSubmission) (err error) {
	if len(n.Chunks.Inline) > 0 {
		n.Chunks.Count = uint32(len(n.Chunks.Inline))
	}
	if n.Meta, err = queue.NewMeta(n.Meta); err != nil {
		return err
	}
	return n.Grouped()
}

// validInsert checks everything about a submission that its types do not, and puts its meta in order.
func validInsert(n *queue.NewSubmission) error {
	if err := fillIn(n); err != nil {
		return err
	}
	if err := validChunks(&n.Chunks); err != nil {
		return err
	}
	switch {
	case len(n.Attachment) > queue.MaxAttachmentBytes:
		return queue.Invalid("/attachment", "has %d bytes; at most %d are allowed, as it goes out with every "+
			"reservation: keep large data in object storage", len(n.Attachment), queue.MaxAttachmentBytes)
	case len(n.Trace) > queue.MaxTraceBytes:
		return queue.Invalid("/header/traceparent", "has %d bytes with its tracestate; at most %d are kept",
			len(n.Trace), queue.MaxTraceBytes)
	case len(n.IdempotencyKey) > queue.MaxIdempotencyKey:
		return queue.Invalid("/header/Idempotency-Key", "has %d bytes; at most %d are allowed", len(n.IdempotencyKey),
			queue.MaxIdempotencyKey)
	}
	return n.Valid()
}

func validChunks(c *queue.Chunks) error {
	switch {
	case len(c.Inline) > queue.MaxInlineChunks:
		return queue.Invalid("/chunks/inline", "has %d entries; at most %d are allowed in one insert: split the work "+
			"into several submissions", len(c.Inline), queue.MaxInlineChunks)
	case c.Count == 0:
		return queue.Invalid("/chunks", "has no chunks; at least 1 is needed")
	case len(c.Prefix) > queue.MaxPrefixBytes:
		return queue.Invalid("/chunks/prefix", "has %d bytes; at most %d are allowed", len(c.Prefix), queue.MaxPrefixBytes)
	case len(c.Template) > queue.MaxTemplateBytes:
		return queue.Invalid("/chunks/template", "has %d bytes; at most %d are allowed", len(c.Template), queue.MaxTemplateBytes)
	}
	total := 0
	for i, b := range c.Inline {
		if len(b) > queue.MaxChunkBytes {
			return queue.Invalid("/chunks/inline", "has an entry (number %d) of %d bytes; at most %d are allowed: "+
				"keep large data in object storage", i, len(b), queue.MaxChunkBytes)
		}
		total += len(b)
	}
	if total > queue.MaxInlineBytes {
		return queue.Invalid("/chunks/inline", "has %d bytes in all; at most %d are allowed in one insert", total, queue.MaxInlineBytes)
	}
	return nil
}

func validReserve(r *ReserveRequest, settings *queue.Settings) error {
	switch {
	case r.Max < 1 || r.Max > queue.MaxReserve:
		return queue.Invalid("/max", "is %d; 1 to %d are allowed", r.Max, queue.MaxReserve)
	case r.Wait < 0 || r.Wait > queue.MaxWait:
		return queue.Invalid("/wait_ms", "is %d; 0 to %d are allowed", r.Wait.Milliseconds(), queue.MaxWait.Milliseconds())
	case r.Timeout != 0 && (r.Timeout < queue.MinReservation || r.Timeout > settings.MaxReservation):
		return queue.Invalid("/timeout_ms", "is %d; %d to %d (the queue's max_reservation_ms) are allowed",
			r.Timeout.Milliseconds(), queue.MinReservation.Milliseconds(), settings.MaxReservation.Milliseconds())
	case len(r.Consumer) > queue.MaxConsumerBytes:
		return queue.Invalid("/consumer", "has %d bytes; at most %d are allowed", len(r.Consumer), queue.MaxConsumerBytes)
	}
	return nil
}

func validBatch(n int) error {
	if n > queue.MaxBatch {
		return queue.Invalid("/items", "has %d items; at most %d are allowed in one call", n, queue.MaxBatch)
	}
	return nil
}

func validCompletes(items []queue.CompleteItem) error {
	following := 0
	for i := range items {
		following += len(items[i].Insert)
		if n := len(items[i].Output); n > queue.MaxOutputBytes {
			return queue.Invalid(fmt.Sprintf("/items/%d/output", i),
				"has %d bytes; at most %d are allowed: keep large results in object storage", n, queue.MaxOutputBytes)
		}
		if err := validFollowing(i, items[i].Insert); err != nil {
			return err
		}
	}
	if following > queue.MaxInsertions { // the answer has the id of each
		return queue.Invalid("/items", "bring %d submissions; at most %d are allowed in one call: complete in several",
			following, queue.MaxInsertions)
	}
	return validBatch(len(items))
}

// validFollowing checks the submissions that the completion of item i inserts.
func validFollowing(i int, list []queue.Insertion) error {
	if len(list) > queue.MaxFollowing {
		return queue.Invalid(fmt.Sprintf("/items/%d/insert", i), "has %d entries; at most %d are allowed: insert what is more by "+
			"a chunk of one of them", len(list), queue.MaxFollowing)
	}
	for n := range list {
		if err := validInsert(list[n].New); err != nil {
			return queue.Repointed(err, func(pointer string) string { return fmt.Sprintf("/items/%d/insert/%d%s", i, n, pointer) })
		}
	}
	return queue.ValidInsertions(list)
}

// maxRetryAfter is the longest pause a consumer may ask for: 30 days, in milliseconds.
const maxRetryAfter = queue.Time(30 * 24 * time.Hour / time.Millisecond)

func validFails(items []queue.FailItem, now queue.Time) error {
	for i := range items {
		switch at := items[i].RetryAt; {
		case at == 0:
		case items[i].HasRetry:
			return queue.Invalid(fmt.Sprintf("/items/%d/retry_at", i), "is given beside retry_after_ms; give one of them")
		case at < 0:
			return queue.Invalid(fmt.Sprintf("/items/%d/retry_at", i), "is before 1970")
		case at > now+maxRetryAfter:
			return queue.Invalid(fmt.Sprintf("/items/%d/retry_at", i),
				"is more than 30 days ahead, the longest pause that a chunk may have")
		}
		if after := items[i].RetryAfter; after < 0 || after > maxRetryAfter {
			return queue.Invalid(fmt.Sprintf("/items/%d/retry_after_ms", i), "is %d; 0 to %d are allowed", after, maxRetryAfter)
		}
	}
	return validBatch(len(items))
}

// maxDelay is the longest that a released chunk may wait: 30 days, in milliseconds.
const maxDelay = maxRetryAfter

func validReleases(items []queue.ReleaseItem) error {
	for i := range items {
		if delay := items[i].Delay; delay < 0 || delay > maxDelay {
			return queue.Invalid(fmt.Sprintf("/items/%d/delay_ms", i), "is %d; 0 to %d are allowed", delay, maxDelay)
		}
	}
	return validBatch(len(items))
}

func validExtends(items []queue.ExtendItem) error {
	shortest, longest := queue.Time(queue.MinReservation.Milliseconds()), queue.Time(queue.MaxReservation.Milliseconds())
	for i := range items {
		if n := len(items[i].Consumer); n > queue.MaxConsumerBytes {
			return queue.Invalid(fmt.Sprintf("/items/%d/consumer", i), "has %d bytes; at most %d are allowed", n, queue.MaxConsumerBytes)
		}
		if timeout := items[i].Timeout; timeout != 0 && (timeout < shortest || timeout > longest) {
			return queue.Invalid(fmt.Sprintf("/items/%d/timeout_ms", i), "is %d; %d to %d are allowed", timeout, shortest, longest)
		}
		if p := items[i].Reported.Progress; !(p >= 0 && p <= 1) { // also NaN
			return queue.Invalid(fmt.Sprintf("/items/%d/progress", i), "is %g; 0 to 1 are allowed: 0.4 says that 40 %% are done", p)
		}
		if note := items[i].Reported.Note; len(note) > queue.MaxNoteBytes {
			return queue.Invalid(fmt.Sprintf("/items/%d/note", i), "has %d bytes; at most %d are allowed", len(note), queue.MaxNoteBytes)
		} else if !utf8.ValidString(note) {
			return queue.Invalid(fmt.Sprintf("/items/%d/note", i), "is not valid UTF-8")
		}
	}
	return validBatch(len(items))
}

// ValidSchedule checks everything about a schedule that its types do not, and puts its meta in order.
func ValidSchedule(name string, def *queue.Schedule) error {
	if !strategyName(name) {
		return queue.Invalid("/path/name", "is %d bytes long; 1 to %d letters, digits, '.', '_' and '-' are allowed, the first a "+
			"letter or digit", len(name), queue.MaxScheduleNameBytes)
	}
	if _, err := schedules.Parse(def); err != nil {
		return err
	}
	if err := def.Valid(); err != nil {
		return err
	}
	return beneath("/template", validTemplate(&def.Template))
}

// validTemplate checks the submission of a schedule, with the length that it has once the tick's time is filled in.
func validTemplate(n *queue.NewSubmission) error {
	if err := fillIn(n); err != nil {
		return err
	}
	bytes := len(n.Attachment) + len(n.Chunks.Template) + len(n.Chunks.Prefix)
	for _, b := range n.Chunks.Inline {
		bytes += len(b)
	}
	switch {
	case bytes > queue.MaxScheduleBytes:
		return queue.Invalid("/chunks", "and the attachment have %d bytes; at most %d are allowed in a schedule: "+
			"keep large data in object storage", bytes, queue.MaxScheduleBytes)
	case len(n.Chunks.Inline) > queue.MaxScheduleBytes/8:
		return queue.Invalid("/chunks/inline", "has %d entries; at most %d are allowed in a schedule",
			len(n.Chunks.Inline), queue.MaxScheduleBytes/8)
	}
	filled := schedules.Submission("", &queue.Schedule{Template: *n}, 1)
	return validInsert(&filled)
}

// beneath puts the pointers of an error below another one.
func beneath(pointer string, err error) error {
	var wrong *queue.Error
	if errors.As(err, &wrong) {
		for i := range wrong.Problems {
			if at := &wrong.Problems[i].Pointer; !strings.HasPrefix(*at, "/header") {
				*at = pointer + *at
			}
		}
	}
	return err
}
