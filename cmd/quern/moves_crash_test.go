//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// holdSQL has the database hold the appends to journals that the table held names, from a position on.
const holdSQL = `CREATE TABLE public.held (journal int PRIMARY KEY, tail bigint NOT NULL);
CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
WHILE EXISTS (SELECT FROM public.held WHERE journal = NEW.id AND NEW.tail >= held.tail) LOOP PERFORM pg_sleep(0.01); END LOOP;
RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON quern.journal FOR EACH ROW EXECUTE FUNCTION public.hold()`

const heldAppends = `FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%UPDATE journal SET tail%' AND pid <> pg_backend_pid()`

// Three groups move between shards of two nodes, and each move stands between two other steps: before its shard lets go of the group,
// before the new shard adopts it, and before the catalogue knows. Then a node is killed: the one that makes the moves, or the one
// whose shards take the groups. The database loses the writes under way, or makes them after the death of the node. The other node ends
// the moves. Every group is in its new shard then, with its limit and its idempotency keys.
//
//quern:killing
func TestKillNineBetweenStepsOfMoves(t *testing.T) {
	t.Parallel()
	first := rand.IntN(4)
	t.Logf("the first kind is %d", first)
	m := &moving{T: t, database: pgtest.Begin(t), nodes: map[string]*launched{}, urls: map[string]string{}}
	m.start("a")
	m.start("b")
	m.send("b", "PUT", "/v1/queues/orders", `{"settings":{"shards":6,"restart_grace_ms":0}}`, nil)
	m.database.Exec(t, holdSQL)
	for number := range m.shards {
		m.shards[number] = m.insert("b", fmt.Sprintf("orders~%d", number+1), fmt.Sprint("anchor", number), "").Shard()
	}
	m.finish("b")
	rounds := envNumber(t, "QUERN_CRASH_ROUNDS", 2)
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		if kind := (first + int(round)) % 4; !t.Failed() {
			m.round(int(round), []string{"a", "b"}[kind%2], kind/2 == 0)
		}
	}
}

// moving is a cluster of two nodes with a queue of six shards.
type moving struct {
	*testing.T
	database *pgtest.Server
	nodes    map[string]*launched
	urls     map[string]string
	shards   [6]queue.ShardID
}

func (m *moving) start(name string) {
	m.Helper()
	m.nodes[name] = node(m.T, m.database, name, "127.0.0.1:0")
	m.urls[name] = m.nodes[name].url()
	waitForQueue(m.T, m.urls[name])
}

// ask sends a call that may have no answer.
func (m *moving) ask(method, url, body, key string) (status int, text []byte, err error) {
	q, err := http.NewRequestWithContext(m.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	text, err = io.ReadAll(r.Body)
	return r.StatusCode, text, err
}

// send asks a node until it answers from the shard: the shard may not serve yet, and the node may not know of a move yet.
func (m *moving) send(node, method, path, body string, into any, key ...string) (status int) {
	m.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		status, text, err := m.ask(method, m.urls[node]+path, body, strings.Join(key, ""))
		if later := status == http.StatusServiceUnavailable || status == http.StatusMisdirectedRequest; later && time.Now().Before(end) {
			continue
		}
		if err == nil && status/100 == 2 && into != nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil || status/100 != 2 && status != http.StatusTooManyRequests {
			m.Fatalf("%s %s at %s: %d %s, %v", method, path, node, status, text, err)
		}
		return status
	}
}

// insert inserts a submission of a group; 0: the limit of the group refuses it.
func (m *moving) insert(node, queueName, group, key string) queue.SubmissionID {
	m.Helper()
	var made api.Submission
	if m.send(node, "POST", "/v1/queues/"+queueName+"/submissions",
		fmt.Sprintf(`{"group":%q,"chunks":{"count":1,"prefix":"x"}}`, group), &made, group+key) == http.StatusTooManyRequests {
		return 0
	}
	id, err := queue.ParseSubmissionID(made.ID)
	if err != nil {
		m.Fatal(err)
	}
	return id
}

// finish completes all that is there, and says how much.
func (m *moving) finish(node string) (n int) {
	m.Helper()
	for {
		var got api.ReserveResponse
		if m.send(node, "POST", "/v1/queues/orders/reservations", `{"max":100}`, &got); len(got.Reservations) == 0 {
			return n
		}
		var items []string
		for _, r := range got.Reservations {
			items = append(items, fmt.Sprintf(`{"token":%q}`, r.Token))
		}
		n += len(items)
		m.send(node, "POST", "/v1/queues/orders/reservations/complete", `{"items":[`+strings.Join(items, ",")+`]}`, nil)
	}
}

// hold has the database hold appends to the journal of a shard, or to the catalogue, behind so many more.
func (m *moving) hold(like string, behind int) {
	m.Helper()
	m.database.Exec(m.T, fmt.Sprintf(`INSERT INTO public.held SELECT id, tail + %d FROM quern.journal WHERE name LIKE '%s'`, behind+1, like))
}

func (m *moving) journal(number int) string { return fmt.Sprintf("shard-%04d-%%", m.shards[number-1]) }

func (m *moving) round(round int, victim string, lost bool) {
	m.Logf("round %d kills %s; the writes under way are lost: %v", round, victim, lost)
	other := map[string]string{"a": "b", "b": "a"}[victim]
	for number := range m.shards {
		m.send("b", "POST", fmt.Sprintf("/v1/queues/orders~%d/move", number+1), fmt.Sprintf(`{"node":%q}`, []string{"a", "b"}[number%2]), nil)
	}
	group := func(from int) string { return fmt.Sprintf("g%d-%d", round, from) }
	early := map[int]queue.SubmissionID{}
	for _, from := range []int{1, 3, 5} {
		early[from] = m.insert("b", "orders~"+strconv.Itoa(from), group(from), "early")
		m.send("b", "PUT", "/v1/queues/orders/groups/"+group(from), `{"limits":{"submissions":2}}`, nil)
	}
	if n := m.finish("a"); n != 3 {
		m.Errorf("%d chunks were done, want 3", n)
	}
	m.hold(m.journal(1), 1) // the plan is written, and the leave is not
	m.hold(m.journal(4), 0)
	m.hold("catalogue", 0)
	url := m.urls["b"]
	var asks sync.WaitGroup
	for from := range early {
		asks.Go(func() { // it may have no answer
			_, _, _ = m.ask("POST", url+"/v1/queues/orders/groups/"+group(from)+"/move", fmt.Sprintf(`{"shard":%d}`, from+1), "")
		})
	}
	m.database.Until(m.T, "SELECT count(*) >= 3 "+heldAppends)
	m.nodes[victim].tell(syscall.SIGKILL)
	_ = m.nodes[victim].Wait()
	if lost {
		m.database.Exec(m.T, "SELECT pg_terminate_backend(pid) "+heldAppends)
	}
	m.database.Exec(m.T, "DELETE FROM public.held")
	asks.Wait()
	for from, id := range early {
		if again := m.insert(other, "orders", group(from), "early"); again != id {
			m.Errorf("the group of shard %d: an insert is made again as %s, it was %s", from, again, id)
		}
		one, two := m.insert(other, "orders", group(from), "one"), m.insert(other, "orders", group(from), "two")
		if one.Shard() != two.Shard() || one == 0 || two == 0 {
			m.Errorf("the group of shard %d is in the shards %d and %d", from, one.Shard(), two.Shard())
		}
		if three := m.insert(other, "orders", group(from), "three"); three != 0 {
			m.Errorf("the limit of the group of shard %d does not hold", from)
		}
	}
	if n := m.finish(other); n != 6 {
		m.Errorf("%d chunks were done, want 6", n)
	}
	m.start(victim)
	for name := range m.urls {
		for from := range early {
			var g api.Group
			for end := time.Now().Add(20 * time.Second); g.Shard != from+1; time.Sleep(20 * time.Millisecond) {
				if m.send(name, "GET", "/v1/queues/orders/groups/"+group(from), "", &g); time.Now().After(end) {
					m.Fatalf("%s says of the group of shard %d: %+v", name, from, g)
				}
			}
			if g.Limits.Submissions == nil || *g.Limits.Submissions != 2 {
				m.Errorf("%s says of the group of shard %d: %+v", name, from, g)
			}
		}
	}
}
