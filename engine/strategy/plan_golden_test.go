package strategy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the code does now into testdata/plans, to be reviewed as a diff")

// The files in testdata/plans show the plans of strategies. A case is the input (text, or JSON when it begins with
// '{' or '"'), a line "----", and the output up to an empty line; lines beginning with '#' above the input are kept.
// Add a case by writing its input and "----", then run: go test ./engine/strategy -run TestPlans -rewrite
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, path := range goldenFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			var now []string
			for _, c := range readGolden(t, path) {
				got := c.run()
				if got != c.output && !*rewrite {
					t.Errorf("%s: input:\n%s\ngot:\n%s\nwant:\n%s", path, c.input, got, c.output)
				}
				now = append(now, c.comment+c.input+"\n----\n"+got+"\n")
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(strings.Join(now, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type goldenCase struct{ comment, input, output string }

// run shows both canonical forms and the plan, or the error.
func (c goldenCase) run() string {
	parse := func(input string) (*Strategy, error) { return Parse(input) }
	if strings.HasPrefix(c.input, "{") || strings.HasPrefix(c.input, `"`) {
		parse = func(input string) (*Strategy, error) { return ParseJSON([]byte(input)) }
	}
	s, err := parse(c.input)
	if err != nil {
		return "error: " + err.Error()
	}
	raw, err := s.MarshalJSON()
	if err != nil {
		return "error: " + err.Error()
	}
	return s.String() + "\n" + string(raw) + "\n" + s.Plan().String()
}

func goldenFiles(t testing.TB) []string {
	paths, err := filepath.Glob("testdata/plans/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d golden files and the error %v in testdata/plans, want at least one and none", len(paths), err)
	}
	return paths
}

func readGolden(t testing.TB, path string) []goldenCase {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	for part := range strings.SplitSeq(strings.TrimSpace(string(content)), "\n\n") {
		input, output, found := strings.Cut(part, "\n----")
		if !found {
			t.Fatalf("%s: a case without ----:\n%s", path, part)
		}
		c := goldenCase{output: strings.TrimSpace(output)}
		for strings.HasPrefix(input, "#") {
			line, rest, _ := strings.Cut(input, "\n")
			c.comment += line + "\n"
			input = rest
		}
		c.input = input
		cases = append(cases, c)
	}
	return cases
}
