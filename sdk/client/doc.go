// Package client talks to a Quern server. A producer needs Insert and Wait:
//
//	c, err := client.New("http://127.0.0.1:7700")
//	s, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1000, Template: "row {index}"}})
//	s, err = c.Wait(ctx, s.ID)
//	if s.State != api.StateCompleted {
//		return fmt.Errorf("the submission ended as %s: %s", s.State, s.Failure)
//	}
//
// Inserts from many goroutines share calls automatically. If you have many submissions at hand, use InsertMany. A consumer
// needs Work. It reserves ahead, extends long work, reports the results, and drains when its context ends:
//
//	err = c.Work(ctx, client.WorkOptions{Concurrency: 8}, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
//		return work(ctx, chunk.Content)
//	})
//
// Work returns an error when the strategy, the token, the queue or a certificate is wrong. It survives other problems, such as a
// server that is away or handlers that fail. It passes these to WorkOptions.OnError, or else logs each kind at most once a minute.
//
// Every other operation of the HTTP API is a method. The client repeats a call after a connection error and after 429, 502, 503 and
// 504, if a repetition is safe: reads, inserts (which carry an idempotency key), and all calls that name a token. It pauses
// longer each time, at random, and at least as long as Retry-After asks. A refusal by the server is an *Error.
//
// In a cluster, WithAddresses names several nodes: the client goes on to the next while one does not serve. It follows a queue that moves
// to the owner that an answer names (421 and Quern-Owner), at an address that it was given or one of the same scheme. WithDirect sends the
// calls of a queue straight to its owner.
//
// Over plain http, inserts and all calls about reservations use the client's own keep-alive connections, because net/http and
// encoding/json would cost several times what the server needs. Other calls, and all calls over https or through a proxy, use net/http.
package client
