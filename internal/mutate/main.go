// Command mutate changes the code in small ways, one at a time, and runs the tests that should notice. It prints the mutants that survive:
// wrong code that the tests let pass. The mutants are in the folder mutants, as text that can be added to by hand; `make mutate` runs them.
//
//	go run ./internal/mutate [-run REGEXP] [-results FILE] [-again] [-short] [-most N]
//	go run ./internal/mutate -check                        # which of them fit the code no more
//
// Nothing in the tree is written: mutants are built with `go test -overlay`, together where that is possible, so that most of them cost no
// more than the tests that notice them. Their tests run in short first, and stop at the first failure. The results file notes the outcome
// of each mutant, so that a run can be broken off and taken up again: a finding holds until the file that the mutant changes has changed
// or, of a survivor, its tests have. A mutant whose old text is no longer found, or that does not build, is an error of the list.
//
//quern:tests processes
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

func main() {
	only := flag.String("run", "", "run only the mutants whose name matches")
	results := flag.String("results", filepath.Join(os.TempDir(), "quern-mutate.json"), "where to note what each mutant came to")
	again := flag.Bool("again", false, "also run those that the results tell of")
	most := flag.Int("most", 0, "stop after this many runs; 0: run all")
	short := flag.Bool("short", false, "stop after the tests with -short: quicker, and more survive")
	check := flag.Bool("check", false, "only say which mutants do not fit the code, or do not build")
	flag.Parse()
	err := func() error {
		if *check {
			list, err := readLists("internal/mutate/mutants")
			if err != nil {
				return err
			}
			return checkAll(list)
		}
		return runAll(*only, *results, *again, *short, *most)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func runAll(only, path string, again, short bool, most int) error {
	which, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	list, err := readLists("internal/mutate/mutants")
	if err != nil {
		return err
	}
	b, err := openBook(path)
	if err != nil {
		return err
	}
	sum := tally{counts: map[verdict]int{}}
	var pending []*mutant
	now := map[*mutant]finding{}
	for i := range list {
		m := &list[i]
		if !which.MatchString(m.name) {
			continue
		}
		if now[m], err = m.hashes(short); err != nil {
			return err
		}
		switch before := b.all[m.name]; {
		case m.equivalent != "":
			sum.add(m, equivalent)
		case before.holds(now[m]) && !again:
			sum.add(m, before.Verdict)
		case most > 0 && len(pending) == most:
			sum.add(m, notRun)
		default:
			pending = append(pending, m)
		}
	}
	r, err := newRunner(pending, short)
	if err != nil {
		return err
	}
	defer r.close()
	for _, m := range pending {
		began, f := time.Now(), now[m]
		if f.Verdict, f.By, err = r.run(m, b.all[m.name].By); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Printf("%-14s %-24s %5s  %s\n", f.Verdict, m.name, time.Since(began).Round(time.Second), f.By)
		if err := b.note(m.name, f); err != nil {
			return err
		}
		sum.add(m, f.Verdict)
	}
	return sum.report()
}

// tally counts the outcomes of mutants.
type tally struct {
	counts map[verdict]int
	bad    []string // those that need a test, or mending
}

func (t *tally) add(m *mutant, v verdict) {
	t.counts[v]++
	if v == survived || v == stale || v == unbuilt {
		t.bad = append(t.bad, fmt.Sprintf("%s: %s\n%s", v, m.name, m.difference()))
	}
}

// report prints it. It is an error if too many survived, or if some mutants fit the code no more.
func (t *tally) report() error {
	counts := t.counts
	for _, text := range t.bad {
		fmt.Println(text)
	}
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%s: %d\n", v, counts[v])
	}
	tried := counts[caught] + counts[byTime] + counts[survived]
	if tried == 0 {
		return nil
	}
	share := 100 * float64(tried-counts[survived]) / float64(tried)
	fmt.Printf("%.1f %% of %d are caught\n", share, tried)
	if counts[stale]+counts[unbuilt] > 0 {
		return fmt.Errorf("%d mutants do not fit the code any more: correct them in internal/mutate/mutants", counts[stale]+counts[unbuilt])
	}
	if share < enough {
		return fmt.Errorf("%.1f %% are caught, it should be %d %%: write tests for the survivors", share, enough)
	}
	return nil
}

// enough is the share of mutants, in percent, that the tests have to catch.
const enough = 95
