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
	dst = appendText(dst, `,"failure":`, s.Failure)
	if s.FailedChunk != nil {
		dst = appendUint(dst, `,"failed_chunk":`, *s.FailedChunk)
	}
	dst = appendText(dst, `,"trace":`, s.Trace)
	dst = appendText(dst, `,"schedule":`, s.Schedule)
	dst = appendMoment(dst, `,"scheduled_at":`, s.ScheduledAt)
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
	var scan scanner
	scan.begin(data)
	scan.lenient = true
	*s = Submission{Queue: s.Queue, State: s.State}
	var seen fields
	scan.open('{', api.ObjectDetail)
	for {
		name, ok := scan.field()
		if !ok {
			break
		}
		if !scan.submissionCount(s, name, &seen) && !scan.submissionText(s, name, &seen) && !scan.submissionRest(s, name, &seen) {
			scan.unknown()
		}
	}
	scan.clearMissing(seen, 1, &s.Queue)
	scan.clearMissing(seen, 2, &s.State)
	return scan.finish()
}

// clearMissing empties a kept string that the document does not have.
func (s *scanner) clearMissing(seen fields, bit uint, kept *string) {
	if seen.present&(1<<bit) == 0 {
		*kept = ""
	}
}

func (s *scanner) submissionCount(sub *Submission, name []byte, seen *fields) bool {
	var dst *uint32
	var bit uint
	switch string(name) {
	case "chunks":
		dst, bit = &sub.Chunks, 3
	case "ready":
		dst, bit = &sub.Ready, 4
	case "waiting":
		dst, bit = &sub.Waiting, 5
	case "reserved":
		dst, bit = &sub.Reserved, 6
	case "done":
		dst, bit = &sub.Done, 7
	case "dead":
		dst, bit = &sub.Dead, 8
	case "skipped":
		dst, bit = &sub.Skipped, 9
	case "operations_per_chunk":
		dst, bit = &sub.OperationsPerChunk, 10
	case "max_failed_chunks":
		dst, bit = &sub.MaxFailedChunks, 25
	case "paused":
		dst, bit = &sub.Paused, 28
	case "blocked":
		dst, bit = &sub.Blocked, 29
	case "forwarded":
		dst, bit = &sub.Forwarded, 30
	default:
		return false
	}
	if s.fresh(seen, bit) {
		*dst = uint32(s.uint(math.MaxUint32, uint32Detail))
	}
	return true
}

func (s *scanner) submissionText(sub *Submission, name []byte, seen *fields) bool {
	var dst *string
	var bit uint
	switch string(name) {
	case "queue":
		dst, bit = &sub.Queue, 1
	case "state":
		dst, bit = &sub.State, 2
	case "group":
		dst, bit = &sub.Group, 11
	case "prefix":
		dst, bit = &sub.Prefix, 12
	case "template":
		dst, bit = &sub.Template, 13
	case "on_exhausted":
		dst, bit = &sub.OnExhausted, 14
	case "failure":
		dst, bit = &sub.Failure, 15
	case "trace":
		dst, bit = &sub.Trace, 16
	case "schedule":
		dst, bit = &sub.Schedule, 26
	default:
		return false
	}
	if s.fresh(seen, bit) {
		s.keep(dst)
	}
	return true
}

func (s *scanner) submissionRest(sub *Submission, name []byte, seen *fields) bool {
	switch string(name) {
	case "id":
		if s.fresh(seen, 0) {
			sub.ID = s.id()
		}
	case "created_at":
		if s.fresh(seen, 17) {
			sub.CreatedAt = s.time()
		}
	case "run_at":
		if s.fresh(seen, 18) {
			sub.RunAt = s.time()
		}
	case "dead_deadline":
		if s.fresh(seen, 19) {
			sub.DeadDeadline = s.time()
		}
	case "finished_at":
		if s.fresh(seen, 20) {
			sub.FinishedAt = s.time()
		}
	case "scheduled_at":
		if s.fresh(seen, 27) {
			sub.ScheduledAt = s.time()
		}
	case "meta":
		if s.fresh(seen, 21) {
			sub.Meta = s.raw()
		}
	case "priority":
		if s.fresh(seen, 22) {
			sub.Priority = s.int(int64Detail)
		}
	case "has_attachment":
		if s.fresh(seen, 23) {
			sub.HasAttachment = s.bool()
		}
	case "max_attempts":
		if s.fresh(seen, 24) {
			sub.MaxAttempts = uint16(s.uint(math.MaxUint16, uint16Detail))
		}
	case "failed_chunk":
		if s.fresh(seen, 31) {
			index := uint32(s.uint(math.MaxUint32, uint32Detail))
			sub.FailedChunk = &index
		}
	default:
		return false
	}
	return true
}
