package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// An unknown suite is refused with the way to the known ones, and the list has each suite with its figures.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	if _, err := measure(t.Context(), "nosuch", options{dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--list") {
		t.Errorf("an unknown suite: %v", err)
	}
	for _, suite := range []string{"http", "cluster"} {
		_, err := measure(t.Context(), suite, options{dir: t.TempDir(), only: []string{"nosuch"}})
		if err == nil || !strings.Contains(err.Error(), "only: ") {
			t.Errorf("a figure that %s cannot measure alone: %v", suite, err)
		}
	}
	var out bytes.Buffer
	c := command(&out, io.Discard)
	c.SetArgs([]string{"--list"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites() {
		if !strings.Contains(out.String(), s.name+"\n  "+s.figures[0]) {
			t.Errorf("the list lacks %s:\n%s", s.name, &out)
		}
	}
}
