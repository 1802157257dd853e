package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// hostileText would clear the screen, begin a line of its own, and turn the direction of reading, if it reached a terminal as it is.
const hostileText = "x\x1b[2J\u009b31m\r\nFORGED 0 completed\t\u202e\x00"

// hostileServer answers every operation of the API as its document allows, with hostileText wherever a text may stand.
type hostileServer struct {
	schemas    map[string]*jsonSchema
	operations []hostileOperation
	status     int // of all answers; 0: as in the document

	mu   sync.Mutex
	wild *rand.Rand // draws numbers, lengths and omitted fields; nil: numbers are 0, and no field is omitted
}

type hostileOperation struct {
	method string
	path   *regexp.Regexp
	status int
	kind   string
	schema *jsonSchema
}

// jsonSchema is the part of a schema of the OpenAPI document that says what an answer may be.
type jsonSchema struct {
	Ref        string                 `json:"$ref"`
	Type       any                    `json:"type"`
	Format     string                 `json:"format"`
	Encoding   string                 `json:"contentEncoding"`
	Content    *jsonSchema            `json:"contentSchema"`
	Enum       []any                  `json:"enum"`
	OneOf      []*jsonSchema          `json:"oneOf"`
	AnyOf      []*jsonSchema          `json:"anyOf"`
	Items      *jsonSchema            `json:"items"`
	Properties map[string]*jsonSchema `json:"properties"`
	Additional json.RawMessage        `json:"additionalProperties"`
}

func newHostileServer(t *testing.T, status int) string {
	t.Helper()
	s := readHostile(t)
	s.status = status
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

// readHostile reads the operations and their answers from the API's document.
func readHostile(t *testing.T) *hostileServer {
	t.Helper()
	s := &hostileServer{}
	document, err := os.ReadFile(filepath.FromSlash("../../web/testdata/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema *jsonSchema }
			}
		}
		Components struct{ Schemas map[string]*jsonSchema }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	s.schemas = doc.Components.Schemas
	literalFirst := func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "{"), strings.Count(b, "{")), cmp.Compare(a, b))
	}
	for _, path := range slices.SortedFunc(maps.Keys(doc.Paths), literalFirst) {
		methods := doc.Paths[path]
		pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+")
		for method, operation := range methods {
			op := hostileOperation{method: strings.ToUpper(method), path: regexp.MustCompile("^" + pattern + "$"), status: 200}
			for status, response := range operation.Responses {
				if status[0] != '2' {
					continue
				}
				if status == "204" {
					op.status = 204
				}
				for kind, content := range response.Content {
					if op.kind == "" || kind == "application/json" {
						op.kind, op.schema = kind, content.Schema
					}
				}
			}
			s.operations = append(s.operations, op)
		}
	}
	return s
}

func (s *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock() // of wild
	defer s.mu.Unlock()
	if s.status != 0 {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(s.status)
		_ = json.NewEncoder(w).Encode(map[string]any{"title": hostileText, "detail": hostileText, "status": s.status, "code": "invalid",
			"request_id": hostileText, "errors": []any{map[string]any{"pointer": hostileText, "detail": hostileText}}})
		return
	}
	at := slices.IndexFunc(s.operations, func(op hostileOperation) bool {
		return op.method == r.Method && op.path.MatchString(r.URL.EscapedPath())
	})
	if at < 0 {
		http.Error(w, "no such operation", http.StatusTeapot)
		return
	}
	op := s.operations[at]
	w.Header().Set("Content-Type", op.kind)
	w.WriteHeader(op.status)
	switch {
	case op.status == 204 || op.schema == nil:
	case op.kind == "text/event-stream":
		for i, event := range []string{"end", "gap"} { // only the ends of submissions are printed
			data, _ := json.Marshal(s.value(op.schema.Content.OneOf[i], 0))
			fmt.Fprintf(w, "id: 1-%d\nevent: %s\ndata: %s\n\n", i, event, data)
		}
	case op.schema.Content != nil:
		_ = json.NewEncoder(w).Encode(s.value(op.schema.Content, 0))
	default:
		_ = json.NewEncoder(w).Encode(s.value(op.schema, 0))
	}
}

// value is one that the schema allows.
func (s *hostileServer) value(schema *jsonSchema, depth int) any {
	kind, _ := schema.Type.(string)
	if kinds, several := schema.Type.([]any); several {
		kind, _ = kinds[0].(string)
	}
	switch {
	case schema.Ref != "":
		return s.value(s.schemas[schema.Ref[strings.LastIndexByte(schema.Ref, '/')+1:]], depth+1)
	case len(schema.Enum) > 0:
		return schema.Enum[len(schema.Enum)-1]
	case len(schema.OneOf) > 0:
		return s.value(schema.OneOf[0], depth+1)
	case len(schema.AnyOf) > 0:
		return s.value(schema.AnyOf[0], depth+1)
	case kind == "string" && schema.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case kind == "string" && (schema.Format == "byte" || schema.Encoding == "base64"):
		return base64.StdEncoding.EncodeToString([]byte(hostileText))
	case kind == "string":
		return hostileText
	case kind == "integer", kind == "number":
		return s.number()
	case kind == "boolean":
		return true
	case kind == "array":
		if depth > 12 {
			return []any{}
		}
		list := []any{}
		for range s.length() {
			list = append(list, s.value(schema.Items, depth+1))
		}
		return list
	}
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		if s.wild != nil && s.wild.IntN(12) == 0 {
			continue
		}
		switch name {
		case "next": // there is one page
		case "etag", "submission", "id": // a header takes no such text, and the client reads ids as numbers
			if object[name] = s.value(property, depth+1); object[name] == hostileText {
				object[name] = "1"
			}
		case "inserted":
			object[name] = []any{"1"}
		default:
			object[name] = s.value(property, depth+1)
		}
	}
	var more jsonSchema
	if json.Unmarshal(schema.Additional, &more) == nil {
		object[hostileText] = s.value(&more, depth+1)
	}
	return object
}

// number is one that a schema allows. Some are places in lists, so that only a wild server has others than 0.
func (s *hostileServer) number() any {
	if s.wild == nil {
		return 0
	}
	numbers := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 7, 100, -1, -1, 1 << 40, math.MinInt64, math.MaxInt64}
	return numbers[s.wild.IntN(len(numbers))]
}

func (s *hostileServer) length() int {
	if s.wild == nil {
		return 1
	}
	return s.wild.IntN(4)
}

// usageWords has the values for the words of a command's usage.
var usageWords = map[string]string{"ID": "7529572615950696448", "SUBMISSION": "7529572615950696448", "ID/INDEX": "7529572615950696448/0", "INDEX": "0",
	"STRATEGY": "Random", "NUMBER": "1", "VERSION": "1.0.0", "TOKEN": "1"}

// wholeLines has the arguments of commands whose usage does not say enough.
var wholeLines = map[string]string{
	"bulk run": "retry --all", "groups move": "x --shard 2", "keys set": "x x --limit 1", "plugin canary": "x 1.0.0 1", "plugin push": "steering_test.go",
	"plugin recordings": "x", "rules block": "--all", "schedules backfill": "x --from -1h --to -1m", "schedules set": "x --spec @daily --count 1 --prefix x",
	"submit": "steering_test.go", "token new": "x --scopes operate", "rules pause": "--all", "config show": "--running", "complete": hostileToken, "extend": hostileToken, "fail": hostileToken, "release": hostileToken,
	"cancel": "7529572615950696448", "dead forward": "7529572615950696448/0 --to x",
	"top": "--once --every 100ms", "work": "-- true", "watch": "7529572615950696448",
}

var hostileToken = strings.Repeat("A", 43)

// silent are the commands that print no text of the server's answer.
var silent = []string{"consumers release", "dead delete", "dead edit", "dead forward", "dead redrive", "delete", "durations", "groups delete", "shards drain", "shards reopen", "health", "keys unset", "lifecycle retry", "map",
	"plugin delete", "plugin replay", "plugin settings", "queue delete", "rules lift", "schedules delete", "schedules trigger", "stats", "strategy delete", "submit",
	"token revoke"}

// firstLine ends a context when something was printed: a command that follows a stream never ends by itself.
type firstLine struct {
	text strings.Builder
	then func()
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.then()
	return f.text.Write(b)
}

// Whatever texts a server has from others, no command lets them steer the terminal or forge a line: in its table, as JSON, or as an error.
func TestNoTextSteersTheTerminal(t *testing.T) {
	t.Parallel()
	servers := map[string]string{"answers": newHostileServer(t, 0), "refusals": newHostileServer(t, http.StatusUnprocessableEntity)}
	nothing := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, env: func() []string { return nil }}
	for _, c := range serverCommands(nothing.newRoot()) {
		path, _ := strings.CutPrefix(c.CommandPath(), "quern ")
		formats := []string{""}
		if flag := c.Flags().Lookup("output"); flag != nil {
			formats = flag.Value.(*formatValue).allowed
		}
		for kind, url := range servers {
			if kind == "answers" && slices.Contains([]string{"work", "backup", "plugin download", "wait"}, path) {
				continue // they would go on, or write bytes
			}
			for _, format := range formats {
				line := commandLine(c)
				if format != "" {
					line = slices.Insert(line, len(strings.Fields(path)), "--output", format)
				}
				text, call := underAttack(t, url, line), kind+" of quern "+strings.Join(line, " ")
				if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); at >= 0 && format != formatRaw {
					t.Errorf("%s: %q reached the terminal", call, text[at:])
				}
				if strings.Contains(text, "\nFORGED") && format != formatRaw || strings.Contains(text, "%!") {
					t.Errorf("%s: %q has a forged line, or one that was not printed well", call, text)
				}
				if !strings.Contains(text, "FORGED") && (kind == "refusals" || !slices.Contains(silent, path)) {
					t.Errorf("%s: %q has no text of the server, so nothing was tried", call, text)
				}
			}
		}
	}
}

// underAttack runs a command against a server, and returns all that it printed.
func underAttack(t *testing.T, url string, line []string) string {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := firstLine{then: func() {}}
	if line[0] == "ends" || strings.HasPrefix(strings.Join(line, " "), "plugin logs") {
		out.then = cancel
	}
	a := &app{in: strings.NewReader(""), out: &out, err: &out, env: func() []string { return []string{"QUERN_SERVER=" + url} }}
	a.run(ctx, line)
	return out.text.String()
}

// numberSeeds is how often TestNoNumberBreaksACommand tries each command; every run draws others.
const numberSeeds = 6

// Whatever numbers a server has, and whatever its answers leave out, no command panics or takes memory without a bound: some are places in
// lists, depths or widths.
func TestNoNumberBreaksACommand(t *testing.T) {
	t.Parallel()
	nothing := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, env: func() []string { return nil }}
	s := readHostile(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	begin := rand.Uint64()
	for seed := begin; seed < begin+numberSeeds; seed++ {
		for _, c := range serverCommands(nothing.newRoot()) {
			path, _ := strings.CutPrefix(c.CommandPath(), "quern ")
			if slices.Contains([]string{"work", "backup", "plugin download", "wait"}, path) {
				continue // they would go on, or write bytes
			}
			t.Run(fmt.Sprintf("%s/%d", path, seed), func(t *testing.T) {
				defer func() {
					if wrong := recover(); wrong != nil {
						t.Errorf("it panicked: %v\n%s", wrong, debug.Stack())
					}
				}()
				s.mu.Lock()
				s.wild = rand.New(rand.NewPCG(seed, 0))
				s.mu.Unlock()
				underAttack(t, server.URL, commandLine(c))
			})
		}
	}
}

// Nor do the names and notes that a shell is offered to complete a line with.
func TestNoCompletionSteersTheTerminal(t *testing.T) {
	t.Parallel()
	url, offered := newHostileServer(t, 0), 0
	for _, c := range serverCommands((&app{out: io.Discard, err: io.Discard, env: func() []string { return nil }}).newRoot()) {
		line := append([]string{"__complete"}, strings.Fields(strings.TrimPrefix(c.CommandPath(), "quern "))...)
		text := underAttack(t, url, append(line, ""))
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) || strings.Contains(text, "\nFORGED") {
			t.Errorf("%s: %q reached the terminal", strings.Join(line, " "), text)
		}
		offered += strings.Count(text, "FORGED")
	}
	if offered < 5 {
		t.Errorf("only %d texts of the server were offered, so too little was tried", offered)
	}
}

// Commands print through say, printJSON and raw, which keep texts from steering the terminal.
func TestCommandsPrintInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || slices.Contains([]string{"output.go", "man.go"}, name) {
			continue // output.go has these functions, and man.go writes pages of the program's own text
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"fmt.Fprint", "fmt.Print", "json.NewEncoder(", "a.out.Write(", "newTable(a.out).Write"} {
			if bytes.Contains(text, []byte(call)) {
				t.Errorf("%s calls %s: print with say, printJSON or raw", name, call)
			}
		}
	}
}

// serverCommands are those that ask a server.
func serverCommands(c *cobra.Command) (all []*cobra.Command) {
	if c.Runnable() && c.Flags().Lookup("server") != nil {
		all = append(all, c)
	}
	for _, sub := range c.Commands() {
		all = append(all, serverCommands(sub)...)
	}
	return all
}

// commandLine is a command with arguments for all that its usage names.
func commandLine(c *cobra.Command) []string {
	path, _ := strings.CutPrefix(c.CommandPath(), "quern ")
	args := strings.Fields(path)
	if line, whole := wholeLines[path]; whole {
		return append(args, strings.Fields(line)...)
	}
	_, usage, _ := strings.Cut(c.Use, " ")
	usage, _, _ = strings.Cut(usage, "|")
	for word := range strings.FieldsSeq(usage) {
		word = strings.Trim(word, "[].")
		if value, known := usageWords[word]; known {
			args = append(args, value)
		} else if word != "flags" {
			args = append(args, "x")
		}
	}
	return args
}
