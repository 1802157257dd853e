// Quern-objects is the command line for chunks in object storage: submit uploads files and inserts, work runs a command for every chunk with
// the object on its stdin and stores its stdout as an object, sweep removes the objects of submissions that are gone. It is not part of
// quern, because quern would then carry the SDKs of three clouds.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"

	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/objects"
	"github.com/quern-queue/quern/sdk/terminal"
)

const usage = `quern-objects keeps the contents and outputs of chunks in object storage.

  quern-objects submit --bucket URL [flags] FILE...
        upload one object per file, insert a chunk for each, and print the submission's id
  quern-objects work --bucket URL [flags] -- COMMAND [ARG...]
        run a command for every chunk: its stdin is the object, and its stdout becomes an object, whose key is the chunk's output
  quern-objects sweep --bucket URL [flags]
        remove the objects of submissions that the server no longer has

A bucket is s3://NAME?region=REGION, gs://NAME, azblob://NAME or file:///DIR; ?prefix=DIR/ puts everything below DIR.
For another S3 server: s3://NAME?region=us-east-1&endpoint=http://HOST:PORT&use_path_style=true
The command uses the credentials of the cloud's own tools, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

Environment: QUERN_SERVER, QUERN_QUEUE, QUERN_TOKEN or QUERN_TOKEN_FILE, QUERN_SERVER_CA, as for quern.
Flags: quern-objects COMMAND --help.
Exit codes: 0 done, 1 failed, 2 wrong command line.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer context.AfterFunc(ctx, func() {
		time.Sleep(time.Second) // GNU timeout sends its signal twice
		stop()                  // the next one ends the process
	})()
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// app is shared by the commands.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	server, queue, bucket string
	parallel              int
}

// errUsage is the error of a wrong command line. Errors that wrap it say what is wrong.
var errUsage = errors.New("wrong command line")

// run runs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	commands := map[string]func(context.Context, []string) error{"submit": a.submit, "work": a.work, "sweep": a.sweep}
	if len(args) == 0 || commands[args[0]] == nil {
		if len(args) == 1 && strings.Trim(args[0], "-") == "help" {
			fmt.Fprint(a.out, usage)
			return 0
		}
		fmt.Fprint(a.err, usage)
		return 2
	}
	err := commands[args[0]](ctx, args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(a.err, "quern-objects %s: %s\n", args[0], terminal.Lines(err.Error()))
		return 2
	}
	fmt.Fprintln(a.err, "quern-objects:", terminal.Lines(err.Error()))
	return 1
}

// flags are those of every command.
func (a *app) flags(command string) *flag.FlagSet {
	f := flag.NewFlagSet("quern-objects "+command, flag.ContinueOnError)
	f.SetOutput(a.err)
	f.StringVar(&a.bucket, "bucket", "", "`URL` of the bucket, such as s3://NAME?region=REGION; the same for producers and consumers")
	f.StringVar(&a.server, "server", first(a.getenv("QUERN_SERVER"), "http://127.0.0.1:7700"), "`URL` of the server, or of several nodes of a cluster, separated by commas")
	f.StringVar(&a.queue, "queue", first(a.getenv("QUERN_QUEUE"), "default"), "`NAME` of the queue")
	f.IntVar(&a.parallel, "parallel", 8, "objects to upload or delete at once")
	return f
}

// parse reads the flags, and returns the arguments behind them.
func (a *app) parse(f *flag.FlagSet, args []string) ([]string, error) {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if a.bucket == "" {
		return nil, fmt.Errorf("%w: --bucket is missing: name one, such as s3://NAME?region=REGION or file:///DIR", errUsage)
	}
	return f.Args(), nil
}

// open connects to the server and opens the bucket.
func (a *app) open(ctx context.Context) (s objects.Store, closeAll func(), err error) {
	options, err := a.options()
	if err != nil {
		return s, nil, err
	}
	servers := strings.Split(a.server, ",")
	c, err := client.New(servers[0], append(options, client.WithAddresses(servers[1:]...),
		client.WithLogger(slog.New(slog.NewTextHandler(a.err, nil))))...)
	if err != nil {
		return s, nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	bucket, err := blob.OpenBucket(ctx, a.bucket)
	if err != nil {
		c.Close()
		return s, nil, fmt.Errorf("opening --bucket: %w", err)
	}
	return objects.Store{Client: c, Bucket: bucket, Parallel: a.parallel}, func() { c.Close(); _ = bucket.Close() }, nil
}

// options are the token and the authority that the environment names, as for quern.
func (a *app) options() (list []client.Option, err error) {
	token := a.getenv("QUERN_TOKEN")
	if file := a.getenv("QUERN_TOKEN_FILE"); token == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("QUERN_TOKEN_FILE: %w", err)
		}
		token = string(text)
	}
	list = append(list, client.WithToken(strings.TrimSpace(token)))
	if file := a.getenv("QUERN_SERVER_CA"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("QUERN_SERVER_CA: %w", err)
		}
		authorities := x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("QUERN_SERVER_CA: %s holds no certificate in PEM", file)
		}
		list = append(list, client.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}))
	}
	return list, nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
