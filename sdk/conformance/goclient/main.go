// Command goclient is the Go client as sdk/conformance judges it.
//
//quern:tests processes
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// options are those of a scenario, see sdk/conformance.
type options struct {
	Role        string
	Addresses   []string
	Direct      bool
	Token       string
	Consumer    string
	Concurrency int
	Prefetch    int
	TimeoutMS   int64 `json:"timeout_ms"`
	WaitMS      int64 `json:"wait_ms"`
	Log         bool
	Chunks      []string
}

func main() {
	var o options
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p := &program{options: o, snoozed: map[uint32]bool{}}
	if err := p.run(ctx); err != nil {
		var refused *client.Error
		if errors.As(err, &refused) {
			p.say("error %d %s", refused.Status, refused.Code)
		} else {
			p.say("error %v", err)
		}
		os.Exit(1)
	}
}

type program struct {
	options
	mu      sync.Mutex
	snoozed map[uint32]bool // chunks that were given back once
}

func (p *program) say(format string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Printf(format+"\n", values...)
}

func (p *program) run(ctx context.Context) error {
	options := []client.Option{client.WithAddresses(p.Addresses[1:]...), client.WithToken(p.Token)}
	if p.Direct {
		options = append(options, client.WithDirect())
	}
	c, err := client.New(p.Addresses[0], options...)
	if err != nil {
		return err
	}
	defer c.Close()
	if p.Role == "many" {
		return p.insertMany(ctx, c)
	}
	if p.Role != "work" {
		return p.produce(ctx, c)
	}
	work := client.WorkOptions{
		Consumer: p.Consumer, Concurrency: p.Concurrency, Prefetch: p.Prefetch,
		Timeout: time.Duration(p.TimeoutMS) * time.Millisecond, Wait: time.Duration(p.WaitMS) * time.Millisecond,
	}
	if !p.Log {
		work.OnError = func(err error) {
			var lost *client.ChunkError
			if errors.As(err, &lost) {
				p.say("lost %d", lost.Index)
			}
		}
	}
	return c.Work(ctx, work, p.handle)
}

func (p *program) handle(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
	p.say("begin %d", chunk.Index)
	defer p.say("end %d", chunk.Index)
	verb, rest, _ := strings.Cut(string(chunk.Content), " ")
	switch verb {
	case "echo":
		return []byte(rest), nil
	case "bytes":
		return hex.DecodeString(rest)
	case "size":
		size, _, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(size)
		return []byte(strings.Repeat("x", n)), err
	case "wait", "progress":
		path, text, _ := strings.Cut(rest, " ")
		if verb == "progress" {
			progress(chunk, text)
		}
		for ; ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(path); err == nil {
				return nil, nil
			}
			if ctx.Err() != nil {
				p.say("cancelled %d", chunk.Index)
				return nil, ctx.Err()
			}
		}
	case "crash":
		if chunk.Attempt == 1 {
			crash(rest)
		}
	case "fatal":
		return nil, client.Permanent(errors.New(rest))
	case "snooze":
		return nil, p.snooze(chunk.Index, rest)
	case "fail", "retry":
		if chunk.Attempt > 1 {
			return nil, nil
		}
		if verb == "fail" {
			return nil, errors.New(rest)
		}
		ms, text, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(ms)
		return nil, errors.Join(err, client.RetryAfter(errors.New(text), time.Duration(n)*time.Millisecond))
	}
	return nil, nil // none
}

// progress says in each turn of a loop how far it is.
func progress(chunk *client.Chunk, last string) {
	const turns = 200
	for turn := 1; turn < turns; turn++ {
		time.Sleep(2 * time.Millisecond)
		chunk.Progress(float64(turn)/(2*turns), "turn "+strconv.Itoa(turn))
	}
	chunk.Progress(0.5, last)
}

// snooze gives a chunk back the first time that it comes. Its attempt is the same the second time.
func (p *program) snooze(index uint32, ms string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snoozed[index] {
		return nil
	}
	p.snoozed[index] = true
	n, err := strconv.Atoi(ms)
	if err != nil {
		return err
	}
	return client.Snooze(time.Duration(n) * time.Millisecond)
}

func crash(text string) { panic(text) }

func (p *program) produce(ctx context.Context, c *client.Client) error {
	n := &api.NewSubmission{}
	var s *api.Submission
	var err error
	if p.Role == "stream" {
		s, err = c.InsertStream(ctx, "default", n, p.contents())
	} else {
		for chunk := range p.contents() {
			n.Chunks.Inline = append(n.Chunks.Inline, chunk)
		}
		s, err = c.Insert(ctx, "default", n)
	}
	if err != nil {
		return err
	}
	p.say("inserted %s", s.ID)
	if s, err = c.Wait(ctx, s.ID); err != nil {
		return err
	}
	p.say("ended %s", s.State)
	for output, err := range c.Outputs(ctx, s.ID) {
		if err != nil {
			return err
		}
		p.say("output %d %x", output.Index, []byte(output.Output))
	}
	return nil
}

func (p *program) insertMany(ctx context.Context, c *client.Client) error {
	list := make([]api.BatchSubmission, len(p.Chunks))
	for i, text := range p.Chunks {
		list[i].Chunks.Inline = []api.Bytes{api.Bytes(text)}
	}
	results, err := c.InsertMany(ctx, "default", list, false)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Submission != nil {
			p.say("inserted %s", r.Submission.ID)
		} else {
			p.say("refused %s %s", r.Code, strings.TrimPrefix(r.Pointer, "/submissions/"+strconv.Itoa(i)))
		}
	}
	return nil
}

func (p *program) contents() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, text := range p.Chunks {
			if !yield([]byte(text), nil) {
				return
			}
		}
	}
}
