package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const maxRecordLines = 60 // a decision record is a page

var (
	inCode     = regexp.MustCompile("`([^`\n]+)`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	repoPath   = regexp.MustCompile(`^(?:\./)?((?:cmd|docs|engine|examples|internal|plugins|sdk|wasm|web|\.ci)(?:/[A-Za-z0-9_.*{},-]+)*|[A-Z][A-Za-z]+(?:\.md)?|[a-z]+\.(?:txt|mod))/?$`)
	topFile    = regexp.MustCompile(`^[A-Z]+\.md$|^Makefile$|^LICENSE$|^llms\.txt$|^go\.mod$`)
	docInCode  = regexp.MustCompile(`\bdocs/[A-Za-z0-9_/-]+\.md\b`)
	makeTarget = regexp.MustCompile("(?m)(?:^|`|[($] ?|&& )make ([a-z][a-z-]*)")
	hostPath   = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.:/-])/(?:w[o]rk|f[a]rm|r[o]ot|h[o]me|U[s]ers)/`)
	ownAddress = regexp.MustCompile(`^https://github\.com/quern-queue/quern(?:/(?:tree|blob)/main/|$)`)
	published  = regexp.MustCompile(`^sdk/(?:client|python|rust-client|typescript)/README\.md$`) // package registries show these apart from the repository
	recordName = regexp.MustCompile(`^docs/decisions/(\d{4})-[a-z0-9-]+\.md$`)
)

// Every path of the repository that a document names exists, and so does every document that the code names.
func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	top := need(t, root)
	exists := func(name string) bool {
		found, err := filepath.Glob(filepath.Join(top, name))
		return err == nil && len(found) > 0
	}
	var findings []string
	for name, text := range documents(t) {
		findings = append(findings, checkPaths(name, text, exists)...)
	}
	for _, s := range need(t, sources) {
		for _, group := range s.file.Comments {
			for _, doc := range docInCode.FindAllString(group.Text(), -1) {
				if !exists(doc) {
					findings = append(findings, s.at(group)+" names "+doc+", which does not exist")
				}
			}
		}
	}
	slices.Sort(findings)
	report(t, findings, "correct the name, or take the sentence out; a document speaks of what is there")
}

// Functions that documents name by package, type and name are there.
func TestDocumentsNameFunctions(t *testing.T) {
	t.Parallel()
	there, packages := map[string]bool{}, map[string]bool{}
	for _, s := range need(t, sources) {
		packages[s.pkg] = true
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && !s.test && fn.Recv != nil {
				there[s.pkg+"."+receiverName(fn.Recv.List[0].Type)+"."+fn.Name.Name] = true
			}
		}
	}
	named := 0
	for name, text := range documents(t) {
		found, findings := checkFunctions(name, text, packages, there)
		named += found
		report(t, findings, "name the function that does it now")
	}
	if named < 20 {
		t.Errorf("documents name %d functions, want at least 20: docs/ARCHITECTURE.md has a walk", named)
	}
}

// Every `make` target that a document names is in the Makefile.
func TestDocumentsNameMakeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(need(t, root), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var findings []string
	for name, text := range documents(t) {
		findings = append(findings, checkTargets(name, text, string(makefile))...)
	}
	slices.Sort(findings)
	report(t, findings, "name a target that `make help` lists")
}

// Decision records are numbered without gaps, each at most a page with the same four parts.
func TestDecisionRecords(t *testing.T) {
	t.Parallel()
	texts := documents(t)
	findings := checkRecords(texts)
	report(t, findings, "records are docs/decisions/NNNN-title.md: status, context, decision, what else was weighed, what would change our mind; never deleted, superseded by number")
}

// No file names a place that exists on one machine only.
func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	top := need(t, root)
	var findings []string
	for _, name := range need(t, tracked) {
		if strings.HasSuffix(name, ".sum") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		findings = append(findings, checkMachinePaths(name, string(text))...)
	}
	report(t, findings, "use a path relative to the repository, t.TempDir(), or an example such as /var/lib/quern")
}

// documents are the texts that people read, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, name := range need(t, tracked) {
		if strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/") || name == "llms.txt" {
			text, err := os.ReadFile(filepath.Join(need(t, root), name))
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	return texts
}

func checkPaths(name, text string, exists func(string) bool) (findings []string) {
	for i, line := range strings.Split(text, "\n") {
		for _, match := range inCode.FindAllStringSubmatch(line, -1) {
			target := repoPath.FindStringSubmatch(match[1])
			if target != nil && !functionName.MatchString(match[0]) && (strings.Contains(target[1], "/") || topFile.MatchString(target[1])) && !exists(target[1]) {
				findings = append(findings, fmt.Sprintf("%s:%d names %s, which does not exist", name, i+1, match[1]))
			}
		}
		for _, match := range linkTarget.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			own := ownAddress.ReplaceAllString(target, "")
			if target == "" || strings.Contains(own, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if own == target {
				if own = path.Join(path.Dir(name), target); published.MatchString(name) {
					findings = append(findings, fmt.Sprintf("%s:%d links to %s, which a package registry does not have", name, i+1, match[1]))
				}
			}
			if own != "" && !exists(own) {
				findings = append(findings, fmt.Sprintf("%s:%d links to %s, which does not exist", name, i+1, match[1]))
			}
		}
	}
	return findings
}

var functionName = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.([A-Za-z]+)\\.([A-Za-z]+)`")

// checkFunctions finds methods that are named and are not there, and says how many are named.
func checkFunctions(name, text string, packages, there map[string]bool) (named int, findings []string) {
	for _, match := range functionName.FindAllStringSubmatch(text, -1) {
		if !packages[match[1]] {
			continue
		}
		if named++; !there[match[1]+"."+match[2]+"."+match[3]] {
			findings = append(findings, fmt.Sprintf("%s names the function %s, which does not exist", name, match[0]))
		}
	}
	return named, findings
}

func checkTargets(name, text, makefile string) (findings []string) {
	for _, match := range makeTarget.FindAllStringSubmatch(text, -1) {
		if !strings.Contains("\n"+makefile, "\n"+match[1]+":") {
			findings = append(findings, fmt.Sprintf("%s names `make %s`, which is no target of the Makefile", name, match[1]))
		}
	}
	return findings
}

func checkRecords(texts map[string]string) (findings []string) {
	var numbers []string
	for name, text := range texts {
		if !strings.HasPrefix(name, "docs/decisions/") {
			continue
		}
		match := recordName.FindStringSubmatch(name)
		if match == nil {
			findings = append(findings, name+" is not named NNNN-title.md")
			continue
		}
		numbers = append(numbers, match[1])
		if lines := strings.Count(text, "\n"); lines > maxRecordLines {
			findings = append(findings, fmt.Sprintf("%s has %d lines; at most %d", name, lines, maxRecordLines))
		}
		for _, part := range []string{"Status:", "## Context", "## Decision", "## Weighed", "## What would change our mind"} {
			if !strings.Contains(text, "\n"+part) {
				findings = append(findings, fmt.Sprintf("%s has no %q", name, part))
			}
		}
	}
	slices.Sort(numbers)
	for i, number := range numbers {
		if want := fmt.Sprintf("%04d", i+1); number != want {
			findings = append(findings, fmt.Sprintf("docs/decisions/ has number %s where %s is due: a gap or a number used twice", number, want))
			break
		}
	}
	slices.Sort(findings)
	return findings
}

func checkMachinePaths(name, text string) (findings []string) {
	for i, line := range strings.Split(text, "\n") {
		if found := hostPath.FindString(line); found != "" {
			findings = append(findings, fmt.Sprintf("%s:%d has the path %s...", name, i+1, strings.TrimSpace(found)))
		}
	}
	return findings
}

// The rules see what they are for.
func TestDocumentRulesBite(t *testing.T) {
	t.Parallel()
	text := "See `engine/here.go`, `engine/gone.go`, `GONE.md`, `engine.Run`, `text/plain`, [a](gone.md#x), [b](https://example.com/y).\nRun `make test` or:\n\nmake vanish\n"
	exists := func(name string) bool { return name == "engine/here.go" }
	if got := checkPaths("docs/X.md", text, exists); len(got) != 3 {
		t.Errorf("checkPaths found %q, want engine/gone.go, GONE.md and the link gone.md", got)
	}
	readme := "[relative](../../engine/here.go), [gone](https://github.com/quern-queue/quern/tree/main/engine/gone.go), [there](https://github.com/quern-queue/quern/blob/main/engine/here.go)\n"
	if got := checkPaths("sdk/python/README.md", readme, exists); len(got) != 2 {
		t.Errorf("checkPaths found %q, want the relative link and the one that is gone", got)
	}
	functions := "`a/b.T.here`, `a/b.T.gone`, `c.T.other`"
	if n, got := checkFunctions("docs/X.md", functions, map[string]bool{"a/b": true}, map[string]bool{"a/b.T.here": true}); n != 2 || len(got) != 1 {
		t.Errorf("checkFunctions found %d names and %q, want two and a/b.T.gone", n, got)
	}
	if got := checkTargets("docs/X.md", text, "test: ## all\n"); len(got) != 1 {
		t.Errorf("checkTargets found %q, want vanish only", got)
	}
	page := "# 1. T\nStatus: accepted\n## Context\n## Decision\n## Weighed\n## What would change our mind\n"
	records := map[string]string{"docs/decisions/0001-a.md": page, "docs/decisions/0003-b.md": "# only\n", "docs/decisions/notes.md": page, "README.md": ""}
	if got := checkRecords(records); len(got) != 7 {
		t.Errorf("checkRecords found %d findings %q, want five missing parts, a wrong name and a gap", len(got), got)
	}
	if got := checkMachinePaths("x", "a /"+"home/someone/x\nhttps://example.com/"+"home/x\n--data /var/lib/quern\n"); len(got) != 1 {
		t.Errorf("checkMachinePaths found %q, want line 1 only", got)
	}
}
