package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Mutants of a small package have the right outcomes, by the right test, in the right round, built together or alone.
func TestRun(t *testing.T) {
	t.Parallel()
	cases := []struct {
		old, new, before string
		tests            string
		short, alone     bool
		want             verdict
		by               string
	}{
		{old: "\tif a < b {\n", new: "\tif a > b {\n", want: caught, by: "./testdata/least:^TestFirst$"},
		{old: "\tif a < b {\n", new: "\tif a > b {\n", before: "./testdata/least:^TestSecond$", want: caught, by: "./testdata/least:^TestFirst$"},
		{old: "\tif a < b {\n", new: "\tif a != b {\n", want: caught, by: "./testdata/least:^TestSecond$"},
		{old: "\tif a < b {\n", new: "\tif a != b {\n", short: true, want: survived},
		{old: "\tif a < b {\n", new: "\tif a <= b {\n", want: survived},
		{old: "\tif a < b {\n", new: "\tif a <= b {\n", before: "./testdata/least:^TestGone$", want: survived},
		{old: "\treturn b\n", new: "\tpanic(b)\n", tests: "Second", want: caught, by: "./testdata/least:^TestSecond$"},
		{old: "\t*s = sum(int(*s) + extra[0])\n", new: "\t*s = sum(int(*s) - extra[0])\n", want: caught, by: "./testdata/least:^TestSum$"},
		{old: "\treturn values[0], true\n", new: "\treturn values[0], false\n", alone: true, want: caught, by: "./testdata/least:^TestSum$"},
		{old: "const most = 9\n", new: "const most = 8\n", alone: true, want: caught, by: "./testdata/least:^TestSum$"},
		{old: "\treturn b\n", new: "\treturn c\n", alone: true, want: unbuilt},
		{old: "\treturn c\n", new: "\treturn b\n", alone: true, want: stale},
	}
	var list []*mutant
	for _, c := range cases {
		list = append(list, &mutant{file: "testdata/least/least.go", old: c.old, new: c.new, tests: []string{"./testdata/least:" + c.tests}})
	}
	r, err := newRunner(list, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for i, c := range cases {
		r.short = c.short
		v, by, err := r.run(list[i], c.before)
		if v != c.want || err != nil || v == caught && by != c.by {
			t.Errorf("%q for %q: got %s by %q, %v; want %s by %q", c.new, c.old, v, by, err, c.want, c.by)
		}
		if alone := r.numbers[list[i]] == 0; alone != c.alone {
			t.Errorf("%q for %q: built alone: %v, want %v", c.new, c.old, alone, c.alone)
		}
	}
}

// Tests whose names are gone, or that fail without a mutant, are errors: the one would let all mutants survive, the other catch all.
func TestRunRefusesWhatSaysNothing(t *testing.T) {
	t.Parallel()
	m := mutant{file: "testdata/least/least.go", old: "\treturn b\n", new: "\treturn a\n", tests: []string{"./testdata/least:TestGone"}}
	r, err := newRunner([]*mutant{&m}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if v, _, err := r.run(&m, ""); !errors.Is(err, errNoTests) {
		t.Errorf("got %s, %v; want an error", v, err)
	}
	r.all, r.numbers = &build{dir: r.all.dir, overlay: map[string]string{}, tests: map[string]string{}}, nil
	if err := r.all.replace("testdata/least/least.go", "package least\n\nfunc least(a, b int) int { return b }\n"); err != nil {
		t.Fatal(err)
	}
	m.tests = []string{"./testdata/least"}
	if v, _, err := r.run(&m, ""); err == nil {
		t.Errorf("got %s, want an error", v)
	}
}

// A limit stops a test that hangs, and names it. The first failure names the test that failed, before the run is over.
func TestOutput(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]output{
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n":                                             {},
		"=== RUN   TestA\n    --- FAIL: TestA/one (0.00s)\n--- FAIL: TestB (0.00s)\n":                  {failed: "TestA"},
		"panic: test timed out after 1s\n\trunning tests:\n\t\tTestA/two (1s)\n\t\tTestB (1s)\n\ngo\n": {failed: "TestA", late: true},
		"testing: warning: no tests to run\nPASS\n":                                                    {none: true},
		"it says --- FAIL: TestA\n":                                                                    {},
	} {
		for size := 1; size < len(text); size += 7 {
			stopped := false
			got := output{stop: func() { stopped = true }}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if _, err := got.Write(rest[:min(size, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			if got.failed != want.failed || got.late != want.late || got.none != want.none || stopped != (want.failed != "") {
				t.Errorf("%q in pieces of %d: got %+v, stopped %v", text, size, got, stopped)
			}
		}
	}
}

// A finding is kept over runs, and holds until the code, the mutant or, of a survivor, the tests change.
func TestBook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	b, err := openBook(path)
	if err != nil {
		t.Fatal(err)
	}
	m := mutant{file: "testdata/least/least.go", old: "\treturn b\n", new: "\treturn a\n", tests: []string{"./testdata/least"}}
	now, err := m.hashes(false)
	if err != nil {
		t.Fatal(err)
	}
	now.Verdict, now.By = caught, "./testdata/least:^TestFirst$"
	if err := b.note("m", now); err != nil {
		t.Fatal(err)
	}
	if b, err = openBook(path); err != nil || b.all["m"] != now {
		t.Fatalf("got %+v, %v; want %+v", b, err, now)
	}
	lived := now
	lived.Verdict = survived
	other := m
	other.new = "\treturn a + b\n"
	more := m
	more.tests = append(more.tests, "./testdata/least:Second")
	for _, c := range []struct {
		m                *mutant
		short            bool
		caught, survived bool
	}{{&m, false, true, true}, {&other, false, false, false}, {&more, false, true, false}, {&m, true, true, false}} {
		f, err := c.m.hashes(c.short)
		if err != nil || now.holds(f) != c.caught || lived.holds(f) != c.survived {
			t.Errorf("%+v, short %v: caught holds %v, survived holds %v, %v", c.m, c.short, now.holds(f), lived.holds(f), err)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openBook(path); err == nil {
		t.Error("damaged results are read")
	}
}
