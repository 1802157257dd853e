package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hiddenSubject finds the beginning of a sentence, or of a part of one behind a colon or semicolon, that begins with What or Who.
var hiddenSubject = regexp.MustCompile(`(?:^|[.!?:;] )((?:[Ww]hat|[Ww]ho) )`)

// A sentence in a comment names its subject: a reader must not have to find out which files "what a crash leaves" are.
func TestCommentsNameTheirSubjects(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		findings = append(findings, checkSubjects(s)...)
	}
	for _, name := range need(t, tracked) {
		generated := strings.HasSuffix(name, "/types.py") || strings.Contains(name, "/generated/") // from descriptions, as "What happens to ..."
		if slices.Contains(commented, path.Ext(name)) && plainText(name) && !generated {
			text, err := os.ReadFile(filepath.Join(need(t, root), filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			findings = append(findings, checkLines(name, string(text))...)
		}
	}
	report(t, findings, "name the subject: not \"What a crash leaves is swept\" but \"The next start sweeps the files that a crash left\"")
}

// checkSubjects passes over questions, and over the few words behind a line of code that explain a field or variable.
func checkSubjects(s source) (findings []string) {
	for _, group := range s.file.Comments {
		for _, sentence := range withoutSubject(group.Text()) {
			findings = append(findings, fmt.Sprintf("%s: %q has no subject", s.at(group), sentence))
		}
	}
	return findings
}

// commented are the other languages whose comments are checked, and commentLine is a line of one that has nothing before the comment.
var (
	commented   = []string{".rs", ".ts", ".tsx", ".mjs", ".py", ".c", ".h", ".sh"}
	commentLine = regexp.MustCompile(`^\s*(?://[/!]?|#|/?\*\*?|""")\s?(.*)$`)
)

func checkLines(name, text string) (findings []string) {
	comment := ""
	for i, line := range strings.Split(text+"\n", "\n") {
		if found := commentLine.FindStringSubmatch(line); found != nil {
			comment += strings.TrimRight(found[1], `*/" `) + " "
			continue
		}
		for _, sentence := range withoutSubject(comment) {
			findings = append(findings, fmt.Sprintf("%s: %q, before line %d, has no subject", name, sentence, i+1))
		}
		comment = ""
	}
	return findings
}

func withoutSubject(comment string) (sentences []string) {
	text := strings.Join(strings.Fields(comment), " ")
	for _, at := range hiddenSubject.FindAllStringSubmatchIndex(text, -1) {
		sentence := text[at[2]:]
		if end := strings.IndexAny(sentence, ".!?;"); end >= 0 {
			sentence = sentence[:end+1]
		}
		behindCode := at[2] == 0 && sentence[0] == 'w'
		if !behindCode && !strings.HasSuffix(sentence, "?") {
			sentences = append(sentences, sentence)
		}
	}
	return sentences
}

// The rule sees what it is for, and only that.
func TestSubjectRuleBites(t *testing.T) {
	t.Parallel()
	s := planted(t, "x.go", "x", `package x

// What a crash leaves
// is swept. It says what it did: who asks is served; what is left waits.
var x int // what it counts

// What does a start sweep? The files that a crash left. Who reads them? The next start.
var y int
`)
	if got := checkSubjects(s); len(got) != 3 {
		t.Errorf("checkSubjects found %q, want one sentence and two halves of another", got)
	}
	if got := checkLines("x.rs", "/// What a crash\n/// leaves is swept.\nlet x; // what it counts\n// It says what it did.\n"); len(got) != 1 {
		t.Errorf("checkLines found %q, want the first sentence", got)
	}
}
