package web

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/strategy"
)

// Every list of values in the document is the one that the code has, whole: a value that clients did not expect makes them fail. A list
// that is new fails here until its source is named.
func TestEnumsAreComplete(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(documentOf(t, bareServer(t)), &document); err != nil {
		t.Fatal(err)
	}
	wanted := enumSources(t)
	used := map[string]bool{}
	for name, schema := range document.Components.Schemas {
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for property, s := range properties {
			list, ok := s.(map[string]any)["enum"].([]any)
			if !ok || property == "type" && strings.HasSuffix(name, "Block") {
				continue
			}
			var got []string
			for _, value := range list {
				if text, is := value.(string); is { // null: there is none
					got = append(got, text)
				}
			}
			source := name + "." + property
			if wanted[source] == nil {
				source = property
			}
			want := slices.Clone(wanted[source])
			used[source] = true
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s.%s: the document has %q, the code %q", name, property, got, want)
			}
		}
	}
	for source := range wanted {
		if !used[source] {
			t.Errorf("no property %s has a list of values", source)
		}
	}
}

// enumSources are the values that the code has, by a property of one schema, or of all that have it.
func enumSources(t *testing.T) map[string][]string {
	api, plugins := constants(t, "../sdk/api"), constants(t, "../plugins")
	without := func(list []string, value string) []string {
		return slices.DeleteFunc(list, func(v string) bool { return v == value })
	}
	breaker := plugins("breaker")
	schedule := named[queue.ScheduleState]()
	return map[string][]string{
		"on_exhausted":                named[queue.OnExhausted](),
		"Backoff.kind":                api("Backoff"),
		"Backoff.jitter":              api("Jitter"),
		"requeue":                     named[queue.Requeue](),
		"on_deadline":                 named[queue.OnDeadline](),
		"durability":                  named[queue.Durability](),
		"missed":                      named[queue.Missed](),
		"overlap":                     named[queue.Overlap](),
		"Schedule.state":              schedule,
		"ScheduleNow.state":           schedule,
		"Submission.state":            named[queue.SubmissionState](),
		"Emission.state":              named[queue.SubmissionState](),
		"DeadLetter.submission_state": {api("StateOpen")[0], api("StateCompletedWithDead")[0]}, // the others have no dead letters
		"Chunk.state":                 named[queue.ChunkState](),
		"WhyAnswer.state":             named[queue.ChunkState](),
		"WhyBranch.obstacle":          api("Obstacle"),
		"Cause.kind":                  api("Cause"),
		"ReserveAnswer.reason":        named[queue.EmptyReason](),
		"ExchangeAnswer.reason":       named[queue.EmptyReason](),
		"Revoked.reason":              named[queue.RevokeReason](),
		"Result.status":               api("Status"),
		"InsertResult.status":         api("Insert"),
		"outcome":                     api("Outcome"),
		"BulkOperation.action":        queue.BulkActions(),
		"BulkRequest.action":          queue.BulkActions(),
		"BulkOperation.state":         named[queue.BulkState](),
		"ChunkMap.ruling":             named[queue.Ruling](),
		"Rule.action":                 named[queue.RuleAction](),
		"RuleRequest.action":          named[queue.RuleAction](),
		"end":                         named[queue.RuleEnd](),
		"Consumer.state":              api("Consumer"),
		"ConsumerDetail.state":        api("Consumer"),
		"scope":                       named[recount.Scope](),
		"LifecycleKind.kind":          named[machine.Kind](),
		"StrategyWarning.kind":        constants(t, "../engine/strategy")("Warn"),
		"cost":                        named[strategy.Cost](),
		"missing":                     named[strategy.Missing](),
		"Tenant.state":                named[fair.State](),
		"LedgerTenant.state":          without(named[fair.State](), fair.Idle.String()), // an idle one is no tenant
		"PluginBreaker.state":         breaker,
		"Plugin.state":                append(without(slices.Clone(breaker), "closed"), "active", "inactive"), // closed: it is active
		"PluginVersion.state":         {api("PluginReady")[0], api("PluginQuarantined")[0]},
		"level":                       {"debug", "info", "warn", "error"}, // of package slog
		"hold":                        {"", "open", "closed"},             // nothing, or what an operator holds a breaker in
	}
}

// named are the names of all values of a type whose String is that of a list.
func named[T interface {
	~uint8
	String() string
}]() (all []string) {
	defer func() { _ = recover() }() // the list's end
	for v := T(0); ; v++ {
		if name := v.String(); name != "" {
			all = append(all, name)
		}
	}
}

// constants finds the text constants of a package whose names begin with a prefix.
func constants(t *testing.T, dir string) func(prefix string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %d files", dir, err, len(files))
	}
	values := map[string]string{}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			for i := 0; ok && i < len(spec.Values); i++ {
				literal, is := spec.Values[i].(*ast.BasicLit)
				if !is || literal.Kind != token.STRING {
					continue
				}
				if text, err := strconv.Unquote(literal.Value); err == nil {
					values[spec.Names[i].Name] = text
				}
			}
			return true
		})
	}
	return func(prefix string) (list []string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if strings.HasPrefix(name, prefix) {
				list = append(list, values[name])
			}
		}
		return list
	}
}
