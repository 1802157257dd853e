package wire

import (
	"math"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Append appends the submission object. Counts and created_at are always there, the rest when it says something.
func (s *Submission) Append(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendID(dst, s.ID)
	dst = append(dst, `,"queue":`...)
	dst = AppendString(dst, s.Queue)
	dst = append(dst, `,"state":`...)
	dst = AppendString(dst, s.State)
	dst = appendUint(dst, `,"chunks":`, s.Chunks)
	dst = appendUint(dst, `,"ready":`, s.Ready)
	dst = appendCount(dst, `,"paused":`, s.Paused)
	dst = appendCount(dst, `,"blocked":`, s.Blocked)
	dst = appendUint(dst, `,"waiting":`, s.Waiting)
	dst = appendUint(dst, `,"reserved":`, s.Reserved)
	dst = appendUint(dst, `,"done":`, s.Done)
	dst = appendUint(dst, `,"dead":`, s.Dead)
	dst = appendCount(dst, `,"forwarded":`, s.Forwarded)
	dst = appendCount(dst, `,"skipped":`, s.Skipped)
	dst = append(dst, `,"created_at":`...)
	if s.CreatedAt == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = AppendTime(dst, s.CreatedAt)
	}
	if len(s.Meta) > 0 {
		dst = append(dst, `,"meta":`...)
		dst = append(dst, s.Meta...)
	}
	if s.Priority != 0 {
		dst = append(dst, `,"priority":`...)
		dst = strconv.AppendInt(dst, s.Priority, 10)
	}
	dst = appendText(dst, `,"group":`, s.Group)
	dst = appendCount(dst, `,"shard":`, s.Shard)
	dst = appendCount(dst, `,"operations_per_chunk":`, s.OperationsPerChunk)
	dst = appendText(dst, `,"prefix":`, s.Prefix)
	dst = appendText(dst, `,"template":`, s.Template)
	if s.HasAttachment {
		dst = append(dst, `,"has_attachment":true`...)
	}
	dst = appendMoment(dst, `,"run_at":`, s.RunAt)
	dst = appendMoment(dst, `,"dead_deadline":`, s.DeadDeadline)
	dst = appendMoment(dst, `,"finished_at":`, s.FinishedAt)
	dst = appendCount(dst, `,"max_attempts":`, uint32(s.MaxAttempts))
	dst = appendText(dst, `,"on_exhausted":`, s.OnExhausted)
	dst = appendCount(dst, `,"max_failed_chunks":`, s.MaxFailedChunks)
	dst = appendCount(dst, `,"timeout_ms":`, s.TimeoutMS)
	dst = appendText(dst, `,"failure":`, s.Failure)
	if s.FailedChunk != nil {
		dst = appendUint(dst, `,"failed_chunk":`, *s.FailedChunk)
	}
	dst = appendText(dst, `,"trace":`, s.Trace)
	dst = appendText(dst, `,"schedule":`, s.Schedule)
	dst = appendMoment(dst, `,"scheduled_at":`, s.ScheduledAt)
	if s.RetryBackoff != nil {
		dst = appendBackoff(append(dst, `,"retry_backoff":`...), s.RetryBackoff)
	}
	if s.Unique != nil {
		dst = appendUnique(append(dst, `,"unique":{`...), s.Unique.Key, s.Unique.While, s.Unique.OnConflict)
	}
	if s.After != nil {
		dst = appendAfter(append(dst, `,"after":`...), s.After)
	}
	if len(s.WaitsFor) > 0 {
		dst = appendIDs(append(dst, `,"waits_for":`...), s.WaitsFor)
	}
	if s.Existing {
		dst = append(dst, `,"existing":true`...)
	}
	return append(dst, '}')
}

func appendUint(dst []byte, name string, n uint32) []byte {
	dst = append(dst, name...)
	return strconv.AppendUint(dst, uint64(n), 10)
}

// appendCount appends a number that is left out when it is 0.
func appendCount(dst []byte, name string, n uint32) []byte {
	if n == 0 {
		return dst
	}
	return appendUint(dst, name, n)
}

func appendText(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, name...)
	return AppendString(dst, value)
}

func appendMoment(dst []byte, name string, ms int64) []byte {
	if ms == 0 {
		return dst
	}
	dst = append(dst, name...)
	return AppendTime(dst, ms)
}

// Decode reads a submission object. Strings that are the same as before are kept, so that reading many answers into one
// value allocates little. Meta points into data.
func (s *Submission) Decode(data []byte) error {
	scan := lend(data)
	defer scan.giveBack()
	scan.lenient = true
	*s = Submission{Queue: s.Queue, State: s.State}
	seen := submissionFields.read(&scan.scanner, s)
	scan.clearMissing(seen, "queue", &s.Queue)
	scan.clearMissing(seen, "state", &s.State)
	return scan.finish()
}

// clearMissing empties a kept string that the document does not have.
func (s *scanner) clearMissing(seen fields, name string, kept *string) {
	if seen.present&(1<<submissionFields.find([]byte(name), 0)) == 0 {
		*kept = ""
	}
}

var submissionFields = object[Submission]{
	{name: "id", read: func(s *scanner, sub *Submission) { sub.ID = s.id() }},
	{name: "queue", read: func(s *scanner, sub *Submission) { s.keep(&sub.Queue) }},
	{name: "state", read: func(s *scanner, sub *Submission) { s.keep(&sub.State) }},
	{name: "chunks", read: func(s *scanner, sub *Submission) { sub.Chunks = s.count() }},
	{name: "ready", read: func(s *scanner, sub *Submission) { sub.Ready = s.count() }},
	{name: "paused", read: func(s *scanner, sub *Submission) { sub.Paused = s.count() }},
	{name: "blocked", read: func(s *scanner, sub *Submission) { sub.Blocked = s.count() }},
	{name: "waiting", read: func(s *scanner, sub *Submission) { sub.Waiting = s.count() }},
	{name: "reserved", read: func(s *scanner, sub *Submission) { sub.Reserved = s.count() }},
	{name: "done", read: func(s *scanner, sub *Submission) { sub.Done = s.count() }},
	{name: "dead", read: func(s *scanner, sub *Submission) { sub.Dead = s.count() }},
	{name: "forwarded", read: func(s *scanner, sub *Submission) { sub.Forwarded = s.count() }},
	{name: "skipped", read: func(s *scanner, sub *Submission) { sub.Skipped = s.count() }},
	{name: "created_at", read: func(s *scanner, sub *Submission) { sub.CreatedAt = s.time() }},
	{name: "meta", read: func(s *scanner, sub *Submission) { sub.Meta = s.raw() }},
	{name: "priority", read: func(s *scanner, sub *Submission) { sub.Priority = s.int(int64Detail) }},
	{name: "group", read: func(s *scanner, sub *Submission) { s.keep(&sub.Group) }},
	{name: "shard", read: func(s *scanner, sub *Submission) { sub.Shard = s.count() }},
	{name: "operations_per_chunk", read: func(s *scanner, sub *Submission) { sub.OperationsPerChunk = s.count() }},
	{name: "prefix", read: func(s *scanner, sub *Submission) { s.keep(&sub.Prefix) }},
	{name: "template", read: func(s *scanner, sub *Submission) { s.keep(&sub.Template) }},
	{name: "has_attachment", read: func(s *scanner, sub *Submission) { sub.HasAttachment = s.bool() }},
	{name: "run_at", read: func(s *scanner, sub *Submission) { sub.RunAt = s.time() }},
	{name: "dead_deadline", read: func(s *scanner, sub *Submission) { sub.DeadDeadline = s.time() }},
	{name: "finished_at", read: func(s *scanner, sub *Submission) { sub.FinishedAt = s.time() }},
	{name: "max_attempts", read: func(s *scanner, sub *Submission) { sub.MaxAttempts = uint16(s.uint(math.MaxUint16, uint16Detail)) }},
	{name: "on_exhausted", read: func(s *scanner, sub *Submission) { s.keep(&sub.OnExhausted) }},
	{name: "max_failed_chunks", read: func(s *scanner, sub *Submission) { sub.MaxFailedChunks = s.count() }},
	{name: "timeout_ms", read: func(s *scanner, sub *Submission) { sub.TimeoutMS = s.count() }},
	{name: "failure", read: func(s *scanner, sub *Submission) { s.keep(&sub.Failure) }},
	{name: "failed_chunk", read: func(s *scanner, sub *Submission) { sub.FailedChunk = new(s.count()) }},
	{name: "trace", read: func(s *scanner, sub *Submission) { s.keep(&sub.Trace) }},
	{name: "schedule", read: func(s *scanner, sub *Submission) { s.keep(&sub.Schedule) }},
	{name: "scheduled_at", read: func(s *scanner, sub *Submission) { sub.ScheduledAt = s.time() }},
	{name: "retry_backoff", read: func(s *scanner, sub *Submission) {
		sub.RetryBackoff = new(api.Backoff)
		backoffFields.read(s, sub.RetryBackoff)
	}},
	{name: "unique", read: func(s *scanner, sub *Submission) {
		var u Unique
		insertUnique.read(s, &u)
		sub.Unique = &api.Unique{Key: string(u.Key), While: string(u.While), OnConflict: string(u.OnConflict)}
	}},
	{name: "after", read: func(s *scanner, sub *Submission) {
		sub.After = new(api.After)
		afterFields.read(s, sub.After)
	}},
	{name: "waits_for", read: func(s *scanner, sub *Submission) { sub.WaitsFor = s.ids(nil) }},
	{name: "existing", read: func(s *scanner, sub *Submission) { sub.Existing = s.bool() }},
}
