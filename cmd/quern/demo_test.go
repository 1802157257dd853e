package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The demo goes on when one company's work is stuck: work that waits behind a limit keeps no other company from inserting again.
func TestDemoGoesOn(t *testing.T) {
	t.Parallel()
	program, tmp := quernCopy(t), t.TempDir()
	server := launch(t, tmp, program, "dev", "--listen", "127.0.0.1:0")
	c, err := client.New(server.url())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const each, low = 2 * demoSubmissions, demoSubmissions
	stuck, others := demoCompanies()[0], demoCompanies()[1:]
	_, err = c.PutValue(ctx, "default", "company", api.Text(stuck), api.ValueSettings{Limit: new(uint32(0))}, client.Condition{})
	check(err)
	check(demoInsert(ctx, c, 0, demoCompanies(), each))
	for round := 1; round <= 3; round++ {
		if short, err := demoShort(ctx, c, low); err != nil || len(short) > 0 {
			t.Fatalf("round %d: %v is short before anything is done, error %v", round, short, err)
		}
		for left := each * len(others); left > 0; {
			got, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: left, Strategy: []byte(`"OldestFirst"`)})
			check(err)
			if left -= len(got.Reservations); len(got.Reservations) == 0 {
				t.Fatalf("round %d: %d chunks are not handed out", round, left)
			}
			var done []api.CompleteItem
			for _, r := range got.Reservations {
				done = append(done, api.CompleteItem{Token: r.Token})
			}
			_, err = c.Complete(ctx, "default", done)
			check(err)
		}
		short, err := demoShort(ctx, c, low)
		check(err)
		if !slices.Equal(short, others) {
			t.Fatalf("round %d: %v insert again, want %v", round, short, others)
		}
		check(demoInsert(ctx, c, round, short, each))
	}
	server.tell(syscall.SIGTERM)
	server.ends(exitOK)
}

// The demo shows the same after an hour: QUERN_DEMO=1h looks at its story every half minute. A look waits until all of it is
// there, as some of it takes turns.
func TestDemoTellsItsStory(t *testing.T) {
	span := os.Getenv("QUERN_DEMO")
	if span == "" {
		t.Skip("QUERN_DEMO is not set")
	}
	length, err := time.ParseDuration(span)
	if err != nil {
		t.Fatal(err)
	}
	demo := launch(t, t.TempDir(), quernCopy(t), "demo", "--listen", "127.0.0.1:0")
	url := demo.url()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	var done uint64
	for end := time.Now().Add(length); ; time.Sleep(30 * time.Second) {
		lacks := []string{"not asked yet"}
		for until := time.Now().Add(3 * time.Minute); len(lacks) > 0 && time.Now().Before(until); time.Sleep(time.Second) {
			lacks = demoLacks(t, url, c, &done)
		}
		if len(lacks) > 0 {
			t.Fatalf("%s before its end, the demo does not show: %q", time.Until(end).Round(time.Second), lacks)
		}
		if time.Now().After(end) {
			break
		}
	}
	demo.tell(syscall.SIGTERM)
	demo.ends(exitOK)
}

// demoLacks names the missing parts of the demo's story: work of each company, one behind its limit, one that is paused, dead
// letters, a sentence that names them, and work that was done since the last time.
func demoLacks(t *testing.T, url string, c *client.Client, done *uint64) (lacks []string) {
	ctx := t.Context()
	check := func(is bool, what string) {
		if !is {
			lacks = append(lacks, what)
		}
	}
	value := func(company string) *api.ValueCount {
		v, err := c.Value(ctx, "default", "company", api.Text(company))
		if err != nil {
			t.Logf("%s: %v", company, err)
			return &api.ValueCount{}
		}
		return v
	}
	for _, company := range demoCompanies() {
		check(value(company).Ready > 0, company+" has work")
	}
	limited := value(demoCompanies()[0])
	check(limited.Limit != nil && limited.InFlight == uint64(*limited.Limit), "a company at its limit")
	check(value(demoPaused).Paused == demoPausedChunks, "a company that is paused")
	stats, err := c.Stats(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	check(stats.DeadLetters > 0, "dead letters")
	check(stats.DoneTotal > *done, "work that is done")
	var d api.Diagnosis
	answer, err := http.Get(url + "/v1/queues/default/diagnosis")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	check(strings.Contains(d.Sentence, demoCompanies()[0]), "the limit in the sentence: "+d.Sentence)
	check(strings.Contains(d.Sentence, "paused"), "the pause in the sentence: "+d.Sentence)
	if len(lacks) == 0 {
		*done = stats.DoneTotal
	}
	return lacks
}
