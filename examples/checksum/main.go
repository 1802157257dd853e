// Checksum computes the SHA-256 sums of all files below a directory through a Quern server and checks the result. The
// README beside it says how to start the server and the consumers.
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
	"path/filepath"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:7700", "address of the Quern server")
	queueName := flag.String("queue", "default", "name of the queue")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: checksum [flags] DIR\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *queueName, flag.Arg(0), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "checksum:", err)
		stop()
		os.Exit(1)
	}
}

// run inserts the work, waits until consumers have done it, and compares.
func run(ctx context.Context, server, queueName, dir string, report io.Writer) error {
	c, err := client.New(server)
	if err != nil {
		return err
	}
	groups, err := walk(dir)
	if err != nil {
		return err
	}
	files := 0
	ids := make([]string, len(groups))
	for i, g := range groups {
		if ids[i], err = insert(ctx, c, queueName, g); err != nil {
			return fmt.Errorf("insert %s files below %s: %w", g.kind, g.top, err)
		}
		files += len(g.paths)
	}
	fmt.Fprintf(report, "inserted %d files in %d submissions; waiting for consumers\n", files, len(groups))
	wrong := 0
	for i, g := range groups {
		n, err := check(ctx, c, ids[i], g, report)
		if err != nil {
			return fmt.Errorf("submission %s (%s files below %s): %w", ids[i], g.kind, g.top, err)
		}
		wrong += n
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d checksums differ", wrong, files)
	}
	fmt.Fprintf(report, "all %d checksums are equal\n", files)
	return nil
}

// insert makes one submission of a group.
func insert(ctx context.Context, c *client.Client, queueName string, g group) (string, error) {
	chunks := make([]api.Bytes, len(g.paths))
	for i, path := range g.paths {
		chunks[i] = api.Bytes(path)
	}
	s, err := c.Insert(ctx, queueName, &api.NewSubmission{
		Meta:   api.Meta{"top": api.Text(g.top), "kind": api.Text(g.kind)},
		Chunks: api.Chunks{Inline: chunks},
	})
	if err != nil {
		return "", err
	}
	return s.ID, nil
}

// check waits for the end of a submission, compares its outputs with the direct output of sha256sum, and returns how
// many differ. A missing output differs.
func check(ctx context.Context, c *client.Client, id string, g group, report io.Writer) (int, error) {
	s, err := c.Wait(ctx, id)
	if err != nil {
		return 0, err
	}
	if s.State != api.StateCompleted {
		return 0, errors.New("it ended as " + s.State + ": " + s.Failure)
	}
	want, err := direct(ctx, g.paths)
	if err != nil {
		return 0, err
	}
	got := make([]string, len(g.paths))
	for out, err := range c.Outputs(ctx, id) {
		if err != nil {
			return 0, err
		}
		got[out.Index] = sumOf(out.Output)
	}
	wrong := 0
	for i, path := range g.paths {
		if got[i] != want[path] {
			wrong++
			fmt.Fprintf(report, "%s: got %q, want %q\n", filepath.ToSlash(path), got[i], want[path])
		}
	}
	return wrong, nil
}
