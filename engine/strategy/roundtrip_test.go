package strategy

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// checkCanonical checks every strategy that parses: each canonical form parses to the very same strategy.
func checkCanonical(t interface{ Fatalf(string, ...any) }, s *Strategy) {
	raw, err := s.MarshalJSON()
	if err != nil || !json.Valid(raw) {
		t.Fatalf("MarshalJSON of %s: got %s and the error %v, want valid JSON", s, raw, err)
	}
	fromText, err := Parse(s.String())
	if err != nil {
		t.Fatalf("Parse(%s), which is canonical: %v", s, err)
	}
	fromJSON, err := ParseJSON(raw)
	if err != nil {
		t.Fatalf("ParseJSON(%s), which is canonical: %v", raw, err)
	}
	fromString, err := ParseJSON(appendQuoted(nil, s.String()))
	if err != nil && len(s.String()) < MaxBytes/8 { // quoting may make a long text too long
		t.Fatalf("ParseJSON of a string with %s: %v", s, err)
	}
	for _, again := range []*Strategy{fromText, fromJSON, fromString} {
		if again == nil {
			continue
		}
		if again.String() != s.String() || !bytes.Equal(again.json, raw) || again.Plan().String() != s.Plan().String() {
			t.Fatalf("read again from its canonical form\n got %s\n     %s\n     %s\nwant %s\n     %s\n     %s",
				again, again.json, again.Plan(), s, raw, s.Plan())
		}
	}
	checkPlan(t, s)
}

// checkPlan checks the properties of every plan.
func checkPlan(t interface{ Fatalf(string, ...any) }, s *Strategy) {
	branches := s.Plan().Branches
	leaves := 0
	for i := range branches {
		leaves += branches[i].size()
	}
	if leaves > MaxBranches {
		t.Fatalf("%s: got %d branches, want at most %d", s, leaves, MaxBranches)
	}
	checkBranches(t, s, branches)
}

func checkBranches(t interface{ Fatalf(string, ...any) }, s *Strategy, branches []Branch) {
	seen := map[string]bool{}
	for i := range branches {
		b := &branches[i]
		byHand := Branch{Filters: b.Filters, Limits: b.Limits, Order: b.Order, Fewest: b.Fewest, FewestOne: b.FewestOne, Fair: b.Fair, Cost: b.Cost, Scored: b.Scored, Inner: b.Inner, OnFault: b.OnFault}
		if b.Key() != byHand.Key() || seen[b.Key()] {
			t.Fatalf("%s: branch %d has the key %q, seen before: %v; made by hand %q", s, i, b.Key(), seen[b.Key()], byHand.Key())
		}
		seen[b.Key()] = true
		if holds := b.holds(); holds != (len(b.Inner) > 0) || holds && len(b.Filters)+len(b.Limits) > 0 || b.Fair != "" && b.Scored != nil {
			t.Fatalf("%s: the branch %q holds others and does not", s, b.Key())
		}
		checkBranches(t, s, b.Inner)
		for j := 1; j < len(b.Filters); j++ {
			if b.Filters[j-1].Key >= b.Filters[j].Key {
				t.Fatalf("%s: the filters of branch %q are not sorted or not one per key", s, b.Key())
			}
		}
		for j := 1; j < len(b.Limits); j++ {
			if compareLimits(b.Limits[j-1], b.Limits[j]) >= 0 {
				t.Fatalf("%s: the limits of branch %q are not sorted or not one per key and measure", s, b.Key())
			}
		}
	}
}

// However a tree is spelled as text, it is read as that tree.
func TestTextRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := anyBlock(4).Draw(t, "tree")
		want := string(appendText(nil, tree))
		spelled := spellText(t, tree)
		s, err := Parse(spelled)
		if err != nil {
			t.Fatalf("Parse(%s): %v", spelled, err)
		}
		if s.String() != want {
			t.Fatalf("Parse(%s): got %s, want %s", spelled, s, want)
		}
		checkCanonical(t, s)
	})
}

// However a tree is spelled as JSON, with pieces of text in it, it is read as that tree.
func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := anyBlock(4).Draw(t, "tree")
		want := string(appendText(nil, tree))
		spelled := spellJSON(t, tree)
		if !json.Valid([]byte(spelled)) {
			t.Fatalf("the test's own spelling is not JSON: %s", spelled)
		}
		s, err := ParseJSON([]byte(spelled))
		if err != nil {
			t.Fatalf("ParseJSON(%s): %v", spelled, err)
		}
		if s.String() != want {
			t.Fatalf("ParseJSON(%s): got %s, want %s", spelled, s, want)
		}
		checkCanonical(t, s)
	})
}

// A strategy within an answer survives encoding/json, which reformats the output of MarshalJSON.
func TestMarshalWithinAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := anyBlock(3).Draw(t, "tree")
		s, err := finish(tree)
		if err != nil {
			t.Fatalf("%s: %v", appendText(nil, tree), err)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("json.Marshal(%s): %v", s, err)
		}
		again, err := ParseJSON(raw)
		if err != nil || again.String() != s.String() {
			t.Fatalf("ParseJSON(%s): got %v and the error %v, want %s", raw, again, err, s)
		}
	})
}

// Our strings are JSON's strings: each side reads the strings of the other as they were.
func TestQuoteAgainstJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		quoted := appendQuoted(nil, text)
		var theirs string
		if err := json.Unmarshal(quoted, &theirs); err != nil || theirs != text {
			t.Fatalf("appendQuoted(%q): got %s, which encoding/json reads as %q with the error %v", text, quoted, theirs, err)
		}
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{string(quoted), string(encoded), spellString(t, text)} {
			s, err := newScanner(source, pointer, "is wrong")
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.scan()
			if err != nil || got.kind != stringToken || got.text != text || s.next != len(source) {
				t.Fatalf("scan(%s): got %+v up to %d and the error %v, want the string %q", source, got, s.next, err, text)
			}
		}
	})
}
