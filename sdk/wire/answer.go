package wire

import (
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
		if v.Missing {
			dst = append(dst, `,"missing":true`...)
		}
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
	if r.ReadyAt != InsertedAt(r.Submission) {
		dst = append(dst, `,"ready_at":`...)
		dst = AppendTime(dst, r.ReadyAt)
	}
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
		before := `,"inserted":["`
		for _, id := range result.Inserted {
			dst = strconv.AppendUint(append(dst, before...), id, 10)
			before = `","`
		}
		if len(result.Inserted) > 0 {
			dst = append(dst, `"]`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// Decode reads the answer of a reserve.
func (r *ReserveResponse) Decode(data []byte) error {
	r.reset()
	return reserveResponse.lenient(&r.scan, data, r)
}

func (r *ReserveResponse) reset() {
	r.Reservations = r.Reservations[:0]
	r.Reason, r.HasRetryAfter, r.RetryAfterMS = "", false, 0
	r.Limited, r.Warnings = r.Limited[:0], r.Warnings[:0]
}

// Decode reads the answer of a complete, fail, extend or release.
func (r *ResultsResponse) Decode(data []byte) error {
	r.Results = r.Results[:0]
	return resultsResponse.lenient(&r.scan, data, r)
}

// Decode reads the answer of an exchange.
func (r *ExchangeResponse) Decode(data []byte) error {
	r.reset()
	r.Complete, r.Fail, r.Extend = r.Complete[:0], r.Fail[:0], r.Extend[:0]
	return exchangeResponse.lenient(&r.scan, data, r)
}

var (
	reserveResponse = object[ReserveResponse]{
		{name: "reservations", read: func(s *scanner, r *ReserveResponse) { array(s, &r.Reservations, reservation) }},
		{name: "reason", read: func(s *scanner, r *ReserveResponse) { s.keepKnown(&r.Reason, api.ReasonNothing) }},
		{name: "retry_after_ms", read: func(s *scanner, r *ReserveResponse) { r.HasRetryAfter, r.RetryAfterMS = true, s.int(int64Detail) }},
		{name: "limited", read: func(s *scanner, r *ReserveResponse) { array(s, &r.Limited, saturated) }},
		{name: "warnings", read: func(s *scanner, r *ReserveResponse) { array(s, &r.Warnings, warning) }},
	}
	resultsResponse = object[ResultsResponse]{
		{name: "results", read: func(s *scanner, r *ResultsResponse) { array(s, &r.Results, result) }},
	}
	exchangeResponse = append(object[ExchangeResponse]{
		{name: "complete", read: func(s *scanner, r *ExchangeResponse) { array(s, &r.Complete, result) }},
		{name: "fail", read: func(s *scanner, r *ExchangeResponse) { array(s, &r.Fail, result) }},
		{name: "extend", read: func(s *scanner, r *ExchangeResponse) { array(s, &r.Extend, result) }},
	}, within(reserveResponse, func(r *ExchangeResponse) *ReserveResponse { return &r.ReserveResponse })...)

	reservation = object[Reservation]{
		{name: "token", read: func(s *scanner, r *Reservation) { r.Token = s.str() }},
		{name: "submission", read: func(s *scanner, r *Reservation) {
			if r.Submission = s.id(); r.ReadyAt == 0 {
				r.ReadyAt = InsertedAt(r.Submission) // unless ready_at says otherwise
			}
		}},
		{name: "index", read: func(s *scanner, r *Reservation) { r.Index = s.count() }},
		{name: "attempt", read: func(s *scanner, r *Reservation) { r.Attempt = s.count() }},
		{name: "deadline", read: func(s *scanner, r *Reservation) { r.Deadline = s.time() }},
		{name: "ready_at", read: func(s *scanner, r *Reservation) { r.ReadyAt = s.time() }},
		{name: "content", read: func(s *scanner, r *Reservation) { r.Content, r.IsKey = s.bytes(true) }},
		{name: "meta", read: func(s *scanner, r *Reservation) { r.Meta = s.raw() }},
		{name: "priority", read: func(s *scanner, r *Reservation) { r.Priority = s.int(int64Detail) }},
		{name: "attachment", read: func(s *scanner, r *Reservation) { r.Attachment, _ = s.bytes(false) }},
		{name: "trace", read: func(s *scanner, r *Reservation) { s.keep(&r.Trace) }},
	}
	saturated = object[Saturated]{
		{name: "key", read: func(s *scanner, v *Saturated) { s.keep(&v.Key) }},
		{name: "value", read: func(s *scanner, v *Saturated) { v.Value = s.metaValue() }},
		{name: "in_flight", read: func(s *scanner, v *Saturated) { v.InFlight = s.count() }},
		{name: "limit", read: func(s *scanner, v *Saturated) { v.Limit = s.count() }},
		{name: "missing", read: func(s *scanner, v *Saturated) { v.Missing = s.bool() }},
	}
	warning = object[Warning]{
		{name: "kind", read: func(s *scanner, w *Warning) { s.keep(&w.Kind) }},
		{name: "pointer", read: func(s *scanner, w *Warning) { s.keep(&w.Pointer) }},
		{name: "detail", read: func(s *scanner, w *Warning) { s.keep(&w.Detail) }},
	}
	result = object[Result]{
		{name: "status", read: func(s *scanner, r *Result) { s.keepKnown(&r.Status, api.StatusOK) }},
		{name: "code", read: func(s *scanner, r *Result) { s.keep(&r.Code) }},
		{name: "detail", read: func(s *scanner, r *Result) { s.keep(&r.Detail) }},
		{name: "deadline", read: func(s *scanner, r *Result) { r.Deadline = s.time() }},
		{name: "inserted", read: func(s *scanner, r *Result) {
			s.open('[', arrayDetail)
			for s.element() {
				r.Inserted = append(r.Inserted, s.id())
			}
		}},
	}
)

// metaValue reads a string or a whole number.
func (s *scanner) metaValue() api.MetaValue {
	if s.peek() == '"' {
		return api.Text(string(s.quoted()))
	}
	return api.Int(s.int(api.MetaDetail))
}

// keepKnown is keep with a guess: the value that is usually there costs no allocation.
func (s *scanner) keepKnown(dst *string, guess string) {
	*dst = guess
	s.keep(dst)
}
