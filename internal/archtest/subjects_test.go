package archtest

import (
	"fmt"
	"regexp"
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
	report(t, findings, "name the subject: not \"What a crash leaves is swept\" but \"The next start sweeps the files that a crash left\"")
}

// checkSubjects passes over questions, and over the few words behind a line of code that explain a field or variable.
func checkSubjects(s source) (findings []string) {
	for _, group := range s.file.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		for _, at := range hiddenSubject.FindAllStringSubmatchIndex(text, -1) {
			sentence := text[at[2]:]
			if end := strings.IndexAny(sentence, ".!?;"); end >= 0 {
				sentence = sentence[:end+1]
			}
			behindCode := at[2] == 0 && sentence[0] == 'w'
			if !behindCode && !strings.HasSuffix(sentence, "?") {
				findings = append(findings, fmt.Sprintf("%s: %q has no subject", s.at(group), sentence))
			}
		}
	}
	return findings
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
}
