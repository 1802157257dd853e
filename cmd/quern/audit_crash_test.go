//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Operators make every change that the server's document knows while the server makes checkpoints and is killed with SIGKILL again and
// again. After each restart, the audit log has one entry for each acknowledged change and for each refusal. It has at most one for each
// change whose answer was lost, and none for requests that changed nothing. Each entry begins with the state that the entry before it left.
// The last entry about a resource has the state that the server shows.
//
// QUERN_CRASH_ROUNDS sets how often (default 6), QUERN_CRASH_SEED repeats a run's choices.
//
//quern:killing
func TestAuditKillNine(t *testing.T) {
	t.Parallel()
	rounds, seed := envNumber(t, "QUERN_CRASH_ROUNDS", 6), envNumber(t, "QUERN_CRASH_SEED", rand.Uint64())
	if testing.Short() {
		rounds = 4
	}
	t.Logf("rounds %d, seed %d", rounds, seed)
	rnd, program := rand.New(rand.NewPCG(seed, 5)), quernCopy(t)
	for left := int(rounds); left > 0 && !t.Failed(); left -= roundsPerLog {
		o := &operators{t: t, program: program, dir: t.TempDir(), asked: map[string]asked{}, values: map[string]bool{}}
		o.through(min(left, roundsPerLog), rnd)
	}
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}

// roundsPerLog is how often a server is killed before one with an empty log takes its place: each check reads the whole log.
const roundsPerLog = 50

// through makes changes through so many kills.
func (o *operators) through(rounds int, rnd *rand.Rand) {
	t := o.t
	for round := range rounds {
		o.start()
		if round == 0 {
			o.prepare(t)
		} else {
			o.check()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group, passed sync.WaitGroup
		for number := range 4 {
			group.Go(func() { o.operate(ctx, round, number) })
		}
		for _, name := range operatorQueues {
			group.Go(func() { o.fill(ctx, name) })
		}
		group.Go(func() { o.presume(ctx, round) })
		passed.Add(len(kindsOfActs))
		for kind := range kindsOfActs {
			group.Go(func() { o.repeat(ctx, round, kind, passed.Done) })
		}
		if round == 0 {
			passed.Wait() // each act was acknowledged once
		}
		pause := time.NewTimer(time.Duration(50+rnd.IntN(500)) * time.Millisecond)
		<-pause.C
		_ = o.server.end(syscall.SIGKILL) // the exit status is "killed"
		cancel()
		group.Wait()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	o.start()
	o.check()
	o.checkAsked()
	_ = o.server.end(syscall.SIGKILL)
	counts := map[asked]int{}
	for _, outcome := range o.asked {
		counts[outcome]++
	}
	t.Logf("%d changes acknowledged, %d without an answer, %d requests that changed nothing, %d that were refused",
		counts[changes], counts[unknown], counts[nothing], counts[refused])
	if counts[changes] < rounds*4 || counts[nothing] == 0 || counts[refused] < rounds {
		t.Errorf("%d changes in %d rounds: that shows nothing", counts[changes], rounds)
	}
}

var operatorQueues = []string{"q0", "q1"}

// asked is how many entries the log is to have of a request.
type asked int

const (
	unknown asked = iota // it had no answer: one or none
	changes              // it was acknowledged and changed something: one
	nothing              // it was acknowledged and changed nothing: none
	refused              // it was refused: one, which says so
)

// operators make changes, and know which ones they sent and which were acknowledged.
type operators struct {
	t       *testing.T
	program string
	dir     string
	server  *server
	token   string // that everything is asked with
	reader  string // one that is refused
	mu      sync.Mutex
	asked   map[string]asked // by request id
	values  map[string]bool  // paths of all values for which something was set, perhaps
}

func (o *operators) start() {
	s, err := startServer(o.program, os.Environ(), o.dir, "--fold-bytes", "64KiB", "--ballast-bytes", "1MiB")
	if err != nil {
		o.t.Fatal(err)
	}
	o.server = s
}

func (o *operators) note(id string, outcome asked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked[id] = outcome
}

// act asks for a change under a request id and says whether it was acknowledged.
func (o *operators) act(ctx context.Context, id, method, path, body string, expected asked, into any) bool {
	o.note(id, unknown)
	if o.send(ctx, id, method, path, body, into) != nil {
		return false
	}
	o.note(id, expected)
	return true
}

func (o *operators) send(ctx context.Context, id, method, path, body string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, o.server.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-ID", id)
	if o.token != "" {
		request.Header.Set("Authorization", "Bearer "+o.token)
	}
	if method == http.MethodPost && path == "/v1/plugins" {
		request.Header.Set("Content-Type", "application/wasm")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		err := fmt.Errorf("%s %s %s gave %s: %s", method, path, body, response.Status, text)
		o.t.Error(err)
		return err
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// operate makes one change after the other, until the server is gone. No one else changes the same things, so that each request is known
// to change something or nothing.
func (o *operators) operate(ctx context.Context, round, number int) {
	queue := "/v1/queues/" + operatorQueues[number%len(operatorQueues)]
	for n := 0; ; n++ {
		unique := (round*4+number)*1000 + n%1000
		id := func(what string) string { return fmt.Sprintf("%s-%d-%d-%d", what, round, number, n) }
		rule := fmt.Sprintf(`{"action":"pause","match":{"meta":{"company":%d}},"reason":"r%d"}`, unique, n)
		value := fmt.Sprintf("%s/meta-keys/company/values/%d", queue, number*10+n%5)
		limit := fmt.Sprintf(`{"limit":%d}`, unique+1)
		strategy := fmt.Sprintf("%s/strategies/s-%d-%d", queue, number, n%5)
		text := fmt.Sprintf(`{"strategy":"MaxSimultaneous(\"company\", %d, Random)"}`, unique+1)
		settings := fmt.Sprintf(`{"settings":{"reservation_timeout_ms":%d}}`, 10_000+unique)
		o.mu.Lock()
		o.values[value] = true
		o.mu.Unlock()
		var set api.Rule
		ok := o.act(ctx, id("set-rule"), "POST", queue+"/rules", rule, changes, &set) &&
			o.act(ctx, id("same-rule"), "POST", queue+"/rules", rule, nothing, nil) &&
			o.act(ctx, id("put-meta-value"), "PUT", value, limit, changes, nil) &&
			o.act(ctx, id("put-strategy"), "PUT", strategy, text, changes, nil) &&
			o.act(ctx, id("same-strategy"), "PUT", strategy, text, nothing, nil) &&
			(number >= len(operatorQueues) || o.act(ctx, id("change-queue"), "PATCH", queue, settings, changes, nil) && o.act(ctx, id("same-queue"), "PATCH", queue, settings, nothing, nil)) &&
			(n%4 == 0 || o.act(ctx, id("lift-rule"), "DELETE", queue+"/rules/"+set.ID, "", changes, nil) && o.act(ctx, id("lift-again"), "DELETE", queue+"/rules/"+set.ID, "", nothing, nil))
		if !ok {
			return
		}
	}
}

// presume sends calls that its token does not allow, until the server is gone, but not too many, because each has an entry of its own.
func (o *operators) presume(ctx context.Context, round int) {
	for n := range 50 {
		id := fmt.Sprintf("refused-%d-%d", round, n)
		o.note(id, unknown)
		path := "/v1/queues/" + operatorQueues[n%len(operatorQueues)] + "/rules"
		request, err := http.NewRequestWithContext(ctx, "POST", o.server.url+path, strings.NewReader(`{"action":"pause","match":{"queue":true}}`))
		if err != nil {
			o.t.Error(err)
			return
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X-Request-ID", id)
		request.Header.Set("Authorization", "Bearer "+o.reader)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			o.t.Errorf("a rule of a token that may only read: %s", response.Status)
		}
		o.note(id, refused)
	}
}

// fill makes the journal long enough for a checkpoint while changes are made.
func (o *operators) fill(ctx context.Context, queue string) {
	body := `{"chunks":{"count":1,"template":"{index} ` + strings.Repeat("x", 4000) + `"}}`
	for o.send(ctx, "work", "POST", "/v1/queues/"+queue+"/submissions", body, nil) == nil {
	}
}

// check compares the log with the calls of the operators and the state of the server.
func (o *operators) check() {
	entries, last := map[string]int{}, map[string]api.AuditEntry{} // by request id; by queue and target
	var all []api.AuditEntry
	for cursor, more := "", true; more; {
		var page api.Page[api.AuditEntry]
		o.read("/v1/audit?limit=200&cursor="+cursor, &page)
		for _, e := range page.Items { // the latest first
			if e.Action == "queue.create" && e.Queue == "default" {
				e.RequestID = "first start"
			}
			entries[e.RequestID]++
			if e.Outcome == api.OutcomeRefused {
				if e.Actor != "reader" || o.asked[e.RequestID] != refused && o.asked[e.RequestID] != unknown || !strings.Contains(string(e.After), `"forbidden"`) {
					o.t.Errorf("an entry of a refused act that was not refused: %+v", e)
				}
				continue
			}
			all = append(all, e)
			if begins(&e) {
				entries[e.RequestID]--
				continue
			}
			if _, seen := last[e.Queue+" "+e.Target]; !seen {
				last[e.Queue+" "+e.Target] = e
			}
		}
		cursor, more = page.Next, page.Next != ""
	}
	o.asked["first start"] = changes // the server makes this queue by itself
	for id, outcome := range o.asked {
		if n := entries[id]; (outcome == changes || outcome == refused) && n != 1 || outcome == unknown && n > 1 || outcome == nothing && n != 0 {
			o.t.Errorf("request %s has %d entries; it was answered: %v, it changed something: %v", id, n, outcome != unknown, outcome == changes)
		}
		delete(entries, id)
	}
	if len(entries) > 0 {
		o.t.Errorf("entries that no one asked for: %v", entries)
	}
	slices.Reverse(all)
	o.checkStories(all)
	o.checkRules(last)
	for path := range o.values {
		o.checkState(last, path)
	}
}

// begins says that an entry is about a rule with which a queue was created. A server that is killed between an initial rule and its lifting
// keeps it, and the queues that are created later begin with it.
func begins(e *api.AuditEntry) bool {
	return e.Action == "rule.create" && strings.HasPrefix(e.RequestID, "put-queue-") && strings.Contains(string(e.After), `"match":"made=`)
}

// checkRules sees that each rule that stands was set by the last entry about it, and each other was lifted by it.
func (o *operators) checkRules(last map[string]api.AuditEntry) {
	standing := map[string]bool{}
	for _, queue := range operatorQueues {
		var rules api.Page[api.Rule]
		o.read("/v1/queues/"+queue+"/rules", &rules)
		for _, r := range rules.Items {
			target := queue + " rule " + r.ID
			standing[target] = true
			if e := last[target]; e.Action != "rule.create" || !strings.Contains(string(e.After), `"`+r.Reason+`"`) {
				o.t.Errorf("%s stands with the reason %s, and the last entry about it is %+v", target, r.Reason, e)
			}
		}
		var list api.Page[api.NamedStrategy]
		o.read("/v1/queues/"+queue+"/strategies?limit=1000", &list)
		for _, s := range list.Items {
			var after string
			if e := last[queue+" strategy "+s.Name]; json.Unmarshal(e.After, &after) != nil || after != s.Strategy {
				o.t.Errorf("%s: the strategy %s is %s, and the last entry about it is %+v", queue, s.Name, s.Strategy, e)
			}
		}
		var about struct{ Settings json.RawMessage }
		var stands, recorded struct {
			Timeout int64 `json:"reservation_timeout_ms"`
		}
		o.read("/v1/queues/"+queue, &about)
		e := last[queue+" "]
		if json.Unmarshal(about.Settings, &stands) != nil || json.Unmarshal(e.After, &recorded) != nil || stands != recorded {
			o.t.Errorf("%s has the settings %s, and the last entry about it is %+v", queue, about.Settings, e)
		}
	}
	for target, e := range last {
		if e.Action == "rule.create" && !standing[target] {
			o.t.Errorf("%s does not stand, and the last entry about it is %+v", target, e)
		}
	}
}

// checkState checks that the settings of a value are those of the last entry about it.
func (o *operators) checkState(last map[string]api.AuditEntry, path string) {
	parts := strings.Split(path, "/") // "", v1, queues, queue, meta-keys, key, values, value
	var list api.Page[api.ValueCount]
	o.read(strings.Join(parts[:7], "/")+"?limit=1000", &list)
	e, known := last[parts[3]+" "+parts[5]+"="+parts[7]]
	var recorded struct{ Limit *uint32 }
	if known && json.Unmarshal(e.After, &recorded) != nil {
		o.t.Errorf("an entry about %s that tells nothing: %+v", path, e)
	}
	for _, v := range list.Items {
		if v.Value.String() != parts[7] {
			continue
		}
		if v.Limit == nil != (recorded.Limit == nil) || v.Limit != nil && *v.Limit != *recorded.Limit {
			o.t.Errorf("%s is %+v, and the last entry about it is %+v", path, v, e)
		}
		known = false
	}
	if known {
		o.t.Errorf("nothing is set for %s, and the last entry about it is %+v", path, e)
	}
}

func (o *operators) read(path string, into any) {
	o.t.Helper()
	if err := o.send(o.t.Context(), "read", "GET", path, "", into); err != nil {
		o.t.Fatal(err)
	}
}
