package store

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// historyModel is the history as a map.
type historyModel struct {
	t       *testing.T
	s       *Store
	rnd     *rand.Rand
	ended   map[queue.SubmissionID]checkpoint.Ended
	nextSeq uint32
	now     queue.Time
	forgot  []checkpoint.Ended
	open    map[uint32]queue.SubmissionID
}

func (m *historyModel) make(id queue.SubmissionID, seq uint32) checkpoint.Ended {
	long := 100
	if m.rnd.IntN(40) == 0 {
		long = 9000
	}
	m.now += queue.Time(m.rnd.IntN(3))
	return checkpoint.Ended{
		ID: id, Seq: seq, State: queue.SubmissionState(1 + m.rnd.IntN(5)), Finished: m.now, Position: journal.Position(m.now / 2),
		Spec: fmt.Appendf(nil, "spec of %d %*d", id, m.rnd.IntN(long), 1), Final: fmt.Appendf(nil, "%*d", m.rnd.IntN(long), 2),
	}
}

// end ends some submissions, of ids from a wide range, so that the pages of different checkpoints overlap; some are ended once more.
func (m *historyModel) end() {
	var (
		list []checkpoint.Ended
		rows []checkpoint.Row
	)
	for range 1 + m.rnd.IntN(300) {
		if m.nextSeq++; m.rnd.IntN(20) == 0 { // its neighbours end, and it does not
			m.open[m.nextSeq] = queue.SubmissionID(m.nextSeq)
			rows = append(rows, checkpoint.Row{Seq: m.nextSeq, ID: queue.SubmissionID(m.nextSeq), Spec: []byte{}, State: []byte{}})
			continue
		}
		e := m.make(queue.SubmissionID(1+m.rnd.IntN(1<<20))<<12|queue.SubmissionID(m.nextSeq&4095), m.nextSeq)
		if _, is := m.ended[e.ID]; is {
			continue
		}
		list = append(list, e)
		m.ended[e.ID] = e
	}
	for id, old := range m.ended {
		if m.rnd.IntN(40) == 0 && !slices.ContainsFunc(list, func(e checkpoint.Ended) bool { return e.ID == id }) {
			e := m.make(id, old.Seq)
			m.ended[id] = e
			e.Reopened = true
			list = append(list, e)
		}
	}
	m.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	must(m.t, m.s.Checkpoint(ctx, rows, list))
}

// reopen opens some submissions again: their rows are those of open ones.
func (m *historyModel) reopen() {
	var rows []checkpoint.Row
	for id, e := range m.ended {
		if m.rnd.IntN(30) == 0 {
			rows = append(rows, checkpoint.Row{Seq: e.Seq, ID: id, Spec: e.Spec, State: []byte("open"), Reopened: true})
			m.open[e.Seq] = id
			delete(m.ended, id)
		}
	}
	must(m.t, m.s.Checkpoint(ctx, rows, nil))
}

// retain forgets outlived submissions, except some.
func (m *historyModel) retain() {
	before, from := m.now-queue.Time(m.rnd.IntN(300)), queue.Time(0)
	stays := func(id queue.SubmissionID, _ queue.Time) bool { return id%8 == 0 }
	var want []checkpoint.Ended
	for _, e := range m.ended {
		if e.Finished >= from && e.Finished < before && !stays(e.ID, 0) {
			want = append(want, e)
		}
	}
	most := 1 + m.rnd.IntN(400)
	list, err := m.s.History.Outlived(ctx, from, before, most, stays)
	must(m.t, err)
	if len(list) != min(most, len(want)) {
		m.t.Fatalf("%d are outlived, at most %d; want of %d", len(list), most, len(want))
	}
	slices.SortFunc(want, func(a, b checkpoint.Ended) int { return cmp.Compare(a.Finished, b.Finished) })
	for i, o := range list {
		if e, is := m.ended[o.ID]; !is || e.Seq != o.Seq || e.Finished != want[i].Finished {
			m.t.Fatalf("outlived is %+v, ended at %d; want one that ended at %d", o, e.Finished, want[i].Finished)
		}
	}
	gone, err := m.s.History.Forget(ctx, list)
	must(m.t, err)
	if gone != len(list) {
		m.t.Fatalf("%d of %d are gone", gone, len(list))
	}
	for _, o := range list {
		m.forgot = append(m.forgot, m.ended[o.ID])
		delete(m.ended, o.ID)
	}
}

func (m *historyModel) check() {
	m.t.Helper()
	ids := slices.Sorted(maps.Keys(m.ended))
	same := func(what string, got, want checkpoint.Ended) {
		if !reflect.DeepEqual(got, want) {
			m.t.Fatalf("%s is %.200v, want %.200v", what, got, want)
		}
	}
	for range 20 {
		if len(ids) == 0 {
			break
		}
		want := m.ended[ids[m.rnd.IntN(len(ids))]]
		got, found, err := m.s.History.Ended(ctx, want.ID)
		if err != nil || !found {
			m.t.Fatalf("%d is not found: %v", want.ID, err)
		}
		same("by id it", got, want)
		got, _, err = m.s.History.EndedBySeq(ctx, want.Seq)
		must(m.t, err)
		same("by seq it", got, want)
	}
	for range min(20, len(m.forgot)) {
		e := m.forgot[m.rnd.IntN(len(m.forgot))]
		if _, found, err := m.s.History.Ended(ctx, e.ID); found != hasKey(m.ended, e.ID) || err != nil {
			m.t.Fatalf("what was forgotten is found: %v, %v", found, err)
		}
	}
	open := map[uint32]queue.SubmissionID{}
	for _, row := range load(m.t, m.s) {
		open[row.Seq] = row.ID
	}
	if !maps.Equal(open, m.open) {
		m.t.Fatalf("%d submissions are open, want %d, or others", len(open), len(m.open))
	}
	m.checkLists(ids)
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, is := m[k]; return is }

func (m *historyModel) checkLists(ids []queue.SubmissionID) {
	m.t.Helper()
	states := []queue.SubmissionState{queue.SubmissionState(1 + m.rnd.IntN(5)), queue.SubmissionState(1 + m.rnd.IntN(5))}
	before, limit := queue.SubmissionID(0), 1+m.rnd.IntN(200)
	if len(ids) > 0 && m.rnd.IntN(3) > 0 {
		before = ids[m.rnd.IntN(len(ids))]
	}
	var want []checkpoint.Ended
	var in []queue.SubmissionID
	for _, id := range slices.Backward(ids) {
		if e := m.ended[id]; before == 0 || id < before {
			if slices.Contains(states, e.State) && len(want) < limit {
				want = append(want, e)
			}
			if e.State == states[0] && len(in) < limit && before != 0 {
				in = append(in, id)
			}
		}
	}
	got, err := m.s.History.ListEnded(ctx, before, states, limit)
	must(m.t, err)
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		m.t.Fatalf("below %d in %v at most %d: %d are listed, want %d, or others", before, states, limit, len(got), len(want))
	}
	gotIn, err := m.s.History.EndedIn(ctx, before, states[0], limit)
	must(m.t, err)
	since := map[queue.SubmissionID]bool{}
	must(m.t, m.s.History.EndedSince(ctx, before, func(id queue.SubmissionID) { since[id] = true }))
	n, _ := slices.BinarySearch(ids, before)
	if !slices.Equal(gotIn, in) || len(since) != len(ids)-n {
		m.t.Fatalf("from %d on: %d in state %v, %d in all; want %d and %d", before, len(gotIn), states[0], len(since), len(in), len(ids)-n)
	}
}

// The history is a map of ended submissions, for all sequences of ends, second ends, redrives and retention, and over
// new opens of the store.
//
//quern:sequential
func TestHistoryLikeAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &historyModel{t: t, s: fresh(t), rnd: rand.New(rand.NewPCG(seed, 1)), ended: map[queue.SubmissionID]checkpoint.Ended{}, open: map[uint32]queue.SubmissionID{}, now: 1000}
	for range 80 {
		switch n := m.rnd.IntN(20); {
		case n < 9:
			m.end()
		case n < 11:
			m.reopen()
		case n < 19:
			m.retain()
		default:
			reopen(t, m.s)
		}
		m.check()
	}
	seqs, err := m.s.History.endedSeqs(ctx)
	must(t, err)
	for seq := range m.nextSeq + 2 {
		if seqs.has(seq) != slices.ContainsFunc(slices.Collect(maps.Values(m.ended)), func(e checkpoint.Ended) bool { return e.Seq == seq }) && seq%50 == 0 {
			t.Fatalf("seq %d in the set: %v", seq, seqs.has(seq))
		}
	}
}

// A few submissions that stay long do not keep their page: they go into another page, together with those that stay of
// other pages.
//
//quern:sequential
func TestSparseHistoryIsGathered(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n, kept = 20_000, 200
	list := make([]checkpoint.Ended, n)
	for i := range list {
		list[i] = checkpoint.Ended{ID: queue.SubmissionID(1000 + i), Seq: uint32(i), State: queue.Completed, Finished: queue.Time(i % 977), Spec: make([]byte, 80), Final: make([]byte, 20)}
	}
	must(t, s.Checkpoint(ctx, nil, list))
	before := rowsIn(t, s, "history_page")
	for {
		found, err := s.History.Outlived(ctx, 0, 1000, 256, func(id queue.SubmissionID, _ queue.Time) bool { return id%(n/kept) == 0 })
		must(t, err)
		if len(found) == 0 {
			break
		}
		if _, err := s.History.Forget(ctx, found); err != nil {
			t.Fatal(err)
		}
	}
	left, err := s.History.ListEnded(ctx, 0, []queue.SubmissionState{queue.Completed}, n)
	must(t, err)
	if after := rowsIn(t, s, "history_page"); len(left) != kept || after*6 > before || rowsIn(t, s, "history_span") != after {
		t.Errorf("%d submissions are left in %d pages of %d; want %d in a sixth at most", len(left), after, before, kept)
	}
}

// A reader sees each submission that stays while others are forgotten and pages are gathered.
func TestHistoryIsReadWhileItMoves(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	list := make([]checkpoint.Ended, 8000)
	for i := range list {
		list[i] = checkpoint.Ended{ID: queue.SubmissionID(1000 + i), Seq: uint32(i), State: queue.Completed, Finished: queue.Time(i % 97), Spec: make([]byte, 80), Final: []byte{}}
	}
	must(t, s.Checkpoint(ctx, nil, list))
	stays := func(id queue.SubmissionID, _ queue.Time) bool { return id%50 == 0 }
	var readers sync.WaitGroup
	done := make(chan struct{})
	for r := range 2 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(r), 3))
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				default:
				}
				id := queue.SubmissionID(1000 + 50*rnd.IntN(160))
				if _, found, err := s.History.Ended(ctx, id); err != nil || !found {
					t.Errorf("%d is not found: %v", id, err)
					return
				}
				got, err := s.History.ListEnded(ctx, 0, []queue.SubmissionState{queue.Completed}, len(list))
				some := slices.DeleteFunc(got, func(e checkpoint.Ended) bool { return !stays(e.ID, 0) })
				if err != nil || len(some) != 160 {
					t.Errorf("%d of the 160 that stay are listed: %v", len(some), err)
					return
				}
			}
		})
	}
	for {
		found, err := s.History.Outlived(ctx, 0, 1000, 100, stays)
		must(t, err)
		if len(found) == 0 {
			break
		}
		if _, err := s.History.Forget(ctx, found); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
}

// A page is read as it was written, and bytes that are cut off or made up are refused without a panic.
func TestEndedPage(t *testing.T) {
	t.Parallel()
	m := &historyModel{t: t, rnd: rand.New(rand.NewPCG(1, 9)), now: 5}
	var list []checkpoint.Ended
	for i := range 50 {
		list = append(list, m.make(queue.SubmissionID(1<<63+uint64(i)*1000), uint32(1<<31+i*i)))
	}
	page := appendEndedPage(nil, list)
	got, err := endedPage(page)
	if err != nil || !reflect.DeepEqual(got, list) {
		t.Fatalf("a page reads as %v, %v", got, err)
	}
	s := spanOf(7, list)
	for _, i := range []int{0, 49, 8, 8} {
		s = s.without(i)
	}
	again, err := readSpan(7, s.appendTo(nil))
	if err != nil || !reflect.DeepEqual(again, s) || again.left != 47 || again.holds(8) || !again.holds(9) {
		t.Errorf("a span reads as %+v, %v; want %+v", again, err, s)
	}
	for n := range len(page) {
		if _, err := endedPage(page[:n]); err == nil && n < len(page) {
			t.Fatalf("a page of %d bytes is read without its end, from %d", len(page), n)
		}
	}
}
