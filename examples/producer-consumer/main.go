// Producer-consumer is the smallest complete program on the Go client: it inserts rows of two kinds, works on them with
// two consumers that want different things, waits for the end and reads the outputs. Start a server with `quern dev` first.
//
//quern:tests processes
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:7700", "address of the Quern server")
	rows := flag.Uint("rows", 1000, "rows to insert")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, uint32(*rows), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "producer-consumer:", err)
		stop()
		os.Exit(1)
	}
}

// run is the whole life of the program.
func run(ctx context.Context, server string, rows uint32, report io.Writer) error {
	c, err := client.New(server)
	if err != nil {
		return err
	}
	defer c.Close()

	// The producer: previews are few and wanted soon, the full rows can wait.
	preview, err := produce(ctx, c, "preview", max(rows/10, 1))
	if err != nil {
		return err
	}
	full, err := produce(ctx, c, "full", rows)
	if err != nil {
		return err
	}

	// The consumers run until their context ends, and then hand back what they have not begun.
	working, stop := context.WithCancel(ctx)
	defer stop()
	var consumers sync.WaitGroup
	failed := make([]error, 2)
	for i, strategy := range []string{
		`OrElse(SelectOnly("mode", "preview", Random), OldestFirst)`, // previews first, then anything
		`OldestFirst`,
	} {
		consumers.Go(func() {
			if failed[i] = consume(working, c, strategy); failed[i] != nil {
				stop()
			}
		})
	}

	// To get the result, wait for the submission, not for its chunks.
	var ends []error
	for _, id := range []string{preview, full} {
		ends = append(ends, wait(working, c, id, report))
	}
	stop()
	consumers.Wait()
	return errors.Join(append(failed, ends...)...)
}

// produce inserts one submission whose chunks come from a template, so it costs the same for ten rows and for a billion.
func produce(ctx context.Context, c *client.Client, mode string, rows uint32) (string, error) {
	s, err := c.Insert(ctx, "default", &api.NewSubmission{
		Meta:   api.Meta{"company": api.Int(123), "mode": api.Text(mode)},
		Chunks: api.Chunks{Count: rows, Template: mode + " row {index}"},
	})
	if err != nil {
		return "", err
	}
	return s.ID, nil
}

// consume works on chunks until ctx ends. The handler's result is the chunk's output. After an error, this consumer or
// another one tries the chunk again.
func consume(ctx context.Context, c *client.Client, strategy string) error {
	return c.Work(ctx, client.WorkOptions{Queue: "default", Strategy: strategy, Concurrency: 4},
		func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			return []byte(strings.ToUpper(string(chunk.Content))), nil
		})
}

// wait waits for the end of a submission and counts its outputs.
func wait(ctx context.Context, c *client.Client, id string, report io.Writer) error {
	s, err := c.Wait(ctx, id)
	if err != nil {
		return err
	}
	outputs := 0
	for out, err := range c.Outputs(ctx, id) {
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("%s ROW %d", strings.ToUpper(s.Meta["mode"].Text()), out.Index); string(out.Output) != want {
			return fmt.Errorf("output %d is %q, want %q", out.Index, out.Output, want)
		}
		outputs++
	}
	fmt.Fprintf(report, "%s: %s, %d outputs\n", s.Meta["mode"], s.State, outputs)
	return nil
}
