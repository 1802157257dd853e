package web

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/sdk/api"
)

// onStore changes the store of a shard behind the server's back.
func (s *scene) onStore(shard, sql string) {
	s.Helper()
	conn, err := sqlitedb.Open(filepath.Join(s.dir, "shards", shard, "store.db"), sqlitedb.Kind{Name: "store", ApplicationID: 0x51726e53, Version: 1000}, sqlitedb.Options{})
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec(sql); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// A letter whose content is damaged on the disk is parked, with its error, and those behind it go on; across restarts it stays so, and
// when its content is mended it is delivered like the others, once.
func TestDamagedLetterIsParked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "dead")
	n := api.NewSubmission{}
	for i := range 4 {
		n.Chunks.Inline = append(n.Chunks.Inline, api.Bytes(bytes.Repeat([]byte{byte('a' + i)}, 2000))) // each in a row of its own
	}
	sub := s.insert("work", n)
	got := s.reserve("work", request("OldestFirst", 4)).Reservations
	const row = "(SELECT k FROM content ORDER BY k LIMIT 1 OFFSET 1)"
	s.onStore("0002", "UPDATE content SET crc = crc + 1 WHERE k = "+row)
	s.wantStatuses(s.failing("work", "no", true, got...), 4, api.StatusOK)
	s.settle()
	want := func(when string, copies int, parked int) {
		t.Helper()
		s.settle()
		if got := s.copies("dead"); len(got) != copies {
			t.Errorf("%s: %d chunks arrived, want %d: %v", when, len(got), copies, got)
		}
		work := s.lifecycle("work")
		if k := kindOf(work, "forward"); int(k.Parked) != parked || len(work.Parked) != parked || int(k.Pending) != 4-copies {
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
	want("retried in vain", 3, 1)
	s.onStore("0002", "UPDATE content SET crc = crc - 1 WHERE k = "+row)
	want("mended, but not retried", 3, 1)
	s.do("POST", queuePath("work", "/lifecycle/retry"), nil, http.StatusOK, nil)
	want("mended and retried", 4, 0)
	s.reopen(0)
	want("at the end", 4, 0)
	s.wantCopies("dead", sub)
	for _, r := range s.reserveAll("dead", "OldestFirst") {
		at := s.submission(r.Submission).ForwardedFrom.Index
		if content := r.Content.Bytes; len(content) != 2000 || content[0] != byte('a'+at) {
			t.Errorf("content of chunk %d: got %d bytes, %.10q", at, len(content), content)
		}
	}
}
