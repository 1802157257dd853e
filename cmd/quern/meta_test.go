package main

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/sdk/api"
)

// A value is an integer exactly when it parses as one; "s:" makes it text.
func TestMetaPairs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]api.MetaValue{
		"7":                    api.Int(7),
		"-9223372036854775808": api.Int(math.MinInt64),
		"9223372036854775808":  api.Text("9223372036854775808"),
		"s:7":                  api.Text("7"),
		"s:s:7":                api.Text("s:7"),
		"preview":              api.Text("preview"),
		"7.5":                  api.Text("7.5"),
		"":                     api.Text(""),
		"a=b":                  api.Text("a=b"),
	} {
		meta, err := parseMeta([]string{"k=" + text})
		if err != nil || len(meta) != 1 || meta["k"] != want {
			t.Errorf("--meta k=%s: got %v, %v; want %v", text, meta, err, want)
		}
	}
}

func TestWrongMetaPairs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"company":                       "is not KEY=VALUE",
		"=7":                            "1 to 64 are allowed",
		"a b=7":                         "are allowed",
		"k=" + strings.Repeat("x", 300): "at most 256",
	} {
		if _, err := parseMeta([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--meta %q: got %v, want an error with %q", text, err, want)
		}
	}
	if _, err := parseMeta([]string{"k=1", "k=2"}); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("a key twice: got %v", err)
	}
}

// A value can be typed as it is shown.
func TestMetaTextReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Map(rapid.Int64(), api.Int),
			rapid.Map(rapid.StringMatching(`(s:)?-?[0-9a-z]{0,5}`), api.Text),
		).Draw(t, "value")
		if got := parseMetaValue(metaText(value)); got != value {
			t.Fatalf("%v is shown as %q, which reads back as %v", value, metaText(value), got)
		}
	})
}
