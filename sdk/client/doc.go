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
// needs Work. It reserves ahead, extends the deadlines of chunks whose handlers take long, and reports the results. When its
// context ends, it finishes what it has begun and gives the other chunks back:
//
//	err = c.Work(ctx, client.WorkOptions{Concurrency: 8}, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
//		return work(ctx, chunk.Content)
//	})
//
// Work returns an error when the strategy, the token, the queue or a certificate is wrong. It survives other problems, such as a
// server that is away or handlers that fail. It passes these to WorkOptions.OnError, or else logs each kind at most once a minute.
//
// Every other operation of the HTTP API is a method. If the server refuses a call, the method returns an *Error. The client repeats a
// call after a connection error and after 429, 502, 503 and 504, if that is safe. It is safe for reads, for inserts (which carry an
// idempotency key), and for all calls that name a token. The pauses are random and grow, and are at least as long as Retry-After asks.
//
// In a cluster, give WithAddresses several nodes. If one does not serve, the client uses the next. If a queue has moved, the answer names
// the new owner (421 and Quern-Owner), and the client repeats the call there. It does so only if the owner's address is one of those that
// you gave, or has the same scheme. WithDirect sends the calls of a queue straight to its owner.
//
// Over plain http, inserts and all calls about reservations use the client's own keep-alive connections, because net/http and
// encoding/json would cost several times what the server needs. Other calls, and all calls over https or through a proxy, use net/http.
package client
