package wire

import (
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

const arrayDetail = "must be an array"

// tooMany says that a list has more entries than it may have.
func tooMany(most int) string { return "has more than " + strconv.Itoa(most) + " entries" }

// Decode reads the body of a complete.
func (r *CompleteRequest) Decode(data []byte) error {
	r.Items = r.Items[:0]
	return completeRequest.decode(&r.scan, data, r)
}

// Decode reads the body of a fail.
func (r *FailRequest) Decode(data []byte) error {
	r.Items = r.Items[:0]
	return failRequest.decode(&r.scan, data, r)
}

// Decode reads the body of an extend.
func (r *ExtendRequest) Decode(data []byte) error {
	r.Items, r.Consumer = r.Items[:0], nil
	return extendRequest.decode(&r.scan, data, r)
}

// Decode reads the body of a release.
func (r *ReleaseRequest) Decode(data []byte) error {
	r.Items = r.Items[:0]
	return releaseRequest.decode(&r.scan, data, r)
}

// Decode reads the body of an exchange.
func (r *ExchangeRequest) Decode(data []byte) error {
	r.Complete, r.Fail, r.Extend = r.Complete[:0], r.Fail[:0], r.Extend[:0]
	r.HasReserve, r.Consumer = false, nil
	return exchangeRequest.decode(&r.scan, data, r)
}

var (
	completeRequest = object[CompleteRequest]{
		{"items", func(s *scanner, r *CompleteRequest) { array(s, &r.Items, completeItem) }, true},
	}
	failRequest = object[FailRequest]{
		{"items", func(s *scanner, r *FailRequest) { array(s, &r.Items, failItem) }, true},
	}
	extendRequest = object[ExtendRequest]{
		{"items", func(s *scanner, r *ExtendRequest) { array(s, &r.Items, extendItem) }, true},
		{name: "consumer", read: func(s *scanner, r *ExtendRequest) { r.Consumer = s.str() }},
	}
	releaseRequest = object[ReleaseRequest]{
		{"items", func(s *scanner, r *ReleaseRequest) { array(s, &r.Items, releaseItem) }, true},
	}
	exchangeRequest = object[ExchangeRequest]{
		{name: "complete", read: func(s *scanner, r *ExchangeRequest) { array(s, &r.Complete, completeItem) }},
		{name: "fail", read: func(s *scanner, r *ExchangeRequest) { array(s, &r.Fail, failItem) }},
		{name: "extend", read: func(s *scanner, r *ExchangeRequest) { array(s, &r.Extend, extendItem) }},
		{name: "reserve", read: func(s *scanner, r *ExchangeRequest) {
			r.HasReserve = true
			s.reserve(&r.Reserve)
		}},
		{name: "consumer", read: func(s *scanner, r *ExchangeRequest) { r.Consumer = s.str() }},
	}

	completeItem = object[CompleteItem]{
		{"token", func(s *scanner, item *CompleteItem) { item.Token = s.str() }, true},
		{name: "output", read: func(s *scanner, item *CompleteItem) { item.Output, _ = s.bytes(false) }},
		{name: "insert", read: func(s *scanner, item *CompleteItem) { item.Insert = s.raws(nil, api.MaxFollowing) }},
	}
	failItem = object[FailItem]{
		{"token", func(s *scanner, item *FailItem) { item.Token = s.str() }, true},
		{name: "error", read: func(s *scanner, item *FailItem) { item.Error = s.str() }},
		{name: "fatal", read: func(s *scanner, item *FailItem) { item.Fatal = s.bool() }},
		{name: "retry_after_ms", read: func(s *scanner, item *FailItem) {
			item.HasRetryAfter, item.RetryAfterMS = true, s.int(int64Detail)
		}},
		{name: "retry_at", read: func(s *scanner, item *FailItem) { item.RetryAt = s.time() }},
	}
	extendItem = object[ExtendItem]{
		{"token", func(s *scanner, item *ExtendItem) { item.Token = s.str() }, true},
		{name: "timeout_ms", read: func(s *scanner, item *ExtendItem) { item.TimeoutMS = s.int(int64Detail) }},
		{name: "progress", read: func(s *scanner, item *ExtendItem) { item.HasProgress, item.Progress = true, s.float() }},
		{name: "note", read: func(s *scanner, item *ExtendItem) { item.Note = s.str() }},
	}
	releaseItem = object[ReleaseItem]{
		{"token", func(s *scanner, item *ReleaseItem) { item.Token = s.str() }, true},
		{name: "delay_ms", read: func(s *scanner, item *ReleaseItem) { item.DelayMS = s.int(int64Detail) }},
	}
)
