package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs are quern and quern-objects, built side by side.
func programs(t *testing.T) (quern string) {
	t.Helper()
	dir := t.TempDir()
	for folder, at := range map[string]string{"../../../../cmd/quern": "quern", ".": "quern-objects"} {
		c := exec.Command("go", "build", "-C", folder, "-o", filepath.Join(dir, at), ".")
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, said)
		}
	}
	return filepath.Join(dir, "quern")
}

// submit --upload and work --fetch of quern are carried out by the quern-objects beside it, against a real server and a bucket of files.
func TestQuernUploadsAndFetches(t *testing.T) {
	t.Parallel()
	s, quern, file := newShell(t), programs(t), filepath.Join(t.TempDir(), "a b")
	if err := os.WriteFile(file, []byte("ash"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), quern, append(args, "--server", s.address)...).Output()
		if err != nil {
			t.Fatalf("quern %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	id := run("submit", "--upload", s.bucket, "--meta", "company=5", file)
	work := exec.CommandContext(t.Context(), quern, "work", "--server", s.address, "--fetch", s.bucket, "-c", "2", "--", "sh", "-c",
		`tr a-z A-Z; echo " $QUERN_META_COMPANY"`)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	run("wait", id)
	key := run("outputs", id)
	object := filepath.Join(strings.TrimSuffix(strings.TrimPrefix(s.bucket, "file://"), "?no_tmp_dir=true"), key)
	if text, err := os.ReadFile(object); err != nil || string(text) != "ASH 5\n" {
		t.Errorf("the object %s: %q, %v; want ASH 5", key, text, err)
	}
	if err := work.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := work.Wait(); err != nil { // the signal reaches the program that took quern's place, which ends in order
		t.Errorf("work: %v", err)
	}
}
