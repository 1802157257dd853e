package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// One in ownEvery of the ended submissions is the tenant's: the notes about metadata let no page of the history be passed over.
const (
	endedSubmissions = 30_000
	ownEvery         = 50
	tenantCompany    = 7
)

// A tenant that asks for submissions that it does not have, among tens of thousands of ended submissions of others, gets short pages. With
// QUERN_STARVED=yes, as `make soak` has it, many such clients in a loop must leave a victim, which reserves and completes, a good part of
// its pace. That is a ratio within one run, in which turns with and without the lists follow each other; a busy machine blurs it.
// TestReadsOfATokenTakeTurns has the turns in any case.
func TestListsOfATenantStarveNoOne(t *testing.T) {
	t.Parallel()
	program, dir := quernCopy(t), t.TempDir()
	admin, _, end := withToken(t, program, dir)
	endMany(t, admin)
	end()
	admin, url, end := withToken(t, program, dir) // ended submissions are in the history now
	defer end()
	tenant, err := admin.NewToken(t.Context(), &api.NewToken{Name: "tenant", Scopes: []string{"read"}, Meta: api.Meta{"company": api.Int(tenantCompany)}})
	if err != nil {
		t.Fatal(err)
	}
	lists := askerOfLists{url: url, token: tenant.Token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: listLoops}}}
	defer lists.http.CloseIdleConnections()

	pages := 0
	for cursor, more := "", true; more; pages++ {
		if cursor, err = lists.page(t.Context(), cursor); err != nil {
			t.Fatal(err)
		}
		more = cursor != ""
	}
	if least := endedSubmissions / (4 * queue.MaxListLimit); pages < least {
		t.Errorf("a list that finds nothing among %d came in %d pages, want at least %d: each looks at too many", endedSubmissions, pages, least)
	}

	if os.Getenv("QUERN_STARVED") != "" {
		starve(t, admin, &lists)
	}
}

// mostSlowed is far from both: with two cores a cycle takes 2 to 6 times as long beside so many loops, and 15 to 37 times without turns.
const (
	listLoops  = 48
	mostSlowed = 12
)

// starve compares the pace of a victim beside lists with its pace alone.
func starve(t *testing.T, c *client.Client, lists *askerOfLists) {
	t.Helper()
	alone, beside := time.Duration(0), time.Duration(0)
	v := victim{t, c}
	v.cycles(50)
	for range 3 {
		alone += v.cycles(200)
		stop := lists.loops(t, listLoops)
		beside += v.cycles(200)
		stop()
	}
	ratio := float64(beside) / float64(alone)
	t.Logf("600 cycles took %v alone, and %v beside the lists: %.1f times as long", alone, beside, ratio)
	if ratio > mostSlowed {
		t.Errorf("beside the lists a cycle took %.1f times as long, want at most %d", ratio, mostSlowed)
	}
}

// withToken starts a server that asks for tokens, and is its admin.
func withToken(t *testing.T, program, dir string) (c *client.Client, url string, end func()) {
	t.Helper()
	s, err := startServer(program, os.Environ(), dir, "--auth")
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err = client.New(s.url, client.WithToken(strings.TrimSpace(string(token)))); err != nil {
		t.Fatal(err)
	}
	return c, s.url, func() {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Errorf("the server did not end well: %v; it said: %s", err, s.stderr.String())
		}
	}
}

// endMany inserts submissions and completes them.
func endMany(t *testing.T, c *client.Client) {
	t.Helper()
	for n := 0; n < endedSubmissions; n += 1000 {
		list := make([]api.BatchSubmission, 1000)
		for i := range list {
			company := int64(1)
			if i%ownEvery == 0 {
				company = tenantCompany
			}
			list[i].Meta = api.Meta{"company": api.Int(company)}
			list[i].Chunks = api.Chunks{Count: 1, Prefix: "x/"}
		}
		if _, err := c.InsertMany(t.Context(), "default", list, true); err != nil {
			t.Fatal(err)
		}
		if done := reserveAndComplete(t, c, 1000); done != 1000 {
			t.Fatalf("%d of 1000 were completed", done)
		}
	}
}

func reserveAndComplete(t *testing.T, c *client.Client, most int) int {
	t.Helper()
	got, err := c.Reserve(t.Context(), "default", &api.ReserveRequest{Max: most})
	if err != nil {
		t.Fatal(err)
	}
	items := make([]api.CompleteItem, len(got.Reservations))
	for i := range items {
		items[i].Token = got.Reservations[i].Token
	}
	if len(items) == 0 {
		return 0
	}
	if _, err := c.Complete(t.Context(), "default", items); err != nil {
		t.Fatal(err)
	}
	return len(items)
}

// victim inserts, reserves and completes one after the other.
type victim struct {
	*testing.T
	client *client.Client
}

func (v *victim) cycles(n int) time.Duration {
	v.Helper()
	if _, err := v.client.Insert(v.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: uint32(n), Prefix: "x/"}}); err != nil {
		v.Fatal(err)
	}
	began := time.Now()
	for range n {
		if reserveAndComplete(v.T, v.client, 1) != 1 {
			v.Fatal("the victim got no chunk")
		}
	}
	return time.Since(began)
}

// askerOfLists lists ended submissions with a tenant's token. None of them fits.
type askerOfLists struct {
	url, token string
	http       *http.Client
}

func (l *askerOfLists) page(ctx context.Context, cursor string) (next string, err error) {
	request, err := http.NewRequestWithContext(ctx, "GET",
		l.url+"/v1/queues/default/submissions?limit=1&schedule=nosuch&cursor="+cursor, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+l.token)
	response, err := l.http.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var page struct{ Next string }
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("a list is answered with %s", response.Status)
	}
	return page.Next, json.NewDecoder(response.Body).Decode(&page)
}

// loops lists in so many loops until stop is called. Each has listed once when it returns.
func (l *askerOfLists) loops(t *testing.T, n int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running, begun sync.WaitGroup
	begun.Add(n)
	for range n {
		running.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				_, err := l.page(ctx, "")
				if first {
					begun.Done()
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
			}
		})
	}
	begun.Wait()
	return func() {
		cancel()
		running.Wait()
	}
}
