package web

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

const goldenSettings = "dashboard/src/settings.json"

// dashboardSetting is the dashboard's knowledge of a setting.
type dashboardSetting struct {
	Name     string   `json:"name"`
	Sentence string   `json:"sentence"`
	Range    string   `json:"range,omitempty"`
	Zero     string   `json:"zero,omitempty"`
	Choices  []string `json:"choices,omitempty"`
}

func dashboardSettings[T any](fields []*queue.Field[T]) (declared []dashboardSetting) {
	for _, d := range fields {
		s := dashboardSetting{Name: d.Name, Sentence: d.Sentence, Zero: d.Range.Zero, Choices: d.Choices()}
		if d.Range != (queue.Range{}) {
			s.Range = d.Range.String()
		}
		declared = append(declared, s)
	}
	return declared
}

// The dashboard shows the settings of a queue and of a plugin, and makes its forms of them, as they are declared.
func TestSettingsOfTheDashboardAreGolden(t *testing.T) {
	t.Parallel()
	got, err := json.MarshalIndent(map[string]any{
		"plugin":   dashboardSettings(queue.PluginSettings()),
		"queue":    dashboardSettings(queue.AllSettings()),
		"defaults": queue.SettingsRow(queue.DefaultSettings()),
	}, "", "  ")
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
		t.Errorf("%s is not what engine/queue declares (%v); if that is meant: go test ./web -run Golden -rewrite, then make dashboard", goldenSettings, err)
	}
}
