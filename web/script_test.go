package web

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A script is a conversation: lines with ">" are sent, and lines with "<" are the answers. Ids and tokens are named in
// the order in which they appear (ID1, TOKEN1), and may be sent as $ID1 and $TOKEN1. Times and sizes are blotted out.
// go test ./web -run Scripts -rewrite rewrites the answers.
//
//quern:overlapping
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: got %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			if *nodeCount > 0 && strings.HasSuffix(file, "server.txt") {
				t.Skip("it is about one server by itself: its probes, its version and its name")
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if drawn.Match(want) {
				t.Fatal("a script asks by Random; which chunk of a submission comes first is drawn, and by another node of a cluster otherwise")
			}
			f := newFixtureSeeded(t, 1)
			got := runScript(f, string(want))
			if *nodeCount > 0 {
				got, want = inACluster(got), []byte(inACluster(string(want)))
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				line := firstDifference([]byte(got), want)
				t.Errorf("%s differs from line %d on; got:\n%s", file, line, got)
			}
		})
	}
}

// drawn is a question whose answer depends on earlier random draws.
var drawn = regexp.MustCompile(`(?m)^> .*\bRandom\b.*"seed"`)

// inACluster is a script without the parts that differ in a cluster: a default, and the last use of a token, of which
// other nodes learn within a minute.
func inACluster(script string) string {
	return strings.NewReplacer(`"restart_grace_ms":30000`, `"restart_grace_ms":0`, `,"last_used_at":"TIME"`, ``).Replace(script)
}

// Some script calls every operation.
func TestEveryOperationHasAScript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for path, methods := range bareServer(t).operations {
		pattern := filledIn(regexp.QuoteMeta(path), func(string) string { return `[^/ ?]+` })
		for method, op := range methods {
			if method != "HEAD" && !regexp.MustCompile(`(?m)^> `+method+` `+pattern+`(\?\S*)?$`).Match(all.Bytes()) {
				t.Errorf("no script speaks to %s (%s %s)", op.id, method, path)
			}
		}
	}
}

// shownHeaders are the headers of an answer that belong to the interface.
func shownHeaders() []string {
	return []string{"Content-Type", "Location", "ETag", "Allow", "Retry-After", headerReplayed, headerDurability, "Preference-Applied", "WWW-Authenticate"}
}

func runScript(f *fixture, script string) string {
	var out strings.Builder
	names := &scriptNames{byText: make(map[string]string), byName: make(map[string]string)}
	var asked []string
	flush := func() {
		if len(asked) == 0 {
			return
		}
		got := f.send(parseScriptCall(f, asked, names))
		fmt.Fprintf(&out, "< %d\n", got.status)
		for _, name := range shownHeaders() {
			if value := got.header.Get(name); value != "" {
				fmt.Fprintf(&out, "< %s: %s\n", name, names.hide(value))
			}
		}
		// The document, the page, the metrics and a backup are long and have tests of their own.
		if kind := got.header.Get("Content-Type"); kind != contentTar && !strings.HasPrefix(kind, contentOpenAPI) && !strings.HasPrefix(kind, "text/html") && !strings.Contains(kind, "version=") {
			for line := range strings.Lines(names.hide(string(got.body))) {
				fmt.Fprintf(&out, "< %s\n", strings.TrimRight(line, "\n"))
			}
		}
		asked = nil
	}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "<"):
			continue
		case strings.HasPrefix(line, "> "):
			asked = append(asked, strings.TrimPrefix(line, "> "))
		default:
			flush()
		}
		out.WriteString(line + "\n")
	}
	flush()
	return out.String()
}

// parseScriptCall reads "METHOD PATH", then headers, then the body from the first line that is no header on.
func parseScriptCall(f *fixture, lines []string, names *scriptNames) call {
	f.Helper()
	method, path, ok := strings.Cut(names.show(lines[0]), " ")
	if !ok {
		f.Fatalf("script: %q is not METHOD PATH", lines[0])
	}
	c := call{method: method, path: path, header: make(map[string]string)}
	header := regexp.MustCompile(`^([A-Z][A-Za-z-]*): (.*)$`)
	rest := lines[1:]
	for len(rest) > 0 {
		match := header.FindStringSubmatch(rest[0])
		if match == nil {
			break
		}
		c.header[match[1]] = names.show(match[2])
		rest = rest[1:]
	}
	c.body = names.show(strings.Join(rest, "\n"))
	return c
}

// scriptNames replaces texts that differ from run to run by fixed names.
type scriptNames struct {
	byText map[string]string
	byName map[string]string
	ids    int
	tokens int

	accesses, keys int
}

func (n *scriptNames) name(text, kind string, count *int) string {
	if known, ok := n.byText[text]; ok {
		return known
	}
	*count++
	name := fmt.Sprint(kind, *count)
	n.byText[text], n.byName[name] = name, text
	return name
}

func (n *scriptNames) hide(text string) string {
	text = regexp.MustCompile(`"token":"[A-Za-z0-9_-]{43}"`).ReplaceAllStringFunc(text, func(found string) string {
		return `"token":"` + n.name(found[9:len(found)-1], "TOKEN", &n.tokens) + `"`
	})
	text = regexp.MustCompile(`qn_[a-z2-7]{12}_[a-z2-7]{52}`).ReplaceAllStringFunc(text, func(found string) string { return n.name(found, "ACCESS", &n.accesses) })
	text = regexp.MustCompile(`"id":"[a-z2-7]{12}"`).ReplaceAllStringFunc(text, func(found string) string {
		return `"id":"` + n.name(found[6:18], "KEY", &n.keys) + `"`
	})
	text = regexp.MustCompile(`/v1/tokens/[a-z2-7]{12}`).ReplaceAllStringFunc(text, func(found string) string { return "/v1/tokens/" + n.name(found[11:], "KEY", &n.keys) })
	text = regexp.MustCompile(`"per_second":[0-9.e+-]+(,"wait_ms":[0-9]+)?`).ReplaceAllString(text, `"per_second":RATE`) // 0 until the first whole second is over
	text = regexp.MustCompile(`\b[0-9]{16,19}\b`).ReplaceAllStringFunc(text, func(found string) string { return n.name(found, "ID", &n.ids) })
	for _, blot := range [][2]string{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, `TIME`},
		{`"saturated_since":"TIME"`, `"saturated_since":null`},                      // it is looked at once a second: whether that was before the question is chance
		{`"forecast":{"p50":"TIME","p90":"TIME","moving":true}`, `"forecast":null`}, // likewise: work may have stood open at that moment
		{`"bytes":\d+,"bytes_most"`, `"bytes":0,"bytes_most"`},                      // dropped views free them in 1 s
		{`("branch":"[^"]*","bytes"):\d+`, `$1:0`},                                  // lists that grew with what was drawn
		{`"request_id":"[^"]*"`, `"request_id":"REQUEST"`},
		{`"owner":"n[0-9]+",`, ``},
		{`"[0-9a-f]{24}"`, `"ASSET"`},        // the ETag of a file of the dashboard
		{`^"0-[0-9a-f]{16}"$`, `"0-DIGEST"`}, // ETags without a version, as of settings: defaults differ in a cluster
		{`\bb[0-9]{19}\b`, `BULK`},
		{`"held_ms":[0-9]+`, `"held_ms":0`},
		{`"next":"[^"]*"`, `"next":"CURSOR"`},
		{`"oldest_ready_seconds":[0-9.e-]+`, `"oldest_ready_seconds":0`},
		{`"(commits_total|commit_bytes_total|journal_bytes|store_bytes)":[0-9]+`, `"$1":0`},
	} {
		text = regexp.MustCompile(blot[0]).ReplaceAllString(text, blot[1])
	}
	return text
}

// show puts the real ids and tokens where a script names them, the longest names first (ID12 before ID1).
func (n *scriptNames) show(text string) string {
	known := make([]string, 0, len(n.byName))
	for name := range n.byName {
		known = append(known, name)
	}
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
	for _, name := range known {
		text = strings.ReplaceAll(text, "$"+name, n.byName[name])
	}
	return text
}
