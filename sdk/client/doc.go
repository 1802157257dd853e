// Package client talks to a Quern server. A producer needs Insert and Wait:
//
//	c, err := client.New("http://127.0.0.1:7700")
//	s, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1000, Template: "row {index}"}})
//	s, err = c.Wait(ctx, s.ID)
//	if s.State != api.StateCompleted {
//		return fmt.Errorf("the submission ended as %s: %s", s.State, s.Failure)
//	}
//
// One with many goroutines that each insert little shares their calls with an Inserter, and one that has many submissions at
// hand gives them to InsertMany. A consumer needs Work, which reserves ahead, extends what takes long, reports what came of it
// and drains when its context ends:
//
//	err = c.Work(ctx, client.WorkOptions{Concurrency: 8}, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
//		return work(ctx, chunk.Content)
//	})
//
// It ends with the error when the strategy, the token, the queue or a certificate is wrong. What it goes on after (a server that is away,
// handlers that fail) it tells WorkOptions.OnError, or else logs, each kind once a minute at most.
//
// Everything else is the HTTP interface call by call. Calls that may safely be made twice (reads; inserts, which carry an
// idempotency key; everything that names a token) are tried again after connection errors and after 429, 502, 503 and 504,
// with growing, jittered pauses and at least what Retry-After asks for. A refusal by the server is an *Error.
//
// The hot calls (Insert and everything about reservations) go over the client's own keep-alive connections when the
// address is plain http, because net/http and encoding/json would cost several times what the server needs; the rest,
// and everything over https or through a proxy, goes through net/http.
package client
