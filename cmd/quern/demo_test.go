package main

import (
	"context"
	"slices"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The demo goes on when one company's work is stuck: what waits behind a limit keeps no other company from inserting again.
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
