package engine

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/recount"
	shardvalues "github.com/quern-queue/quern/engine/shard/values"
)

// otherShown labels the rest beyond the values that a label may have, and inlineShown strategies without a name. Neither can be a name.
const (
	otherShown  = "_other"
	inlineShown = "_inline"

	maxStrategiesShown = 100
)

// MaxMetricKeys bounds the meta keys whose values metrics show.
const MaxMetricKeys = 8

// strategyCounts counts the chunks that were handed out by each named strategy. Names come and go without end, so those beyond
// maxStrategiesShown count together.
type strategyCounts struct {
	inline, other atomic.Uint64

	mu     sync.RWMutex
	byName map[string]*atomic.Uint64
}

func (c *strategyCounts) add(name string, n int) {
	if n > 0 {
		c.of(name).Add(uint64(n))
	}
}

func (c *strategyCounts) of(name string) *atomic.Uint64 {
	if name == "" {
		return &c.inline
	}
	c.mu.RLock()
	count := c.byName[name]
	c.mu.RUnlock()
	if count != nil {
		return count
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if count = c.byName[name]; count != nil {
		return count
	}
	if len(c.byName) >= maxStrategiesShown {
		return &c.other
	}
	if c.byName == nil {
		c.byName = map[string]*atomic.Uint64{}
	}
	count = new(atomic.Uint64)
	c.byName[name] = count
	return count
}

func (c *strategyCounts) each(fn func(name string, n uint64)) {
	fn(inlineShown, c.inline.Load())
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, count := range c.byName {
		fn(name, count.Load())
	}
	if n := c.other.Load(); n > 0 {
		fn(otherShown, n)
	}
}

// shownValue is a value of a meta key as a label: an integer as it is, a string too unless it could be taken for an integer or
// for a label with a meaning of its own; then, and only then, "s:" stands before it. So no two values share a label.
func shownValue(v queue.MetaValue) string {
	if v.IsInt() {
		return strconv.FormatInt(v.Int(), 10)
	}
	text := v.Text()
	if !utf8.ValidString(text) {
		return "s:" + strconv.Quote(text)
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil || text == "" || strings.HasPrefix(text, "_") || strings.HasPrefix(text, "s:") {
		return "s:" + text
	}
	return text
}

// collectKeys shows the values of the keys that were asked for: for each key and metric, the FrameValues values with most of it, and one
// for the rest. Chunks in flight are those of the last frame. A scrape counts the other metrics, and reads as many values of each key as a
// frame does.
func (m *metrics) collectKeys(one func(*prometheus.Desc, prometheus.ValueType, float64, ...string), q *Queue, now queue.Time) {
	frame := q.frames.last.Load()
	if frame == nil {
		return
	}
	for i := range frame.Keys.Keys {
		k := &frame.Keys.Keys[i]
		if !slices.Contains(m.engine.options.MetricKeys, k.Key) {
			continue
		}
		for j := range k.Top {
			one(m.keyInFlight, prometheus.GaugeValue, float64(k.Top[j].InFlight), k.Key, shownValue(k.Top[j].Value))
		}
		one(m.keyInFlight, prometheus.GaugeValue, float64(k.Rest.InFlight), k.Key, otherShown)
		one(m.keyValues, prometheus.GaugeValue, float64(k.Values), k.Key)
		seen, _ := q.shard.Values.List(k.Key, maxShownVisits, nil)
		totals := make(map[queue.MetaValue]shardvalues.Total, len(seen))
		for j := range seen {
			totals[seen[j].Value] = shardvalues.Total{}
		}
		q.shard.Values.Totals(k.Key, totals, false)
		rest := topBy(seen, func(v *backlog.ValueCount) uint64 { return v.Available }, func(v *backlog.ValueCount) {
			one(m.keyBacklog, prometheus.GaugeValue, float64(v.Available), k.Key, shownValue(v.Value))
		})
		one(m.keyBacklog, prometheus.GaugeValue, float64(rest), k.Key, otherShown)
		topBy(seen, func(v *backlog.ValueCount) uint64 { return agedBy(totals[v.Value].Oldest) }, func(v *backlog.ValueCount) {
			if oldest := totals[v.Value].Oldest; oldest != 0 {
				one(m.keyOldest, prometheus.GaugeValue, max(0, now.Sub(oldest).Seconds()), k.Key, shownValue(v.Value))
			}
		})
	}
}

// topBy shows the FrameValues values with most of something, and adds up the others.
func topBy(list []backlog.ValueCount, size func(*backlog.ValueCount) uint64, show func(*backlog.ValueCount)) (rest uint64) {
	slices.SortFunc(list, func(a, b backlog.ValueCount) int {
		return cmp.Or(cmp.Compare(size(&b), size(&a)), a.Value.Compare(b.Value))
	})
	for i := range list {
		if i < FrameValues {
			show(&list[i])
		} else {
			rest += size(&list[i])
		}
	}
	return rest
}

// shownHistogram shows a histogram in its native form with classic buckets beside: a scraper takes the kind that it knows.
type shownHistogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	of     *measure.Histogram
}

func newHistogram(desc *prometheus.Desc, of *measure.Histogram, queueName string) prometheus.Metric {
	return &shownHistogram{desc: desc, labels: prometheus.MakeLabelPairs(desc, []string{queueName}), of: of}
}

// Desc implements prometheus.Metric.
func (h *shownHistogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *shownHistogram) Write(out *dto.Metric) error {
	c := h.of.Counts()
	schema, threshold := int32(measure.Schema), measure.Threshold
	x := &dto.Histogram{SampleCount: &c.Count, SampleSum: &c.Sum, Schema: &schema, ZeroThreshold: &threshold, ZeroCount: &c.Zeros}
	for i := range c.Bounds {
		x.Bucket = append(x.Bucket, &dto.Bucket{UpperBound: &c.Bounds[i], CumulativeCount: &c.Classic[i]})
	}
	spans(x, &c)
	out.Histogram, out.Label = x, h.labels
	return nil
}

// spans writes the native buckets: runs of those that are not empty, each bucket as the difference to the one before it. A
// histogram without any has one empty run, by which it is known to be a native one.
func spans(x *dto.Histogram, c *measure.Counts) {
	last, next := int64(0), 0 // the count before, and the index after the run before
	for i, n := range c.Native {
		if n == 0 {
			continue
		}
		index := c.First + i
		if len(x.PositiveSpan) == 0 || index != next {
			offset, length := int32(index-next), uint32(0)
			x.PositiveSpan = append(x.PositiveSpan, &dto.BucketSpan{Offset: &offset, Length: &length})
		}
		*x.PositiveSpan[len(x.PositiveSpan)-1].Length++
		x.PositiveDelta = append(x.PositiveDelta, int64(n)-last)
		last, next = int64(n), index+1
	}
	if len(x.PositiveSpan) == 0 {
		offset, length := int32(0), uint32(0)
		x.PositiveSpan = []*dto.BucketSpan{{Offset: &offset, Length: &length}}
	}
}

// recountMetrics show recounts to Prometheus.
type recountMetrics struct {
	rounds, last, checks, drifts, suspected, skipped, stopped *prometheus.Desc // by queue, some also by scope, counter or reason
}

func newRecountMetrics() recountMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quern_recount_"+name, help, append([]string{"queue"}, labels...), nil)
	}
	return recountMetrics{
		rounds: desc("rounds_total", "Total number of complete recounts of all counters."),
		last: desc("last_round_timestamp_seconds",
			"Time at which the last complete recount ended, in seconds since 1970; 0 if there was none."),
		checks: desc("checks_total",
			"Total number of comparisons that recounts made, by scope: submission, value of a meta key, or queue.", "scope"),
		drifts: desc("drifts_total",
			"Total number of wrong counters that a recount found. Any value but 0 is a bug in the server.", "scope", "counter"),
		suspected: desc("suspected_total",
			"Total number of queue counters that differed in one recount. If they also differ in the next one, they "+
				"count as drifts."),
		skipped: desc("skipped_total", "Total number of comparisons that a recount skipped, by reason.", "reason"),
		stopped: desc("stopped",
			"1 if a recount failed because of a bug in the server. No recount runs until the next start."),
	}
}

func (m *recountMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.rounds, m.last, m.checks, m.drifts, m.suspected, m.skipped, m.stopped} {
		ch <- d
	}
}

func (m *recountMetrics) collect(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string), r *recount.State) {
	stopped := 0.0
	if r.Stopped {
		stopped = 1
	}
	send(m.rounds, prometheus.CounterValue, float64(r.Rounds))
	send(m.last, prometheus.GaugeValue, float64(r.Last)/1000)
	send(m.suspected, prometheus.CounterValue, float64(r.Suspected))
	send(m.stopped, prometheus.GaugeValue, stopped)
	for scope, n := range r.Checked {
		send(m.checks, prometheus.CounterValue, float64(n), recount.Scope(scope).String())
	}
	for reason, n := range r.Skipped {
		send(m.skipped, prometheus.CounterValue, float64(n), recount.Skip(reason).String())
	}
	for counter, n := range r.Drifts {
		c := recount.Counter(counter)
		send(m.drifts, prometheus.CounterValue, float64(n), c.Scope().String(), c.String())
	}
}
