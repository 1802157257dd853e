//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Machines of a cluster are killed again and again, and each loses its disk. The checks of TestKillNine hold here too, because the database
// has all that was acknowledged.
//
//quern:killing
func TestClusterLosesItsMachines(t *testing.T) {
	t.Parallel()
	database, node := pgtest.Begin(t), 0
	killNine(t, envNumber(t, "QUERN_CRASH_ROUNDS", 6), func(_ *oracle, dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		node++
	}, "--cluster", database.URL(), "--accept-async", "--snapshot-bytes", "64KiB")
	t.Logf("%d machines were lost", node)
}

// node starts a node of a cluster.
func node(t *testing.T, database *pgtest.Server, name, listen string) *launched {
	t.Helper()
	n := launch(t, t.TempDir(), quernCopy(t), "serve", "--cluster", database.URL(), "--accept-async", "--listen", listen, "--node", name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("node %s said:\n%s", name, n.stderr.String())
		}
	})
	return n
}

// answer is the answer of an address: the status, the code of a problem, and the header with the owner.
func answer(t *testing.T, method, url, body string) (status int, code, owner string, text []byte) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err = io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	var problem api.Problem
	if r.StatusCode >= 400 {
		_ = json.Unmarshal(text, &problem)
	}
	return r.StatusCode, problem.Code, r.Header.Get("Quern-Owner"), text
}

// The node that serves the queue answers a call that comes to any node, also when the owner changes. When a node gets the signal to end,
// the other one serves within moments, and reservations go on.
func TestAnyNodeAnswers(t *testing.T) {
	t.Parallel()
	database := pgtest.Begin(t)
	first := node(t, database, "a", "127.0.0.1:0")
	url := first.url()
	waitForQueue(t, url)
	id := submitted(t, url, 10)
	second := node(t, database, "b", "127.0.0.1:0")
	other := second.url()
	waitForQueue(t, other)
	status, _, owner, text := answer(t, "POST", other+"/v1/queues/default/reservations", `{"max":1}`)
	var held api.ReserveResponse
	if err := json.Unmarshal(text, &held); err != nil || status != 200 || len(held.Reservations) != 1 {
		t.Fatalf("reserve through a node that does not serve the queue: %d %s, %v", status, text, err)
	}
	if owner != url {
		t.Errorf("the answer names the owner %q, want %q", owner, url)
	}
	for path, want := range map[string]string{
		"/v1/submissions/" + id: `"reserved":1`, "/v1/queues": `"default"`, "/v1/queues/default/stats": `"reserved":1`, "/readyz": "",
		"/v1/queues/none/stats": "unknown_queue",
	} {
		here, _, _, one := answer(t, "GET", url+path, "")
		there, _, _, two := answer(t, "GET", other+path, "")
		if here != there || !strings.Contains(string(one), want) || !strings.Contains(string(two), want) {
			t.Errorf("GET %s is %d %s at the owner and %d %s at the other node", path, here, one, there, two)
		}
	}
	stream, err := http.Get(other + "/v1/events?queue=default") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); stream.StatusCode != 200 || !strings.HasPrefix(line, "retry:") {
		t.Errorf("a stream through a node that does not serve the queue: %s %q, %v", stream.Status, line, err)
	}
	stream.Body.Close()
	for _, at := range []string{other, url} { // a new queue, and then the same one again
		if status, _, _, text := answer(t, "PUT", at+"/v1/queues/new", `{}`); status != 201 && at == other || status != 200 && at == url {
			t.Errorf("PUT of a queue: %d %s", status, text)
		}
	}

	if code, said := typed(t, "move", "default", "b", "--server", other); code != exitOK || !strings.Contains(said, "b\n") {
		t.Fatalf("quern move: %d %s", code, said)
	}
	if code, said := typed(t, "move", "default", "none", "--server", other); code == exitOK || !strings.Contains(said, "no node of this cluster") {
		t.Errorf("quern move to a node that is none: %d %s", code, said)
	}
	if status, _, owner, text = answer(t, "GET", url+"/v1/submissions/"+id, ""); status != 200 || owner != other ||
		!strings.Contains(string(text), `"reserved":1`) {
		t.Errorf("after the move the submission is %d %s, by %q", status, text, owner)
	}
	if _, _, _, text := answer(t, "GET", url+"/v1/audit?action=queue.move", ""); !strings.Contains(string(text), `"node":"b"`) {
		t.Errorf("the audit log says of the move: %s", text)
	}
	second.tell(syscall.SIGTERM)
	body := fmt.Sprintf(`{"items":[{"token":%q}]}`, held.Reservations[0].Token)
	for done := false; !done; {
		status, code, _, text := answer(t, "POST", url+"/v1/queues/default/reservations/complete", body)
		if done = status == 200; done && !strings.Contains(string(text), `"ok"`) || !done && (status != 503 || code != "moving" && code != "unavailable") {
			t.Fatalf("completing while a node ends: %d %s", status, text)
		}
	}
	second.ends(exitOK)
	first.tell(syscall.SIGTERM)
	first.ends(exitOK)
}

// typed runs a command of this program, and returns its exit code with what it printed.
func typed(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out strings.Builder
	run := &app{in: strings.NewReader(""), out: &out, err: &out, env: func() []string { return nil }}
	return run.run(t.Context(), args), out.String()
}

// waitForQueue waits until the cluster serves the default queue, as a node sees it.
func waitForQueue(t *testing.T, url string) {
	t.Helper()
	for {
		status, code, _, text := answer(t, "GET", url+"/v1/queues/default/stats", "")
		switch {
		case status == 200:
			return
		case status != 503:
			t.Fatalf("%d %s %s", status, code, text)
		}
	}
}

// An owner stood still while another node took its queue over. It answers none of the calls that came to it meanwhile, and goes on as a
// node that sends calls on to the other.
func TestOwnerThatStoodStill(t *testing.T) {
	t.Parallel()
	database := pgtest.Begin(t)
	first := node(t, database, "a", "127.0.0.1:0")
	url := first.url()
	waitForQueue(t, url)
	submitted(t, url, 10)
	second := node(t, database, "b", "127.0.0.1:0")
	other := second.url()
	waitForQueue(t, other)

	first.stands()
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	const body = `{"max":10}`
	if _, err := fmt.Fprintf(connection, "POST /v1/queues/default/reservations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	var got api.ReserveResponse
	for len(got.Reservations) == 0 {
		ctx, stop := context.WithTimeout(t.Context(), time.Second) // a call to the node that stands still has no answer
		q, err := http.NewRequestWithContext(ctx, "POST", other+"/v1/queues/default/reservations", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		if r, err := http.DefaultClient.Do(q); err == nil {
			_ = json.NewDecoder(r.Body).Decode(&got)
			r.Body.Close()
		}
		stop()
	}
	if len(got.Reservations) != 10 {
		t.Fatalf("reserve at the new owner: %d chunks, want 10", len(got.Reservations))
	}
	first.tell(syscall.SIGCONT)
	late, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err == nil { // else it answers nothing, which is right too
		said, err := io.ReadAll(late.Body)
		var handed api.ReserveResponse
		if late.Body.Close(); late.StatusCode == 200 && json.Unmarshal(said, &handed) == nil && len(handed.Reservations) > 0 {
			t.Errorf("the old owner gives out what the new one gave out: %s, %v", said, err)
		}
	}
	waitForQueue(t, url)
	if status, _, owner, text := answer(t, "GET", url+"/v1/queues/default/stats", ""); status != 200 || owner != other ||
		!strings.Contains(string(text), `"reserved":10`) {
		t.Errorf("the old owner sends calls on to %q: %d %s", owner, status, text)
	}
}

// stands stops a process, and returns when none of its threads runs any more: the signal comes to each at its own time.
func (p *launched) stands() {
	p.t.Helper()
	p.tell(syscall.SIGSTOP)
	for running := true; running; {
		running = false
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Process.Pid))
		if err != nil || len(threads) == 0 {
			p.t.Fatalf("no thread of process %d: %v", p.Process.Pid, err)
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			_, state, _ := strings.Cut(string(text), ") ")
			running = running || err != nil || !strings.HasPrefix(state, "T")
		}
	}
}

// A database that cannot promise enough, and options that do not go together, are refused with advice.
func TestClusterRefusals(t *testing.T) {
	t.Parallel()
	database := pgtest.Begin(t)
	program := quernProgram(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--cluster", database.URL()}, exitFailure, "--accept-async"},
		{[]string{"--cluster", "postgres://127.0.0.1:1/none", "--accept-async"}, exitFailure, "127.0.0.1"},
		{[]string{"--cluster", database.URL(), "--accept-async", "--node", "Ä"}, exitUsage, "--node"},
		{[]string{"--cluster", database.URL(), "--accept-async", "--snapshot-dir", t.TempDir()}, exitUsage, "snapshot-dir"},
		{[]string{"--cluster", database.URL(), "--accept-async", "--backup-dir", t.TempDir()}, exitUsage, "backup-dir"},
		{[]string{"--cluster", database.URL(), "--accept-async", "--listen", ":0", "--insecure-behind-proxy"}, exitUsage, "--advertise"},
		{[]string{"--node", "a"}, exitUsage, "need the option cluster"},
	} {
		p := launch(t, t.TempDir(), append([]string{program, "serve", "--listen", "127.0.0.1:0"}, c.args...)...)
		p.ends(c.code)
		if said := p.stderr.String(); !strings.Contains(said, c.says) {
			t.Errorf("serve %v said %q, want something about %s", c.args, said, c.says)
		}
	}
}

// Dead letters go to a queue of another node, and plugins that one node has are used by the others.
func TestNodesShareWhatTheyHave(t *testing.T) {
	t.Parallel()
	database := pgtest.Begin(t)
	first := node(t, database, "a", "127.0.0.1:0")
	url := first.url()
	waitForQueue(t, url)
	second := node(t, database, "b", "127.0.0.1:0")
	other := second.url()
	must := func(method, at, body string) string {
		t.Helper()
		status, _, _, text := answer(t, method, at, body)
		if status >= 300 {
			t.Fatalf("%s %s: %d %s", method, at, status, text)
		}
		return string(text)
	}
	must("PUT", other+"/v1/queues/letters", `{}`)
	must("PUT", other+"/v1/queues/work", `{"settings":{"max_attempts":1,"on_exhausted":"dead_letter","dead_letter_queue":"letters"}}`)
	must("POST", url+"/v1/queues/letters/move", `{"node":"b"}`)
	must("POST", other+"/v1/queues/work/submissions", `{"chunks":{"count":3,"prefix":"x/"},"meta":{"company":12}}`)
	var held api.ReserveResponse
	if err := json.Unmarshal([]byte(must("POST", other+"/v1/queues/work/reservations", `{"max":2}`)), &held); err != nil || len(held.Reservations) != 2 {
		t.Fatalf("reserve: %+v, %v", held, err)
	}
	for _, r := range held.Reservations {
		must("POST", url+"/v1/queues/work/reservations/fail", fmt.Sprintf(`{"items":[{"token":%q,"error":"no"}]}`, r.Token))
	}
	for !strings.Contains(must("GET", url+"/v1/queues/letters/stats", ""), `"arrived_total":2`) {
		continue // each look is a call
	}
	if text := must("GET", url+"/v1/queues/work/stats", ""); !strings.Contains(text, `"forwarded_total":2`) {
		t.Errorf("the queue that they come from: %s", text)
	}

	upload, err := http.Post(url+"/v1/plugins", "application/wasm", //nolint:noctx // a test
		bytes.NewReader(wasmtest.ScorerWith("quern.manifest", []byte(manifestOf("order", "1.0.0")))))
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(upload.Body)
	if upload.Body.Close(); err != nil || upload.StatusCode != http.StatusCreated {
		t.Fatalf("upload: %s %s, %v", upload.Status, said, err)
	}
	must("POST", url+"/v1/plugins/order/activate", `{"version":"1.0.0"}`)
	const ask = `{"max":1,"strategy":"Plugin(\"order\", OldestFirst)"}`
	for { // the other node opens it within moments
		status, _, _, text := answer(t, "POST", other+"/v1/queues/letters/reservations", ask)
		if status == 200 && strings.Contains(string(text), `"token"`) {
			break
		}
		if status >= 400 && status != 422 && status != 404 {
			t.Fatalf("a reserve with the plugin at the other node: %d %s", status, text)
		}
	}

	for at, used := range map[string]bool{"a": false, "b": true} { // each node counts its own
		text := must("GET", url+"/v1/plugins/order/stats?node="+at, "")
		var got api.PluginStats
		if err := json.Unmarshal([]byte(text), &got); err != nil || (got.Batches+got.Fallbacks > 0) != used {
			t.Errorf("the numbers of the plugin at %s: %s, %v; want it used: %v", at, text, err, used)
		}
	}
	var of [3]api.PluginStats // of a, of b, of both
	for i, which := range []string{"?node=a", "?node=b", ""} {
		if err := json.Unmarshal([]byte(must("GET", url+"/v1/plugins/order/stats"+which, "")), &of[i]); err != nil {
			t.Fatal(err)
		}
	}
	if got := of[2]; got.Batches != of[0].Batches+of[1].Batches || got.Fallbacks != of[0].Fallbacks+of[1].Fallbacks || got.Missing != nil {
		t.Errorf("the numbers of the plugin are %+v, want the sum of %+v and %+v", got, of[0], of[1])
	}
	for _, at := range []string{url, other} {
		var logs api.PluginLogs
		if err := json.Unmarshal([]byte(must("GET", at+"/v1/plugins/order/logs?cursor=a:0", "")), &logs); err != nil ||
			logs.Cursor != "a:0,b:0" || len(logs.Lines)+len(logs.Missing) > 0 {
			t.Errorf("the log of a plugin that says nothing, at %s: %+v, %v; want both nodes in its cursor", at, logs, err)
		}
	}
	if status, _, _, text := answer(t, "GET", url+"/v1/plugins/order/logs?after=7", ""); status != 422 {
		t.Errorf("the number of a line without its node: %d %s", status, text)
	}
	if status, _, _, text := answer(t, "GET", url+"/v1/plugins/order/logs?node=none", ""); status != 422 {
		t.Errorf("the log of a node that is none: %d %s", status, text)
	}
	must("PUT", url+"/v1/queues/letters/strategies/nightly", `{"strategy":"Plugin(\"order\", OldestFirst)"}`) // letters is at b
	must("POST", url+"/v1/plugins/order/deactivate", "")
	if status, code, _, text := answer(t, "DELETE", url+"/v1/plugins/order", ""); status != 409 || code != "conflict" ||
		!strings.Contains(string(text), "nightly") {
		t.Errorf("deleting a plugin that a strategy of another node names: %d %s", status, text)
	}
	must("DELETE", other+"/v1/queues/letters/strategies/nightly", "")
	must("DELETE", url+"/v1/plugins/order", "")
}
