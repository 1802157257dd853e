package client_test

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// One call inserts many submissions, each with its own fields, and the results come in their order.
func TestInsertManyOnServer(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	one := func(key, text string) (s api.BatchSubmission) {
		s.Chunks.Inline, s.IdempotencyKey = []api.Bytes{api.Bytes(text)}, key
		return s
	}
	var list []api.BatchSubmission
	for i := range 300 {
		list = append(list, one("", fmt.Sprint("content ", i)))
	}
	list = append(list, api.BatchSubmission{}, one("k", "same"), one("k", "same"))
	results, err := c.InsertMany(ctx, "default", list, false)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for i := range 300 {
		if results[i].Status != api.InsertCreated {
			t.Fatalf("submission %d: %+v", i, results[i])
		}
		ids[results[i].Submission.ID] = fmt.Sprint("content ", i)
	}
	if r := results[300]; r.Status != api.InsertInvalid || r.Submission != nil || r.Pointer != "/submissions/300/chunks" {
		t.Errorf("one without chunks: %+v", r)
	}
	if results[301].Status != api.InsertCreated || results[302].Status != api.InsertReplayed || results[302].Submission.ID != results[301].Submission.ID {
		t.Errorf("a key twice: %+v, %+v", results[301], results[302])
	}
	got, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 300})
	if err != nil || len(got.Reservations) != 300 {
		t.Fatalf("reserve: %v", err)
	}
	for _, r := range got.Reservations {
		if want := ids[r.Submission]; want != "" && string(r.Content.Bytes) != want {
			t.Errorf("submission %s comes with %q, want %q", r.Submission, r.Content.Bytes, want)
		}
	}
	results, err = c.InsertMany(ctx, "default", []api.BatchSubmission{one("", "a"), {}}, true)
	if err != nil || results[0].Status != api.InsertRefused || results[0].Code != api.CodeBatchRefused || results[1].Status != api.InsertInvalid {
		t.Errorf("an atomic call with one that is invalid: %+v, %v", results, err)
	}
	if _, err := c.InsertMany(ctx, "nowhere", list[:1], false); client.CodeOf(err) != api.CodeUnknownQueue {
		t.Errorf("in a queue that there is not: %v", err)
	}
	if _, err := c.InsertMany(ctx, "default", nil, false); client.CodeOf(err) != api.CodeInvalid {
		t.Errorf("of none: %v", err)
	}
}
