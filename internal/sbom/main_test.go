package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The list of a binary has exactly the modules that the go command builds it from, with their sums as go.sum has them, and is the same each
// time.
func TestWhatTheServerIsMadeOf(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "quern")
	run(t, "go", "build", "-o", binary, "github.com/quern-queue/quern/cmd/quern")
	var first, second bytes.Buffer
	for _, to := range []*bytes.Buffer{&first, &second} {
		if err := write(to, "v1.2.3", binary); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("two lists of one binary differ")
	}
	var list document
	if err := json.Unmarshal(first.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(run(t, "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "github.com/quern-queue/quern/cmd/quern")) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list.Components {
		if c.Name == "stdlib" {
			continue
		}
		got = append(got, c.Name+" "+c.Version)
		sum, err := hex.DecodeString(c.Hashes[0].Content)
		if err != nil || !strings.Contains(string(sums), c.Name+" "+c.Version+" h1:"+base64.StdEncoding.EncodeToString(sum)) {
			t.Errorf("%s has the sum %s, which is not that of go.sum", c.Name, c.Hashes[0].Content)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || len(got) < 20 {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(list.Dependencies[0].DependsOn[1:], refs(list.Components[1:])) || list.Components[0].Name != "stdlib" {
		t.Errorf("the dependencies are not the components: %v", list.Dependencies)
	}
	if sum := strings.Fields(run(t, "sha256sum", binary))[0]; list.Metadata.Component.Hashes[0].Content != sum {
		t.Errorf("the binary has the sum %s, want %s", list.Metadata.Component.Hashes[0].Content, sum)
	}
}

// What is no Go binary is refused.
func TestNoBinary(t *testing.T) {
	t.Parallel()
	if err := write(&bytes.Buffer{}, "v1", "main.go"); err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("got %v", err)
	}
}

func refs(components []component) (all []string) {
	for _, c := range components {
		all = append(all, c.Ref)
	}
	return all
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	var complaints strings.Builder
	command := exec.Command(program, args...)
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", program, args, err, complaints.String())
	}
	return string(out)
}
