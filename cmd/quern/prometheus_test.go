//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/web/trace/tracetest"
)

// deployed is where the rules and boards are.
const deployed = "../../deploy"

// tool is a program that the test cannot do without. CI and `make test` have it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed: make test installs it", name)
	}
	if err != nil {
		t.Skipf("%s is not installed: make test installs it (Debian's package prometheus has it)", name)
	}
	return path
}

// run runs a program and wants it to go well.
func run(t *testing.T, in io.Reader, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Stdin = in
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
}

// The rules are well formed, every alert has a case in which it fires, and one in which it does not, and they come true.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	folder := filepath.Join(deployed, "prometheus")
	run(t, nil, promtool, "check", "rules", filepath.Join(folder, "alerts.yml"), filepath.Join(folder, "recording.yml"))
	run(t, nil, promtool, "check", "config", filepath.Join(folder, "prometheus.yml"))
	run(t, nil, promtool, "test", "rules", filepath.Join(folder, "alerts_test.yml"))

	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	cases, err := yaml.Parser().Unmarshal([]byte(read("alerts_test.yml")))
	if err != nil {
		t.Fatal(err)
	}
	documented, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range list(cases["tests"]) {
		for _, a := range list(c["alert_rule_test"]) {
			name, _ := a["alertname"].(string)
			if len(list(a["exp_alerts"])) > 0 {
				fires[name] = true
			} else {
				quiet[name] = true
			}
		}
	}
	for _, found := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(read("alerts.yml"), -1) {
		if !fires[found[1]] || !quiet[found[1]] {
			t.Errorf("alerts_test.yml makes %s fire: %v, and has it quiet when all is well: %v", found[1], fires[found[1]], quiet[found[1]])
		}
		if !strings.Contains(string(documented), "`"+found[1]+"`") {
			t.Errorf("docs/METRICS.md does not have %s", found[1])
		}
		delete(fires, found[1])
	}
	if len(fires) > 0 {
		t.Errorf("alerts_test.yml tests %v, which alerts.yml does not have", slices.Sorted(maps.Keys(fires)))
	}
}

// list is a YAML list of maps.
func list(value any) (maps []map[string]any) {
	entries, _ := value.([]any)
	for _, e := range entries {
		if m, ok := e.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}

// board is the part of a Grafana board that the test looks at.
type board struct {
	Title, UID string
	Panels     []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, RefID string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

func boards(t *testing.T) (all []board) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deployed, "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %v (%v), want boards", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, b)
	}
	return all
}

// Boards have names of their own, panels that do not overlap, and no variable that is not declared.
func TestBoardsAreWhole(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for _, b := range boards(t) {
		if b.UID == "" || b.Title == "" || uids[b.UID] {
			t.Errorf("board %q has the uid %q, which is empty or another's", b.Title, b.UID)
		}
		uids[b.UID] = true
		declared := map[string]bool{"__rate_interval": true}
		for _, v := range b.Templating.List {
			declared[v.Name] = true
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range b.Panels {
			at := b.Title + ": " + p.Title
			if p.Title == "" || ids[p.ID] {
				t.Errorf("%s: panel %d has no title, or the id of another", at, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
						t.Fatalf("%s overlaps %s at %d,%d, or beyond the 24 columns", at, other, x, y)
					}
					cells[[2]int{x, y}] = at
				}
			}
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s asks for nothing", at)
			}
			for _, target := range p.Targets {
				for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
					if !declared[v[1]] {
						t.Errorf("%s: $%s is not declared", at, v[1])
					}
				}
			}
		}
	}
}

// watcher is a Prometheus that watches a server.
type watcher struct {
	t   *testing.T
	url string
}

// watch starts a Prometheus on servers, with all rules, and waits until it answers.
func watch(t *testing.T, servers []string, flags ...string) *watcher {
	t.Helper()
	program, dir := tool(t, "prometheus"), t.TempDir()
	folder, err := filepath.Abs(filepath.Join(deployed, "prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [%q, %q]\nscrape_configs:\n- job_name: quern\n  static_configs: [{targets: %s}]\n",
		filepath.Join(folder, "recording.yml"), filepath.Join(folder, "alerts.yml"), strings.ReplaceAll(jsonText(servers), "http://", ""))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.Command(program, append([]string{"--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0", "--log.level", "info"}, flags...)...)
	said, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	})
	lines, log := bufio.NewScanner(said), []string{}
	listens := regexp.MustCompile(`msg="Listening on" address=([0-9.:]+)`)
	for lines.Scan() {
		log = append(log, lines.Text())
		if found := listens.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			w := &watcher{t, "http://" + found[1]}
			w.untilReady()
			return w
		}
	}
	t.Fatalf("prometheus did not listen; it said:\n%s", strings.Join(log, "\n"))
	return nil
}

// untilReady waits until Prometheus has loaded everything.
func (w *watcher) untilReady() {
	w.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for range 1500 {
		response, err := http.Get(w.url + "/-/ready")
		if err != nil {
			w.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		<-again.C
	}
	w.t.Fatal("prometheus did not become ready within half a minute")
}

// get asks Prometheus' API; an error of a query is returned, not failed on.
func (w *watcher) get(path string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("status %d: %w", response.StatusCode, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("status %d: %s", response.StatusCode, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// series is how many series an expression has now.
func (w *watcher) series(expression string) (int, error) {
	var found struct{ Result []json.RawMessage }
	err := w.get("/api/v1/query", url.Values{"query": {expression}}, &found)
	return len(found.Result), err
}

// await asks for all expressions until each has a series, or the time is over. An invalid expression fails at once.
func (w *watcher) await(expressions map[string]string, patience time.Duration) {
	w.t.Helper()
	over := time.NewTimer(patience)
	defer over.Stop()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	left := maps.Clone(expressions)
	for len(left) > 0 {
		for at, expression := range left {
			n, err := w.series(expression)
			if err != nil {
				w.t.Errorf("%s: %s: %v", at, expression, err)
			}
			if err != nil || n > 0 {
				delete(left, at)
			}
		}
		select {
		case <-over.C:
			for _, at := range slices.Sorted(maps.Keys(left)) {
				w.t.Errorf("%s: %s has no series, though the server is busy", at, left[at])
			}
			return
		case <-again.C:
		}
	}
}

// concrete puts what Grafana would into an expression.
func concrete(expression string) string {
	return strings.NewReplacer("$__rate_interval", "4s", "$meta_key", "company", "$instance", ".*", "$queue", ".*", "$plugin", ".*").Replace(expression)
}

// mayBeEmpty are the panels and metrics that a busy server may have nothing for: no plugin of this test counts anything of its own, and no
// queue waits for a node.
var mayBeEmpty = map[string]bool{"Quern / plugins: The plugins' own counters 0": true, "alert QuernNoOwner on quern_cluster_queues_waiting": true}

// Every expression of every panel, variable and rule is understood by a real Prometheus that watches a real server at work
// and the node of a cluster, and has something to show.
func TestBoardsAndRulesOnPrometheus(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a server under load, and a Prometheus")
	}
	promtool := tool(t, "promtool")
	collector := tracetest.New(t.Errorf)
	t.Cleanup(collector.Close)
	s, err := startServer(quernCopy(t), os.Environ(), t.TempDir(), "--metric-keys", "company", "--otlp-endpoint", collector.URL,
		"--backup-dir", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.end(syscall.SIGTERM) })
	ctx, cancel := context.WithCancel(t.Context())
	stop := keepBusy(ctx, t, s.url)
	t.Cleanup(func() { cancel(); stop() })
	node, err := startServer(quernCopy(t), os.Environ(), t.TempDir(), "--cluster", pgtest.Begin(t).URL(), "--accept-async")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.end(syscall.SIGTERM) })
	w := watch(t, []string{s.url, node.url})

	wanted := map[string]string{}
	for _, b := range boards(t) {
		for _, p := range b.Panels {
			for i, target := range p.Targets {
				wanted[fmt.Sprintf("%s: %s %d", b.Title, p.Title, i)] = concrete(target.Expr)
			}
		}
		for _, v := range b.Templating.List {
			query, _ := v.Query.(map[string]any)
			if text, _ := query["query"].(string); text != "" {
				found := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(text)
				if found == nil {
					t.Fatalf("%s: the variable %s is %q, want label_values(METRIC, NAME)", b.Title, v.Name, text)
				}
				wanted[b.Title+": variable "+v.Name] = fmt.Sprintf("count by (%s) (%s)", found[2], concrete(found[1]))
			}
		}
	}
	maps.Copy(wanted, w.rules())
	for at := range mayBeEmpty {
		if _, err := w.series(wanted[at]); err != nil || wanted[at] == "" {
			t.Errorf("%s: %q: %v", at, wanted[at], err)
		}
		delete(wanted, at)
	}
	w.await(wanted, 90*time.Second)
	w.healthy()

	response, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var scraped bytes.Buffer
	if _, err := scraped.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	run(t, &scraped, promtool, "check", "metrics")

	native := watch(t, []string{s.url}, "--enable-feature=native-histograms")
	native.await(map[string]string{
		"our own native histogram":    `histogram_quantile(0.9, rate(quern_wait_seconds[4s])) >= 0`,
		"the library's, of commits":   `histogram_quantile(0.9, rate(quern_writer_commit_seconds[4s])) > 0`,
		"what was counted in natives": `histogram_count(quern_run_seconds) > 0`,
	}, 60*time.Second)
}

type ruleGroups struct {
	Groups []struct {
		Rules []struct{ Name, Type, Query, Health, LastError string }
	}
}

// rules returns what the rules need series of: the names that recording rules record, and every metric that an alert is about.
func (w *watcher) rules() map[string]string {
	w.t.Helper()
	var all ruleGroups
	if err := w.get("/api/v1/rules", nil, &all); err != nil {
		w.t.Fatal(err)
	}
	wanted := map[string]string{}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			if r.Type == "recording" {
				wanted["rule "+r.Name] = r.Name
				continue
			}
			if _, err := w.series(r.Query); err != nil {
				w.t.Errorf("alert %s: %v", r.Name, err)
			}
			for _, metric := range regexp.MustCompile(`\b(?:quern|process|up)\w*`).FindAllString(r.Query, -1) {
				if metric != "quern" { // the name of the scraped server
					wanted["alert "+r.Name+" on "+metric] = metric
				}
			}
		}
	}
	if len(wanted) == 0 {
		w.t.Error("Prometheus has no rules")
	}
	return wanted
}

// healthy wants no rule to have failed.
func (w *watcher) healthy() {
	w.t.Helper()
	var all ruleGroups
	if err := w.get("/api/v1/rules", nil, &all); err != nil {
		w.t.Fatal(err)
	}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				w.t.Errorf("%s %s is %s: %s", r.Type, r.Name, r.Health, r.LastError)
			}
		}
	}
}
