package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// syncBuffer is a buffer that several commands may write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

// sh is a command that runs a piece of shell.
func sh(t *testing.T, timeout time.Duration, script string, args ...string) *command {
	t.Helper()
	c, err := newCommand(append([]string{"sh", "-c", script, "sh"}, args...), timeout, os.Environ(), &syncBuffer{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The content reaches a command on stdin, as a variable and in the place of {}. The command's output comes
// back.
func TestCommandSeesItsChunk(t *testing.T) {
	t.Parallel()
	in := chunkInput{Submission: "72", Index: 17, Attempt: 2, Content: []byte("two words\n"), Meta: api.Meta{
		"company": api.Int(123), "co-mode.x": api.Text("a b"),
	}}
	c := sh(t, 0, `cat; printf '%s|' "$1" "$QUERN_CONTENT" "$QUERN_SUBMISSION" "$QUERN_INDEX" "$QUERN_ATTEMPT" "$QUERN_META_COMPANY" "$QUERN_META_CO_MODE_X" "${QUERN_KEY-unset}"`, "<{}>")
	out, err := c.run(t.Context(), in)
	if want := "two words\n<two words\n>|two words\n|72|17|2|123|a b|unset|"; err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

// A chunk in object storage has a key and no bytes.
func TestCommandSeesAKey(t *testing.T) {
	t.Parallel()
	c := sh(t, 0, `wc -c | tr -d ' \n'; printf '|%s|%s|%s' "$1" "$QUERN_KEY" "${QUERN_CONTENT-unset}"`, "{}")
	out, err := c.run(t.Context(), chunkInput{Key: "s3://b/x/17"})
	if want := "0|s3://b/x/17|s3://b/x/17|unset"; err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

// How a command ends decides about its chunk, and its last words become the error.
func TestCommandFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script string
		want   string
		fatal  bool
	}{
		{"echo first >&2; echo 'no such row' >&2; exit 3", "no such row (exit status 3)", false},
		{"exit 1", "exit status 1", false},
		{"echo broken >&2; exit 100", "broken (exit status 100)", true},
		{"kill -9 $$", "signal: killed", false},
		{"head -c 1048577 /dev/zero", "sh printed more than 1048576 bytes, the most an output may have", true},
	} {
		_, err := sh(t, 0, test.script).run(t.Context(), chunkInput{Content: []byte("x")})
		var failure commandFailure
		if !errors.As(err, &failure) || failure.text != test.want || failure.fatal != test.fatal {
			t.Errorf("%s: got %#v, want %q, fatal %v", test.script, err, test.want, test.fatal)
		}
	}
}

// A command that does not read its stdin is no failure, however much there was to read.
func TestCommandMayIgnoreStdin(t *testing.T) {
	t.Parallel()
	out, err := sh(t, 0, "echo done").run(t.Context(), chunkInput{Content: bytes.Repeat([]byte("x"), queue.MaxChunkBytes)})
	if err != nil || string(out) != "done\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// Content that is no text cannot stand for {}, and no further try would change that; on stdin it passes.
func TestBinaryContent(t *testing.T) {
	t.Parallel()
	in := chunkInput{Content: []byte{0xff, 0, 'x'}}
	_, err := sh(t, 0, "true", "{}").run(t.Context(), in)
	var failure commandFailure
	if !errors.As(err, &failure) || !failure.fatal || !strings.Contains(failure.text, "read it from stdin") {
		t.Errorf("{} for binary content: got %#v", err)
	}
	out, err := sh(t, 0, `cat; printf %s "${QUERN_CONTENT-unset}"`).run(t.Context(), in)
	if want := "\xff\x00xunset"; err != nil || string(out) != want {
		t.Errorf("binary stdin: got %q, %v; want %q", out, err, want)
	}
	large := chunkInput{Content: bytes.Repeat([]byte("x"), maxContentVariable+1)}
	out, err = sh(t, 0, `printf %s "${QUERN_CONTENT-unset}"`).run(t.Context(), large)
	if err != nil || string(out) != "unset" {
		t.Errorf("large content: got %q, %v; want no variable", out, err)
	}
}

// A command over its time is killed together with what it started.
func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	_, err := sh(t, 50*time.Millisecond, "sleep 1000 & wait").run(t.Context(), chunkInput{})
	var failure commandFailure
	if !errors.As(err, &failure) || failure.text != "sh ran longer than 50ms and was killed" || failure.fatal {
		t.Errorf("got %#v", err)
	}
}

// A command whose chunk is no longer ours is killed, and the reason comes back.
func TestCommandCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("reservation lost")
	cancel(lost)
	if _, err := sh(t, 0, "sleep 1000").run(ctx, chunkInput{}); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}

func TestMissingCommand(t *testing.T) {
	t.Parallel()
	_, err := newCommand([]string{"no-such-program-anywhere"}, 0, nil, &syncBuffer{})
	if err == nil || !strings.Contains(err.Error(), "no-such-program-anywhere") {
		t.Errorf("got %v, want an error that names the program", err)
	}
}

// A consumer started by a consumer's command does not pass the outer chunk on.
func TestOuterChunkIsDropped(t *testing.T) {
	t.Parallel()
	got := withoutChunk([]string{"PATH=/bin", "QUERN_KEY=k", "QUERN_META_A=1", "QUERN_SERVER=x", "QUERN_CONTENT=c", "QUERN_INDEX=1"})
	if want := []string{"PATH=/bin", "QUERN_SERVER=x"}; !equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The last line survives a flood before it and blank lines after it. It is clipped to the length that the
// server takes.
func TestLastLine(t *testing.T) {
	t.Parallel()
	flood := strings.Repeat("noise noise noise\n", 10_000)
	for in, want := range map[string]string{
		"":                        "",
		"\n\n":                    "",
		"one":                     "one",
		"one\ntwo\n\n \n":         "two",
		flood + "the reason\n":    "the reason",
		"bad \xff byte\n":         "bad ? byte",
		strings.Repeat("x", 3000): strings.Repeat("x", 900) + "...",
	} {
		tail := &tailWriter{to: &syncBuffer{}}
		for part := range strings.SplitAfterSeq(in, "\n") {
			if _, err := tail.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if got := tail.lastLine(); got != want {
			t.Errorf("last line of %d bytes = %q, want %q", len(in), got, want)
		}
	}
}
