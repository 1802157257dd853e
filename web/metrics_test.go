package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// measured is a fixture whose clock stands still until the test moves it, so that its measurements are known in
// advance. The test reads its metrics at their source.
type measured struct {
	*fixture
	ahead    atomic.Int64
	registry *prometheus.Registry
}

func newMeasured(t testing.TB, keys ...string) *measured {
	t.Helper()
	m := &measured{fixture: &fixture{TB: t, log: new(lockedBuffer)}, registry: prometheus.NewRegistry()}
	base := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	now := func() time.Time { return base.Add(time.Duration(m.ahead.Load())) }
	var draws atomic.Uint64
	seed := func() uint64 { return draws.Add(0x9e3779b97f4a7c15) }
	logger := slog.New(slog.NewTextHandler(m.log, nil))
	m.plugins = newPlugins(t, m.registry, logger)
	e, err := engine.Open(t.Context(), engine.Options{
		Scorers: m.plugins, Dir: t.TempDir(), Now: now, Seed: seed, Registerer: m.registry, Logger: logger, BallastBytes: -1, MetricKeys: keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	closePlugins := openPlugins(t, m.plugins, e)
	t.Cleanup(func() {
		closePlugins()
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	m.engine = e
	m.server, err = New(Options{
		Engine: e, Plugins: m.plugins, Now: now, Wall: time.Now, Seed: seed, Logger: logger, Registerer: m.registry, Gatherer: m.registry,
		Version: api.Version{Version: "0.0.0-test", Revision: "abc", Go: "go1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.address, m.client = serve(t, m.server), &http.Client{Transport: newValidating(t, m.server)}
	return m
}

// advance puts the clock forward, and does what is due.
func (m *measured) advance(d time.Duration) {
	m.Helper()
	m.ahead.Add(int64(d))
	if err := m.engine.CatchUp(m.Context()); err != nil {
		m.Fatal(err)
	}
}

// gather reads all metrics, and fails if two have the same name and labels, or their linter finds something.
func (m *measured) gather() map[string]*dto.MetricFamily {
	m.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		m.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		m.Fatal(err)
	}
	for _, p := range problems {
		m.Errorf("lint: %s: %s", p.Metric, p.Text)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// labelsOf are a metric's labels as PromQL writes them.
func labelsOf(x *dto.Metric) string {
	var pairs []string
	for _, l := range x.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+strconv.Quote(l.GetValue()))
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// value is a counter's or gauge's number, or how many observations a histogram has.
func value(x *dto.Metric) float64 {
	switch {
	case x.Counter != nil:
		return x.GetCounter().GetValue()
	case x.Gauge != nil:
		return x.GetGauge().GetValue()
	}
	return float64(x.GetHistogram().GetSampleCount())
}

// one is the value of the one metric with these labels, written as labelsOf does.
func (m *measured) one(name, labels string) float64 {
	m.Helper()
	family := m.gather()[name]
	for _, x := range family.GetMetric() {
		if labelsOf(x) == labels {
			return value(x)
		}
	}
	m.Fatalf("there is no %s%s among %d", name, labels, len(family.GetMetric()))
	return 0
}

// changing are the metrics whose values are not the same in every run: sizes of files, connections of the tests, and
// times that the plugins measure by a running clock.
var changing = []string{"quern_view_bytes", "quern_journal_bytes", "quern_shard_bytes", "quern_plugin_cpu_share", "quern_plugin_memory_pages", "quern_plugin_instances", "quern_plugins_memory_bytes", "quern_plugins_code_bytes",
	"quern_http_connections", "quern_http_connections_unproven"}

// exposition writes the whole scrape, in order: names, types, help, labels, the classic bounds and the native
// resolution of histograms, and the values but for those that change.
func exposition(families map[string]*dto.MetricFamily) []byte {
	var out bytes.Buffer
	sorted := make([]*dto.MetricFamily, 0, len(families))
	for _, f := range families {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, f := range sorted {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", f.GetName(), f.GetHelp(), f.GetName(), strings.ToLower(f.GetType().String()))
		if h := f.GetMetric()[0].GetHistogram(); h != nil {
			var bounds []string
			for _, b := range h.GetBucket() {
				bounds = append(bounds, strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
			}
			fmt.Fprintf(&out, "# BUCKETS %s %s native %d\n", f.GetName(), strings.Join(bounds, " "), h.GetSchema())
		}
		for _, x := range f.GetMetric() {
			shown := strconv.FormatFloat(value(x), 'g', -1, 64)
			if slices.Contains(changing, f.GetName()) {
				shown = "*"
			}
			fmt.Fprintf(&out, "%s%s %s\n", f.GetName(), labelsOf(x), shown)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func (m *measured) golden(name string) {
	m.Helper()
	got := exposition(m.gather())
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			m.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		m.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		at := firstDifference(got, want)
		line := func(b []byte) []byte { return append(bytes.Split(b, []byte("\n")), nil)[at-1] }
		m.Errorf("the metrics are not those of %s from line %d on; if that is meant, go test ./web -run GoldenMetrics -rewrite, read the difference, and correct docs/METRICS.md and deploy/\ngot  %s\nwant %s",
			path, at, line(got), line(want))
	}
}

// The whole scrape of a fresh server, and of one that did a little of everything, is golden.
func TestGoldenMetrics(t *testing.T) {
	t.Parallel()
	t.Run("fresh", func(t *testing.T) {
		t.Parallel()
		m := newMeasured(t)
		m.advance(0)
		m.golden("metrics-fresh.txt")
	})
	t.Run("load", func(t *testing.T) {
		t.Parallel()
		m := newMeasured(t, "company", "zone")
		m.busy()
		m.golden("metrics-load.txt")
	})
}

// busy lets a server do a little of everything that is measured, one thing after the other.
func (m *measured) busy() {
	m.Helper()
	m.do("PUT", "/v1/queues/letters", `{"settings":{"max_attempts":1,"on_exhausted":"dead_letter"}}`, 201, nil)
	m.do("PUT", "/v1/queues/default/strategies/nightly", `{"strategy":"OldestFirst"}`, 201, nil)
	m.do("PUT", "/v1/queues/default/meta-keys/company/values/7", `{"limit":2}`, 201, nil)
	m.upload(wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()), declared("endless", "1.0.0", "priority", "age_ms"), 201)
	m.do("POST", "/v1/plugins/endless/activate", `{"version":"1.0.0"}`, 200, nil)
	for _, company := range []string{`7`, `8`, `"8"`, `"acme"`, `"_other"`} {
		m.insert(`{"chunks":{"count":20,"prefix":"s3://b/"},"meta":{"company":` + company + `,"zone":1}}`)
	}
	m.insert(`{"chunks":{"count":3,"template":"later"},"run_at":"2026-01-05T09:00:00Z"}`)
	m.advance(90 * time.Second)
	m.reserve(`{"max":10,"strategy":{"name":"nightly"}}`)
	held := m.reserve(`{"max":10,"strategy":"Fair(\"company\", OldestFirst)"}`).Reservations
	m.reserve(`{"max":5,"strategy":"MaxSimultaneous(\"company\", 4, Random)"}`)
	m.reserve(`{"max":2,"strategy":"Score(priority, OldestFirst)"}`)
	m.reserve(`{"max":1,"strategy":"Plugin(\"endless\", OldestFirst)"}`)
	m.reserve(`{"max":1,"strategy":"SelectOnly(\"zone\", 2, Random)"}`)
	m.advance(30 * time.Second)
	m.results("complete", `{"token":"`+held[0].Token+`"},{"token":"`+held[1].Token+`"}`)
	m.results("fail", `{"token":"`+held[2].Token+`","error":"no"}`)
	m.results("release", `{"token":"`+held[3].Token+`"}`)
	m.do("POST", "/v1/queues/default/rules", `{"action":"block","match":{"meta":{"zone":2}},"reason":"golden"}`, 201, nil)
	var s api.Submission
	m.do("POST", "/v1/queues/letters/submissions", `{"chunks":{"count":1,"template":"x"}}`, 201, &s)
	var r api.ReserveResponse
	m.do("POST", "/v1/queues/letters/reservations", `{"max":1}`, 200, &r)
	m.do("POST", "/v1/queues/letters/reservations/fail", `{"items":[{"token":"`+r.Reservations[0].Token+`","error":"no"}]}`, 200, nil)
	m.do("GET", "/v1/submissions/1", "", 404, nil)
	m.advance(11 * time.Minute)
}

// The measured times are right: a chunk waits from its insert to its first reservation, and is held until it is
// completed or failed. A second attempt, a release and an expiry count in neither.
func TestWaitAndRunSeconds(t *testing.T) {
	t.Parallel()
	m := newMeasured(t)
	m.insert(`{"chunks":{"count":10,"template":"x"}}`)
	m.insert(`{"chunks":{"count":1,"template":"later"},"run_at":"2026-01-05T08:30:00Z"}`)
	m.advance(10 * time.Minute)
	held := m.reserve(`{"max":4,"strategy":"OldestFirst"}`).Reservations
	m.advance(20 * time.Second)
	m.results("complete", `{"token":"`+held[0].Token+`"}`)
	m.results("fail", `{"token":"`+held[1].Token+`","error":"no","retry_after_ms":0}`)
	m.results("release", `{"token":"`+held[2].Token+`"}`)
	m.advance(25 * time.Minute) // held[3] expires, and the one with the run_at has been ready for 5 minutes and 20 seconds
	m.reserve(`{"max":100}`)
	families := m.gather()
	sums := func(name string) (count uint64, sum float64) {
		h := families[name].GetMetric()[0].GetHistogram()
		native := int64(h.GetZeroCount())
		at := int64(0)
		for _, d := range h.GetPositiveDelta() {
			at += d
			native += at
		}
		if uint64(native) != h.GetSampleCount() || h.GetBucket()[len(h.GetBucket())-1].GetCumulativeCount() != h.GetSampleCount() {
			t.Errorf("%s: %d in native buckets, %v in classic ones, %d in all", name, native, h.GetBucket(), h.GetSampleCount())
		}
		return h.GetSampleCount(), h.GetSampleSum()
	}
	// 4 waited 10 minutes, 6 waited 35 minutes and 20 seconds, the released one is handed out a second time with its first try
	// still to come, and the last one waited from its run_at on.
	if count, sum := sums("quern_wait_seconds"); count != 12 || sum != 4*600+7*2120+320 {
		t.Errorf("waits: got %d with the sum %v, want 12 with %v", count, sum, 4*600+7*2120+320)
	}
	if count, sum := sums("quern_run_seconds"); count != 2 || sum != 40 {
		t.Errorf("runs: got %d with the sum %v, want 2 with 40", count, sum)
	}
}

func newUserSubmission(i int64) queue.NewSubmission {
	return queue.NewSubmission{
		Chunks: queue.Chunks{Count: 2, Prefix: "x"}, OperationsPerChunk: 1,
		Meta: queue.Meta{{Key: "hidden", Value: queue.IntValue(i)}, {Key: "user", Value: queue.IntValue(i)}},
	}
}

// However many values a key has, metrics show a bounded number of them, nothing is lost in the sums, and keys that were
// not asked for are not shown.
//
//quern:overlapping
func TestMetricsOfManyValues(t *testing.T) {
	t.Parallel()
	const values = 10_000
	m := newMeasured(t, "user")
	var group atomic.Int64
	done := make(chan error, 8)
	for range 8 {
		go func() {
			for {
				i := group.Add(1) - 1
				if i >= values {
					done <- nil
					return
				}
				if _, _, err := queueAt(m.engine, engine.DefaultQueue).Insert(context.Background(), newUserSubmission(i)); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	m.reserve(`{"max":1000}`)
	m.reserve(`{"max":500}`)
	m.advance(0)
	families := m.gather()
	series := 0
	for name, f := range families {
		series += len(f.GetMetric())
		for _, x := range f.GetMetric() {
			if strings.Contains(labelsOf(x), `"hidden"`) {
				t.Errorf("%s%s: of a key that was not asked for", name, labelsOf(x))
			}
		}
	}
	for name, want := range map[string]float64{"quern_key_in_flight": 1500, "quern_key_backlog": 2*values - 1500} {
		sum := 0.0
		for _, x := range families[name].GetMetric() {
			sum += value(x)
		}
		if n := len(families[name].GetMetric()); n != engine.FrameValues+1 || sum != want {
			t.Errorf("%s: got %d series with the sum %v, want %d with %v", name, n, sum, engine.FrameValues+1, want)
		}
	}
	if got := m.one("quern_key_values", `{meta_key="user",queue="default"}`); got != values {
		t.Errorf("got %v values, want %d", got, values)
	}
	if series > 600 {
		t.Errorf("got %d series with %d values, want at most 600", series, values)
	}
}

// The value with the largest backlog, and that whose work is oldest, are shown however many others are in flight.
func TestMetricsOfBacklogAndAge(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, "user")
	m.insert(`{"meta":{"user":"old"},"chunks":{"count":1,"template":"x"}}`)
	m.advance(time.Hour)
	for i := range engine.FrameValues + 5 {
		m.insert(fmt.Sprintf(`{"meta":{"user":%d},"chunks":{"count":2,"template":"x"}}`, i))
	}
	m.insert(`{"meta":{"user":"large"},"chunks":{"count":9,"template":"x"}}`)
	got := m.reserve(fmt.Sprintf(`{"max":%d,"strategy":"Except(\"user\", [\"old\", \"large\"], PreferDistinct(\"user\", 1, OldestFirst))"}`,
		engine.FrameValues+5)).Reservations
	if len(got) != engine.FrameValues+5 {
		t.Fatalf("%d are in flight", len(got))
	}
	m.advance(30 * time.Second)
	if n := m.one("quern_key_backlog", `{meta_key="user",queue="default",value="large"}`); n != 9 {
		t.Errorf("the largest backlog is shown as %v, want 9", n)
	}
	if n := m.one("quern_key_oldest_ready_seconds", `{meta_key="user",queue="default",value="old"}`); n != 3630 {
		t.Errorf("the oldest work is shown as %v seconds old, want 3630", n)
	}
}

// The table in docs/METRICS.md has every metric that a server under load shows, with its labels and its help text, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## Alerts\n")
	documented := map[string][]string{}
	for _, found := range regexp.MustCompile("`(quern_[a-z_]+)(?:\\{([a-z_,]+)\\})?`").FindAllStringSubmatch(table, -1) {
		documented[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "metrics-load.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, help := range regexp.MustCompile(`(?m)^# HELP (quern_[a-z_]+) (.*)$`).FindAllStringSubmatch(string(golden), -1) {
		row := regexp.MustCompile("(?m)^\\| `" + help[1] + "[{`].*$").FindString(table)
		if !strings.Contains(row, "| "+help[2]) {
			t.Errorf("docs/METRICS.md does not begin the meaning of %s with its help text:\ngot  %s\nwant %s", help[1], row, help[2])
		}
	}
	shown := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^(quern_[a-z_]+)\{(.*)\} `).FindAllStringSubmatch(string(golden), -1) {
		name := found[1]
		shown[name] = true
		want, known := documented[name]
		if !known {
			t.Errorf("docs/METRICS.md has no row for %s", name)
			documented[name] = nil
			continue
		}
		var got []string
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(found[2], -1) {
			if label[1] != "queue" && label[1] != "plugin" {
				got = append(got, label[1])
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the labels %v, documented are %v", name, got, want)
		}
	}
	for name := range documented {
		if strings.HasPrefix(name, "quern_backup_") { // of a server with backup-dir
			continue
		}
		if !shown[name] && !slices.Contains([]string{"quern_plugin_counter_total", "quern_plugin_shadow_overlap", "quern_plugin_shadow_tau", "quern_trace_spans_total"}, name) {
			t.Errorf("docs/METRICS.md has a row for %s, which no server shows", name)
		}
	}
}
