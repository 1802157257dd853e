package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stumbles are words that a native reader stumbles over, each with the plain words for it. They do not stand in names, comments,
// documents, help or messages. The list finds words, not bad sentences: those take a reader. docs/STYLE.md has examples.
var stumbles = map[string]string{
	"whoever": "the caller, the client", "whosoever": "the caller, the client", "whomever": "the caller, the client",
	"nobody": "no client, no one", "somebody": "a client, someone", "anybody": "a client, anyone",
	"anew": "again", "afresh": "again", "vain": "failed, found nothing, without success",
	"bury": "fail for good, discard", "buries": "discards", "buried": "discarded", "burial": "discard",
	"grave": "tombstone, dead letter", "graves": "tombstones, dead letters", "graveyard": "the dead-letter index",
	"entomb": "delete", "entombed": "deleted", "exhume": "redrive", "exhumed": "redriven", "corpse": "the dead chunk",
	"doom": "fail, mark for deletion", "doomed": "failed, marked for deletion", "dooms": "marks for deletion",
	"bear": "discard, hold, allow", "bears": "holds, allows", "borne": "held", "bore": "held",
	"lies": "is stored, is in, is before", "fallen": "fell back, dropped", "upon": "on", "lest": "so that it does not",
	"hitherto": "until now", "henceforth": "from now on", "thereof": "of it", "herein": "here", "therein": "in it", "thereby": "so", "forsooth": "",
	"heed": "follow", "heeds": "follows", "heeded": "followed",
	"mend": "fix", "mends": "fixes", "mended": "fixed",
}

// notStates are words that stand in sentences, but say nothing as a name.
var notStates = map[string]string{"told": "notified, reported, acts", "untold": "not yet notified"}

// textEndings are those of files that people write, and of the golden files that repeat what these say.
var textEndings = []string{
	".go", ".md", ".txt", ".txtar", ".json", ".yml", ".ts", ".tsx", ".mjs", ".css", ".html", ".py", ".rs", ".c", ".h", ".toml", ".sh", "Makefile",
}

// Sentences and names are in words that a stranger knows.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for _, name := range need(t, tracked) {
		if !plainText(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(need(t, root), filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		found[folder(name)] = append(found[folder(name)], checkPlain(name, string(text))...)
	}
	for _, s := range need(t, sources) {
		found[folder(s.path)] = append(found[folder(s.path)], checkNames(s)...)
	}
	report(t, checkLeft(found, nil, "such words"), "write the sentence again in plain words (docs/STYLE.md, 19)")
}

// plainText says whether the rule is about a file: it is not about licences, what is built or installed, its own list, and the page that
// quotes what it forbids.
func plainText(name string) bool {
	switch {
	case path.Base(name) == "LICENSE", name == "docs/STYLE.md", name == "internal/archtest/plain_test.go":
		return false
	case strings.Contains(name, "/dist/"), strings.Contains(name, "/testdata/fuzz/"), strings.HasSuffix(name, "package-lock.json"):
		return false
	}
	return slices.ContainsFunc(textEndings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

// folder is the key of counts: the first two elements of the path of a file's directory.
func folder(name string) string {
	parts := strings.Split(path.Dir(name), "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func checkPlain(name, text string) (findings []string) {
	for i, line := range strings.Split(text, "\n") {
		for _, word := range camel.FindAllString(line, -1) {
			if plain, is := stumbles[strings.ToLower(word)]; is {
				findings = append(findings, fmt.Sprintf("%s:%d says %q; say: %s", name, i+1, word, plain))
			}
		}
	}
	return findings
}

// checkNames finds names that only notStates forbids. Fields and methods count where they are declared.
func checkNames(s source) (findings []string) {
	selected := map[*ast.Ident]bool{}
	ast.Inspect(s.file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			selected[n.Sel] = true
		case *ast.Ident:
			for _, word := range split(n.Name) {
				if plain, is := notStates[word]; is && !selected[n] {
					findings = append(findings, fmt.Sprintf("%s names %q; say: %s", s.at(n), n.Name, plain))
				}
			}
		}
		return true
	})
	return findings
}

// checkLeft compares the findings in each folder with the number that is listed for it. The word for the findings is in what.
func checkLeft(found map[string][]string, left map[string]int, what string) (findings []string) {
	for in, all := range found {
		switch n := left[in]; {
		case len(all) > n && n == 0:
			findings = append(findings, all...)
		case len(all) > n:
			findings = append(findings, append(all, fmt.Sprintf("%s has %d %s; it is listed with %d and may only shrink", in, len(all), what, n))...)
		case len(all) < n-n/10: // a little fewer pass, so that not every change there has to change this file
			findings = append(findings, fmt.Sprintf("%s has %d %s left; it is still listed with %d", in, len(all), what, n))
		}
	}
	for in := range left {
		if _, is := found[in]; !is {
			findings = append(findings, in+" is listed, but there is no such folder")
		}
	}
	slices.Sort(findings)
	return findings
}

// The rule finds planted violations, and nothing else.
func TestPlainWordRuleBites(t *testing.T) {
	t.Parallel()
	if got := checkPlain("x.go", "// Whoever asks is served.\nfunc buryAll() {}\nconst applies = \"bearer\" // it lies, in vain\nvar x = http.NoBody\n"); len(got) != 4 {
		t.Errorf("checkPlain found %q, want Whoever, buryAll, lies and vain", got)
	}
	s := planted(t, "x.go", "x", "package x\n// It is told.\ntype t struct{ told, lastTold bool }\nfunc f(x t) bool { return x.told }\n")
	if got := checkNames(s); len(got) != 2 {
		t.Errorf("checkNames found %q, want the two fields", got)
	}
	if plainText("LICENSE") || plainText("web/dashboard/dist/app.js.txt") || !plainText("Makefile") || !plainText("web/notes.go") {
		t.Error("plainText is wrong about a licence, a built file, the Makefile or a Go file")
	}
	if a, b := folder("README.md"), folder("engine/shard/rules/set.go"); a != "." || b != "engine/shard" {
		t.Errorf("folders are %q and %q", a, b)
	}
	two := map[string][]string{"a": {"x", "y"}}
	for left, want := range map[int]int{0: 2, 1: 3, 2: 0, 3: 1, 20: 1} {
		if got := checkLeft(two, map[string]int{"a": left}, "words"); len(got) != want {
			t.Errorf("with %d left: found %q, want %d", left, got, want)
		}
	}
	if got := checkLeft(nil, map[string]int{"a": 1}, "words"); len(got) != 1 {
		t.Errorf("a folder that is gone: found %q, want one", got)
	}
}
