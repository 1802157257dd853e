//go:build linux

package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
)

// The outbox of docs/RECIPES.md moves each row once, also when its relay stops between the insert and the delete.
func TestOutboxRecipe(t *testing.T) {
	t.Parallel()
	database, err := url.Parse(pgtest.Begin(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "RECIPES.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(page), "\n## An outbox in PostgreSQL\n")
	shown := regexp.MustCompile("(?ms)^```sql\n(.*?)^```$.*?^```bash\n(.*?)^```$").FindStringSubmatch(recipe)
	if shown == nil {
		t.Fatal("docs/RECIPES.md does not show the outbox as SQL and a script")
	}
	quern := quernCopy(t)
	s, err := startServer(quern, os.Environ(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.end(os.Interrupt)
	dir := t.TempDir()
	if err := os.Symlink(quern, filepath.Join(dir, "quern")); err != nil {
		t.Fatal(err)
	}
	shell := func(script string) string {
		command := exec.Command("bash", "-c", "set -euo pipefail\n"+script)
		command.Dir = dir
		command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "QUERN_SERVER="+s.url,
			"PGHOST="+database.Query().Get("host"), "PGUSER=postgres", "PGDATABASE=postgres")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\nsaid:\n%s", err, script, out)
		}
		return string(out)
	}
	shell("psql -qX -v ON_ERROR_STOP=1 <<'END'\n" + shown[1] + "END\n")
	relay := shown[2]
	cut := strings.LastIndex(strings.TrimSpace(relay), "\n")
	shell(relay[:cut]) // the relay dies before it deletes
	shell(relay)
	shell(relay) // with nothing to move
	if left := shell(`psql -qAtX -c "SELECT count(*) FROM outbox"`); left != "0\n" {
		t.Errorf("%s rows are left in the outbox, want none", strings.TrimSpace(left))
	}
	if list := shell("quern list -o jsonl"); strings.Count(list, "\n") != 1 || !strings.Contains(list, `"kind":"mail"`) {
		t.Errorf("the queue has, want one submission with the row's meta:\n%s", list)
	}
}
