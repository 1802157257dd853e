package plugins

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/wasm/host"
)

// maxMetricNames bounds the names in metrics: all others are summed up under otherName.
const (
	maxMetricNames = 100
	otherName      = "_other"
)

// metrics shows the plugins to Prometheus. Numbers that are counted anyway are read at a scrape.
type metrics struct {
	catalogue  *Catalogue
	registerer prometheus.Registerer
	seconds    *prometheus.HistogramVec
	fuel       *prometheus.HistogramVec

	batches, candidates, skipped, unwritten, faults, fallbacks, counters *prometheus.Desc
	pages, breaker, instances, share, overlap, tau, shadowDropped        *prometheus.Desc
	logsDropped                                                          *prometheus.Desc
	memory, code, memoryLimit, memoryDenied                              *prometheus.Desc // of all plugins
	formulas, formulasLimit                                              *prometheus.Desc
}

func newMetrics() *metrics {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"plugin"})
	}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("quern_plugin_"+name, help, append([]string{"plugin"}, more...), nil)
	}
	return &metrics{
		seconds: histogram("quern_plugin_score_seconds", "Duration of a batch in the plugin in seconds.",
			prometheus.ExponentialBuckets(1e-6, 4, 10)),
		fuel: histogram("quern_plugin_fuel",
			"Fuel that a batch used, in units.", prometheus.ExponentialBuckets(1e3, 10, 7)),
		batches:    desc("batches_total", "Total number of batches that the plugin scored."),
		candidates: desc("candidates_total", "Total number of candidates in scored batches, including skipped ones."),
		skipped:    desc("skipped_total", "Total number of candidates that the plugin skipped with the score NaN."),
		unwritten:  desc("unwritten_total", "Total number of candidates that the plugin left without a score."),
		faults: desc("faults_total",
			"Total number of failed batches, by reason, and by version for the first four versions of a plugin "+
				"(_other for the rest).", "version", "reason"),
		fallbacks: desc("fallbacks_total",
			"Total number of requests that continued without the plugin, by reason: fault, breaker, inactive, "+
				"starting, memory or busy.", "reason"),
		counters: desc("counter_total", "Values of the counters that the plugin defines, by name.", "name"),
		pages:    desc("memory_pages", "Memory of the most recently used sandbox, in pages of 64 KiB."),
		breaker: desc("breaker_state",
			"1 for the current state of the circuit breaker of the active version, 0 for all other states.", "state"),
		instances: desc("instances", "Number of open sandboxes."),
		share:     desc("cpu_share", "Processor time over the last seconds, as a share of one core."),
		overlap: desc("shadow_overlap",
			"Mean share of the chunks to hand out on which the active version and the shadow agree."),
		tau: desc("shadow_tau",
			"Mean of Kendall's tau between the orders of the active version and the shadow."),
		shadowDropped: desc("shadow_dropped_total",
			"Total number of windows that the shadow did not score because it was behind or failing."),
		logsDropped: desc("logs_dropped_total",
			"Total number of log lines that the server dropped because the plugin wrote too many."),
		memory: prometheus.NewDesc("quern_plugins_memory_bytes",
			"Memory of the sandboxes and the compiled code of all plugins, in bytes.", nil, nil),
		code: prometheus.NewDesc("quern_plugins_code_bytes",
			"Estimated memory of the compiled code of all plugins, in bytes. It is part of "+
				"quern_plugins_memory_bytes.", nil, nil),
		memoryLimit: prometheus.NewDesc("quern_plugins_memory_limit_bytes",
			"Maximum memory of the sandboxes and the compiled code of all plugins, in bytes.", nil, nil),
		memoryDenied: prometheus.NewDesc("quern_plugins_memory_denied_total",
			"Total number of requests for plugin memory that the server refused because the limit was reached.", nil, nil),
		formulas: prometheus.NewDesc("quern_score_formulas", "Number of compiled formulas of Score blocks.", nil, nil),
		formulasLimit: prometheus.NewDesc("quern_score_formulas_limit",
			"Maximum number of compiled formulas. Above it, the server evicts the least recently used one.", nil, nil),
	}
}

// register shows the plugins of a catalogue, if there is a registerer.
func (m *metrics) register(c *Catalogue, registerer prometheus.Registerer) error {
	m.catalogue, m.registerer = c, registerer
	if registerer == nil {
		return nil
	}
	return registerer.Register(m)
}

// watch finds where the batches of a plugin are observed, once.
func (m *metrics) watch(p *plugin) {
	p.shown = p.name
	if p.rank >= maxMetricNames {
		p.shown = otherName
	}
	p.seconds, p.fuel = m.seconds.WithLabelValues(p.shown), m.fuel.WithLabelValues(p.shown)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.batches, m.candidates, m.skipped, m.unwritten, m.faults, m.fallbacks,
		m.counters, m.pages, m.breaker, m.instances, m.share, m.overlap, m.tau, m.shadowDropped, m.logsDropped,
		m.memory, m.code, m.memoryLimit, m.memoryDenied, m.formulas, m.formulasLimit} {
		ch <- d
	}
	m.seconds.Describe(ch)
	m.fuel.Describe(ch)
}

// sums gathers values under names, because several plugins may share one.
type sums struct {
	order  []string
	values map[string]float64
	desc   map[string]*prometheus.Desc
	kind   map[string]prometheus.ValueType
	keys   map[string][]string
}

func (s *sums) add(desc *prometheus.Desc, kind prometheus.ValueType, v float64, keys ...string) {
	at := desc.String()
	for _, key := range keys {
		at += "\x00" + key
	}
	if _, known := s.values[at]; !known {
		s.order = append(s.order, at)
		s.desc[at], s.kind[at], s.keys[at] = desc, kind, keys
	}
	s.values[at] += v
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	s := &sums{values: map[string]float64{}, desc: map[string]*prometheus.Desc{},
		kind: map[string]prometheus.ValueType{}, keys: map[string][]string{}}
	for _, p := range m.catalogue.known.all() {
		m.collect(s, p)
	}
	if p := m.catalogue.formulas.books(); p != nil {
		m.collect(s, p)
	}
	memory := m.catalogue.open.memory.Use()
	ch <- prometheus.MustNewConstMetric(m.memory, prometheus.GaugeValue, float64(memory.Bytes))
	ch <- prometheus.MustNewConstMetric(m.code, prometheus.GaugeValue, float64(memory.CodeBytes))
	ch <- prometheus.MustNewConstMetric(m.memoryLimit, prometheus.GaugeValue, float64(memory.Most))
	ch <- prometheus.MustNewConstMetric(m.memoryDenied, prometheus.CounterValue, float64(memory.Denied))
	ch <- prometheus.MustNewConstMetric(m.formulas, prometheus.GaugeValue, float64(m.catalogue.formulas.kept()))
	ch <- prometheus.MustNewConstMetric(m.formulasLimit, prometheus.GaugeValue, maxFormulas)
	for _, at := range s.order {
		ch <- prometheus.MustNewConstMetric(s.desc[at], s.kind[at], s.values[at], s.keys[at]...)
	}
	m.seconds.Collect(ch)
	m.fuel.Collect(ch)
}

func (m *metrics) collect(s *sums, p *plugin) {
	name, t := p.shown, &p.totals
	count := func(desc *prometheus.Desc, v uint64, more ...string) {
		s.add(desc, prometheus.CounterValue, float64(v), append([]string{name}, more...)...)
	}
	gauge := func(desc *prometheus.Desc, v float64, more ...string) {
		s.add(desc, prometheus.GaugeValue, v, append([]string{name}, more...)...)
	}
	count(m.batches, t.batches.Load())
	count(m.candidates, t.candidates.Load())
	count(m.skipped, t.skipped.Load())
	count(m.unwritten, t.unwritten.Load())
	for k := range t.fallbacks {
		count(m.fallbacks, t.fallbacks[k].Load(), fallback(k).String())
	}
	_, counters, _ := t.maps()
	for counter, v := range counters {
		if name != otherName { // counters of different plugins have nothing in common
			s.add(m.counters, prometheus.CounterValue, v, name, counter)
		}
	}
	_, dropped := p.logs.after(0, 0)
	count(m.logsDropped, dropped)
	of, batches, droppedWindows, overlap, tau := p.agreement.show()
	count(m.shadowDropped, droppedWindows)
	if batches > 0 && of != (useKey{}) && name != otherName {
		gauge(m.overlap, overlap)
		gauge(m.tau, tau)
	}
	gauge(m.share, p.share.of(m.catalogue.clock()))
	instances, pages := 0, uint32(0)
	var versions []string
	for _, u := range m.catalogue.open.uses.all(p.name) {
		instances += u.host.Instances()
		pages = max(pages, u.pages.Load())
		versions = append(versions, u.version.manifest.Version)
	}
	slices.Sort(versions)
	t.eachVersion(versions, func(version string, kind host.Kind, n uint64) { count(m.faults, n, version, string(kind)) })
	gauge(m.instances, float64(instances))
	gauge(m.pages, float64(pages))
	if name != otherName {
		state := m.catalogue.Plugins.breaker(p).State
		for _, known := range breakerStates() {
			is := 0.0
			if state == known {
				is = 1
			}
			gauge(m.breaker, is, known)
		}
	}
}

func breakerStates() []string {
	return []string{breakerClosed, breakerOpen, breakerHalfOpen, breakerThrottled, breakerQuarantined, breakerHeld, breakerStarting}
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}
