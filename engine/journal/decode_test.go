package journal

import (
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenOps are one op of every kind; docs/formats/ops.md explains their bytes.
func goldenOps() []any {
	return []any{
		uint32(3),
		&Insert{
			Seq: 300, ID: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Chunks: 1000, Key: 0x0807_0605_0403_0201, Priority: -2,
			Meta:   queue.Meta{{Key: "customer", Value: queue.IntValue(42)}, {Key: "mode", Value: queue.StringValue("live")}},
			Prefix: "in/", OperationsPerChunk: 5, RunAt: 1_760_000_060_000, MaxAttempts: 4, OnExhausted: queue.DeadLetter, Attachment: true,
			IdempotencyKey: "k1", Fingerprint: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		},
		Completed{Seq: 300, Index: 7, Epoch: 3, Sequence: 1000},
		uint32(3),
		Completed{Seq: 300, Index: 8, Epoch: 3, Sequence: 1001}, Completed{Seq: 300, Index: 150, Epoch: 3, Sequence: 999},
		Completed{Seq: 300, Index: 9, Epoch: 2, Sequence: 77},
		Returned{Seq: 300, Index: 10, Epoch: 3, Sequence: 1002, Reason: Failed, Attempts: 1, NotBefore: 1_760_000_005_000, Error: "oops"},
		Priority{Seq: 300, Priority: 9},
		Returned{Seq: 300, Index: 11, Epoch: 3, Sequence: 1003, Reason: Dead, Attempts: 2, Expiries: 1, Error: "no", Consumer: "w1", Held: 1500},
		Redrive{Seq: 300, Indexes: []uint32{11, 200}},
		Move{Kind: MoveForward, Seq: 300, ID: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Number: 70, Queue: "dead", Indexes: []uint32{12, 13}},
		Move{Kind: MoveDelivered, Number: 70, Indexes: []uint32{0, 1}},
		Move{Kind: MoveDiscard, Seq: 300, ID: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Indexes: []uint32{14}},
		Move{Kind: MoveOffer, Seq: 300, ID: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Indexes: []uint32{15}},
		&Replacement{Seq: 300, Index: 14, ID: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Bytes: []byte("other")},
		&Deletion{queue.MakeSubmissionID(1_760_000_000_123, 1, 0)},
		&Awaited{300, queue.MakeSubmissionID(1_760_000_000_123, 1, 0)},
		Move{Kind: MoveStuck, Number: 72, Indexes: []uint32{0}},
		Move{Kind: MoveRenumber, ID: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Number: 80, Was: 72, Queue: "dead", Indexes: []uint32{12}},
		&Bulk{ID: queue.MakeSubmissionID(1_760_000_000_124, 1, 0), Step: 2, Counts: queue.BulkCounts{Matched: 300, Done: 299, Refused: 1},
			After: queue.ChunkID{Submission: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Index: 14}},
		&Bulk{ID: queue.MakeSubmissionID(1_760_000_000_124, 1, 0), Step: 3, State: queue.BulkCancelled, Counts: queue.BulkCounts{Matched: 300, Done: 299, Refused: 1},
			After: queue.ChunkID{Submission: queue.MakeSubmissionID(1_760_000_000_123, 1, 0), Index: 14}, Ended: 1_760_000_000_323,
			Walk: queue.BulkWalk{Examined: 400, ToExamine: 1000}, EndedBy: "ana"},
		&Insert{
			Seq: 301, ID: queue.MakeSubmissionID(1_760_000_000_125, 1, 0), Chunks: 1, OperationsPerChunk: 1, Prefix: "in/",
			Origin: &queue.Origin{Source: 5, Number: 9, Queue: "q", Chunk: queue.ChunkID{Submission: 8, Index: 3}, First: 3, Attempts: 2, Died: 1_760_000_000_000, Error: "no"},
		},
		Rule{Rule: queue.Rule{
			ID: 2, Action: queue.Block, Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "customer", Value: queue.IntValue(42)}},
			Reason: "unpaid", Actor: "eve", Since: 1_760_000_000_123, Until: 1_760_000_600_123, Insert: true,
		}},
		Rule{Lift: true, Rule: queue.Rule{ID: 1}, Grace: 1_760_000_600_123, At: 1_760_000_000_123, By: "eve"},
		End{Seq: 300, State: queue.Failed, Reason: "oops"},
		&Insert{Seq: 302, ID: queue.MakeSubmissionID(1_760_000_000_126, 1, 0), Chunks: 1000, Key: 0x0102_0304_0506_0708, OperationsPerChunk: 1, Prefix: "in/"},
		Completed{Seq: 302, Index: 1, Epoch: 3, Sequence: 1004, Output: true},
		&Contents{Seq: 303, Pages: []Page{{0, []byte{2, 1, 2, 'a', 'b', 'c'}}, {2, []byte{1, 1, 'd'}}}, Attachment: []byte("att")},
		&Output{Seq: 302, Index: 0, Bytes: []byte("out")},
		&Held{Consumer: "w-1", Attached: true, Seen: 1_760_000_000_100, Chunks: []HeldChunk{
			{Seq: 302, Index: 2, Epoch: 3, Sequence: 1005, Reserved: 1_759_999_999_000, Deadline: 1_760_000_060_000},
			{Seq: 302, Index: 3, Epoch: 2, Sequence: 80, Reserved: 1_759_999_990_000, Deadline: 1_760_000_000_100},
		}},
		&Held{Consumer: "w-2", Attached: true, Incarnation: "3f9a", Seen: 1_760_000_000_100, Chunks: []HeldChunk{
			{Seq: 302, Index: 4, Epoch: 3, Sequence: 1006, Reserved: 1_759_999_999_000, Deadline: 1_760_000_060_000},
		}},
		&Set{Kind: SetQueue, Version: 2, Changed: 1_760_000_000_123, Settings: `{"max_attempts":3}`},
		&Set{Kind: SetValue, Version: 1, Changed: 1_760_000_000_123, Entry: queue.MetaEntry{Key: "customer", Value: queue.IntValue(42)},
			Demand: queue.ValueSettings{Limit: 7, Weight: 2500}},
		&Set{Kind: SetStrategy, Version: 5, Changed: 1_760_000_000_123, Name: "nightly", Text: "OldestFirst"},
		&Set{Kind: SetStrategy, Changed: 1_760_000_000_123, Name: "old"},
		&Set{Kind: SetKey, Version: 1, Changed: 1_760_000_000_123, Entry: queue.MetaEntry{Key: "customer"}, Demand: queue.ValueSettings{Limit: 7, Weight: 2500}},
		&Set{Kind: SetKey, Version: 2, Changed: 1_760_000_000_123, Entry: queue.MetaEntry{Key: "customer"},
			Demand: queue.ValueSettings{Limit: queue.NoLimit, Rate: queue.Rate{Max: 50, Per: time.Minute}}},
		&Set{Kind: SetGroup, Version: 1, Changed: 1_760_000_000_123, Name: "acme", Text: "the largest customer", Quota: queue.Quota{Waiting: 5000, Submissions: 7}},
		&Set{Kind: SetGroup, Version: 1, Changed: 1_760_000_000_123, Name: "acme", Deleted: true},
		&Set{Kind: SetGroup, Version: 3, Changed: 1_760_000_000_123, Name: "acme", Quota: queue.Quota{Waiting: 9}, Moves: GroupMoves{To: 3, Last: 4}},
		&Set{Kind: SetGroup, Version: 1, Changed: 1_760_000_000_123, Name: "acme", Moves: GroupMoves{Unset: true, Gone: true, To: 16, Last: 5}},
		&Snapshot{Kept: true},
		&Snapshot{Kept: true, Position: 123_456, Key: "0007/00000003-000000123456", Size: 70_000, Sum: strings.Repeat("ab", 32)},
	}
}

// golden compares bytes with a file of hex lines of 16 bytes.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var b strings.Builder
	for rest := got; len(rest) > 0; {
		n := min(16, len(rest))
		b.WriteString(hex.EncodeToString(rest[:n]) + "\n")
		rest = rest[n:]
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s: the encoding changed; data directories hold the old one, so it needs a new Version and a reader for both.\ngot\n%swant\n%s", path, b.String(), want)
	}
}

// The format cannot drift unnoticed: ops are written as the bytes in testdata, and those are read as the same ops.
func TestGolden(t *testing.T) {
	t.Parallel()
	const name = "batch-1.hex"
	golden(t, name, encode(3, 1_760_000_000_123, goldenOps()))
	want := goldenOps()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	at, ops, err := decode(stored)
	if err != nil || at != 1_760_000_000_123 || !sameOps(ops, want) {
		t.Errorf("%s reads as %v, time %d%s\nwant%s", name, err, at, describe(ops), describe(want))
	}
}

// docs/formats/ops.md shows the golden bytes op by op; together they are the golden.
func TestFormatDocument(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "ops.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(document), "<!-- golden -->")
	section, _, closed := strings.Cut(section, "<!-- end of golden -->")
	if !found || !closed {
		t.Fatal("docs/formats/ops.md has no part between <!-- golden --> and <!-- end of golden -->")
	}
	var shown strings.Builder
	for line := range strings.Lines(section) {
		bytes, _, isHex := strings.Cut(line, " |")
		if isHex {
			shown.WriteString(strings.ReplaceAll(bytes, " ", ""))
		}
	}
	if got, want := shown.String(), hex.EncodeToString(encode(3, 1_760_000_000_123, goldenOps())); got != want {
		t.Errorf("docs/formats/ops.md shows\n%s\nthe golden batch is\n%s", got, want)
	}
}

// Every way to cut a batch short is an error, or a shorter batch at the border of two ops; never a different op.
func TestCutBatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epoch, ops := anyEpoch(t), anyOps(t)
		batch := encode(epoch, 1, ops)
		cut := rapid.IntRange(0, len(batch)-1).Draw(t, "cut")
		_, got, _ := decode(batch[:cut])
		if len(got) > len(ops) || !sameOps(got, ops[:len(got)]) {
			t.Fatalf("%d of %d bytes decode to%s\nwant the beginning of%s", cut, len(batch), describe(got), describe(ops))
		}
	})
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	header := encode(3, 5, nil)
	huge, key := binary.AppendUvarint(nil, 1<<62), make([]byte, 8)
	with := func(parts ...any) []byte {
		b := append([]byte(nil), header...)
		for _, part := range parts {
			switch part := part.(type) {
			case int:
				b = append(b, byte(part))
			case []byte:
				b = append(b, part...)
			}
		}
		return b
	}
	for name, c := range map[string]struct {
		batch []byte
		want  string
	}{
		"nothing":                    {nil, "cut short or damaged"},
		"version 0":                  {[]byte{0, 2, 3}, "version 0; this build knows version 1"},
		"a newer version":            {[]byte{Version + 1, 2, 3}, "newer Quern"},
		"no time":                    {[]byte{Version}, "cut short or damaged"},
		"no epoch":                   {[]byte{Version, 2}, "cut short or damaged"},
		"an epoch of 33 bits":        {append([]byte{Version, 2}, binary.AppendUvarint(nil, 1<<32)...), "cut short or damaged"},
		"op 0":                       {with(0), "unknown op 0"},
		"an unknown op":              {with(99), "unknown op 99"},
		"half an epoch":              {with(opEpoch, 0x80), "cut short or damaged"},
		"a varint of 11 bytes":       {with(opEpoch, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}), "cut short or damaged"},
		"a run longer than it is":    {with(opCompleteRun, 1, 3, 1, 2, 1, 2), "cut short or damaged"},
		"an endless run":             {with(opCompleteRun, 1, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1, 2), "cut short or damaged"},
		"a run beyond 32 bits":       {with(opCompleteRun, 1, huge, 1, 2), "cut short or damaged"},
		"reason 5":                   {with(opReturn, 1, 1, 0, 2, 5, 0, 0, 0, 0, 0, 0), "cut short or damaged"},
		"expiries beyond 8 bits":     {with(opReturn, 1, 1, 0, 2, 0, 0, 0x80, 2, 0, 0, 0, 0), "cut short or damaged"},
		"an error without its end":   {with(opReturn, 1, 1, 0, 2, 0, 0, 0, 0, huge), "cut short or damaged"},
		"an attempt without its end": {with(opReturn, 1, 1, 0, 2, 0, 0, 0, 0, 0, 5, 3, 'a'), "cut short or damaged"},
		"a redrive of 257 chunks":    {with(opRedrive, 1, 0x81, 2), "cut short or damaged"},
		"a redrive beyond 32 bits":   {with(opRedrive, 1, 2, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1), "cut short or damaged"},
		"a move of no kind":          {with(opMove, int(endOfMoves), 1, 1, 1), "cut short or damaged"},
		"a move of 257 chunks":       {with(opMove, int(MoveDiscard), 1, 0x81, 2), "cut short or damaged"},
		"a bulk in no state":         {with(opBulk, 1, 1, int(queue.BulkFailed)+1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "cut short or damaged"},
		"a bulk without its end":     {with(opBulk, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "cut short or damaged"},
		"an end in the open state":   {with(opEnd, 1, int(queue.Open), 0), "cut short or damaged"},
		"an end in no state":         {with(opEnd, 1, int(queue.Expired)+1, 0), "cut short or damaged"},
		"no chunks":                  {with(opInsert, 1, 1, 0, key, 0, 0), "cut short or damaged"},
		"an unknown flag":            {with(opInsert, 1, 1, 5, key, 0, binary.AppendUvarint(nil, endOfFlags)), "cut short or damaged"},
		"33 meta keys":               {with(opInsert, 1, 1, 5, key, 0, hasMeta, 33), "cut short or damaged"},
		"a meta value of kind 2":     {with(opInsert, 1, 1, 5, key, 0, hasMeta, 1, 1, 'k', 2, 0), "cut short or damaged"},
		"a huge prefix":              {with(opInsert, 1, 1, 5, key, 0, hasPrefix, huge), "cut short or damaged"},
	} {
		_, ops, err := decode(c.batch)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: decode(%x) = %v with%s\nwant an error with %q", name, c.batch, err, describe(ops), c.want)
		}
	}
}

// A length that the input does not have allocates nothing. Not parallel: it counts the allocations of the process.
func TestDamageAllocatesNothing(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<40)
	header := encode(3, 5, nil)
	for name, op := range map[string][]byte{
		"a run":     append([]byte{opCompleteRun, 1}, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1),
		"an error":  append([]byte{opReturn, 1, 1, 0, 2, 0, 0, 0, 0}, huge...),
		"a reason":  append([]byte{opEnd, 1, 3}, huge...),
		"a prefix":  append([]byte{opInsert, 1, 1, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, hasPrefix}, huge...),
		"meta":      {opInsert, 1, 1, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, hasMeta, queue.MaxMetaKeys},
		"many meta": append([]byte{opInsert, 1, 1, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, hasMeta}, huge...),
	} {
		batch := append(append([]byte(nil), header...), op...)
		var before, after runtime.MemStats
		var sink ignore
		runtime.ReadMemStats(&before)
		err := Decode(batch, func(queue.Time) {}, &sink)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; err == nil || allocated > 16<<10 {
			t.Errorf("%s that claims to be huge: decoding %x allocates %d bytes and returns %v; want at most 16 KiB and an error", name, batch, allocated, err)
		}
	}
}

// heldBytes is the size of the texts of the ops.
func heldBytes(ops []any) (n int) {
	for _, op := range ops {
		switch op := op.(type) {
		case *Insert:
			if op.Origin != nil {
				n += len(op.Origin.Queue) + len(op.Origin.Error)
			}
			n += len(op.Prefix) + len(op.Template) + len(op.Group) + len(op.Trace) + len(op.IdempotencyKey)
			for _, entry := range op.Meta {
				n += len(entry.Key) + len(entry.Value.Text())
			}
		case Returned:
			n += len(op.Error)
		case Move:
			n += len(op.Queue)
		case *Bulk:
			n += len(op.Failure) + len(op.Request) + len(op.EndedBy)
		case End:
			n += len(op.Reason)
		}
	}
	return n
}

// FuzzDecode: no bytes make the decoder panic or give out more than they hold, and ops decoded without an error decode
// again from their own encoding.
func FuzzDecode(f *testing.F) {
	f.Add(encode(3, 1_760_000_000_123, goldenOps()))
	for _, op := range goldenOps() {
		f.Add(encode(2, -1, []any{op}))
	}
	batch, _ := traffic(300, 100)
	f.Add(batch)
	f.Add(contents(100, alike).Packed())
	f.Add([]byte{Version, 0, 1, opCompleteRun, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1})
	f.Add([]byte{Version, 0, 1, opEnd, 1, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, batch []byte) {
		batch, err := Unpack(batch)
		if err != nil {
			return
		}
		at, ops, err := decode(batch)
		if 2*len(ops)+heldBytes(ops) > len(batch) {
			t.Fatalf("%d bytes decode to %d ops with %d bytes of text", len(batch), len(ops), heldBytes(ops))
		}
		if err != nil {
			return
		}
		epoch, err := Epoch(batch)
		if err != nil {
			t.Fatalf("Epoch = %v of a batch that decodes", err)
		}
		encoded := encode(epoch, at, ops)
		gotAt, got, err := decode(encoded)
		if err != nil || gotAt != at || !sameOps(got, ops) {
			t.Fatalf("%x decodes to%s\nencoded again it is %x, which decodes to %v%s", batch, describe(ops), encoded, err, describe(got))
		}
	})
}
