package web

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

const goldenSettings = "dashboard/src/settings.json"

// The dashboard shows the settings of a queue, and makes its form of them, as they are declared.
func TestSettingsOfTheDashboardAreGolden(t *testing.T) {
	t.Parallel()
	type setting struct {
		Name     string   `json:"name"`
		Sentence string   `json:"sentence"`
		Range    string   `json:"range,omitempty"`
		Zero     string   `json:"zero,omitempty"`
		Choices  []string `json:"choices,omitempty"`
	}
	var declared []setting
	for _, d := range queue.AllSettings() {
		s := setting{Name: d.Name, Sentence: d.Sentence, Zero: d.Range.Zero, Choices: d.Choices()}
		if d.Range != (queue.Range{}) {
			s.Range = d.Range.String()
		}
		declared = append(declared, s)
	}
	got, err := json.MarshalIndent(declared, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *rewrite {
		if err := os.WriteFile(goldenSettings, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(goldenSettings); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what engine/queue/setting.go declares (%v); if that is meant: go test ./web -run Golden -rewrite, then make dashboard", goldenSettings, err)
	}
}
