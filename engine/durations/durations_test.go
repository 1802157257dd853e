package durations

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const start = queue.Time(1_700_000_000_000)

func company(n int64) queue.MetaEntry {
	return queue.MetaEntry{Key: "company", Value: queue.IntValue(n)}
}

// The median and the 95th percentile are right to within a tenth, the longest is exact, and each duration is in its bucket.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		k := new(Kept)
		var all []int64
		spread := 1 + rnd.Float64()*30
		for range 1 + rnd.IntN(400) {
			ms := int64(math.Exp2(rnd.Float64()*spread)) - int64(rnd.IntN(2))
			all = append(all, ms)
			k.Run(nil, time.Duration(ms)*time.Millisecond, 1, start)
		}
		slices.Sort(all)
		got := k.Of(nil, start).Run
		for _, q := range []struct {
			share float64
			got   int64
		}{{0.5, got.P50MS}, {0.95, got.P95MS}} {
			want := all[int(math.Ceil(float64(len(all))*q.share))-1]
			if off := math.Abs(float64(q.got - want)); off > 0.1*float64(want)+0.5 {
				t.Fatalf("seed %d: of %d durations %.0f %% are at most %d ms, got %d", seed, len(all), q.share*100, want, q.got)
			}
		}
		if got.MaxMS != all[len(all)-1] || got.Count != uint64(len(all)) {
			t.Fatalf("seed %d: got %d, the longest %d; want %d and %d", seed, got.Count, got.MaxMS, len(all), all[len(all)-1])
		}
		for i, b := range got.Buckets {
			n := uint64(0)
			for _, ms := range all {
				if ms < b.BelowMS && (ms >= b.BelowMS/2 || b.BelowMS == 1) {
					n++
				}
			}
			if n != b.Count || (i == 0 || i == len(got.Buckets)-1) && n == 0 {
				t.Fatalf("seed %d: bucket below %d ms has %d, want %d", seed, b.BelowMS, b.Count, n)
			}
		}
	}
}

// Answers cover the last one to two windows, and say since when. Older values are forgotten, and a clock that is set back changes nothing.
func TestWindows(t *testing.T) {
	t.Parallel()
	k := new(Kept)
	meta := queue.Meta{company(7)}
	at := func(windows float64) queue.Time { return start.Add(time.Duration(windows * float64(Window))) }
	k.Wait(meta, time.Second, 5, at(0))
	k.Wait(meta, time.Minute, 1, at(1.2))
	entry := company(7)
	for _, c := range []struct {
		now     float64
		count   uint64
		longest int64
		since   float64
	}{{1.3, 6, 60_000, 0}, {0.1, 6, 60_000, 0}, {2.3, 1, 60_000, 1.2}, {9, 0, 0, 9}} {
		for _, e := range []*queue.MetaEntry{nil, &entry} {
			got := k.Of(e, at(c.now))
			if got.Wait.Count != c.count || got.Wait.MaxMS != c.longest || got.Since != at(c.since).API() {
				t.Errorf("after %.1f windows, of %v: %d, the longest %d ms, since %v; want %d, %d, %v", c.now, e, got.Wait.Count, got.Wait.MaxMS,
					got.Since, c.count, c.longest, at(c.since))
			}
		}
	}
}

// A queue keeps a bounded number of values. A value that is at work or asked about stays. A flood of values that come once replaces those
// that were seen least recently, one a second at most.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	k := new(Kept)
	now := start
	busy, asked := company(1), company(2)
	k.Run(queue.Meta{busy}, time.Second, 1, now)
	k.Run(queue.Meta{asked}, time.Second, 1, now)
	for i := range int64(20_000) {
		now = now.Add(10 * time.Millisecond)
		k.Run(queue.Meta{company(100 + i)}, time.Second, 1, now)
		if i%50 == 0 {
			k.Run(queue.Meta{busy}, time.Second, 1, now)
			k.Of(&asked, now)
		}
		if len(k.values) > MostValues {
			t.Fatalf("%d values are kept after %d, at most %d may be", len(k.values), i, MostValues)
		}
	}
	if got := k.Of(&busy, now).Run.Count; got != 401 {
		t.Errorf("the value at work: got %d, want 401", got)
	}
	if got := k.Of(&asked, now); got.Run.Count != 1 || got.Since != start.API() {
		t.Errorf("the value that is asked about: %+v", got)
	}
	fresh := 0 // admitted after the first ones
	for entry := range k.values {
		if entry.Value.String() >= "1000" && len(entry.Value.String()) >= 4 {
			fresh++
		}
	}
	if fresh == 0 || fresh > 210 {
		t.Errorf("%d values came in beside those that were there, in 200 s", fresh)
	}
	unknown := company(-1)
	if got := k.Of(&unknown, now); got.Run.Count != 0 || got.Since != now.API() {
		t.Errorf("a value that was not kept: %+v", got)
	}
	k.Run(queue.Meta{unknown}, time.Second, 1, now)
	if got := k.Of(&unknown, now).Run.Count; got != 1 {
		t.Errorf("after someone asked about it: got %d, want 1", got)
	}
	if all := k.Of(nil, now).Run.Count; all != 20_403 {
		t.Errorf("the queue: got %d, want 20403", all)
	}
}

// Of a million chunks a second, a small share is measured. The number, the slowest and the median of the queue are right all the same, and
// values that take turns get equal shares.
func TestShareOfMany(t *testing.T) {
	t.Parallel()
	const values, all = 16, 2_000_000
	k := new(Kept)
	now := start
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range int64(all) {
		if i%1000 == 0 {
			now = now.Add(time.Millisecond)
		}
		took := time.Duration(rnd.IntN(1000)) * time.Millisecond
		if i == all/2+1 {
			took = time.Hour
		}
		k.Run(queue.Meta{company(i % values)}, took, 1, now)
	}
	if measured := all / k.shares[run].every; measured > 100_000 {
		t.Errorf("about %d of %d chunks are measured, want a small share", measured, all)
	}
	got := k.Of(nil, now).Run
	if got.Count < all-leastShare || got.Count > all || got.MaxMS != time.Hour.Milliseconds() {
		t.Errorf("%d chunks, the slowest took %d ms; want %d and an hour", got.Count, got.MaxMS, all)
	}
	if got.P50MS < 450 || got.P50MS > 550 {
		t.Errorf("the median is %d ms, want about 500", got.P50MS)
	}
	for i := range int64(values) {
		entry := company(i)
		if n := k.Of(&entry, now).Run.Count; n < all/values*3/4 || n > all/values*5/4 {
			t.Errorf("of value %d are %d chunks, want about %d", i, n, all/values)
		}
	}
	for range 2 * leastShare { // the rush is over: each one counts again
		now = now.Add(10 * time.Millisecond)
		k.Run(nil, time.Second, 1, now)
	}
	if k.shares[run].every != 1 {
		t.Errorf("one of %d is measured when few come, want all", k.shares[run].every)
	}
}

var sink api.Durations

// The cost of a chunk whose submission has two values.
func BenchmarkRun(b *testing.B) {
	for _, values := range []int64{1, 200, 10_000} {
		b.Run(fmt.Sprint(values), func(b *testing.B) {
			k := new(Kept)
			metas := make([]queue.Meta, values)
			for i := range metas {
				metas[i] = queue.Meta{company(int64(i)), {Key: "mode", Value: queue.StringValue("x")}}
			}
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				k.Run(metas[i%values], time.Second, 1, start+queue.Time(i/1000))
			}
			sink = k.Of(nil, start)
		})
	}
}
