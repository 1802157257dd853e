package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// A salvage keeps the whole rows of open submissions, and reports the others. Without the directory of a block, those
// of its pages that the history does not have are open; a state that is lost is the one that its submission began with,
// and never one in between.
func TestSalvageOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sql, open, reports string }{
		{"", "2=new 3=later 4=new 6=new 5000=new", ""},
		{"UPDATE open_block SET crc = crc + 1 WHERE n = 0", "2=new 3=later 4=new 6=new 5000=new", "open_block 0, open_block 0"},
		{"DELETE FROM open_block WHERE n = 0", "2=new 3=later 4=new 6=new 5000=new", "open_block 0"},
		{"DELETE FROM open_block WHERE n = 0; DELETE FROM history_page; DELETE FROM history_span",
			"1=new 2=new 3=later 4=new 5=new 6=new 5000=new", "open_block 0"},
		{"DELETE FROM open_page WHERE n = 0", "5000=new", "open_page 0: 4 from 2 to 6, progress 3"},
		{"UPDATE open_page SET crc = crc + 1 WHERE n = 0", "5000=new", "open_page 0, open_page 0: 4 from 2 to 6, progress 3"},
		{"DELETE FROM progress WHERE seq = 3", "2=new 3=began 4=new 6=new 5000=new", "progress 3"},
		{"UPDATE progress SET crc = 0 WHERE seq = 3", "2=new 3=began 4=new 6=new 5000=new", "progress 3, progress 3"},
	} {
		dir := t.TempDir()
		s := open(t, dir+"/store.db", Options{})
		var rows []checkpoint.Row
		for _, seq := range []uint32{1, 2, 3, 4, 5, 6, 5000} {
			rows = append(rows, checkpoint.Row{Seq: seq, ID: queue.SubmissionID(seq * 10),
				Spec: journal.AppendInsert(nil, &journal.Insert{Seq: seq, ID: queue.SubmissionID(seq * 10), Chunks: 1, Key: 1}), State: []byte("new")})
		}
		must(t, s.Checkpoint(ctx, rows, nil))
		must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: 3, ID: 30, State: []byte("later")}}, []checkpoint.Ended{{Seq: 1, ID: 10}, {Seq: 5, ID: 50}}))
		for _, sql := range strings.Split(c.sql, "; ") {
			must(t, s.write.conn.Exec(sql))
		}
		must(t, s.Close())
		var reports []string
		must(t, Salvage(ctx, dir+"/store.db", dir+"/new.db", Salvaging{
			State: func([]byte) ([]byte, error) { return []byte("began"), nil },
			Tell: func(l LeftOut) {
				line := fmt.Sprint(l.Table, " ", l.Row)
				if l.Gone > 0 {
					line += fmt.Sprintf(": %d from %d to %d", l.Gone, l.Seqs[0], l.Seqs[1])
				}
				reports = append(reports, line)
			}}))
		kept := open(t, dir+"/new.db", Options{})
		var got []string
		for _, r := range load(t, kept) {
			got = append(got, fmt.Sprintf("%d=%s", r.Seq, r.State))
		}
		if text := strings.Join(got, " "); text != c.open || strings.Join(reports, ", ") != c.reports {
			t.Errorf("after %q\n%s are open, want\n%s\nand %q is reported, want %q", c.sql, text, c.open, strings.Join(reports, ", "), c.reports)
		}
		list := make([]checkpoint.Ended, len(rows))
		for i, r := range rows {
			list[i] = checkpoint.Ended{Seq: r.Seq, ID: r.ID}
		}
		must(t, kept.Checkpoint(ctx, nil, list)) // a submission that was made again can end like any other
		if n := len(load(t, kept)); n != 0 || rowsIn(t, kept, "open_page")+rowsIn(t, kept, "progress") != 0 {
			t.Errorf("after %q %d submissions do not end", c.sql, n)
		}
		must(t, kept.Close())
	}
}
