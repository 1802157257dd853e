package queue

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// The meaning of a submission includes exactly the fields that say what is asked for. All fields must be listed here, so that no new one is
// forgotten.
func TestMeaningOfEachField(t *testing.T) {
	t.Parallel()
	change := map[string]func(n *NewSubmission){
		"Group":              func(n *NewSubmission) { n.Group = "g" },
		"Meta":               func(n *NewSubmission) { n.Meta = Meta{{"a", IntValue(1)}} },
		"Priority":           func(n *NewSubmission) { n.Priority = -1 },
		"Chunks":             func(n *NewSubmission) { n.Chunks.Count++ },
		"Attachment":         func(n *NewSubmission) { n.Attachment = []byte{0} },
		"OperationsPerChunk": func(n *NewSubmission) { n.OperationsPerChunk = 2 },
		"RunAt":              func(n *NewSubmission) { n.RunAt = 1 },
		"DeadDeadline":       func(n *NewSubmission) { n.DeadDeadline = 1 },
		"MaxAttempts":        func(n *NewSubmission) { n.MaxAttempts = 1 },
		"OnExhausted":        func(n *NewSubmission) { n.OnExhausted = Skip },
		"MaxFailedChunks":    func(n *NewSubmission) { n.MaxFailedChunks = 1 },
		"RetryBackoff":       func(n *NewSubmission) { n.RetryBackoff = &Backoff{} },
		"AttemptTimeout":     func(n *NewSubmission) { n.AttemptTimeout = 1 },
		"Unique":             func(n *NewSubmission) { n.Unique = &Unique{Key: "k"} },
		"After":              func(n *NewSubmission) { n.After = &After{IDs: []SubmissionID{1}} },
		// Fields that only say how the request came, and fields that no request has.
		"Trace":          func(n *NewSubmission) { n.Trace = "00-1" },
		"IdempotencyKey": func(n *NewSubmission) { n.IdempotencyKey = "k" },
		"Fingerprint":    func(n *NewSubmission) { n.Fingerprint[0] = 1 },
		"Origin":         func(n *NewSubmission) { n.Origin = &Origin{} },
		"Schedule":       func(n *NewSubmission) { n.Schedule = "s" },
		"Scheduled":      func(n *NewSubmission) { n.Scheduled = 1 },
		"Acts":           func(n *NewSubmission) { n.Acts = []Act{{}} },
	}
	without := map[string]bool{"Trace": true, "IdempotencyKey": true, "Fingerprint": true, "Origin": true, "Schedule": true, "Scheduled": true, "Acts": true}
	plain := NewSubmission{Chunks: Chunks{Count: 1, Prefix: "p"}}
	of := reflect.TypeFor[NewSubmission]()
	for i := range of.NumField() {
		name := of.Field(i).Name
		if change[name] == nil {
			t.Errorf("the field %s is new: Meaning has to tell of it, or this test why not", name)
			continue
		}
		n := plain
		change[name](&n)
		if same := n.Meaning() == plain.Meaning(); same != without[name] {
			t.Errorf("with another %s it means the same: %v, want %v", name, same, without[name])
		}
	}
}

// Bytes that belong to one field are never taken for those of another.
func TestMeaningsDiffer(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 2000)
	inline := func(content ...string) NewSubmission {
		n := NewSubmission{Chunks: Chunks{Count: uint32(len(content))}}
		for _, c := range content {
			n.Chunks.Inline = append(n.Chunks.Inline, []byte(c))
		}
		return n
	}
	met := func(key string, value MetaValue) NewSubmission {
		return NewSubmission{Meta: Meta{{key, value}}, Chunks: Chunks{Count: 1, Prefix: "p"}}
	}
	backed := func(b Backoff) NewSubmission {
		return NewSubmission{RetryBackoff: &b, Chunks: Chunks{Count: 1, Prefix: "p"}}
	}
	attached := inline("a")
	attached.Attachment = []byte("b")
	all := []NewSubmission{
		{Chunks: Chunks{Count: 1, Prefix: "p"}}, {Chunks: Chunks{Count: 1, Template: "p"}}, inline("p"),
		inline("ab"), inline("a", "b"), inline("", "ab"), inline("ab", ""), attached, inline("a", string(long)), inline("a" + string(long)),
		inline(string(long), "a"), inline(string(long) + "a"),
		met("k", IntValue(1)), met("k", StringValue("1")), met("k1", StringValue("")), met("k", IntValue(9007199254740993)), met("k", IntValue(9007199254740992)),
		backed(Backoff{}), backed(Backoff{Kind: Fixed}), backed(Backoff{Jitter: Jitter(Fixed)}), backed(Backoff{Base: 1}), backed(Backoff{Cap: 1}),
		backed(Backoff{Factor: 1}), backed(Backoff{Delays: NewDelays([]uint32{0})}), backed(Backoff{Delays: NewDelays([]uint32{0, 0})}),
		met("k", IntValue(-1)), {Meta: Meta{{"a", StringValue("b")}, {"c", StringValue("d")}}, Chunks: Chunks{Count: 1, Prefix: "p"}},
	}
	seen := map[[16]byte]int{}
	for i := range all {
		m := all[i].Meaning()
		if before, is := seen[m]; is {
			t.Errorf("%d and %d mean the same: %+v, %+v", before, i, all[before], all[i])
		}
		seen[m] = i
		if all[i].Meaning() != m {
			t.Errorf("%d means two things", i)
		}
	}
}

// The fingerprints of this version are those that journals have: a change of the encoding raises meaningVersion.
func TestMeaningIsKept(t *testing.T) {
	t.Parallel()
	n := NewSubmission{Group: "g", Meta: Meta{{"a", IntValue(-9007199254740993)}, {"b", StringValue("x")}}, Priority: 5, Attachment: []byte("att"),
		Chunks: Chunks{Count: 2, Inline: [][]byte{[]byte("one"), []byte("two")}}, RunAt: 1_700_000_000_000, OnExhausted: DeadLetter}
	const want = "0914637213f53020fabc2e511e26c63f"
	if got := fmt.Sprintf("%x", n.Meaning()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// BenchmarkMeaning compares with a hash of the bytes that the content comes in.
func BenchmarkMeaning(b *testing.B) {
	for _, size := range []int{10, 1000, 100_000} {
		for _, chunks := range []int{1, 100} {
			n := NewSubmission{Meta: Meta{{"company", IntValue(7)}}, Chunks: Chunks{Count: uint32(chunks)}}
			rnd := rand.NewChaCha8([32]byte{})
			for range chunks {
				c := make([]byte, size)
				_, _ = rnd.Read(c)
				n.Chunks.Inline = append(n.Chunks.Inline, c)
			}
			b.Run(fmt.Sprintf("%d of %d bytes", chunks, size), func(b *testing.B) {
				b.SetBytes(int64(size * chunks))
				for b.Loop() {
					n.Meaning()
				}
			})
		}
	}
}
