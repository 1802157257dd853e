package web

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// onStore changes the store of a shard behind the server's back.
func (s *scene) onStore(shard, sql string) {
	s.Helper()
	s.alone()
	conn, err := sqlitedb.Open(filepath.Join(s.dir, "shards", shard, "store.db"), store.Kind, sqlitedb.Options{})
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec(sql); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// A letter whose content is damaged on the disk is parked, with its error, and those behind it go on; across restarts it stays so, and
// when its content is repaired it is delivered like the others, once.
func TestDamagedLetterIsParked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "dead")
	n := api.NewSubmission{}
	for i := range 4 {
		n.Chunks.Inline = append(n.Chunks.Inline, api.Bytes(bytes.Repeat([]byte{byte('a' + i)}, 20_000))) // in the store at once, each a page of a blob
	}
	sub := s.insert("work", n)
	got := s.reserve("work", request("OldestFirst", 4)).Reservations
	const row = "(SELECT k FROM blob_page ORDER BY k LIMIT 1 OFFSET 1)"
	s.onStore("0002", "UPDATE blob_page SET crc = crc + 1 WHERE k = "+row)
	s.wantStatuses(s.failing("work", "no", true, got...), 4, api.StatusOK)
	s.settle()
	want := func(when string, copies int, parked int) {
		t.Helper()
		s.settle()
		if got := s.copies("dead"); len(got) != copies {
			t.Errorf("%s: %d chunks arrived, want %d: %v", when, len(got), copies, got)
		}
		work := s.lifecycle("work")
		if k := lifecycleKind(work, "forward"); int(k.Parked) != parked || len(work.Parked) != parked || int(k.Pending) != 4-copies {
			t.Fatalf("%s: got %+v, parked %+v; want %d parked and %d on their way", when, k, work.Parked, parked, 4-copies)
		}
		if st := s.statsOf("work"); int(st.Outgoing) != 4-copies {
			t.Errorf("%s: %d on their way, want %d", when, st.Outgoing, 4-copies)
		}
	}
	want("damaged", 3, 1)
	if p := s.lifecycle("work").Parked[0]; p.Kind != "forward" || p.Submission != sub.ID || p.Index == nil || *p.Index != 1 || !strings.Contains(p.Error, "checksum") || p.Since.IsZero() {
		t.Errorf("parked: got %+v, want the delivery of chunk 1 of %s with its error", p, sub.ID)
	}
	s.reopen(time.Hour)
	want("after a restart", 3, 1)
	s.do("POST", queuePath("work", "/lifecycle/retry"), nil, http.StatusOK, nil)
	want("retried without success", 3, 1)
	s.onStore("0002", "UPDATE blob_page SET crc = crc - 1 WHERE k = "+row)
	want("repaired, but not retried", 3, 1)
	s.do("POST", queuePath("work", "/lifecycle/retry"), nil, http.StatusOK, nil)
	want("repaired and retried", 4, 0)
	s.reopen(0)
	want("at the end", 4, 0)
	s.wantCopies("dead", sub)
	for _, r := range s.reserveAll("dead", "OldestFirst") {
		at := s.submission(r.Submission).ForwardedFrom.Index
		if content := r.Content.Bytes; len(content) != 20_000 || content[0] != byte('a'+at) {
			t.Errorf("content of chunk %d: got %d bytes, %.10q", at, len(content), content)
		}
	}
}

// A chunk whose content is damaged on the disk stops nothing: it becomes a dead letter that says so, whatever the queue does with chunks that
// are out of attempts; the others go out, one by one and many at once, also across a restart. When the content is repaired it is redriven.
func TestDamagedContentIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := api.NewSubmission{}
	for i := range 6 {
		n.Chunks.Inline = append(n.Chunks.Inline, api.Bytes(bytes.Repeat([]byte{byte('a' + i)}, 20_000))) // in the store at once, each a page of a blob
	}
	sub := s.insert("", n)
	row := func(i int) string { return fmt.Sprintf("(SELECT k FROM blob_page ORDER BY k LIMIT 1 OFFSET %d)", i) }
	s.onStore("0000", "UPDATE blob_page SET crc = crc + 1 WHERE k IN ("+row(0)+", "+row(3)+")")
	s.onStore("0000", "CREATE TABLE away AS SELECT * FROM blob_page WHERE k = "+row(4)+"; DELETE FROM blob_page WHERE k = (SELECT k FROM away)")
	want := func(when, strategy string, most int, indexes ...uint32) {
		t.Helper()
		got := s.reserve("", request(strategy, most)).Reservations
		if len(got) != len(indexes) {
			t.Fatalf("%s: %d chunks went out, want %v", when, len(got), indexes)
		}
		// The order of a submission's chunks is not promised. A replay does not know in which one they were taken.
		slices.SortFunc(got, func(a, b api.Reservation) int { return cmp.Compare(a.Index, b.Index) })
		for i, r := range got {
			if r.Index != indexes[i] || len(r.Content.Bytes) != 20_000 || r.Content.Bytes[0] != byte('a'+r.Index) {
				t.Errorf("%s: chunk %d went out with %d bytes, want chunk %d with its content", when, r.Index, len(r.Content.Bytes), indexes[i])
			}
		}
	}
	letters := func(when string, indexes ...uint32) {
		t.Helper()
		var page api.Page[api.DeadLetter]
		s.do("GET", queuePath("", "/dead-letters"), nil, http.StatusOK, &page)
		var got []uint32
		for _, l := range page.Items {
			if got = append(got, l.Index); !strings.HasPrefix(l.Error, "damaged: ") || l.Attempts != 0 {
				t.Errorf("%s: the letter of chunk %d is %+v", when, l.Index, l)
			}
		}
		if slices.Sort(got); !slices.Equal(got, indexes) {
			t.Errorf("%s: dead letters are %v, want %v", when, got, indexes)
		}
	}
	want("the first", "OldestFirst", 1, 1)
	letters("after the first", 0)
	want("the others", "OldestFirst", 100, 2, 5)
	letters("after the others", 0, 3, 4)
	if got := s.submission(sub.ID); got.State != api.StateOpen || got.Dead != 3 {
		t.Errorf("the submission is %+v, want it open with three dead chunks", got)
	}
	s.killed(0)
	letters("after a kill", 0, 3, 4)
	want("after a kill", "OldestFirst", 100, 1, 2, 5)
	s.onStore("0000", "UPDATE blob_page SET crc = crc - 1 WHERE k = "+row(0))
	s.onStore("0000", "INSERT INTO blob_page SELECT * FROM away; DROP TABLE away")
	for _, i := range []int{0, 3, 4} {
		s.do("POST", queuePath("", fmt.Sprintf("/dead-letters/%s/%d/redrive", sub.ID, i)), nil, http.StatusOK, nil)
	}
	want("repaired, but for one", "OldestFirst", 100, 0, 4)
	letters("repaired, but for one", 3)
	if metrics := string(s.do("GET", "/metrics", nil, http.StatusOK, nil).body); !strings.Contains(metrics, `quern_chunks_damaged_total{queue="default"} 1`) {
		t.Errorf("the metric does not count the chunk of this life")
	}
}

// A submission whose attachment is damaged is paused by a rule that says so, and the queue goes on.
func TestDamagedAttachmentPauses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := api.NewSubmission{Attachment: api.Bytes(bytes.Repeat([]byte("a"), 65_536))}
	for range 10 {
		n.Chunks.Inline = append(n.Chunks.Inline, api.Bytes("x")) // with these it is a blob, whose first page has them
	}
	sub := s.insert("", n)
	s.insert("", submission(1))
	s.onStore("0000", "UPDATE blob_page SET crc = crc + 1 WHERE k > (SELECT min(k) FROM blob_page)")
	if got := s.reserve("", request("OldestFirst", 10)).Reservations; len(got) != 1 || got[0].Submission == sub.ID {
		t.Fatalf("%d chunks went out, want the one of the other submission", len(got))
	}
	var rules struct{ Items []api.Rule }
	s.do("GET", queuePath("", "/rules"), nil, http.StatusOK, &rules)
	if len(rules.Items) != 1 || !strings.HasPrefix(rules.Items[0].Reason, "damaged: ") {
		t.Fatalf("the rules are %+v, want one that says what is damaged", rules.Items)
	}
	s.onStore("0000", "UPDATE blob_page SET crc = crc - 1 WHERE k > (SELECT min(k) FROM blob_page)")
	s.liftRule("", rules.Items[0])
	if got := s.reserve("", request("OldestFirst", 10)).Reservations; len(got) != 10 || !bytes.Equal(got[0].Attachment, n.Attachment) {
		t.Errorf("repaired: %d chunks went out, want 10 with the attachment", len(got))
	}
}
