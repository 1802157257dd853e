package wire

import (
	"math"

	"github.com/quern-queue/quern/sdk/api"
)

// Decode reads the body of a reserve.
func (r *ReserveRequest) Decode(data []byte) error {
	var s scanner
	s.scratch = r.scratch
	s.begin(data)
	s.reserve(r)
	r.scratch = s.scratch
	return s.finish()
}

// reserve reads a ReserveRequest into r, whose scratch it leaves alone: within an exchange the memory is the exchange's.
func (s *scanner) reserve(r *ReserveRequest) {
	*r = ReserveRequest{Context: r.Context[:0], scratch: r.scratch}
	const maxBit = 0
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "max":
			if s.fresh(&seen, maxBit) {
				r.Max = s.maxInt()
			}
		case "strategy":
			if s.fresh(&seen, 1) {
				r.Strategy = s.raw()
			}
		case "consumer":
			if s.fresh(&seen, 2) {
				r.Consumer = s.str()
			}
		case "wait_ms":
			if s.fresh(&seen, 3) {
				r.WaitMS = s.int(int64Detail)
			}
		case "timeout_ms":
			if s.fresh(&seen, 4) {
				r.TimeoutMS = s.int(int64Detail)
			}
		case "context":
			if s.fresh(&seen, 5) {
				r.Context = s.meta(r.Context)
			}
		default:
			s.unknown()
		}
	}
	s.require(seen, maxBit, "max")
}

// maxInt reads a number into an int, which has 32 bits on small machines.
func (s *scanner) maxInt() int {
	n := s.int(int64Detail)
	if n > math.MaxInt || n < math.MinInt {
		s.fail(int64Detail)
		return 0
	}
	return int(n)
}

// meta reads an object of strings and whole numbers, appending to dst.
func (s *scanner) meta(dst []MetaEntry) []MetaEntry {
	seen := keys{from: len(dst)}
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			return dst
		}
		if seen.has(dst, name) {
			s.fail(api.DuplicateDetail)
			return dst
		}
		entry := MetaEntry{Key: name}
		if s.peek() == '"' {
			entry.Text = s.quoted()
		} else {
			entry.Int = s.int(api.MetaDetail)
			entry.IsInt = true
		}
		dst = append(dst, entry)
	}
}

// keys finds a key that is given twice: by looking at all of them while they are few, which they are in a request that the
// engine will accept, and in a map when a client sends very many.
type keys struct {
	from int
	many map[string]struct{}
}

func (k *keys) has(entries []MetaEntry, name []byte) bool {
	const few = 40
	entries = entries[k.from:]
	if len(entries) < few {
		for i := range entries {
			if string(entries[i].Key) == string(name) {
				return true
			}
		}
		return false
	}
	if k.many == nil {
		k.many = make(map[string]struct{}, 2*few)
		for i := range entries {
			k.many[string(entries[i].Key)] = struct{}{}
		}
	}
	if _, twice := k.many[string(name)]; twice {
		return true
	}
	k.many[string(name)] = struct{}{}
	return false
}
