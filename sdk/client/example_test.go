package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// A producer inserts work, a consumer does it, and the producer reads the results.
func Example() {
	url, stop := address()
	defer stop()
	ctx := context.Background()

	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	submission, err := c.Insert(ctx, "default", &api.NewSubmission{
		Meta:   api.Meta{"company": api.Int(123)},
		Chunks: api.Chunks{Count: 3, Template: "row {index}"},
	})
	if err != nil {
		log.Fatal(err)
	}

	working, finish := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(working, client.WorkOptions{Concurrency: 2}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			return []byte(strings.ToUpper(string(chunk.Content))), nil
		})
	}()

	submission, err = c.Wait(ctx, submission.ID)
	if err != nil {
		log.Fatal(err)
	}
	finish()
	if err := <-worked; err != nil {
		log.Fatal(err)
	}

	fmt.Println(submission.State, submission.Done)
	for output, err := range c.Outputs(ctx, submission.ID) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(output.Index, string(output.Output))
	}
	// Output:
	// completed 3
	// 0 ROW 0
	// 1 ROW 1
	// 2 ROW 2
}

// A unique key keeps a second submission of the same work away while the first is open, or lets it take the place of the first. This one
// also brings its own pauses after failed attempts: none, then 5 seconds, then a minute each.
func ExampleClient_Insert_unique() {
	url, stop := address()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	insert := func(unique api.Unique) *api.Submission {
		s, err := c.Insert(ctx, "default", &api.NewSubmission{
			Chunks:       api.Chunks{Inline: []api.Bytes{api.Bytes("reindex shop 7")}},
			Unique:       &unique,
			RetryBackoff: &api.Backoff{Kind: api.BackoffList, DelaysMS: []int64{0, 5000, 60_000}, Jitter: api.JitterNone},
		})
		if err != nil {
			log.Fatal(err)
		}
		return s
	}
	first := insert(api.Unique{Key: "reindex/7"})
	again := insert(api.Unique{Key: "reindex/7"})
	fmt.Println(again.ID == first.ID, again.Existing, again.RetryBackoff.DelaysMS)
	newer := insert(api.Unique{Key: "reindex/7", While: "1h", OnConflict: "replace"})
	first, err = c.Get(ctx, first.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.State, newer.State)
	// Output:
	// true true [0 5000 60000]
	// cancelled open
}

// A handler's error fails the try. The chunk comes again, unless the error is permanent.
func ExampleClient_Work() {
	url, stop := address()
	defer stop()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	if _, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Inline: []api.Bytes{api.Bytes("flaky"), api.Bytes("fine")}}}); err != nil {
		log.Fatal(err)
	}
	var done atomic.Int32
	err = c.Work(ctx, client.WorkOptions{Strategy: "OldestFirst"}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
		if string(chunk.Content) == "flaky" && chunk.Attempt == 1 {
			return nil, client.RetryAfter(errors.New("not yet"), 0)
		}
		if done.Add(1) == 2 {
			cancel() // both are done: let Work drain and return
		}
		return nil, nil
	})
	fmt.Println(done.Load(), err)
	// Output: 2 <nil>
}

// Without Work, a consumer makes the calls itself: here it completes what it holds and reserves more in one round trip.
func ExampleClient_Exchange() {
	url, stop := address()
	defer stop()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 4, Prefix: "s3://bucket/x/"}}); err != nil {
		log.Fatal(err)
	}

	strategy := json.RawMessage(`"OldestFirst"`)
	first, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 2, Strategy: strategy})
	if err != nil {
		log.Fatal(err)
	}
	exchange := &api.ExchangeRequest{Reserve: &api.ReserveRequest{Max: 2, Strategy: strategy}}
	for _, reservation := range first.Reservations {
		exchange.Complete = append(exchange.Complete, api.CompleteItem{Token: reservation.Token})
	}
	second, err := c.Exchange(ctx, "default", exchange)
	if err != nil {
		log.Fatal(err)
	}
	for i, result := range second.Complete {
		fmt.Println(first.Reservations[i].Content.Key, result.Status)
	}
	for _, reservation := range second.Reservations {
		fmt.Println(reservation.Content.Key, "reserved")
	}
	// Output:
	// s3://bucket/x/0 ok
	// s3://bucket/x/1 ok
	// s3://bucket/x/2 reserved
	// s3://bucket/x/3 reserved
}

// A refusal is an *Error with the server's problem: a code to switch on and a pointer to each field that is wrong.
func ExampleError() {
	url, stop := address()
	defer stop()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	_, err = c.Reserve(context.Background(), "default", &api.ReserveRequest{Max: -1})
	var refused *client.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Status, refused.Code, refused.Errors[0].Pointer)
	}
	// Output: 422 invalid /max
}
