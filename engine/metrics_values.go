package engine

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
)

// What is left over under a label that may have only so many values, and strategies that have no name. Neither can be a name.
const (
	otherShown  = "_other"
	inlineShown = "_inline"

	maxStrategiesShown = 100
)

// MaxMetricKeys bounds the meta keys whose values metrics show.
const MaxMetricKeys = 8

// strategyCounts counts what was handed out by each named strategy: of more than maxStrategiesShown names, which may come and go
// without end, the later ones together.
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

// collectKeys shows the values of the keys that were asked for, as the last frame has them: so a scrape reads nothing of the
// shard, and there are FrameValues of them for each key, and one for the rest.
func (m *metrics) collectKeys(one func(*prometheus.Desc, prometheus.ValueType, float64, ...string), q *Queue) {
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
			v := &k.Top[j]
			label := shownValue(v.Value)
			one(m.keyInFlight, prometheus.GaugeValue, float64(v.InFlight), k.Key, label)
			one(m.keyBacklog, prometheus.GaugeValue, float64(v.Ready), k.Key, label)
		}
		one(m.keyInFlight, prometheus.GaugeValue, float64(k.Rest.InFlight), k.Key, otherShown)
		one(m.keyBacklog, prometheus.GaugeValue, float64(k.Rest.Ready), k.Key, otherShown)
		one(m.keyValues, prometheus.GaugeValue, float64(k.Values), k.Key)
	}
}
