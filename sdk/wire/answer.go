package wire

import (
	"math"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Append appends the answer of a reserve.
func (r *ReserveResponse) Append(dst []byte) []byte {
	dst = append(dst, '{')
	dst = r.appendFields(dst)
	return append(dst, '}')
}

func (r *ReserveResponse) appendFields(dst []byte) []byte {
	dst = append(dst, `"reservations":[`...)
	for i := range r.Reservations {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Reservations[i].Append(dst)
	}
	dst = append(dst, `],"reason":`...)
	if r.Reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, r.Reason)
	}
	dst = append(dst, `,"retry_after_ms":`...)
	if r.HasRetryAfter {
		dst = strconv.AppendInt(dst, r.RetryAfterMS, 10)
	} else {
		dst = append(dst, "null"...)
	}
	if len(r.Limited) > 0 {
		dst = appendLimited(dst, r.Limited)
	}
	if len(r.Warnings) > 0 {
		dst = appendWarnings(dst, r.Warnings)
	}
	return dst
}

func appendLimited(dst []byte, limited []Saturated) []byte {
	dst = append(dst, `,"limited":[`...)
	for i := range limited {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := &limited[i]
		dst = AppendString(append(dst, `{"key":`...), v.Key)
		dst = append(dst, `,"value":`...)
		if v.Value.IsInt() {
			dst = strconv.AppendInt(dst, v.Value.Int(), 10)
		} else {
			dst = AppendString(dst, v.Value.Text())
		}
		dst = strconv.AppendUint(append(dst, `,"in_flight":`...), uint64(v.InFlight), 10)
		dst = strconv.AppendUint(append(dst, `,"limit":`...), uint64(v.Limit), 10)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendWarnings(dst []byte, warnings []Warning) []byte {
	dst = append(dst, `,"warnings":[`...)
	for i := range warnings {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"kind":`...), warnings[i].Kind)
		dst = AppendString(append(dst, `,"pointer":`...), warnings[i].Pointer)
		dst = AppendString(append(dst, `,"detail":`...), warnings[i].Detail)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// Append appends one reservation.
func (r *Reservation) Append(dst []byte) []byte {
	dst = append(dst, `{"token":"`...)
	dst = appendEscaped(dst, r.Token)
	dst = append(dst, `","submission":`...)
	dst = appendID(dst, r.Submission)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendUint(dst, uint64(r.Index), 10)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendUint(dst, uint64(r.Attempt), 10)
	dst = append(dst, `,"deadline":`...)
	dst = AppendTime(dst, r.Deadline)
	dst = append(dst, `,"content":`...)
	switch {
	case r.IsKey:
		dst = append(dst, `{"key":"`...)
		dst = appendEscaped(dst, r.Content)
		dst = append(dst, `"}`...)
	case r.Content == nil:
		dst = append(dst, `{"text":""}`...)
	default:
		dst = AppendBytes(dst, r.Content)
	}
	dst = append(dst, `,"meta":`...)
	dst = appendObject(dst, r.Meta)
	dst = append(dst, `,"priority":`...)
	dst = strconv.AppendInt(dst, r.Priority, 10)
	if r.Attachment != nil {
		dst = append(dst, `,"attachment":`...)
		dst = AppendBytes(dst, r.Attachment)
	}
	if r.Trace != "" {
		dst = append(dst, `,"trace":`...)
		dst = AppendString(dst, r.Trace)
	}
	return append(dst, '}')
}

func appendObject(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, '{', '}')
	}
	return append(dst, raw...)
}

// Append appends the answer of a complete, fail, extend or release.
func (r *ResultsResponse) Append(dst []byte) []byte {
	dst = append(dst, `{"results":`...)
	dst = appendResults(dst, r.Results)
	return append(dst, '}')
}

// Append appends the answer of an exchange.
func (r *ExchangeResponse) Append(dst []byte) []byte {
	dst = append(dst, `{"complete":`...)
	dst = appendResults(dst, r.Complete)
	dst = append(dst, `,"fail":`...)
	dst = appendResults(dst, r.Fail)
	dst = append(dst, `,"extend":`...)
	dst = appendResults(dst, r.Extend)
	dst = append(dst, ',')
	dst = r.appendFields(dst)
	return append(dst, '}')
}

func appendResults(dst []byte, results []Result) []byte {
	dst = append(dst, '[')
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		result := &results[i]
		dst = append(dst, `{"status":`...)
		dst = AppendString(dst, result.Status)
		if result.Code != "" {
			dst = append(dst, `,"code":`...)
			dst = AppendString(dst, result.Code)
		}
		if result.Detail != "" {
			dst = append(dst, `,"detail":`...)
			dst = AppendString(dst, result.Detail)
		}
		if result.Deadline != 0 {
			dst = append(dst, `,"deadline":`...)
			dst = AppendTime(dst, result.Deadline)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// Decode reads the answer of a reserve.
func (r *ReserveResponse) Decode(data []byte) error {
	s := r.scan.begin(data)
	s.lenient = true
	r.reset()
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		if !s.reserveField(r, name, &seen) {
			s.unknown()
		}
	}
	return s.finish()
}

func (r *ReserveResponse) reset() {
	r.Reservations = r.Reservations[:0]
	r.Reason, r.HasRetryAfter, r.RetryAfterMS = "", false, 0
	r.Limited, r.Warnings = r.Limited[:0], r.Warnings[:0]
}

// reserveField reads one of the fields that a reserve and an exchange answer in common.
func (s *scanner) reserveField(r *ReserveResponse, name []byte, seen *fields) bool {
	switch string(name) {
	case "reservations":
		if s.fresh(seen, 16) {
			array(s, &r.Reservations, (*scanner).reservation)
		}
	case "reason":
		if s.fresh(seen, 17) {
			s.keepKnown(&r.Reason, api.ReasonNothing)
		}
	case "retry_after_ms":
		if s.fresh(seen, 18) {
			r.HasRetryAfter = true
			r.RetryAfterMS = s.int(int64Detail)
		}
	case "limited":
		if s.fresh(seen, 19) {
			array(s, &r.Limited, (*scanner).saturated)
		}
	case "warnings":
		if s.fresh(seen, 20) {
			array(s, &r.Warnings, (*scanner).warning)
		}
	default:
		return false
	}
	return true
}

func (s *scanner) saturated(v *Saturated) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			return
		}
		switch string(name) {
		case "key":
			if s.fresh(&seen, 0) {
				s.keep(&v.Key)
			}
		case "value":
			if s.fresh(&seen, 1) {
				if s.peek() == '"' {
					v.Value = api.Text(string(s.quoted()))
				} else {
					v.Value = api.Int(s.int(api.MetaDetail))
				}
			}
		case "in_flight":
			if s.fresh(&seen, 2) {
				v.InFlight = uint32(s.uint(math.MaxUint32, uint32Detail))
			}
		case "limit":
			if s.fresh(&seen, 3) {
				v.Limit = uint32(s.uint(math.MaxUint32, uint32Detail))
			}
		default:
			s.unknown()
		}
	}
}

func (s *scanner) warning(w *Warning) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			return
		}
		switch string(name) {
		case "kind":
			if s.fresh(&seen, 0) {
				s.keep(&w.Kind)
			}
		case "pointer":
			if s.fresh(&seen, 1) {
				s.keep(&w.Pointer)
			}
		case "detail":
			if s.fresh(&seen, 2) {
				s.keep(&w.Detail)
			}
		default:
			s.unknown()
		}
	}
}

// keepKnown is keep with a guess: the value that is usually there costs no allocation.
func (s *scanner) keepKnown(dst *string, guess string) {
	*dst = guess
	s.keep(dst)
}

func (s *scanner) reservation(r *Reservation) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			return
		}
		switch string(name) {
		case "token":
			if s.fresh(&seen, 0) {
				r.Token = s.str()
			}
		case "submission":
			if s.fresh(&seen, 1) {
				r.Submission = s.id()
			}
		case "index":
			if s.fresh(&seen, 2) {
				r.Index = uint32(s.uint(math.MaxUint32, uint32Detail))
			}
		case "attempt":
			if s.fresh(&seen, 3) {
				r.Attempt = uint32(s.uint(math.MaxUint32, uint32Detail))
			}
		case "deadline":
			if s.fresh(&seen, 4) {
				r.Deadline = s.time()
			}
		case "content":
			if s.fresh(&seen, 5) {
				r.Content, r.IsKey = s.bytes(true)
			}
		case "meta":
			if s.fresh(&seen, 6) {
				r.Meta = s.raw()
			}
		case "priority":
			if s.fresh(&seen, 7) {
				r.Priority = s.int(int64Detail)
			}
		case "attachment":
			if s.fresh(&seen, 8) {
				r.Attachment, _ = s.bytes(false)
			}
		case "trace":
			if s.fresh(&seen, 9) {
				s.keep(&r.Trace)
			}
		default:
			s.unknown()
		}
	}
}

// Decode reads the answer of a complete, fail, extend or release.
func (r *ResultsResponse) Decode(data []byte) error {
	s := r.scan.begin(data)
	s.lenient = true
	r.Results = r.Results[:0]
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		if string(name) != "results" {
			s.unknown()
		} else if s.fresh(&seen, 0) {
			array(s, &r.Results, (*scanner).result)
		}
	}
	return s.finish()
}

// Decode reads the answer of an exchange.
func (r *ExchangeResponse) Decode(data []byte) error {
	s := r.scan.begin(data)
	s.lenient = true
	r.reset()
	r.Complete, r.Fail, r.Extend = r.Complete[:0], r.Fail[:0], r.Extend[:0]
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "complete":
			if s.fresh(&seen, 0) {
				array(s, &r.Complete, (*scanner).result)
			}
		case "fail":
			if s.fresh(&seen, 1) {
				array(s, &r.Fail, (*scanner).result)
			}
		case "extend":
			if s.fresh(&seen, 2) {
				array(s, &r.Extend, (*scanner).result)
			}
		default:
			if !s.reserveField(&r.ReserveResponse, name, &seen) {
				s.unknown()
			}
		}
	}
	return s.finish()
}

func (s *scanner) result(r *Result) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			return
		}
		switch string(name) {
		case "status":
			if s.fresh(&seen, 0) {
				s.keepKnown(&r.Status, api.StatusOK)
			}
		case "code":
			if s.fresh(&seen, 1) {
				s.keep(&r.Code)
			}
		case "detail":
			if s.fresh(&seen, 2) {
				s.keep(&r.Detail)
			}
		case "deadline":
			if s.fresh(&seen, 3) {
				r.Deadline = s.time()
			}
		default:
			s.unknown()
		}
	}
}
