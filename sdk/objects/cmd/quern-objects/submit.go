package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// metaFlag is --meta KEY=VALUE, as in quern submit.
type metaFlag api.Meta

func (m metaFlag) String() string { return "" }

func (m metaFlag) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("must be KEY=VALUE")
	}
	if number, err := strconv.ParseInt(value, 10, 64); err == nil {
		m[key] = api.Int(number)
	} else {
		m[key] = api.Text(strings.TrimPrefix(value, "s:"))
	}
	return nil
}

func (a *app) submit(ctx context.Context, args []string) error {
	f := a.flags("submit")
	n := api.NewSubmission{Meta: api.Meta{}}
	f.Var(metaFlag(n.Meta), "meta", "metadata `KEY=VALUE`, repeatable; an integer when VALUE is one, KEY=s:VALUE forces text")
	f.Int64Var(&n.Priority, "priority", 0, "larger first under CustomPriority")
	key := f.String("idempotency-key", "", "the same `KEY` inserts only once within a day, so you can repeat an interrupted call")
	names := f.String("files-from", "", "read the names of the files from `FILE`, or - for stdin, one per line")
	wait := f.Bool("wait", false, "wait until the submission ends")
	files, err := a.parse(f, args)
	if err != nil {
		return err
	}
	if (len(files) == 0) == (*names == "") {
		return fmt.Errorf("%w: name the files, or a file with their names (--files-from)", errUsage)
	}
	list := strings.NewReader(strings.Join(files, "\n"))
	var source io.Reader = list
	switch *names {
	case "":
	case "-":
		source = a.in
	default:
		file, err := os.Open(*names)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		source = file
	}
	store, closeAll, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	submission, err := store.Submit(ctx, a.queue, *key, &n, func(yield func(io.Reader, error) bool) { eachFile(source, yield) })
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, submission.ID)
	if !*wait {
		return nil
	}
	if submission, err = store.Client.Wait(ctx, submission.ID); err == nil && submission.State != api.StateCompleted {
		err = fmt.Errorf("the submission ended as %s", submission.State)
	}
	return err
}

// eachFile opens one file per line of the list. An upload closes what it has read.
func eachFile(list io.Reader, yield func(io.Reader, error) bool) {
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		file, err := os.Open(lines.Text())
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield(file, nil) {
			return
		}
	}
	if err := lines.Err(); err != nil {
		yield(nil, err)
	}
}

func (a *app) sweep(ctx context.Context, args []string) error {
	f := a.flags("sweep")
	age := f.Duration("older-than", 24*time.Hour, "keep folders whose newest object is younger than this")
	rest, err := a.parse(f, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 || *age < 0 {
		return fmt.Errorf("%w: sweep takes no arguments, and --older-than must not be negative", errUsage)
	}
	store, closeAll, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	removed, err := store.Sweep(ctx, time.Now().Add(-*age))
	fmt.Fprintf(a.out, "%d folders removed\n", removed)
	return err
}
