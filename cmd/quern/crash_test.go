package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The server is killed with SIGKILL again and again while producers and consumers work, and an oracle outside of it, which
// noted everything before it was sent and after it was answered, finds that no acknowledged insert or completion is lost,
// that no chunk is lost or held twice at once, that a repeated insert is one submission, and that a limit holds.
//
// QUERN_CRASH_ROUNDS sets how often (default 20; `make soak` sets more), QUERN_CRASH_SEED repeats a run's choices.
//
//quern:killing
func TestKillNine(t *testing.T) {
	t.Parallel()
	killNine(t, envNumber(t, "QUERN_CRASH_ROUNDS", 20), func(*oracle, string) {})
}

// The same holds when the server keeps snapshots, and loses its stores with every other kill.
//
//quern:killing
func TestKillNineLosesStores(t *testing.T) {
	t.Parallel()
	snapshots, lost := filepath.Join(t.TempDir(), "snapshots"), 0
	killNine(t, envNumber(t, "QUERN_CRASH_ROUNDS", 10), func(o *oracle, dir string) {
		if o.draw(2) == 0 {
			return
		}
		stores, err := filepath.Glob(filepath.Join(dir, "shards", "*", "store.db*"))
		if err != nil || len(stores) == 0 {
			t.Fatalf("no store to lose: %v", err)
		}
		for _, path := range stores {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		lost++
	}, "--snapshot-dir", snapshots, "--snapshot-bytes", "64KiB")
	copies, err := filepath.Glob(filepath.Join(snapshots, "*", "*", "*.zst"))
	t.Logf("the store was lost %d times; %d snapshots are there, %v", lost, len(copies), err)
}

// killNine kills a server with these options again and again. killed is called after each kill.
func killNine(t *testing.T, rounds uint64, killed func(o *oracle, dir string), options ...string) {
	t.Helper()
	newOracle(t).kills(rounds, killed, options...)
}

// newOracle is an oracle of a queue with one shard. QUERN_CRASH_SEED repeats its choices.
func newOracle(t *testing.T) *oracle {
	t.Helper()
	seed := envNumber(t, "QUERN_CRASH_SEED", rand.Uint64())
	return &oracle{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), held: map[string]hold{}, chunks: map[string]*crashChunk{}, pending: map[string][]byte{},
		byCompany: map[int]int{}, keyOf: map[string]string{}, strategies: crashStrategies, limit: crashLimit}
}

// kills is killNine.
func (o *oracle) kills(rounds uint64, killed func(o *oracle, dir string), options ...string) {
	t := o.t
	t.Helper()
	if testing.Short() {
		rounds = min(rounds, 10)
	}
	t.Logf("rounds %d, seed %d", rounds, o.seed)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = quernLink(t, program)
	dir := t.TempDir()
	for round := range rounds {
		s, err := startServer(program, os.Environ(), dir, append([]string{"--fold-bytes", "64KiB", "--ballast-bytes", "1MiB"}, options...)...)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		o.epoch(s.url)
		if o.groups != nil {
			o.groups.check(ctx)
			o.groups.operate(ctx, &group)
		}
		for range 2 {
			group.Go(func() { o.produce(ctx) })
		}
		for i := range 8 {
			group.Go(func() { o.consume(ctx, i) })
		}
		if o.draw(4) > 0 { // other kills come while the server still begins
			o.works(ctx)
		}
		if o.groups != nil && round%5 == 3 { // the server looks once a second for groups of a shard that drains
			o.groups.awaitMoves(ctx)
		}
		time.Sleep(time.Duration(10+o.draw(150)) * time.Millisecond)
		_ = s.end(syscall.SIGKILL) // the exit status is "killed"
		cancel()
		group.Wait()
		if t.Failed() {
			t.Fatalf("seed %d, round %d", o.seed, round)
		}
		killed(o, dir)
	}
	o.settle(program, dir, options...)
	if o.groups != nil {
		o.groups.tell()
	} else if rounds > 5 && o.large == 0 {
		t.Error("no large content was reserved: they are not tested")
	}
	t.Logf("%d inserts and %d completions acknowledged, %d late completions accepted, %d large contents read, none lost", o.inserts, o.completions,
		o.late, o.large)
}

// quernLink makes a name for this test binary under which it is quern.
func quernLink(t *testing.T, program string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "quern")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

const crashLimit = 3 // chunks in flight per company

// largeContent is about how many bytes a large chunk has.
const largeContent = 90_000

// oracle knows what was acknowledged.
type oracle struct {
	t          *testing.T
	mu         sync.Mutex
	seed       uint64
	rnd        *rand.Rand
	url        string
	strategies []string
	limit      int          // chunks in flight per company; 0: any
	nodes      []string     // addresses of all nodes, if there are several
	dying      atomic.Bool  // a node is being killed: calls about its shards are refused, or done in part
	groups     *crashGroups // nil: the queue has one shard, and its submissions have no group

	pending   map[string][]byte      // inserts without an answer, by idempotency key
	chunks    map[string]*crashChunk // of acknowledged inserts, by submission/index
	held      map[string]hold        // in this life of the server
	old       []oldToken             // of earlier lives
	byCompany map[int]int
	keyOf     map[string]string // by submission: the idempotency key in its contents

	keys, inserts, completions, late, large int
}

type oldToken struct{ token, chunk string }

type hold struct {
	token   string
	company int
	group   string
}

type crashChunk struct {
	done bool // acknowledged
	sent bool // a completion was sent
}

// epoch begins a new life: nothing is held any more, as far as the server knows.
func (o *oracle) epoch(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.url = url
	for name, h := range o.held {
		if len(o.old) < 200 {
			o.old = append(o.old, oldToken{h.token, name})
		}
	}
	clear(o.held)
	clear(o.byCompany)
	if o.groups != nil {
		clear(o.groups.flying)
	}
}

// works returns when the server has acknowledged an act of this life. A node of a cluster first waits until the dead one has lost its queues.
func (o *oracle) works(ctx context.Context) {
	acts := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.inserts + o.completions
	}
	for before := acts(); acts() == before && ctx.Err() == nil && !o.t.Failed(); {
		time.Sleep(5 * time.Millisecond)
	}
}

func (o *oracle) draw(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rnd.IntN(n)
}

// produce inserts, first again what had no answer.
func (o *oracle) produce(ctx context.Context) {
	for ctx.Err() == nil {
		if o.groups != nil {
			o.groups.pause(ctx)
		}
		key, body := o.nextInsert()
		var answer struct {
			ID     string `json:"id"`
			Chunks int    `json:"chunks"`
		}
		err := o.post(ctx, "/submissions", key, body, &answer)
		if errors.Is(err, errLimitReached) {
			continue // it stays to be sent again
		}
		if err != nil {
			return
		}
		o.inserted(key, answer.ID, answer.Chunks)
	}
}

func (o *oracle) nextInsert() (key string, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, body := range o.pending {
		return key, body
	}
	if o.groups != nil {
		return o.groups.nextInsert()
	}
	o.keys++
	key = "key-" + strconv.Itoa(o.keys)
	company, n := o.rnd.IntN(5), 1+o.rnd.IntN(40)
	chunks := fmt.Sprintf(`{"count":%d,"template":"row {index}"}`, n)
	kind := o.rnd.IntN(6)
	if o.keys == 1 {
		kind = 1 // on a busy machine few follow
	}
	switch kind {
	case 0:
		chunks = fmt.Sprintf(`{"inline":[%q,%q,%q]}`, key, "second", "")
	case 1: // too much for a commit: it is on the disk before the insert that names it
		chunks = fmt.Sprintf(`{"inline":[%q,%q,%q]}`, key, strings.Repeat(key+" ", largeContent/len(key)), key)
	}
	body = fmt.Appendf(nil, `{"meta":{"company":%d},"priority":%d,"chunks":%s}`, company, o.rnd.IntN(3), chunks)
	o.pending[key] = body
	return key, body
}

func (o *oracle) inserted(key, id string, chunks int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.groups != nil {
		o.groups.inserted(key, id, chunks)
	}
	if _, asked := o.pending[key]; !asked {
		return // two producers repeated the same insert: the other one noted it
	}
	delete(o.pending, key)
	o.inserts++
	for i := range chunks {
		name := id + "/" + strconv.Itoa(i)
		if o.chunks[name] == nil {
			o.chunks[name] = &crashChunk{}
		}
	}
}

var crashStrategies = []string{
	`MaxSimultaneous("company", 3, Random)`,
	`MaxSimultaneous("company", 3, OldestFirst)`,
	`MaxSimultaneous("company", 3, NewestFirst)`,
	`MaxSimultaneous("company", 3, OrElse(SelectOnly("company", 1, CustomPriority), Random))`,
}

type crashReserved struct {
	Reservations []struct {
		Token      string `json:"token"`
		Submission string `json:"submission"`
		Index      int    `json:"index"`
		Content    struct {
			Text string `json:"text"`
		} `json:"content"`
		Meta struct {
			Company int    `json:"company"`
			Group   string `json:"group"`
		} `json:"meta"`
	} `json:"reservations"`
}

// consume reserves chunks, and completes them, gives them back or just keeps them. Now and then it completes with an old token.
func (o *oracle) consume(ctx context.Context, consumer int) {
	for ctx.Err() == nil {
		if o.draw(4) == 0 && !o.completeOld(ctx) {
			return
		}
		request := fmt.Appendf(nil, `{"max":%d,"strategy":%q,"consumer":"c%d","wait_ms":20}`, 1+o.draw(4), o.strategies[o.draw(len(o.strategies))], consumer)
		var got crashReserved
		if err := o.post(ctx, "/reservations", "", request, &got); err != nil {
			return
		}
		o.reserved(&got)
		for _, r := range got.Reservations {
			h := hold{r.Token, r.Meta.Company, r.Meta.Group}
			name := r.Submission + "/" + strconv.Itoa(r.Index)
			switch kind := o.draw(10); {
			case kind == 0 && (o.groups == nil || o.groups.mayKeep()): // the token is kept: the chunk stays held until the server dies
			case kind == 1:
				o.release(ctx, name, h)
			default:
				o.complete(ctx, name, h)
			}
		}
	}
}

func (o *oracle) reserved(got *crashReserved) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range got.Reservations {
		name := r.Submission + "/" + strconv.Itoa(r.Index)
		if other, there := o.held[name]; there {
			o.t.Errorf("chunk %s is held twice at once: by %s and by %s", name, other.token, r.Token)
		}
		chunk := o.chunks[name]
		if chunk == nil { // the insert's answer is still on its way, or was lost
			chunk = &crashChunk{}
			o.chunks[name] = chunk
		}
		if chunk.done {
			o.t.Errorf("chunk %s was handed out although its completion is acknowledged", name)
		}
		o.checkContent(name, r.Submission, r.Content.Text)
		o.held[name] = hold{r.Token, r.Meta.Company, r.Meta.Group}
		o.byCompany[r.Meta.Company]++
		if n := o.byCompany[r.Meta.Company]; o.limit > 0 && n > o.limit {
			o.t.Errorf("%d chunks of company %d are in flight, the limit is %d", n, r.Meta.Company, o.limit)
		}
		if o.groups != nil {
			o.groups.reserved(r.Submission, r.Meta.Group)
		}
	}
}

// checkContent compares contents that have the key of their insert: all of a submission must have the same key, and a large one must be
// whole. The mutex is held.
func (o *oracle) checkContent(name, submission, content string) {
	key, rest, large := strings.Cut(content, " ")
	if !strings.HasPrefix(key, "key-") {
		return
	}
	if large && key+" "+rest != strings.Repeat(key+" ", largeContent/len(key)) {
		o.t.Errorf("the content of chunk %s, of %d bytes, is not what was inserted with %s", name, len(content), key)
	}
	if known, seen := o.keyOf[submission]; seen && known != key {
		o.t.Errorf("chunk %s has bytes of the insert with %s, and others of its submission those of %s", name, key, known)
	}
	o.keyOf[submission] = key
	if large {
		o.large++
	}
}

// letGo notes that a chunk will be finished or given back, before the server is asked to.
func (o *oracle) letGo(name string, h hold, completes bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if completes {
		o.chunks[name].sent = true
	}
	if o.held[name] == h {
		delete(o.held, name)
		o.byCompany[h.company]--
		if o.groups != nil {
			o.groups.flying[h.group]--
		}
	}
}

func (o *oracle) complete(ctx context.Context, name string, h hold) {
	o.letGo(name, h, true)
	status, err := o.finish(ctx, "/reservations/complete", fmt.Appendf(nil, `{"items":[{"token":%q,"output":%q}]}`, h.token, name))
	if err != nil {
		o.keep(oldToken{h.token, name})
		return
	}
	if status != "ok" {
		o.t.Errorf("completing %s with its holder's token gave %q", name, status)
	}
	o.acknowledged(name)
}

// completeAll completes everything that one answer brought, in one call.
func (o *oracle) completeAll(ctx context.Context, got *crashReserved) {
	body := []byte(`{"items":[`)
	for i, r := range got.Reservations {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"token":%q,"output":"%s/%d"}`, r.Token, r.Submission, r.Index)
	}
	results, err := o.finishAll(ctx, "/reservations/complete", append(body, "]}"...), len(got.Reservations))
	if err != nil {
		o.t.Fatal(err)
	}
	for i, r := range got.Reservations {
		name := r.Submission + "/" + strconv.Itoa(r.Index)
		if results[i].Status != "ok" {
			o.t.Errorf("completing %s at the end gave %q", name, results[i].Status)
		}
		o.acknowledged(name)
	}
}

func (o *oracle) acknowledged(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chunks[name].done = true
	o.completions++
}

func (o *oracle) release(ctx context.Context, name string, h hold) {
	o.letGo(name, h, false)
	status, err := o.finish(ctx, "/reservations/release", fmt.Appendf(nil, `{"items":[{"token":%q}]}`, h.token))
	if err == nil && status != "ok" {
		o.t.Errorf("releasing %s with its holder's token gave %q", name, status)
	}
}

func (o *oracle) keep(old oldToken) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.old = append(o.old, old)
}

// completeOld finishes with a token of an earlier life. Unless another consumer has the chunk that counts.
func (o *oracle) completeOld(ctx context.Context) bool {
	o.mu.Lock()
	if len(o.old) == 0 {
		o.mu.Unlock()
		return true
	}
	old := o.old[len(o.old)-1]
	o.old = o.old[:len(o.old)-1]
	o.chunks[old.chunk].sent = true
	o.mu.Unlock()
	status, err := o.finish(ctx, "/reservations/complete", fmt.Appendf(nil, `{"items":[{"token":%q}]}`, old.token))
	if err != nil {
		o.keep(old)
		return false
	}
	switch status {
	case "ok", "already":
		o.mu.Lock()
		o.late++
		o.chunks[old.chunk].done = true
		o.mu.Unlock()
	case "lost":
	default:
		o.t.Errorf("completing with a token of an earlier life gave %q", status)
	}
	return true
}

func (o *oracle) finish(ctx context.Context, path string, body []byte) (status string, err error) {
	results, err := o.finishAll(ctx, path, body, 1)
	if err != nil {
		return "", err
	}
	return results[0].Status, nil
}

type crashResult struct {
	Status string `json:"status"`
}

// finishAll asks for some chunks to be finished, and wants a result for each.
func (o *oracle) finishAll(ctx context.Context, path string, body []byte, items int) ([]crashResult, error) {
	var answer struct {
		Results []crashResult `json:"results"`
	}
	if err := o.post(ctx, path, "", body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != items {
		return nil, fmt.Errorf("%d results for %d items", len(answer.Results), items)
	}
	return answer.Results, nil
}

// at is the address of the server, or of any node.
func (o *oracle) at() string {
	if len(o.nodes) == 0 {
		return o.url
	}
	return o.nodes[o.draw(len(o.nodes))]
}

// nothingDone says that the call of an answer must be sent again: no node has taken the queue over yet, a group is on its way, or another
// node got its shard while the call came.
func nothingDone(status int, answer []byte) bool {
	return status == http.StatusServiceUnavailable && bytes.Contains(answer, []byte(`"code":"moving"`)) ||
		status == http.StatusMisdirectedRequest && bytes.Contains(answer, []byte(`"code":"elsewhere"`))
}

// nodeWasLost says that a node of a cluster got no answer from another one, which was killed: the call may have been done. A client may
// hear of the loss when the next node already serves.
func nodeWasLost(text []byte) bool {
	return bytes.Contains(text, []byte(`"code":"outcome_unknown"`)) || bytes.Contains(text, []byte("A node that serves a part of the queue does not answer."))
}

// post asks the server. Only a whole, good answer is no error; a refusal fails the test.
func (o *oracle) post(ctx context.Context, path, key string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.at()+"/v1/queues/default"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
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
	if nothingDone(response.StatusCode, text) {
		return o.post(ctx, path, key, body, answer)
	}
	if response.StatusCode == http.StatusServiceUnavailable && o.dying.Load() || nodeWasLost(text) {
		return errors.New(response.Status)
	}
	if o.groups != nil && response.StatusCode == http.StatusTooManyRequests {
		return o.groups.refused(body, text)
	}
	if response.StatusCode/100 != 2 {
		o.t.Errorf("%s %s gave %s: %s", path, body, response.Status, text)
		return errors.New(response.Status)
	}
	return json.Unmarshal(text, answer)
}

// settle finishes all that is left and holds the server's account against the oracle's.
func (o *oracle) settle(program, dir string, options ...string) {
	s, err := startServer(program, os.Environ(), dir, options...)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGKILL) }()
	o.epoch(s.url)
	ctx := o.t.Context()
	if o.groups != nil {
		o.groups.check(ctx)
	}
	for len(o.pending) > 0 {
		o.repeatPending(ctx)
		o.finishLeft(ctx)
	}
	o.finishLeft(ctx)
	for name, chunk := range o.chunks {
		if !chunk.done && !chunk.sent {
			o.t.Errorf("chunk %s was neither completed nor offered: it is lost", name)
		}
	}
	if o.groups != nil {
		o.groups.check(ctx)
	}
	o.account(ctx)
}

// repeatPending repeats the inserts that had no answer. It leaves those that a limit refuses.
func (o *oracle) repeatPending(ctx context.Context) {
	for key, body := range maps.Clone(o.pending) {
		var answer struct {
			ID     string `json:"id"`
			Chunks int    `json:"chunks"`
		}
		err := o.post(ctx, "/submissions", key, body, &answer)
		if errors.Is(err, errLimitReached) {
			continue
		}
		if err != nil {
			o.t.Fatal(err)
		}
		o.inserted(key, answer.ID, answer.Chunks)
	}
}

// finishLeft completes all chunks that are left.
func (o *oracle) finishLeft(ctx context.Context) {
	for {
		var got crashReserved
		if err := o.post(ctx, "/reservations", "", []byte(`{"max":1000}`), &got); err != nil {
			o.t.Fatal(err)
		}
		if len(got.Reservations) == 0 {
			break
		}
		for _, r := range got.Reservations {
			name := r.Submission + "/" + strconv.Itoa(r.Index)
			if chunk := o.chunks[name]; chunk == nil || chunk.done {
				o.t.Errorf("chunk %s is offered at the end: known %v, acknowledged %v", name, chunk != nil, chunk != nil && chunk.done)
			}
			o.checkContent(name, r.Submission, r.Content.Text)
		}
		o.completeAll(ctx, &got)
	}
}

// account compares the states of all submissions with the right ones: all completed, each with its chunks.
func (o *oracle) account(ctx context.Context) {
	perSubmission := map[string]int{}
	for name := range o.chunks {
		perSubmission[filepath.Dir(name)]++
	}
	if len(perSubmission) != o.keys {
		o.t.Errorf("%d submissions exist, %d were inserted", len(perSubmission), o.keys)
	}
	for id, chunks := range perSubmission {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url+"/v1/submissions/"+id, nil)
		if err != nil {
			o.t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			o.t.Fatal(err)
		}
		var s struct {
			State        string
			Chunks, Done int
		}
		err = json.NewDecoder(response.Body).Decode(&s)
		response.Body.Close()
		if err != nil || s.State != "completed" || s.Chunks != chunks || s.Done != chunks {
			o.t.Errorf("submission %s is %+v (%v), want completed with %d chunks", id, s, err, chunks)
		}
	}
}
