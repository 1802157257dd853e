package wire

import "github.com/quern-queue/quern/sdk/api"

// maxItems is the most entries of a list of items, maxInline that of inline chunks; the tags in sdk/api say the same.
const (
	maxItems  = 10_000
	maxInline = 100_000

	maxSubmissions = 10_000 // of an insert of many
)

const (
	arrayDetail     = "must be an array"
	maxItemsDetail  = "has more than 10000 entries"
	maxInlineDetail = "has more than 100000 entries"

	maxSubmissionsDetail = "has more than 10000 entries"
)

// Decode reads the body of a complete.
func (r *CompleteRequest) Decode(data []byte) error {
	s := r.scan.begin(data)
	r.Items = r.Items[:0]
	decodeItems(s, &r.Items, (*scanner).completeItem)
	return s.finish()
}

// Decode reads the body of a fail.
func (r *FailRequest) Decode(data []byte) error {
	s := r.scan.begin(data)
	r.Items = r.Items[:0]
	decodeItems(s, &r.Items, (*scanner).failItem)
	return s.finish()
}

// Decode reads the body of an extend.
func (r *ExtendRequest) Decode(data []byte) error {
	s := r.scan.begin(data)
	r.Items, r.Consumer = r.Items[:0], nil
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "items":
			if s.fresh(&seen, 0) {
				array(s, &r.Items, (*scanner).extendItem)
			}
		case "consumer":
			if s.fresh(&seen, 1) {
				r.Consumer = s.str()
			}
		default:
			s.unknown()
		}
	}
	s.require(seen, 0, "items")
	return s.finish()
}

// Decode reads the body of a release.
func (r *ReleaseRequest) Decode(data []byte) error {
	s := r.scan.begin(data)
	r.Items = r.Items[:0]
	decodeItems(s, &r.Items, (*scanner).releaseItem)
	return s.finish()
}

// Decode reads the body of an exchange.
func (r *ExchangeRequest) Decode(data []byte) error {
	s := r.scan.begin(data)
	r.Complete, r.Fail, r.Extend = r.Complete[:0], r.Fail[:0], r.Extend[:0]
	r.HasReserve, r.Consumer = false, nil
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
				array(s, &r.Complete, (*scanner).completeItem)
			}
		case "fail":
			if s.fresh(&seen, 1) {
				array(s, &r.Fail, (*scanner).failItem)
			}
		case "extend":
			if s.fresh(&seen, 2) {
				array(s, &r.Extend, (*scanner).extendItem)
			}
		case "reserve":
			if s.fresh(&seen, 3) {
				r.HasReserve = true
				s.reserve(&r.Reserve)
			}
		case "consumer":
			if s.fresh(&seen, 4) {
				r.Consumer = s.str()
			}
		default:
			s.unknown()
		}
	}
	return s.finish()
}

// decodeItems reads {"items":[...]}.
func decodeItems[T any](s *scanner, items *[]T, item func(*scanner, *T)) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		if string(name) != "items" {
			s.unknown()
		} else if s.fresh(&seen, 0) {
			array(s, items, item)
		}
	}
	s.require(seen, 0, "items")
}

// array reads an array of at most maxItems values.
func array[T any](s *scanner, items *[]T, item func(*scanner, *T)) {
	s.open('[', arrayDetail)
	for s.element() {
		if len(*items) == maxItems {
			s.depth-- // the list is wrong, not its entry
			s.fail(maxItemsDetail)
			return
		}
		var zero T
		*items = append(*items, zero)
		item(s, &(*items)[len(*items)-1])
	}
}

func (s *scanner) completeItem(item *CompleteItem) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "token":
			if s.fresh(&seen, 0) {
				item.Token = s.str()
			}
		case "output":
			if s.fresh(&seen, 1) {
				item.Output, _ = s.bytes(false)
			}
		default:
			s.unknown()
		}
	}
	s.require(seen, 0, "token")
}

func (s *scanner) failItem(item *FailItem) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "token":
			if s.fresh(&seen, 0) {
				item.Token = s.str()
			}
		case "error":
			if s.fresh(&seen, 1) {
				item.Error = s.str()
			}
		case "fatal":
			if s.fresh(&seen, 2) {
				item.Fatal = s.bool()
			}
		case "retry_after_ms":
			if s.fresh(&seen, 3) {
				item.HasRetryAfter = true
				item.RetryAfterMS = s.int(int64Detail)
			}
		case "retry_at":
			if s.fresh(&seen, 4) {
				item.RetryAt = s.time()
			}
		default:
			s.unknown()
		}
	}
	s.require(seen, 0, "token")
}

func (s *scanner) extendItem(item *ExtendItem) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "token":
			if s.fresh(&seen, 0) {
				item.Token = s.str()
			}
		case "timeout_ms":
			if s.fresh(&seen, 1) {
				item.TimeoutMS = s.int(int64Detail)
			}
		default:
			s.unknown()
		}
	}
	s.require(seen, 0, "token")
}

func (s *scanner) releaseItem(item *ReleaseItem) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		if string(name) != "token" {
			s.unknown()
		} else if s.fresh(&seen, 0) {
			item.Token = s.str()
		}
	}
	s.require(seen, 0, "token")
}
