package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The suite ends on a small scale, leaves every figure that it promises, and finds nothing lost, held twice or over a limit.
// All its processes have ended then, and also when it is interrupted.
func TestClusterOnASmallScale(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	server := filepath.Join(programs, "quern")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "github.com/quern-queue/quern/cmd/quern", ".")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	without := "" // its lines about figures that it leaves out
	found, err := smallCluster(t, t.Context(), server, func(line string) {
		if strings.HasPrefix(line, "without") {
			without += line
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range found {
		none := slices.Contains([]string{"missing", "double_holders", "limits_exceeded"}, got.Name)
		if !slices.Contains(clusterNames, got.Name) || none != (got.Value == 0) || got.Name == "move_kept" && got.Value != 1 {
			t.Errorf("%s is %g: is it in the list, are the counts 0, and are all reservations kept over a move?", got.Name, got.Value)
		}
	}
	for _, name := range clusterNames {
		if !slices.ContainsFunc(found, func(f figure) bool { return f.Name == name }) && !strings.Contains(without, name) {
			t.Errorf("there is no %s", name)
		}
	}

	ctx, interrupt := context.WithCancel(t.Context())
	_, err = smallCluster(t, ctx, server, func(line string) {
		if strings.HasPrefix(line, "failover_s") {
			interrupt()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run ends with %v", err)
	}
}

// smallCluster runs the suite, and finds no process of it afterwards.
func smallCluster(t *testing.T, ctx context.Context, server string, progress func(line string)) ([]figure, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "quern-bench-") // t.TempDir is in a folder that PostgreSQL's account cannot enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r := &run{report: &report{}, options: options{dir: dir, server: server, turn: 100 * time.Millisecond,
		floor: []string{filepath.Join(filepath.Dir(server), "quern-bench"), floorCommand}, progress: func(line string) {
			t.Log(line)
			progress(line)
		}}}
	ending := clusterFigures(ctx, r, clusterScale{submissions: 20, chunks: 1000, kills: 1, moves: 1, held: 20, acts: 100,
		grace: 3 * time.Second, batch: 20, queues: 2, rounds: 1, calls: 20, river: 500})
	left, err := filepath.Glob(filepath.Join(dir, "quern-pg*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the databases left %v, %v", left, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if text, err := os.ReadFile(line); err == nil && bytes.Contains(text, []byte(dir)) { // else it has ended since
			t.Errorf("a process is left: %q", text)
		}
	}
	return r.report.Results, ending
}
