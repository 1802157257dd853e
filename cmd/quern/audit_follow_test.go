//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// quern audit --follow prints an object a line, only what its filters mean, goes on when the server was killed and started again, and
// ends well when it is interrupted.
func TestAuditFollow(t *testing.T) {
	t.Parallel()
	program, dir := quernCopy(t), t.TempDir()
	start := func(flags ...string) *server {
		s, err := startServer(program, os.Environ(), dir, flags...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	o := &operators{t: t, program: program, dir: dir, asked: map[string]asked{}, server: start("--listen", freeAddress(t))}
	url := o.server.url
	refused := launch(t, t.TempDir(), program, "audit", "--follow", "--until", "-1h", "--server", url)
	refused.ends(exitUsage)
	if text := refused.stderr.String(); !strings.Contains(text, "--until cannot be given with --follow") {
		t.Errorf("--until with --follow: %s", text)
	}
	p := launch(t, t.TempDir(), program, "audit", "--follow", "--since", "-1h", "--action", "rule.create", "-o", "json", "--server", url)
	number := 0
	act := func() {
		number++
		var rule api.Rule
		body := fmt.Sprintf(`{"action":"pause","match":{"meta":{"company":%d}}}`, number)
		o.act(t.Context(), fmt.Sprint("r", number), "POST", "/v1/queues/default/rules", body, changes, &rule)
		o.act(t.Context(), fmt.Sprint("l", number), "DELETE", "/v1/queues/default/rules/"+rule.ID, "", changes, nil)
	}
	read := func(want int) {
		t.Helper()
		var e api.AuditEntry
		if err := json.Unmarshal([]byte(p.line()), &e); err != nil {
			t.Fatal(err)
		}
		if e.Target != fmt.Sprintf("rule %d", want) || e.Action != "rule.create" {
			t.Errorf("got %+v, want rule %d", e, want)
		}
	}
	act()
	read(1)
	act()
	_ = o.server.end(syscall.SIGKILL) // the exit status is "killed"
	o.server = start("--listen", strings.TrimPrefix(url, "http://"))
	act()
	read(2)
	read(3)
	act()
	read(4)
	p.tell(syscall.SIGINT)
	p.ends(exitOK)
}
