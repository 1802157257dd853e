package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notOurs maps a word that Go files may not use, in names or comments, to what to say instead. docs/ARCHITECTURE.md has our words.
var notOurs = map[string]string{
	"lease": "reservation", "leases": "reservations", "leased": "reserved", "payload": "content", "payloads": "contents",
	"ack": "complete", "acks": "completes", "acked": "completed", "nack": "fail", "label": "meta (or key, name)", "labels": "meta (or keys, names)",
	"job": "submission or chunk", "jobs": "submissions or chunks", "task": "chunk", "tasks": "chunks", "dlq": "dead letters",
	"todo": "finish it, or open an issue", "fixme": "finish it, or open an issue", "xxx": "finish it, or open an issue",
}

// allowedWhere lists the files' imports that bring a foreign word with them, and the packages that it is at home in.
var allowedWhere = map[string][]string{
	"label":  {"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	"labels": {"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	"lease":  {"engine/cluster", module + "/engine/cluster", "sdk/api"}, // of nodes: only a reservation is not called so
	"leases": {"engine/cluster", module + "/engine/cluster"},
}

var (
	wordBreak = regexp.MustCompile(`[^A-Za-z]+`)
	camel     = regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+`)
)

// One word per thing: the words of others are not used, and nothing unfinished is left marked.
func TestWords(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		findings = append(findings, checkWords(s)...)
	}
	report(t, findings, "use our word; what an outside library calls it stays in string literals and its own identifiers")
}

func checkWords(s source) (findings []string) {
	add := func(node ast.Node, text string) {
		for _, word := range split(text) {
			if ours := notOurs[word]; ours != "" && !excused(s.file, word) && !below(s.pkg, allowedWhere[word]) {
				findings = append(findings, fmt.Sprintf("%s says %q; ours is: %s", s.at(node), word, ours))
			}
		}
	}
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			add(comment, comment.Text)
		}
	}
	selected := map[*ast.Ident]bool{} // names that another package chose
	ast.Inspect(s.file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			selected[n.Sel] = true
		case *ast.Ident:
			if !selected[n] {
				add(n, n.Name)
			}
		}
		return true
	})
	return findings
}

// split cuts text into lower-case words, at everything that is no letter and at capitals: "lastWord" holds "last" and "word",
// "password" does not.
func split(text string) (words []string) {
	for _, piece := range wordBreak.Split(text, -1) {
		words = append(words, strings.ToLower(piece))
		if parts := camel.FindAllString(piece, -1); len(parts) > 1 {
			for _, part := range parts {
				words = append(words, strings.ToLower(part))
			}
		}
	}
	return words
}

func excused(file *ast.File, word string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		imported, err := strconv.Unquote(spec.Path.Value)
		return err == nil && below(imported, allowedWhere[word])
	})
}

// The rule finds planted violations, and nothing else.
func TestWordRuleBites(t *testing.T) {
	t.Parallel()
	s := planted(t, "x.go", "x", `package x
import "other"
// A reserve is acknowledged from the backlog; Release it. The LEASE ends.
func sendAck(payload []byte) { other.Lease() }
const wire = "ack"
`)
	if got := checkWords(s); len(got) != 3 {
		t.Errorf("checkWords found %q, want LEASE in the comment, Ack in the name and the parameter", got)
	}
	s = planted(t, "x.go", "x", `package x
import "github.com/prometheus/client_golang/prometheus"
// The labels of the metric.
var _ prometheus.Labels
`)
	if got := checkWords(s); len(got) != 0 {
		t.Errorf("checkWords found %q, want nothing: metrics have labels", got)
	}
}
