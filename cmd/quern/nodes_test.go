//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// nodesAt asks a server for the nodes of its cluster until they are as wanted: it looks once a second.
func nodesAt(t *testing.T, url string, wanted func([]api.Node) bool) []api.Node {
	t.Helper()
	var page api.Page[api.Node]
	for ; t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
		_, _, _, text := answer(t, "GET", url+"/v1/nodes", "")
		if err := json.Unmarshal(text, &page); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if wanted(page.Items) {
			return page.Items
		}
	}
	t.Fatalf("the nodes are still %+v", page.Items)
	return nil
}

// The owner lists all nodes, those that stand by too, and its queues with the time left of its lease. The next owner lists the queues as
// its own, with the epoch of its claim, and leaves out the one that has died.
func TestNodesAreListed(t *testing.T) {
	t.Parallel()
	database, began := pgtest.Begin(t), time.Now().Truncate(time.Millisecond)
	first := node(t, database, "a", "127.0.0.1:0")
	url := first.url()
	address := freeAddress(t)
	second := node(t, database, "b", address)
	two := nodesAt(t, url, func(list []api.Node) bool { return len(list) == 2 && len(list[0].Queues) == 1 })
	a, b := two[0], two[1]
	if a.Name != "a" || a.URL != url || b.Name != "b" || b.URL != "http://"+address || len(b.Queues) != 0 || a.Leaving || b.Leaving {
		t.Errorf("the nodes are %+v, want a at %s and b at %s, which owns nothing", two, url, address)
	}
	if a.Since.Before(began) || b.Since.Before(a.Since.Time) || b.Since.After(time.Now()) {
		t.Errorf("a was started at %v and b at %v; both after %v", a.Since, b.Since, began)
	}
	if len(a.Queues) != 1 || a.Queues[0].Queue != "default" || a.Queues[0].Epoch != 1 || a.Queues[0].LeaseMS == nil ||
		*a.Queues[0].LeaseMS <= 0 || *a.Queues[0].LeaseMS >= member.TTL.Milliseconds() {
		t.Errorf("a has the queues %+v, want default in its first epoch, with a lease", a.Queues)
	}

	first.tell(syscall.SIGKILL)
	if got := second.url(); got != "http://"+address {
		t.Fatalf("b serves at %s", got)
	}
	last := nodesAt(t, "http://"+address, func(list []api.Node) bool { return len(list) == 1 && len(list[0].Queues) == 1 })[0]
	if last.Name != "b" || len(last.Queues) != 1 || last.Queues[0].Epoch != 2 {
		t.Errorf("the last node is %+v, want b with default in its second epoch", last)
	}
	var out strings.Builder
	run := &app{in: strings.NewReader(""), out: &out, err: &out, env: func() []string { return nil }}
	if code := run.run(t.Context(), []string{"nodes", "--server", "http://" + address}); code != exitOK {
		t.Fatalf("quern nodes: %d %s", code, &out)
	}
	if row := regexp.MustCompile(`(?m)^b +http://` + address + ` +20\S+Z +-? *[0-4]\.\ds +default$`); !row.MatchString(out.String()) {
		t.Errorf("quern nodes printed\n%swant %s", &out, row)
	}
	_, _, _, metrics := answer(t, "GET", "http://"+address+"/metrics", "")
	age := regexp.MustCompile(`(?m)^quern_node_beat_age_seconds\{node="([ab])"\} (\S+)$`).FindAllStringSubmatch(string(metrics), -1)
	if len(age) != 2 || age[0][1] != "a" || age[1][1] != "b" {
		t.Errorf("the ages of beats are %v, want those of a and b", age)
	}
}

// Metrics name each queue that no node serves, and list no other.
func TestMetricsNameQueuesWithoutANode(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(places(func() (int, []string) { return 3, []string{"default", "orders~2"} }))
	var got []string
	families, err := registry.Gather()
	for _, family := range families {
		for _, m := range family.Metric {
			line := fmt.Sprint(family.GetName(), " ", m.Gauge.GetValue())
			for _, label := range m.Label {
				line += fmt.Sprint(" ", label.GetName(), "=", label.GetValue())
			}
			got = append(got, line)
		}
	}
	want := []string{"quern_cluster_queues 3", "quern_cluster_queues_waiting 1 queue=default", "quern_cluster_queues_waiting 1 queue=orders~2"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the metrics are %q (%v), want %q", got, err, want)
	}
}

// A queue that sets nothing has a restart grace of 30 seconds in a cluster, also after 'quern queue put', which asks nothing about it. A
// server that is alone has none by default.
func TestRestartGraceOfACluster(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]int64{"a cluster": 30_000, "a server that is alone": 0} {
		arguments := []string{quernProgram(t), "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0"}
		if want > 0 {
			arguments = append(arguments, "--cluster", pgtest.Begin(t).URL(), "--accept-async")
		}
		url := launch(t, t.TempDir(), arguments...).url()
		grace := func(queue string) int64 {
			_, _, _, text := answer(t, "GET", url+"/v1/queues/"+queue, "")
			var got api.Queue
			if err := json.Unmarshal(text, &got); err != nil || got.Name != queue {
				t.Fatalf("%s: %s: %s, %v", where, queue, text, err)
			}
			return got.Settings.RestartGraceMS
		}
		answer(t, "PUT", url+"/v1/queues/unset", "{}")
		answer(t, "PUT", url+"/v1/queues/none", `{"settings":{"restart_grace_ms":0}}`)
		for _, queue := range []string{"default", "unset"} {
			var out strings.Builder
			run := &app{in: strings.NewReader(""), out: &out, err: &out, env: func() []string { return nil }}
			if code := run.run(t.Context(), []string{"queue", "put", queue, "--server", url}); code != exitOK || grace(queue) != want {
				t.Errorf("%s: queue put %s: %d %s; its restart grace is %d, want %d", where, queue, code, &out, grace(queue), want)
			}
		}
		if got := grace("none"); got != 0 {
			t.Errorf("%s: a queue that sets its restart grace to 0 has one of %d", where, got)
		}
	}
}
