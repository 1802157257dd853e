package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quern-queue/quern/sdk/client"
)

// exitFatal is the exit code by which a command says that no further try will help, as for quern work.
const exitFatal = 100

// killGrace is how long the pipes of a killed command may stay open, held by a grandchild.
const killGrace = 2 * time.Second

func (a *app) work(ctx context.Context, args []string) error {
	f := a.flags("work")
	var o client.WorkOptions
	f.IntVar(&o.Concurrency, "concurrency", 1, "commands that run at once")
	f.StringVar(&o.Strategy, "strategy", "Random", "which chunks, and in which order")
	f.StringVar(&o.Consumer, "consumer", "", "`NAME` of this consumer, which no other process uses (default: the host and random digits)")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "how long a reservation lasts; quern-objects work extends it while the command runs")
	command, err := a.parse(f, args)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		return fmt.Errorf("%w: a command is missing: write it after --, as in 'quern-objects work --bucket URL -- sha256sum'", errUsage)
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return fmt.Errorf("%w: the command cannot be run: %w", errUsage, err)
	}
	store, closeAll, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	o.Queue = a.queue
	return store.Work(ctx, o, func(ctx context.Context, chunk *client.Chunk, content io.Reader, output io.Writer) error {
		return a.runCommand(ctx, command, chunk, content, output)
	})
}

// runCommand runs the command for one chunk. It has the environment that quern work gives.
func (a *app) runCommand(ctx context.Context, command []string, chunk *client.Chunk, content io.Reader, output io.Writer) error {
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Env = append(os.Environ(), "QUERN_SUBMISSION="+chunk.Submission, "QUERN_INDEX="+strconv.FormatUint(uint64(chunk.Index), 10),
		"QUERN_ATTEMPT="+strconv.FormatUint(uint64(chunk.Attempt), 10), "QUERN_KEY="+chunk.Key)
	for key, value := range chunk.Meta {
		if text := value.String(); strings.IndexByte(text, 0) < 0 { // an environment cannot hold it
			program.Env = append(program.Env, "QUERN_META_"+variable(key)+"="+text)
		}
	}
	said := &lastLine{to: a.err}
	program.Stdin, program.Stdout, program.Stderr = content, output, said
	program.WaitDelay = killGrace
	ownGroup(program)
	// Where the program ends with this process, it ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := program.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.As(err, &exit):
		return err
	}
	err = fmt.Errorf("%s (%v)", first(said.text(), command[0]), exit) // the command's own words, without our type before them
	if exit.ExitCode() == exitFatal {
		return client.Permanent(err)
	}
	return err
}

// variable is a meta key as part of a variable's name.
func variable(key string) string {
	return strings.Map(func(c rune) rune {
		if c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
			return unicode.ToUpper(c)
		}
		return '_'
	}, key)
}

// lastLine passes everything on and keeps the end, for the reason of a failed try.
type lastLine struct {
	to  io.Writer
	end []byte
}

const keptOfStderr = 4 << 10

func (l *lastLine) Write(p []byte) (int, error) {
	l.end = append(l.end, p...)
	l.end = l.end[max(len(l.end)-keptOfStderr, 0):]
	return l.to.Write(p)
}

func (l *lastLine) text() string {
	lines := strings.Split(strings.TrimSpace(string(l.end)), "\n")
	return lines[len(lines)-1]
}
