package main

import (
	"slices"
	"testing"
)

// The suite ends on a small scale, and leaves every figure that it promises.
//
//quern:killing
func TestBackupsOnASmallScale(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), progress: func(line string) { t.Log(line) }}, report: &report{}}
	if err := backupFigures(t.Context(), r, backupScale{submissions: 200, chunks: 1000, changes: 20, completes: 40}); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, got := range r.report.Results {
		if found[got.Name] = true; got.Value <= 0 || !slices.Contains(backupNames, got.Name) {
			t.Errorf("%s is %g, want a figure of the list, more than 0", got.Name, got.Value)
		}
	}
	if len(found) != len(backupNames) {
		t.Errorf("%d figures, want %d", len(found), len(backupNames))
	}
}
