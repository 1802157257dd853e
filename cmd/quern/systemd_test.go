package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

const unitFile = "../../deploy/systemd/quern.service"

// The unit is one that systemd takes without a warning, and its hardening is rated OK: an exposure of at most 2.0 of 10.
func TestSystemdTakesTheUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(unitText(t), "/usr/bin/quern", program, 1)
	unit := filepath.Join(t.TempDir(), "quern.service")
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), unit) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// The unit's limit of open files is enough for as many queues as a server has, with room for 4,096 connections at least. It starts the
// server with options that exist.
func TestUnitFitsTheServer(t *testing.T) {
	t.Parallel()
	text := unitText(t)
	limit := unitValue(t, text, `LimitNOFILE=(\d+)`)
	open, err := strconv.Atoi(limit)
	if err != nil {
		t.Fatal(err)
	}
	name := unitValue(t, text, `Environment=QUERN_([A-Z_]+)=`)
	if !strings.Contains(fmt.Sprint(options()), strings.ToLower(name)) {
		t.Errorf("there is no option %s", name)
	}
	s, err := startServer(quernCopy(t), os.Environ(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(os.Kill) }()
	c, err := client.New(s.url)
	if err != nil {
		t.Fatal(err)
	}
	const queues = 4
	before := openFiles(t, s)
	for n := range queues {
		if _, err := c.PutQueue(t.Context(), fmt.Sprintf("q%d", n), api.QueueSettingsInput{}); err != nil {
			t.Fatal(err)
		}
	}
	each := (openFiles(t, s) - before + queues - 1) / queues
	if need := before + each*queue.MaxQueues + 4096; each < 2 || need > open {
		t.Errorf("%d files a queue make %d, with %d at the start and 4096 connections; LimitNOFILE is %d", each, need, before, open)
	}
}

func unitText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func unitValue(t *testing.T, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the unit has no %s", pattern)
	}
	return found[1]
}

func openFiles(t *testing.T, s *server) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Process.Pid))
	if err != nil {
		t.Skip("files of a process are counted in /proc")
	}
	return len(files)
}
