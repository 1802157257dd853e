//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// twoNodes are two nodes of a cluster that share its queues: default is at a, and there is at b.
type twoNodes struct {
	t      *testing.T
	a, b   string // their URLs
	first  *launched
	second *launched
}

func newTwoNodes(t *testing.T) *twoNodes {
	t.Helper()
	database := pgtest.Begin(t)
	n := &twoNodes{t: t}
	n.first = node(t, database, "a", "127.0.0.1:0")
	n.a = n.first.url()
	waitForQueue(t, n.a)
	n.second = node(t, database, "b", "127.0.0.1:0")
	n.b = n.second.url()
	waitForQueue(t, n.b)
	n.must("PUT", n.a+"/v1/queues/there", `{}`)
	for queue, to := range map[string]string{"default": "a", "there": "b"} {
		n.must("POST", n.a+"/v1/queues/"+queue+"/move", fmt.Sprintf(`{"node":%q}`, to))
	}
	return n
}

func (n *twoNodes) must(method, url, body string) []byte {
	n.t.Helper()
	status, _, _, text := answer(n.t, method, url, body)
	if status >= 300 {
		n.t.Fatalf("%s %s: %d %s", method, url, status, text)
	}
	return text
}

// heard is the answer to a call, read as JSON.
func heard[T any](n *twoNodes, method, url, body string) (out T) {
	n.t.Helper()
	if text := n.must(method, url, body); json.Unmarshal(text, &out) != nil {
		n.t.Fatalf("%s %s: %s", method, url, text)
	}
	return out
}

// Any node answers calls about queues of several nodes, like a server that is alone. If a node does not answer, the answer names its
// queues as missing, or the call is refused.
func TestCallsAboutQueuesOfSeveralNodes(t *testing.T) {
	t.Parallel()
	n := newTwoNodes(t)
	n.listBulks()
	ids := n.waitForEnds()
	n.streamEvents()
	n.readAudit()

	n.second.stands()
	list := heard[api.PageBulkOperation](n, "GET", n.a+"/v1/bulk-operations", "")
	lacks := len(list.Items) == 3 && len(list.Missing) == 1 && fmt.Sprint(list.Missing[0].Queues) == "[there]"
	if whole := len(list.Items) == 6 && list.Missing == nil; !lacks && !whole { // whole: a has taken the queue over by now
		t.Errorf("while b stands still the list is %+v, want the operations of a, and the queue there missing", list)
	}
	log := heard[api.PageAuditEntry](n, "GET", n.a+"/v1/audit?action=rule.create", "")
	lacks = fmt.Sprint(log.Incomplete) == "[there]"
	if whole := len(log.Items) == 4 && log.Incomplete == nil; !lacks && !whole {
		t.Errorf("while b stands still the audit log is %+v, want the queue there named as incomplete", log)
	}
	body := fmt.Sprintf(`{"ids":[%q,%q]}`, ids[0], ids[1])
	status, code, _, text := answer(t, "POST", n.a+"/v1/submissions:wait", body)
	if whole := strings.Count(string(text), `"id"`) == 2; code != "moving" && (status != 200 || !whole) {
		t.Errorf("a wait for what is at a node that stands still: %d %s, want it refused", status, text)
	}
	n.second.tell(syscall.SIGCONT)
}

// listBulks: all operations come, the newest first and in pages, from any node.
func (n *twoNodes) listBulks() {
	n.t.Helper()
	for range 3 {
		for _, queue := range []string{"default", "there"} {
			n.must("POST", n.a+"/v1/bulk-operations", fmt.Sprintf(`{"queue":%q,"action":"cancel","filter":{"meta":{"company":1}}}`, queue))
		}
	}
	for _, url := range []string{n.a, n.b} {
		list := heard[api.PageBulkOperation](n, "GET", url+"/v1/bulk-operations", "")
		of := map[string]int{}
		for i, b := range list.Items {
			of[b.Queue]++
			if i > 0 && b.CreatedAt.After(list.Items[i-1].CreatedAt.Time) {
				n.t.Errorf("the list is not the newest first: %+v", list.Items)
			}
		}
		if of["default"] != 3 || of["there"] != 3 || list.Missing != nil || list.Next != "" {
			n.t.Errorf("the list has %v, missing %+v and next %q, want 3 of each queue and no more", of, list.Missing, list.Next)
		}
	}
}

// waitForEnds: a wait is over when any submission has ended, or when all have, whichever node each is at.
func (n *twoNodes) waitForEnds() []string {
	n.t.Helper()
	var ids []string
	for _, queue := range []string{"default", "there"} {
		ids = append(ids, heard[api.Submission](n, "POST", n.a+"/v1/queues/"+queue+"/submissions", `{"chunks":{"count":1,"prefix":"x/"}}`).ID)
	}
	wait := func(url string, ms int, all bool, ids ...string) api.WaitResponse {
		n.t.Helper()
		text, _ := json.Marshal(api.WaitRequest{IDs: ids, WaitMS: int64(ms), All: all})
		return heard[api.WaitResponse](n, "POST", url+"/v1/submissions:wait", string(text))
	}
	if got := wait(n.b, 0, false, ids...); got.Open != 2 || len(got.Ended)+len(got.Unknown) != 0 {
		n.t.Errorf("both are open: %+v", got)
	}
	any := make(chan api.WaitResponse)
	go func() { any <- wait(n.a, 60_000, false, ids...) }()
	n.must("POST", n.a+"/v1/submissions/"+ids[1]+"/cancel", "")
	if got := <-any; len(got.Ended) != 1 || got.Ended[0].ID != ids[1] || got.Open != 1 {
		n.t.Errorf("a wait for any: %+v, want the one of b", got)
	}
	both := make(chan api.WaitResponse)
	go func() { both <- wait(n.b, 60_000, true, ids[0], ids[1]) }()
	n.must("POST", n.a+"/v1/submissions/"+ids[0]+"/cancel", "")
	if got := <-both; len(got.Ended) != 2 || got.Ended[0].ID != ids[0] || got.Ended[1].ID != ids[1] || got.Open != 0 {
		n.t.Errorf("a wait for all: %+v, want both in the order of the request", got)
	}
	none := "7"
	if got := wait(n.a, 60_000, false, ids[0], none, ids[1]); len(got.Ended) != 2 || fmt.Sprint(got.Unknown) != "["+none+"]" {
		n.t.Errorf("with one that is unknown: %+v", got)
	}
	if status, _, _, text := answer(n.t, "POST", n.a+"/v1/submissions:wait",
		fmt.Sprintf(`{"ids":[%q,"x",%q]}`, ids[0], ids[1])); status != 422 || !strings.Contains(string(text), "/ids/1") {
		n.t.Errorf("with an id that is none: %d %s, want the pointer /ids/1", status, text)
	}
	return ids
}

// readAudit: any node shows what was changed in queues of both, at once.
func (n *twoNodes) readAudit() {
	n.t.Helper()
	for company := range 4 {
		queue := []string{"default", "there"}[company%2]
		n.must("POST", n.a+"/v1/queues/"+queue+"/rules", fmt.Sprintf(`{"action":"pause","match":{"meta":{"company":%d}}}`, company))
	}
	for _, url := range []string{n.a, n.b} {
		log := api.PageAuditEntry{Incomplete: []string{""}}
		for log.Incomplete != nil { // a node that was slow to say that it lives makes it so
			log = heard[api.PageAuditEntry](n, "GET", url+"/v1/audit?action=rule.create", "")
		}
		of := map[string]int{}
		for i := range log.Items {
			if of[log.Items[i].Queue]++; i > 0 && log.Items[i].At.After(log.Items[i-1].At.Time) {
				n.t.Errorf("the audit log at %s is not the latest first: %+v", url, log.Items)
			}
		}
		if of["default"] != 2 || of["there"] != 2 {
			n.t.Errorf("the audit log at %s has %v, want 2 rules of each queue", url, of)
		}
	}
}

// streamEvents: one stream has the events of queues of both nodes, and says which it cannot follow.
func (n *twoNodes) streamEvents() {
	n.t.Helper()
	for _, url := range []string{n.a, n.b} {
		stream, err := http.Get(url + "/v1/events?queue=default&queue=there&queue=none&topics=stats") //nolint:noctx // a test
		if err != nil {
			n.t.Fatal(err)
		}
		lines, seen := bufio.NewScanner(stream.Body), map[string]bool{}
		lines.Buffer(nil, 1<<20)
		event := ""
		for !(seen["stats default"] && seen["stats there"] && seen["closed none"]) && lines.Scan() {
			if name, is := strings.CutPrefix(lines.Text(), "event: "); is {
				event = name
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var about struct{ Queue string }
				if err := json.Unmarshal([]byte(data), &about); err != nil {
					n.t.Fatalf("%q: %v", data, err)
				}
				seen[event+" "+about.Queue] = true
			}
		}
		stream.Body.Close()
		for _, want := range []string{"stats default", "stats there", "closed none"} {
			if !seen[want] {
				n.t.Errorf("the stream at %s lacks %q: it has %v, %v", url, want, seen, lines.Err())
			}
		}
	}
}
