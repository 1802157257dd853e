package compile_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The cause of a child's end follows from its signal and from what it had used. A child that was killed with much of its CPU time used has
// reached that limit, although less than the limit may have been measured. A limit that was not reached, or that there is not, is not named
// as the cause.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		child  []string
		memory uint64
		want   error
		say    string
	}{
		{"SIGXCPU", []string{"sh", "-c", "kill -XCPU $$"}, 0, compile.ErrBudget, "more than 1s of CPU time"},
		{
			"SIGKILL after 0.7 s", []string{os.Args[0], "-test.run=^TestBurn$", "--", "burn"}, 1 << 30,
			compile.ErrBudget, "more than 1s of CPU time",
		},
		{
			"SIGKILL at once", []string{"sh", "-c", "kill -KILL $$"}, 1 << 30,
			compile.ErrMemory, "of the 1s of CPU time and 1024 MiB that it may use",
		},
		{"SIGKILL at once, no limit", []string{"sh", "-c", "kill -KILL $$"}, 0, compile.ErrMemory, "of the 1s of CPU time that it may use"},
		{"no memory", []string{"sh", "-c", "echo out of memory >&2; exit 2"}, 1 << 30, compile.ErrMemory, "more than 1024 MiB"},
		{"no memory, no limit", []string{"sh", "-c", "echo out of memory >&2; exit 2"}, 0, compile.ErrMemory, "more than this machine has"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := compiler(t, func(c *compile.Config) {
				c.Command, c.Limits.CPU, c.Limits.MemoryBytes = test.child, time.Second, test.memory
			})
			_, err := c.Load(t.Context(), wasmtest.Scorer())
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.say) {
				t.Errorf("got %v, want %v that says %q", err, test.want, test.say)
			}
		})
	}
}

// TestBurn is a child of TestKilled: it uses 0.7 s of CPU time and is killed.
func TestBurn(t *testing.T) {
	if flag.Arg(0) != "burn" {
		t.Skip("only as a child")
	}
	for {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			t.Fatal(err)
		}
		if time.Duration(used.Utime.Nano()+used.Stime.Nano()) < 700*time.Millisecond {
			continue
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}
