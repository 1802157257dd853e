package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// damaged is a data directory at the moments that the matrix of damage needs.
type damaged struct {
	stopped string // closed in good order
	killed  string // as a kill -9 leaves it: a copy of the files of a running server
	older   string // closed in good order a life before both
	younger string // in the middle of the last life
	want    string // what is served from the first two
}

// buildDamaged has a server do all kinds of work that reach the disk, in two lives.
func buildDamaged(t *testing.T, tag string) *damaged {
	t.Helper()
	d := &damaged{}
	dir := filepath.Join(t.TempDir(), "data")
	e := openAt(t, dir)
	settings := queue.DefaultSettings()
	settings.MaxAttempts = 7
	if _, _, err := e.PutQueue(t.Context(), "work", settings); err != nil {
		t.Fatal(err)
	}
	put(t, e, "work", "nightly", `"Random"`)
	someWork(t, e, tag+" first", 6)
	closed(t, e)
	d.older = snapshot(t, dir)
	e = openAt(t, dir)
	someWork(t, e, tag+" second", 6)
	put(t, e, "work", "nightly", `"OldestFirst"`)
	d.younger = snapshot(t, dir)
	settings.MaxAttempts = 9
	if _, _, err := e.PutQueue(t.Context(), "work", settings); err != nil {
		t.Fatal(err)
	}
	someWork(t, e, tag+" third", 20)
	d.killed = snapshot(t, dir)
	closed(t, e)
	d.stopped = snapshot(t, dir)
	var err error
	if d.want, err = served(t, snapshot(t, d.stopped)); err != nil {
		t.Fatal(err)
	}
	if got, err := served(t, snapshot(t, d.killed)); err != nil || got != d.want {
		t.Fatalf("the killed server serves\n%s\n%v, want as the stopped one\n%s", got, err, d.want)
	}
	return d
}

// someWork inserts n submissions of three chunks with contents into each queue, and completes the first two chunks of each with outputs.
func someWork(t *testing.T, e *Engine, tag string, n int) {
	t.Helper()
	for _, q := range e.Queues() {
		if q.Quarantined != nil {
			continue
		}
		for i := range n {
			s := queue.NewSubmission{Meta: queue.Meta{{Key: "n", Value: queue.IntValue(int64(i))}}}
			for c := range 3 {
				s.Chunks.Inline = append(s.Chunks.Inline, bytes.Repeat(fmt.Appendf(nil, "%s, %d of %d in %s. ", tag, c, i, q.Name), 20))
			}
			sub, _, err := queueAt(e, q.Name).Insert(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			var items []queue.CompleteItem
			for _, r := range reserveNewest(t, e, q.Name, 2) {
				if r.Token.Submission != sub.ID {
					t.Fatalf("reserved %s, want the newest, %s", r.Token.Submission, sub.ID)
				}
				items = append(items, queue.CompleteItem{Token: r.Token, Output: append([]byte("done: "), r.Content.Bytes...)})
			}
			results, err := queueAt(e, q.Name).Complete(t.Context(), items, nil)
			if err != nil || len(results) != 2 || results[0].Outcome != queue.OutcomeOK || results[1].Outcome != queue.OutcomeOK {
				t.Fatalf("complete: %+v, %v", results, err)
			}
		}
	}
}

func reserveNewest(t *testing.T, e *Engine, queueName string, most int) []queue.Reservation {
	t.Helper()
	plan, err := queueAt(e, queueName).Plan([]byte(`"NewestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := queueAt(e, queueName).Reserve(t.Context(), ReserveRequest{Max: most, Plan: plan}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Reservations
}

// snapshot copies a directory in which nothing is written.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// served is all that a server answers about the directory, in one text, or the error of the refusal.
func served(t *testing.T, dir string) (text string, err error) {
	t.Helper()
	e, err := Open(context.Background(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		return "", err
	}
	defer e.Close() // of a directory that is damaged: it may well fail
	var b strings.Builder
	for _, q := range e.Queues() {
		if q.Quarantined != nil {
			return "", errors.New(q.Quarantined.Reason)
		}
		fmt.Fprintf(&b, "%s %+v\n", q.Name, q.Settings)
		names, err := queueAt(e, q.Name).Strategies.List("", 100)
		if err != nil {
			return "", err
		}
		for _, s := range names.Items {
			fmt.Fprintln(&b, s.Name, s.Version, s.Strategy)
		}
		if err := e.describe(&b, q.Name); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func (e *Engine) describe(b *strings.Builder, queueName string) error {
	ctx := context.Background()
	page, err := queueAt(e, queueName).Submissions.List(ctx, ListRequest{Limit: queue.MaxListLimit})
	if err != nil {
		return err
	}
	for _, sub := range page.Items {
		fmt.Fprintln(b, sub.ID, sub.State, sub.Chunks, sub.Ready, sub.Done, sub.Dead, sub.Meta)
		chunks, err := queueOf(e, sub.ID).Submissions.Chunks(ctx, sub.ID, nil, "", 100)
		if err != nil {
			return err
		}
		for _, c := range chunks.Items {
			fmt.Fprintf(b, "  %d %s %q\n", c.Index, c.State, c.Output)
		}
		if err := queueOf(e, sub.ID).Submissions.Outputs(ctx, sub.ID, func(index uint32, output []byte) error {
			_, err := fmt.Fprintf(b, "  %d: %q\n", index, output)
			return err
		}); err != nil {
			return err
		}
	}
	plan, err := queueAt(e, queueName).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		return err
	}
	got, err := queueAt(e, queueName).Reserve(ctx, ReserveRequest{Max: queue.MaxReserve, Plan: plan}, nil)
	if err != nil {
		return err
	}
	letters, err := queueAt(e, queueName).DeadLetters.List(ctx, DeadRequest{})
	if err != nil {
		return err
	}
	for _, l := range letters.Items {
		if strings.HasPrefix(l.Error, "damaged: ") {
			return fmt.Errorf("chunk %s: %w", l.Chunk, errDeadLetter)
		}
	}
	for _, r := range got.Reservations {
		fmt.Fprintf(b, "%s/%d %q\n", r.Token.Submission, r.Token.Index, r.Content.Bytes)
	}
	return nil
}

// errDeadLetter says that a damaged chunk is among the dead letters and named as such, which is as good as a refusal.
var errDeadLetter = errors.New("it is a dead letter")

// A harm is one way of damaging a file.
type harm struct {
	name string
	do   func(t *testing.T, file string) (done bool) // false: it cannot be done to this file
}

func harms(rnd *rand.Rand, d *damaged, other string) []harm {
	write := func(t *testing.T, file string, b []byte) bool {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return true
	}
	edit := func(change func(b []byte) []byte) func(*testing.T, string) bool {
		return func(t *testing.T, file string) bool {
			b, err := os.ReadFile(file)
			if err != nil || len(b) == 0 {
				return false
			}
			return write(t, file, change(b))
		}
	}
	from := func(dir string) func(*testing.T, string) bool {
		return func(t *testing.T, file string) bool {
			b, err := os.ReadFile(filepath.Join(dir, relative(file)))
			return err == nil && write(t, file, b)
		}
	}
	list := []harm{
		{"empty", edit(func([]byte) []byte { return nil })},
		{"cut by a page", edit(func(b []byte) []byte { return b[:max(len(b)-4096, 0)] })},
		{"cut in half", edit(func(b []byte) []byte { return b[:len(b)/2] })},
		{"zeroes", edit(func(b []byte) []byte { clear(b); return b })},
		{"zeroes at the end", edit(func(b []byte) []byte { clear(b[len(b)*3/4:]); return b })},
		{"zeroes within", edit(func(b []byte) []byte { at := rnd.IntN(len(b)); clear(b[at:min(at+4096, len(b))]); return b })},
		{"cut, without its index", withoutIndex(edit(func(b []byte) []byte { return b[:rnd.IntN(len(b))] }), os.Remove)},
		{"cut, with an empty index", withoutIndex(edit(func(b []byte) []byte { return b[:rnd.IntN(len(b))] }), func(path string) error {
			return os.Truncate(path, 0)
		})},
		{"deleted", func(_ *testing.T, file string) bool { return os.Remove(file) == nil }},
		{"of another directory", from(other)},
		{"older copy", from(d.older)},
		{"copy of a moment ago", from(d.younger)},
		{"another shard's", func(t *testing.T, file string) bool {
			b, err := os.ReadFile(strings.Replace(file, "shards/0001", "shards/0000", 1))
			return err == nil && strings.Contains(file, "shards/0001") && write(t, file, b)
		}},
	}
	for i := range 6 {
		list = append(list, harm{fmt.Sprintf("flipped %d", i), edit(func(b []byte) []byte {
			at := rnd.IntN(len(b))
			b[at] ^= 1 << rnd.IntN(8)
			return b
		})})
	}
	return list
}

// withoutIndex is a harm to a write-ahead log together with its index.
func withoutIndex(harm func(*testing.T, string) bool, lose func(path string) error) func(*testing.T, string) bool {
	return func(t *testing.T, file string) bool {
		database, is := strings.CutSuffix(file, "-wal")
		return is && harm(t, file) && lose(database+"-shm") == nil
	}
}

// relative is the name of a file within its data directory.
func relative(file string) string {
	_, name, _ := strings.Cut(file, string(filepath.Separator)+"data"+string(filepath.Separator))
	return name
}

// Whatever happens to one file of a data directory, after a kill or a stop, a server either refuses it and says what to do, or serves all
// that was acknowledged. It never silently serves less, or something else.
//
//quern:sequential
func TestDamageIsNeverSilent(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d, other := buildDamaged(t, "one"), buildDamaged(t, "other")
	for state, dirs := range map[string][2]string{"killed": {d.killed, other.killed}, "stopped": {d.stopped, other.stopped}} {
		for _, name := range files(t, dirs[0]) {
			for i, h := range harms(nil, d, dirs[1]) {
				t.Run(state+"/"+name+"/"+h.name, func(t *testing.T) {
					t.Parallel()
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					dir := snapshot(t, dirs[0])
					if h := harms(rnd, d, dirs[1])[i]; !h.do(t, filepath.Join(dir, name)) {
						return
					}
					got, err := served(t, dir)
					switch {
					case errors.Is(err, errDeadLetter):
					case err != nil && !advises(err):
						t.Errorf("seed %d: refused without saying what to do: %v", seed, err)
					case err == nil && got != d.want:
						t.Errorf("seed %d: served without a word:\n%s", seed, difference(d.want, got))
					}
				})
			}
		}
	}
}

// advises says whether an error names a file and tells what to do.
func advises(err error) bool {
	text := err.Error()
	return strings.Contains(text, string(filepath.Separator)+"data"+string(filepath.Separator)) && (strings.Contains(text, "restore") || strings.Contains(text, "Restore"))
}

// files lists the files of a directory that hold something.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path != "lock" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	count := map[string]int{}
	for line := range strings.Lines(want) {
		count["- "+line]++
	}
	for line := range strings.Lines(got) {
		if count["- "+line] > 0 {
			count["- "+line]--
		} else {
			count["+ "+line]++
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n == 0 })
	lines := slices.Sorted(maps.Keys(count))
	for i := range lines {
		lines[i] = fmt.Sprintf("%.120s\n", lines[i])
	}
	return strings.Join(lines[:min(len(lines), 8)], "")
}
