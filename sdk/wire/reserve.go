package wire

import (
	"encoding/json"
	"math"

	"github.com/quern-queue/quern/sdk/api"
)

// Decode reads the body of a reserve.
func (r *ReserveRequest) Decode(data []byte) error {
	s := r.scan.begin(data)
	s.reserve(r)
	return s.finish()
}

// reserve reads a ReserveRequest into r, whose scanner it leaves alone: within an exchange the memory is the exchange's.
func (s *scanner) reserve(r *ReserveRequest) {
	*r = ReserveRequest{Context: r.Context[:0], scan: r.scan}
	reserveRequest.read(s, r)
}

var reserveRequest = object[ReserveRequest]{
	{"max", func(s *scanner, r *ReserveRequest) { r.Max = s.maxInt() }, true},
	{name: "strategy", read: func(s *scanner, r *ReserveRequest) { r.Strategy = s.raw() }},
	{name: "consumer", read: func(s *scanner, r *ReserveRequest) { r.Consumer = s.str() }},
	{name: "wait_ms", read: func(s *scanner, r *ReserveRequest) { r.WaitMS = s.int(int64Detail) }},
	{name: "timeout_ms", read: func(s *scanner, r *ReserveRequest) { r.TimeoutMS = s.int(int64Detail) }},
	{name: "context", read: func(s *scanner, r *ReserveRequest) { r.Context = s.meta(r.Context) }},
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

// DecodeMeta reads a meta object of an answer, as the JSON decoder reads it, at a fraction of its cost. The JSON decoder
// gets the objects that DecodeMeta does not take, and words their errors.
func DecodeMeta(data []byte) (api.Meta, error) {
	s := lend(data)
	defer s.giveBack()
	list := s.scanner.meta(s.meta[:0])
	if s.finish() != nil {
		var meta api.Meta
		err := json.Unmarshal(data, &meta)
		return meta, err
	}
	meta := make(api.Meta, len(list))
	for i := range list {
		if e := &list[i]; e.IsInt {
			meta[string(e.Key)] = api.Int(e.Int)
		} else {
			meta[string(e.Key)] = api.Text(string(e.Text))
		}
	}
	return meta, nil
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
