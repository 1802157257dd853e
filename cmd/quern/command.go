package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// maxContentVariable is the longest content that is also put into the environment: the whole environment and
	// the arguments share about 128 KiB on the smaller systems.
	maxContentVariable = 32 << 10

	// maxContentArgument is the longest content that replaces {}: Linux takes no single argument of 128 KiB or more.
	maxContentArgument = 100 << 10

	// exitFatal is the exit code by which a command says that no further try will help.
	exitFatal = 100

	// stderrTail is how much of a command's stderr is kept to find its last line.
	stderrTail = 4 << 10

	// killGrace is how long the pipes of a killed command may stay open, held by a grandchild.
	killGrace = 2 * time.Second
)

// chunkInput is the input of a command: its chunk.
type chunkInput struct {
	Submission string
	Index      uint32
	Attempt    uint32
	Content    []byte
	Key        string // the chunk is in object storage, and Content is empty
	Meta       api.Meta
	Trace      string // W3C trace context that the submission carries
}

// commandFailure is a try that did not succeed, in the words of the command itself.
type commandFailure struct {
	text  string
	fatal bool
}

func (f commandFailure) Error() string { return f.text }

// command runs one program per chunk.
type command struct {
	args    []string
	timeout time.Duration // 0: none
	env     []string
	stderr  io.Writer // the program's stderr also goes here

	mu      sync.Mutex
	running map[*exec.Cmd]struct{}
	killed  bool // killAll was called: nothing is started any more
}

// newCommand checks that the program exists, so that a slip of the pen does not fail every chunk ten times.
func newCommand(args []string, timeout time.Duration, env []string, stderr io.Writer) (*command, error) {
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil, usageError{fmt.Errorf("the command cannot be run: %w", err)}
	}
	return &command{args: args, timeout: timeout, env: withoutChunk(env), stderr: stderr, running: make(map[*exec.Cmd]struct{})}, nil
}

// start starts a program so that killAll finds it.
func (c *command) start(program *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("interrupted")
	}
	err := program.Start()
	if err == nil {
		c.running[program] = struct{}{}
	}
	return err
}

// wait waits for the end of a program that start started.
func (c *command) wait(program *exec.Cmd) error {
	err := program.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, program)
	return err
}

// killAll kills everything that runs, and lets nothing start.
func (c *command) killAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	for program := range c.running {
		_ = program.Cancel() // it may have ended just now
	}
}

// run feeds the chunk to the program and returns what it printed. The error is a commandFailure when it was the
// program's doing, and ctx's when ctx ended.
func (c *command) run(ctx context.Context, in chunkInput) ([]byte, error) {
	args, err := c.arguments(in)
	if err != nil {
		return nil, err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if c.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, c.timeout)
	}
	defer cancel()
	program := exec.CommandContext(limited, args[0], args[1:]...)
	program.Env = append(c.env[:len(c.env):len(c.env)], in.variables()...)
	if len(in.Content) > 0 {
		program.Stdin = bytes.NewReader(in.Content)
	}
	out := &capped{most: queue.MaxOutputBytes}
	tail := &tailWriter{to: c.stderr}
	program.Stdout, program.Stderr = out, tail
	program.WaitDelay = killGrace
	ownGroup(program)
	// Where the program ends with this process, it ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = c.start(program); err == nil {
		err = c.wait(program)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, commandFailure{text: fmt.Sprintf("%s ran longer than %s and was killed", args[0], c.timeout)}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, describe(err, tail.lastLine())
	case out.over:
		return nil, commandFailure{text: fmt.Sprintf("%s printed more than %d bytes, the most an output may have",
			args[0], queue.MaxOutputBytes), fatal: true}
	}
	return out.b, nil
}

// describe turns the end of a program into the error of its chunk: its last words, and how it ended.
func describe(err error, last string) commandFailure {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return commandFailure{text: err.Error()}
	}
	failure := commandFailure{text: exit.String(), fatal: exit.ExitCode() == exitFatal}
	if last != "" {
		failure.text = last + " (" + failure.text + ")"
	}
	return failure
}

// arguments puts the content, or the key, in the place of {}.
func (c *command) arguments(in chunkInput) ([]string, error) {
	args := make([]string, len(c.args))
	for i, arg := range c.args {
		if !strings.Contains(arg, "{}") {
			args[i] = arg
			continue
		}
		text := in.Key
		if text == "" {
			if len(in.Content) > maxContentArgument || !isText(in.Content) {
				return nil, commandFailure{text: fmt.Sprintf("the content (%d bytes) cannot stand for {}: it is not "+
					"text without NUL of at most %d bytes; read it from stdin", len(in.Content), maxContentArgument), fatal: true}
			}
			text = string(in.Content)
		}
		args[i] = strings.ReplaceAll(arg, "{}", text)
	}
	return args, nil
}

// variables is the chunk as the program's environment.
func (in chunkInput) variables() []string {
	env := []string{
		"QUERN_SUBMISSION=" + in.Submission,
		"QUERN_INDEX=" + strconv.FormatUint(uint64(in.Index), 10),
		"QUERN_ATTEMPT=" + strconv.FormatUint(uint64(in.Attempt), 10),
	}
	if parent, state, _ := strings.Cut(in.Trace, ";"); parent != "" {
		env = append(env, "TRACEPARENT="+parent, "TRACESTATE="+state)
	}
	if in.Key != "" {
		env = append(env, "QUERN_KEY="+in.Key)
	} else if len(in.Content) <= maxContentVariable && isText(in.Content) {
		env = append(env, "QUERN_CONTENT="+string(in.Content))
	}
	for key, value := range in.Meta {
		if text := value.String(); strings.IndexByte(text, 0) < 0 { // an environment cannot hold it
			env = append(env, "QUERN_META_"+variableName(key)+"="+text)
		}
	}
	return env
}

// variableName is a meta key as part of a variable's name: capitals, with '_' for all but letters and digits.
func variableName(key string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(key))
}

// withoutChunk drops what describes another chunk, when this process is itself the command of a consumer.
func withoutChunk(env []string) []string {
	var kept []string
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		switch name {
		case "QUERN_SUBMISSION", "QUERN_INDEX", "QUERN_ATTEMPT", "QUERN_CONTENT", "QUERN_KEY":
			continue
		}
		if !strings.HasPrefix(name, "QUERN_META_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// capped keeps the first `most` bytes and notes whether there were more. It goes on reading, so that the program does
// not hang on a full pipe.
type capped struct {
	b    []byte
	most int
	over bool
}

func (c *capped) Write(b []byte) (int, error) {
	if room := c.most - len(c.b); len(b) > room {
		c.over = true
		c.b = append(c.b, b[:room]...)
	} else {
		c.b = append(c.b, b...)
	}
	return len(b), nil
}

// tailWriter passes everything on and remembers the end.
type tailWriter struct {
	to   io.Writer
	tail []byte
}

func (t *tailWriter) Write(b []byte) (int, error) {
	t.tail = append(t.tail, b...)
	if cut := len(t.tail) - stderrTail; cut > 0 {
		t.tail = append(t.tail[:0], t.tail[cut:]...)
	}
	return t.to.Write(b)
}

// lastLine is the last line that is not blank, at most queue.MaxErrorBytes of it less room for how the program ended.
func (t *tailWriter) lastLine() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.tail), "?"))
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if most := queue.MaxErrorBytes - 100; len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
