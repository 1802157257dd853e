//quern:sequential

package repair

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/queue"
)

// The damage matrix: every file of a directory, every harm, of a server that was stopped and of one that was killed.

// fileHarms are ways to damage a file.
func fileHarms(rnd *rand.Rand) map[string]func([]byte) []byte {
	list := map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"cut in half":  func(b []byte) []byte { return b[:len(b)/2] },
		"cut by pages": func(b []byte) []byte { return b[:max(len(b)-8192, 0)] },
		"zeroes":       func(b []byte) []byte { clear(b[len(b)*3/4:]); return b },
		"zeroes within": func(b []byte) []byte {
			at := rnd.IntN(len(b))
			clear(b[at:min(at+4096, len(b))])
			return b
		},
	}
	for i := range 3 {
		list[fmt.Sprint("flipped ", i)] = func(b []byte) []byte { b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8); return b }
	}
	return list
}

// fill has both queues work: submissions that end and that do not, with contents, attachments and outputs, small and large.
func fill(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	for _, name := range []string{"default", "other"} {
		if _, _, err := e.PutQueue(t.Context(), name, queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			s := queue.NewSubmission{Attachment: fmt.Appendf(nil, "attached to %d", i),
				Meta: queue.Meta{{Key: "n", Value: queue.IntValue(int64(i))}}}
			for c := range 4 {
				s.Chunks.Inline = append(s.Chunks.Inline, bytes.Repeat(fmt.Appendf(nil, "%d of %d in %s. ", c, i, name), 1+i%3*2000))
			}
			if _, _, err := queueAt(e, name).Insert(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			var items []queue.CompleteItem
			for j, r := range reserve(t, e, name, 2) {
				item := queue.CompleteItem{Token: r.Token}
				if j%2 == 0 || i%2 == 0 {
					item.Output = append([]byte("done: "), r.Content.Bytes...)
				}
				items = append(items, item)
			}
			if _, err := queueAt(e, name).Complete(t.Context(), items, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// shown is all that a server shows of a directory, by the name of the fact: submissions, done chunks, outputs, and the contents and
// attachments of ready chunks.
func shown(t *testing.T, e *engine.Engine) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, token := range e.Tokens().All() {
		if token.Name == "me" {
			all["catalogue token "+token.Name] = string(token.Secret[:])
		}
	}
	all["catalogue token is asked for"] = fmt.Sprint(e.Tokens().Table().Required())
	plugins, err := e.PluginStore().PluginVersions()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plugins {
		all["catalogue plugin_version "+p.Name] = string(p.SHA256[:])
	}
	for _, q := range e.Queues() {
		all["catalogue queue "+q.Name] = fmt.Sprintf("%+v", q.Settings)
		if s, err := queueAt(e, q.Name).Strategies.Get("nightly", 0); err == nil {
			all["set strategy nightly of "+q.Name] = fmt.Sprint(s)
		}
		v, err := queueAt(e, q.Name).Values.Get(t.Context(), queue.MetaEntry{Key: "n", Value: queue.IntValue(1)})
		if err == nil && v.Limit != nil && *v.Limit == 7 {
			all["set value n=1 of "+q.Name] = ""
		}
		if rule, err := queueAt(e, q.Name).Rules.Get(1); err == nil {
			all["set rule 1 of "+q.Name] = fmt.Sprint(rule.Match, rule.Reason)
		}
		schedules, err := queueAt(e, q.Name).Schedules.List("", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range schedules.Items {
			all["set schedule "+s.Name+" of "+q.Name] = fmt.Sprint(s.Schedule.Spec, s.Schedule.Start)
		}
		page, err := queueAt(e, q.Name).Submissions.List(t.Context(), engine.ListRequest{Limit: queue.MaxListLimit})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Items {
			id := s.ID.String()
			all[id] = fmt.Sprint(s.Meta)
			for c := range s.Chunks {
				// its output may be lost, which is an error
				if chunk, err := queueAt(e, q.Name).Submissions.Chunk(t.Context(), s.ID, c); err != nil || chunk.State == queue.ChunkDone {
					all[fmt.Sprintf("%s/%d done", id, c)] = ""
				}
			}
			_ = queueAt(e, q.Name).Submissions.Outputs(t.Context(), s.ID, func(index uint32, output []byte) error { // of what is there
				all[fmt.Sprintf("%s/%d output", id, index)] = string(output)
				return nil
			})
		}
		for {
			got := reserve(t, e, q.Name, queue.MaxReserve)
			for _, r := range got {
				id := r.Token.Submission.String()
				all[fmt.Sprintf("%s/%d content", id, r.Token.Index)] = string(r.Content.Bytes)
				all[id+" attachment"] = string(r.Attachment)
			}
			if len(got) == 0 {
				break
			}
		}
	}
	return all
}

func shownOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	e := open(t, to)
	defer closed(t, e)
	return shown(t, e)
}

// place is the place of something in the journal, and its submission's number.
type place struct {
	position uint64
	seq      uint64
}

// places are those of all inserts and completions that the journals ever had.
func places(t *testing.T, dir string) map[string]place {
	t.Helper()
	all := map[string]place{}
	for _, name := range []string{"default", "other"} {
		o := check.JournalOptions{Options: check.Options{Work: t.TempDir(), Now: time.Now}, Queue: name}
		err := check.Journal(t.Context(), dir, o, func(op check.Op) error {
			seq, _ := op.Fields["seq"].(uint32)
			switch op.Op {
			case "set", "rule", "schedule":
				all[setFact(name, op.Op, op.Fields)] = place{position: op.Position}
			case "insert":
				all[op.Submission] = place{op.Position, uint64(seq)}
			case "complete":
				index, _ := op.Fields["index"].(uint32)
				all[fmt.Sprintf("%s/%d done", op.Submission, index)] = place{op.Position, uint64(seq)}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// setFact is the fact that an operator set something, by the fields of its op.
func setFact(queueName, op string, fields map[string]any) string {
	what := fmt.Sprint("strategy ", fields["name"])
	entry, isValue := fields["entry"].(map[string]any)
	rule, _ := fields["rule"].(map[string]any)
	switch {
	case op == "rule":
		what = fmt.Sprint("rule ", rule["id"])
	case op == "schedule":
		what = fmt.Sprint("schedule ", fields["name"])
	case isValue:
		what = fmt.Sprintf("value %v=%v", entry["key"], entry["value"])
	}
	return "set " + what + " of " + queueName
}

// matrix is a directory of a stopped or killed server, with its facts.
type matrix struct {
	dir  string
	want map[string]string
	at   map[string]place
}

func matrices(t *testing.T) map[string]*matrix {
	t.Helper()
	live := filepath.Join(t.TempDir(), "data")
	e := open(t, live)
	fill(t, e, 6)
	operate(t, e)
	first := filepath.Join(t.TempDir(), "data") // before a checkpoint trims the journal
	copyDir(t, live, first)
	closed(t, e)
	at := places(t, first)
	e = open(t, live)
	fill(t, e, 3)
	killed := filepath.Join(t.TempDir(), "data")
	copyDir(t, live, killed)
	maps.Copy(at, places(t, killed))
	closed(t, e)
	closed(t, open(t, live)) // the journal before the checkpoint is trimmed
	all := map[string]*matrix{"stopped": {live, shownOf(t, live), at}, "killed": {killed, shownOf(t, killed), at}}
	for state, m := range all {
		for _, what := range []string{"strategy nightly", "value n=1", "rule 1", "schedule yearly"} {
			if _, is := m.want["set "+what+" of other"]; !is {
				t.Fatalf("%s: there is no %s to lose", state, what)
			}
		}
	}
	return all
}

// operate makes settings of all kinds that journals and the catalogue keep.
func operate(t *testing.T, e *engine.Engine) {
	t.Helper()
	_, _, err := queueAt(e, "other").Strategies.Put(t.Context(), "nightly", []byte(`"OldestFirst"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	set := queue.NoSettings()
	set.Limit = 7
	if _, _, err = queueAt(e, "other").Values.Put(t.Context(), queue.MetaEntry{Key: "n", Value: queue.IntValue(1)}, set, nil); err != nil {
		t.Fatal(err)
	}
	stop := queue.Rule{Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "n", Value: queue.IntValue(99)}}, Reason: "not yet"}
	if _, _, err = queueAt(e, "other").Rules.Set(t.Context(), stop, nil); err != nil {
		t.Fatal(err)
	}
	yearly := queue.Schedule{Spec: "@yearly", CatchUp: 1, CatchUpWindow: time.Hour, Enabled: true, Start: queue.At(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)),
		Template: queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Template: "x"}}}
	if _, _, err = queueAt(e, "other").Schedules.Put(t.Context(), "yearly", yearly, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err = e.Tokens().New(t.Context(), engine.TokenRequest{Name: "me", Scopes: access.Admin}); err != nil {
		t.Fatal(err)
	}
	module := []byte("a module of a plugin")
	version := queue.PluginVersion{SHA256: sha256.Sum256(module), Name: "order", Version: "1.0.0", State: "ready", Size: int64(len(module)),
		Manifest: []byte("{}"), Report: []byte("{}")}
	if err := e.PluginStore().PutPluginVersion(version, module); err != nil {
		t.Fatal(err)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Whatever is damaged, a repair makes a directory that a server opens and in which a check finds nothing. Everything that is gone there is
// in the report: by submission and chunk, or among the things that cannot be read. Everything that the report names is gone. With
// QUERN_NEW_SEEDS other places are damaged.
func TestDamageMatrix(t *testing.T) {
	t.Parallel()
	seed := uint64(1)
	if os.Getenv("QUERN_NEW_SEEDS") != "" {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	for state, m := range matrices(t) {
		names, err := filepath.Glob(filepath.Join(m.dir, "*.db*"))
		more, err2 := filepath.Glob(filepath.Join(m.dir, "shards", "*", "*.db*"))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, path := range append(names, more...) {
			name, err := filepath.Rel(m.dir, path)
			if err != nil {
				t.Fatal(err)
			}
			for i, harm := range slices.Sorted(maps.Keys(fileHarms(nil))) {
				if i > 0 && strings.HasSuffix(name, "-shm") {
					break // SQLite reads nothing of what a dead process left there, however it is damaged
				}
				t.Run(state+"/"+name+"/"+harm, func(t *testing.T) {
					t.Parallel()
					damaged := filepath.Join(t.TempDir(), "data")
					copyDir(t, m.dir, damaged)
					b, err := os.ReadFile(filepath.Join(damaged, name))
					if err != nil || len(b) == 0 {
						return
					}
					b = fileHarms(rand.New(rand.NewPCG(seed, uint64(i))))[harm](b)
					if err := os.WriteFile(filepath.Join(damaged, name), b, 0o600); err != nil {
						t.Fatal(err)
					}
					m.repaired(t, damaged)
				})
			}
		}
	}
}

// repaired repairs a damaged copy of the directory, and compares the losses with the report.
func (m *matrix) repaired(t *testing.T, damaged string) {
	to := filepath.Join(t.TempDir(), "repaired")
	r, err := Dir(t.Context(), damaged, to, check.Options{Work: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Check.Whole {
		t.Errorf("after the repair a check finds %v; %+v", r.Check.Findings, r)
		return
	}
	dir := damaged
	if r.To != "" {
		dir = to
	}
	again, err := check.Dir(t.Context(), dir, check.Options{Work: t.TempDir(), Now: time.Now})
	if err != nil || !again.Whole {
		t.Fatalf("%+v, %v", again, err)
	}
	e, err := engine.Open(context.Background(), engine.Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	got := shown(t, e)
	l := listed(r)
	for fact, what := range m.want {
		if now, there := got[fact]; there && now != what {
			t.Errorf("%s was %.40q, and is %.40q: %s", fact, what, now, l)
		} else if !there && !m.explained(l, fact, got) {
			t.Errorf("%s is gone, and was not reported: %s", fact, l)
		}
	}
	for fact := range l.facts {
		if fact == setFact("other", "set", nil) || fact == setFact("default", "set", nil) {
			continue // settings of a queue, which the catalogue has a copy of
		}
		_, was := m.want[fact]
		if _, is := got[fact]; is || !was && !strings.HasSuffix(fact, " content") && !strings.HasSuffix(fact, " attachment") {
			t.Errorf("%s was reported lost: it was there before: %v, is: %v", fact, was, is)
		}
	}
	for fact := range got {
		// a chunk whose completion got lost is ready again
		_, was := m.want[fact]
		if !was && !strings.HasPrefix(fact, "catalogue ") && !strings.HasPrefix(fact, "set ") && !strings.HasSuffix(fact, " content") && !strings.HasSuffix(fact, " attachment") {
			t.Errorf("%s was made up", fact)
		}
	}
}

// lists are the losses of a report as facts.
type lists struct {
	facts   map[string]bool
	seqs    map[uint64]bool // submissions of which only the number is known
	ranges  [][2]uint64     // the numbers of submissions, some of which are gone
	outputs map[string]bool // submissions with lost outputs, where no one can tell which
	states  map[string]bool // submissions whose chunks are all to be done again
	from    uint64          // everything from this batch on may be gone; 0: nothing is
	batches map[uint64]bool
	all     bool // queues or tables that cannot be read
	report  *Report
}

func (l *lists) String() string {
	var lines []string
	for i := range l.report.Lost {
		lines = append(lines, l.report.Lost[i].String())
	}
	for i := range l.report.Left {
		lines = append(lines, l.report.Left[i].String())
	}
	return strings.Join(lines, "\n")
}

func listed(r *Report) *lists {
	l := &lists{facts: map[string]bool{}, seqs: map[uint64]bool{}, outputs: map[string]bool{}, states: map[string]bool{},
		batches: map[uint64]bool{}, report: r}
	number := func(x any) uint64 { n, _ := x.(uint32); return uint64(n) }
	for i := range r.Lost {
		x := &r.Lost[i]
		switch {
		case x.Op == "queue":
			l.all = true
		case x.Op == check.OpDamaged:
			l.batches[x.Position] = true
			if all := fmt.Sprint(x.Fields); strings.Contains(all, "missing") || strings.Contains(all, "if anything was") ||
				strings.Contains(all, "cannot be read: ") {
				if l.from == 0 || x.Position < l.from {
					l.from = x.Position
				}
			}
		case x.Op == "set" || x.Op == "rule" || x.Op == "schedule":
			l.facts[setFact(x.Queue, x.Op, x.Fields)] = true
		case (x.Op == "insert" || x.Op == "ended") && x.Submission != "":
			l.facts[x.Submission] = true
		case x.Op == "insert" && x.Seq != 0:
			l.seqs[uint64(x.Seq)] = true
		case x.Op == "insert" || x.Op == "ended":
			l.ranges = append(l.ranges, [2]uint64{number(x.Fields["first_seq"]), number(x.Fields["last_seq"])})
		case x.Op == "complete" && x.Submission != "":
			l.facts[fmt.Sprintf("%s/%d done", x.Submission, *x.Chunk)] = true
		case x.Op == "complete":
			l.seqs[number(x.Fields["seq"])] = true
		case x.Op == "state":
			l.states[x.Submission] = true
		case x.Op == "output" && x.Chunk == nil:
			l.outputs[x.Submission] = true
		case x.Op == "attachment":
			l.facts[x.Submission+" attachment"] = true
		case x.Op == "output" || x.Op == "content":
			l.facts[fmt.Sprintf("%s/%d %s", x.Submission, *x.Chunk, x.Op)] = true
		}
	}
	for _, rows := range r.Left {
		switch {
		case rows.File != "store.db":
		case rows.All && (rows.Table == "submission" || rows.Table == "open_page" || rows.Table == "history_page"):
			l.all = true
		case rows.Upto != nil && rows.Table == "submission":
			l.ranges = append(l.ranges, [2]uint64{uint64(max(rows.Row, 0)), uint64(max(*rows.Upto, 0))})
		case rows.Upto != nil && (rows.Table == "open_page" || rows.Table == "history_page"):
			l.all = true
		}
	}
	return l
}

// explained says whether the report explains a missing fact.
func (m *matrix) explained(l *lists, fact string, got map[string]string) bool {
	if of, is := strings.CutPrefix(fact, "catalogue "); is {
		table, _, _ := strings.Cut(of, " ")
		return slices.ContainsFunc(l.report.Left, func(rows Rows) bool {
			return rows.File == "quern.db" && rows.Table == table
		})
	}
	if strings.HasPrefix(fact, "set ") && slices.ContainsFunc(l.report.Left, func(rows Rows) bool {
		return rows.File == "quern.db" && rows.Table == "queue" || rows.File == "store.db" && rows.Table == "aside"
	}) {
		return true
	}
	if l.facts[fact] || l.all {
		return true
	}
	id, rest, _ := strings.Cut(fact, " ")
	id, _, _ = strings.Cut(id, "/")
	at, known := m.at[fact]
	if known && (l.batches[at.position] || l.from > 0 && at.position >= l.from) {
		return true
	}
	if _, there := got[id]; !there { // then so is all that it had
		if l.facts[id] {
			return true
		}
		seq := m.at[id].seq
		return l.seqs[seq] || slices.ContainsFunc(l.ranges, func(r [2]uint64) bool { return r[0] <= seq && seq <= r[1] }) ||
			fact != id && m.explained(l, id, got)
	}
	done := strings.TrimSuffix(fact, rest) + "done"
	switch rest {
	case "done":
		return l.states[id]
	case "output": // with the completion, or when it alone is lost
		return l.outputs[id] || l.states[id] || fact != done && m.gone(got, done)
	case "content", "attachment": // of a chunk that could be reserved before; the attachment came with one
		return l.facts[id+" attachment"] || strings.HasSuffix(fact, " attachment") && len(l.facts) > 0
	}
	return false
}

func (m *matrix) gone(got map[string]string, fact string) bool { _, there := got[fact]; return !there }
