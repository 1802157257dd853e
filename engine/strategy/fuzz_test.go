package strategy

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// No text makes the parser panic. It refuses a text with a caller's error that has one problem. It accepts a
// strategy again in either canonical form, as the same strategy and plan.
func FuzzText(f *testing.F) {
	for _, input := range seeds(f) {
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input string) {
		s, err := Parse(input)
		checkParsed(t, s, err)
	})
}

// The same for JSON; moreover the parser only accepts valid JSON.
func FuzzJSON(f *testing.F) {
	for _, input := range seeds(f) {
		f.Add([]byte(input))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s, err := ParseJSON(input)
		if err == nil && !json.Valid(input) {
			t.Fatalf("ParseJSON(%q) took what is not JSON, as %s", input, s)
		}
		checkParsed(t, s, err)
	})
}

func checkParsed(t *testing.T, s *Strategy, err error) {
	if err == nil {
		checkCanonical(t, s)
		return
	}
	var invalid *queue.Error
	if !errors.As(err, &invalid) || invalid.Code != queue.CodeInvalid || len(invalid.Problems) != 1 || s != nil {
		t.Fatalf("got the strategy %v and the error %v, want none and a *queue.Error of CodeInvalid with one problem", s, err)
	}
}

// seeds are the inputs of the golden files and of the error tables; testdata/fuzz holds more.
func seeds(f *testing.F) []string {
	var list []string
	for _, path := range goldenFiles(f) {
		for _, c := range readGolden(f, path) {
			list = append(list, c.input)
		}
	}
	for _, c := range textErrors {
		list = append(list, c.input)
	}
	for _, c := range jsonErrors {
		list = append(list, c.input)
	}
	return list
}
