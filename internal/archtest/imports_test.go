package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// mayImport says for every package of ours which others of ours its code may import; tests may import more (testMayImport).
// Arrows point down only: docs/ARCHITECTURE.md has the picture. "all" is for the binary, which wires the parts together.
var mayImport = map[string][]string{
	"engine/shard/deletions":                {"engine/shard/shell", "engine/shard/machine", "engine/queue", "engine/journal"},
	"engine/shard/retention":                {"engine/shard/shell", "engine/shard/trouble", "engine/shard/commit", "engine/shard/machine", "engine/queue", "engine/journal", "engine/locks", "engine/store"},
	"engine/shard/survey":                   {"engine/shard/machine", "engine/queue", "engine/journal"},
	"engine/queue":                          {"sdk/api"},
	"engine/strategy":                       {"engine/queue"},
	"engine/backlog":                        {"sdk/api", "engine/queue", "engine/strategy", "engine/fair"},
	"engine/fair":                           {},
	"engine/measure":                        {},
	"engine/durations":                      {"engine/queue", "sdk/api"},
	"engine/forecast":                       {},
	"engine/diagnosis":                      {"engine/backlog", "engine/forecast", "engine/queue", "engine/shard/inspect", "engine/shard/machine", "engine/shard/rules", "engine/strategy", "engine/usage", "sdk/api"},
	"engine/usage":                          {"engine/queue", "engine/strategy", "sdk/api"},
	"engine/merge":                          {"engine/backlog", "engine/fair", "engine/queue", "engine/shard/machine", "engine/strategy"},
	"engine/locks":                          {},
	"engine/marks":                          {},
	"engine/fair/gps":                       {}, // for tests and benchmarks
	"engine/reserver":                       {"engine/queue"},
	"engine/coding":                         {},
	"engine/journal":                        {"engine/coding", "engine/queue"},
	"engine/journal/journaltest":            {"engine/queue", "engine/journal"},
	"engine/journal/sqlitelog":              {"engine/queue", "engine/journal", "engine/sqlitedb"},
	"engine/sqlitedb":                       {"engine/queue"},
	"engine/schedule":                       {},
	"engine/access":                         {"engine/queue"},
	"engine/blobs":                          {"engine/queue"},
	"engine/cluster":                        {"engine/blobs", "engine/journal", "engine/queue"},
	"engine/cluster/handle":                 {"engine/journal"},
	"engine/cluster/member":                 {"engine/cluster", "engine/queue"},
	"engine/cluster/clustertest":            {"engine/blobs", "engine/blobs/blobtest", "engine/cluster", "engine/journal", "engine/journal/journaltest", "engine/queue"},
	"engine/blobs/blobtest":                 {"engine/blobs"},
	"engine/cluster/pg":                     {"engine/blobs", "engine/cluster", "engine/cluster/handle", "engine/journal", "engine/queue"},
	"engine/cluster/pg/pgtest":              {"engine/journal", "engine/journal/journaltest"},
	"engine/store":                          {"engine/blobs", "engine/checkpoint", "engine/access", "engine/queue", "engine/journal", "engine/sqlitedb"},
	"engine/shard/commit":                   {"engine/journal", "engine/queue"},
	"engine/shard/contents":                 {"engine/backlog", "engine/blobs", "engine/journal", "engine/queue", "engine/shard/answers", "engine/shard/commit", "engine/shard/disk", "engine/shard/machine", "engine/shard/stored", "engine/store"},
	"engine/shard/inserts":                  {"engine/journal", "engine/queue", "engine/shard/commit", "engine/shard/contents", "engine/shard/keys", "engine/shard/machine", "engine/shard/shell", "engine/store"},
	"engine/shard/answers":                  {"engine/access", "engine/durations", "engine/journal", "engine/measure", "engine/queue", "engine/reserver", "engine/shard/commit", "engine/shard/machine", "engine/shard/shell", "engine/store"},
	"engine/shard/consumers":                {"engine/access", "engine/queue", "engine/reserver", "engine/shard/consumers/roster", "engine/shard/machine", "engine/shard/shell"},
	"engine/shard/consumers/roster":         {"engine/queue", "engine/reserver"},
	"engine/shard/cuts":                     {"engine/journal", "engine/queue", "engine/shard/machine", "engine/shard/shell", "engine/store"},
	"engine/shard/indexset":                 {},
	"engine/shard/percents":                 {"engine/shard/machine", "engine/shard/shell", "engine/strategy"},
	"engine/shard/deadletters/lettergroups": {"sdk/api", "engine/queue"},
	"engine/shard/deadletters/outbox":       {"engine/queue"},
	"engine/shard/machine":                  {"engine/durations", "engine/marks", "engine/shard/commit", "engine/shard/consumers/roster", "engine/shard/indexset", "engine/queue", "engine/strategy", "engine/backlog", "engine/reserver", "engine/journal", "engine/measure", "engine/checkpoint"},
	"engine/checkpoint":                     {"engine/queue", "engine/journal"},
	"engine/shard/audit":                    {"engine/shard/machine", "engine/queue", "engine/backlog", "engine/journal", "engine/reserver"},
	"engine/shard/inspect":                  {"sdk/api", "engine/shard/shell", "engine/shard/scoring", "engine/shard/machine", "engine/checkpoint", "engine/queue", "engine/strategy", "engine/backlog", "engine/reserver"},
	"engine/shard/bulks":                    {"engine/shard/machine", "engine/queue", "engine/journal", "engine/shard/survey", "engine/shard/commit", "engine/shard/shell"},
	"engine/shard/shell":                    {"engine/shard/commit", "engine/shard/machine", "engine/queue", "engine/store"},
	"engine/shard/shell/shelltest":          {"engine/shard/shell", "engine/shard/commit", "engine/shard/machine", "engine/queue", "engine/journal", "engine/reserver", "engine/store", "engine/backlog", "engine/checkpoint"},
	"engine/shard/trouble":                  {"sdk/api", "engine/shard/machine", "engine/queue", "engine/journal"},
	"engine/shard/recount":                  {"sdk/api", "engine/shard/shell", "engine/shard/commit", "engine/shard/machine", "engine/queue", "engine/backlog", "engine/journal"},
	"engine/shard/rules":                    {"engine/locks", "engine/marks", "engine/shard/machine", "engine/shard/shell", "engine/shard/trouble", "engine/queue", "engine/journal", "engine/reserver", "engine/strategy"},
	"engine/shard/deadletters":              {"engine/marks", "engine/shard/deadletters/lettergroups", "engine/shard/deadletters/outbox", "engine/shard/machine", "engine/queue", "engine/backlog", "engine/journal", "engine/checkpoint", "engine/shard/survey", "sdk/api", "engine/locks", "engine/access", "engine/store", "engine/shard/shell", "engine/shard/commit", "engine/shard/trouble"},
	"engine/shard/acts":                     {"engine/shard/shell", "engine/shard/machine", "engine/queue", "engine/journal"},
	"engine/shard/worker":                   {"engine/locks", "engine/shard/commit", "engine/shard/machine", "engine/shard/shell", "engine/shard/trouble", "engine/queue"},
	"engine/shard/waiters":                  {"engine/shard/machine", "engine/shard/shell", "engine/backlog", "engine/queue", "engine/strategy"},
	"engine/shard/disk":                     {"engine/journal", "engine/queue"},
	"engine/shard/keys":                     {"engine/shard/shell", "engine/shard/commit", "engine/shard/machine", "engine/checkpoint", "engine/queue", "engine/journal"},
	"engine/shard/stored":                   {"engine/blobs", "engine/journal", "engine/queue", "engine/shard/machine", "engine/store"},
	"engine/shard/submissions":              {"sdk/api", "engine/locks", "engine/shard/shell", "engine/shard/machine", "engine/access", "engine/checkpoint", "engine/queue", "engine/backlog", "engine/journal", "engine/store"},
	"engine/shard/ends":                     {"engine/shard/shell", "engine/checkpoint", "engine/shard/machine", "engine/queue", "engine/journal"},
	"engine/shard/settings":                 {"engine/shard/shell", "engine/shard/machine", "engine/queue", "engine/journal"},
	"engine/shard/snapshots":                {"engine/shard/machine", "engine/journal"},
	"engine/shard/stops":                    {"engine/shard/machine", "engine/queue", "engine/journal", "engine/reserver"},
	"engine/shard/values":                   {"engine/shard/shell", "engine/shard/machine", "engine/queue", "engine/backlog"},
	"engine/shard/views":                    {"sdk/api", "engine/shard/shell", "engine/shard/machine", "engine/access", "engine/queue", "engine/backlog"},
	"engine/shard/scoring":                  {"engine/shard/shell", "engine/shard/machine", "engine/queue", "engine/strategy", "engine/backlog"},
	"engine/shard/schedules":                {"engine/shard/commit", "engine/shard/machine", "engine/shard/shell", "engine/shard/trouble", "engine/queue", "engine/journal", "engine/schedule"},
	"engine/shard": {
		"engine/access",
		"engine/backlog",
		"engine/blobs",
		"engine/checkpoint",
		"engine/durations",
		"engine/fair",
		"engine/journal",
		"engine/locks",
		"engine/measure",
		"engine/queue",
		"engine/reserver",
		"engine/schedule",
		"engine/shard/acts",
		"engine/shard/answers",
		"engine/shard/audit",
		"engine/shard/bulks",
		"engine/shard/commit",
		"engine/shard/consumers",
		"engine/shard/contents",
		"engine/shard/consumers/roster",
		"engine/shard/cuts",
		"engine/shard/deadletters",
		"engine/shard/deletions",
		"engine/shard/deadletters/lettergroups",
		"engine/shard/disk",
		"engine/shard/ends",
		"engine/shard/inserts",
		"engine/shard/inspect",
		"engine/shard/keys",
		"engine/shard/machine",
		"engine/shard/percents",
		"engine/shard/recount",
		"engine/shard/retention",
		"engine/shard/rules",
		"engine/shard/schedules",
		"engine/shard/scoring",
		"engine/shard/settings",
		"engine/shard/shell",
		"engine/shard/snapshots",
		"engine/shard/stops",
		"engine/shard/stored",
		"engine/shard/submissions",
		"engine/shard/submissions",
		"engine/shard/survey",
		"engine/shard/trouble",
		"engine/shard/values",
		"engine/shard/views",
		"engine/shard/waiters",
		"engine/shard/worker",
		"engine/store",
		"engine/strategy",
		"sdk/api",
	},
	"engine": {"engine/cluster", "engine/cluster/member",
		"engine/coding",
		"engine/access",
		"engine/archive",
		"engine/backlog",
		"engine/blobs",
		"engine/durations",
		"engine/diagnosis",
		"engine/merge",
		"engine/journal",
		"engine/journal/sqlitelog",
		"engine/measure",
		"engine/queue",
		"engine/reserver",
		"engine/schedule",
		"engine/shard",
		"engine/shard/consumers",
		"engine/shard/cuts",
		"engine/shard/ends",
		"engine/shard/inserts",
		"engine/shard/inspect",
		"engine/shard/machine",
		"engine/shard/percents",
		"engine/shard/recount",
		"engine/shard/rules",
		"engine/shard/schedules",
		"engine/shard/submissions",
		"engine/shard/values",
		"engine/shard/views",
		"engine/store",
		"engine/strategy",
		"engine/together",
		"engine/usage",
		"sdk/api",
	},
	"engine/together":            {"engine/backlog", "engine/queue", "engine/shard", "engine/strategy"},
	"engine/archive":             {},
	"engine/backups":             {"engine", "engine/archive"},
	"engine/repair":              {"engine", "engine/archive", "engine/check", "engine/checkpoint", "engine/journal", "engine/journal/sqlitelog", "engine/queue", "engine/shard/machine", "engine/sqlitedb", "engine/store"},
	"engine/check":               {"engine", "engine/journal", "engine/journal/sqlitelog", "engine/queue", "engine/reserver", "engine/shard/machine", "engine/sqlitedb", "engine/store"},
	"engine/powerloss":           {"all"}, // tests only: the engine on a disk that fails
	"engine/powerloss/disktest":  {},
	"engine/simtest":             {"all"}, // tests only: the whole engine against its model
	"engine/simtest/nodes":       {"all"}, // tests only: the nodes of a cluster, on a simulated database and network
	"sdk/api":                    {},
	"sdk/terminal":               {},
	"sdk/wire":                   {"sdk/api"},
	"sdk/client":                 {"sdk/api", "sdk/wire"},
	"sdk/client/clienttest":      {"sdk/client"}, // for tests
	"sdk/conformance":            {"sdk/api", "sdk/wire"},
	"sdk/conformance/goclient":   {"sdk/api", "sdk/client"},
	"sdk/abi":                    {},
	"sdk/plugin":                 {"sdk/abi"},
	"wasm/scan":                  {"wasm/scan/decode"},
	"wasm/scan/decode":           {},
	"wasm/instrument":            {"wasm/scan", "wasm/scan/decode"},
	"wasm/wasmtest":              {}, // for tests
	"wasm/manifest":              {"sdk/abi"},
	"wasm/compile":               {},
	"wasm/host":                  {"sdk/abi", "wasm/compile", "wasm/instrument", "wasm/manifest"},
	"plugins/score":              {"engine/strategy", "sdk/abi"},
	"plugins":                    {"engine/access", "engine/queue", "engine/strategy", "plugins/score", "sdk/abi", "sdk/api", "wasm/scan", "wasm/manifest", "wasm/instrument", "wasm/compile", "wasm/host"},
	"web":                        {"engine", "engine/access", "engine/queue", "engine/strategy", "plugins", "sdk/api", "sdk/wire", "web/certificate", "web/trace", "web/site", "docs"},
	"web/site":                   {},
	"docs":                       {},
	"web/certificate":            {},
	"web/trace":                  {},
	"web/trace/tracetest":        {}, // for tests
	"cmd/quern":                  {"all"},
	"cmd/quern/top":              {"sdk/api", "sdk/client", "sdk/terminal"},
	"cmd/quern-bench":            {"all"},
	"examples/checksum":          {"sdk/api", "sdk/client"},
	"examples/plugins":           {}, // tests only: the plugins below it, on their way through the sandbox
	"examples/producer-consumer": {"sdk/api", "sdk/client"},
	"internal/archtest":          {},
	"internal/mutate":            {},
	"internal/guarantees":        {},
	"internal/loopback":          {}, // for tests and benchmarks

	"examples/plugins/compare/go":     {"sdk/plugin"},
	"examples/plugins/deadline-first": {"sdk/plugin"},
}

// testMayImport has the packages that the tests of a package may import beyond mayImport.
var testMayImport = map[string][]string{
	"engine/shard/deletions":   {"engine/shard/shell/shelltest", "sdk/client/clienttest"},
	"engine/shard/retention":   {"engine/shard/deadletters", "engine/shard/submissions"},
	"engine/shard/bulks":       {"engine/shard/deadletters", "engine/shard/submissions", "engine/locks"},
	"engine/journal/sqlitelog": {"engine/journal/journaltest"},
	"engine/cluster/member":    {"engine/cluster/clustertest"},
	"engine/cluster/pg":        {"engine/cluster/clustertest", "engine/cluster/pg/pgtest", "engine/journal/journaltest"},
	"engine/fair":              {"engine/fair/gps"},
	"engine/store":             {"engine/blobs/blobtest", "engine/journal/sqlitelog"},
	"engine/shard/deadletters": {"engine/marks", "engine/reserver"},
	"engine/shard/answers":     {"engine/shard/rules", "engine/shard/trouble"},
	"engine/shard/audit":       {"engine/shard/shell/shelltest", "sdk/client/clienttest"},
	"engine/shard/consumers":   {"engine/journal"},
	"engine/shard/cuts":        {"engine/journal/sqlitelog"},
	"engine/shard/scoring":     {"engine/shard/views", "engine/reserver"},
	"engine/shard/snapshots":   {"engine/queue", "engine/shard/shell", "engine/shard/shell/shelltest", "sdk/client/clienttest"},
	"engine/shard/stops":       {"engine/shard/audit", "engine/shard/consumers/roster", "engine/shard/shell", "engine/shard/shell/shelltest", "sdk/client/clienttest"},
	"engine/shard/stored":      {"engine/shard/shell/shelltest", "sdk/client/clienttest"},
	"engine/shard/survey":      {"engine/shard/shell/shelltest", "sdk/client/clienttest"},
	"engine/shard/inspect":     {"engine/shard/views", "engine/shard/rules", "engine/journal"},
	"engine/shard":             {"sdk/api", "engine/journal/sqlitelog"},
	"internal/archtest":        {"engine/strategy"},
	"examples/checksum":        {"all"},
	"plugins/score":            {"wasm/scan", "wasm/instrument", "wasm/manifest", "wasm/compile", "wasm/host"},
	"examples/plugins":         {"sdk/abi", "wasm/compile", "wasm/host", "wasm/instrument", "wasm/manifest", "wasm/scan"},
	"wasm/scan":                {"wasm/wasmtest"},
	"wasm/scan/decode":         {"wasm/wasmtest"},
	"wasm/instrument":          {"wasm/wasmtest"},
	"wasm/compile":             {"wasm/wasmtest"},
	"wasm/host":                {"wasm/scan", "wasm/wasmtest", "engine/strategy"},
	"sdk/client":               {"all"},
	"sdk/client/clienttest":    {"sdk/api"},
	"plugins":                  {"engine/store", "wasm/wasmtest"},
	"engine":                   {"sdk/api", "engine/blobs/blobtest", "engine/cluster/clustertest", "engine/locks", "engine/sqlitedb"},
	"engine/backups":           {"engine/queue"},
	"engine/repair":            {"engine/access"},
	"web": {"engine/journal/sqlitelog", "engine/sqlitedb", "engine/store", "sdk/client", "wasm/compile", "wasm/manifest", "wasm/wasmtest", "sdk/abi", "web/trace/tracetest",
		"engine/cluster/member", "engine/cluster/pg", "engine/cluster/pg/pgtest", "engine/fair", "engine/shard/machine", "engine/shard/recount"}, // whose lists of names the OpenAPI document has
	"web/trace": {"web/trace/tracetest"},
	"web/site":  {"docs"},
}

// homes names, for every dependency that code (not tests) may use, the only packages that may import it. A key matches itself
// and everything below it, a home likewise. Each has its reason in docs/decisions/.
var homes = map[string][]string{
	"github.com/mattn/go-sqlite3":         {"engine/sqlitedb"},
	"github.com/tetratelabs/wazero":       {"wasm"},
	"github.com/labstack/echo":            {"web"},
	"github.com/yuin/goldmark":            {"web/site"},
	"github.com/danielgtaylor/huma":       {"web"},
	"github.com/klauspost/compress":       {"engine", "engine/journal", "engine/store", "web"},
	"charm.land/bubbletea":                {"cmd/quern", "cmd/quern/top"},
	"charm.land/lipgloss":                 {"cmd/quern/top"},
	"github.com/charmbracelet/x/ansi":     {"cmd/quern/top"},
	"github.com/spf13/cobra":              {"cmd"},
	"github.com/spf13/pflag":              {"cmd"},
	"github.com/knadh/koanf":              {"cmd"},
	"github.com/schollz/progressbar":      {"cmd"},
	"github.com/prometheus/client_golang": {"engine", "engine/backups", "web", "plugins", "cmd"},
	"github.com/prometheus/client_model":  {"engine"},
	"github.com/dchest/siphash":           {"engine/reserver"},
	"github.com/cespare/xxhash":           {"engine/journal"},
	"github.com/jackc/pgx":                {"engine/cluster/pg"},
	"github.com/pressly/goose":            {"engine/cluster/pg"},
	"golang.org/x/sys":                    {"engine", "engine/store", "engine/sqlitedb", "web", "cmd"},

	// Of the standard library: SQL goes through engine/sqlitedb, the network stays at the faces, C stays beside SQLite.
	"database/sql": {"engine/sqlitedb", "engine/store"}, // for reading files that may be damaged
	"net/http":     {"web", "sdk/client", "sdk/conformance", "cmd", "examples"},
	"os/exec":      {"cmd", "engine/cluster/pg/pgtest", "examples", "sdk/client/clienttest", "sdk/conformance", "wasm/compile", "internal/guarantees", "internal/mutate"},
	"C":            {"engine/sqlitedb", "engine/powerloss/disktest"},
	"testing":      {"engine/blobs/blobtest", "engine/cluster/clustertest", "engine/cluster/pg/pgtest", "engine/journal/journaltest", "engine/shard/shell/shelltest", "sdk/client/clienttest"},
}

// exactHomes are homes whose sub-packages are not meant: `engine` is the facade, not everything below it.
var exactHomes = []string{"engine"}

// testHomes are the dependencies of tests: any test may use them, and no code.
var testHomes = []string{
	"pgregory.net/rapid", "github.com/anishathalye/porcupine", "github.com/rogpeppe/go-internal", "go.uber.org/goleak",
	"github.com/getkin/kin-openapi", "github.com/prometheus/client_golang", "github.com/prometheus/client_model",
}

// Every package stands in the table and imports only what the table allows it.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	report(t, checkImports(need(t, packages), mayImport, testMayImport),
		"move the code to where it belongs, declare a small interface where it is used, or (if the picture itself changes) edit mayImport here, docs/ARCHITECTURE.md and add a record to docs/decisions/")
}

// Every dependency has one home.
func TestDependenciesStayHome(t *testing.T) {
	t.Parallel()
	report(t, checkHomes(need(t, packages)),
		"call the home package instead of the library; a new dependency needs a row in homes here and a record in docs/decisions/")
}

func checkImports(all []listed, table, testTable map[string][]string) (findings []string) {
	seen := map[string]bool{}
	for _, p := range all {
		name := p.name()
		seen[name] = true
		allowed, known := table[name]
		if !known {
			findings = append(findings, fmt.Sprintf("package %s is not in the table of internal/archtest/imports_test.go: add it to mayImport with what it may import", name))
			continue
		}
		findings = append(findings, strangers(name, "", p.Imports, allowed)...)
		allowed = slices.Concat(allowed, testTable[name], []string{name})
		if slices.Contains(allowed, "engine/shard/shell") { // a part of a shard: its tests need one
			allowed = append(allowed, "engine/shard/shell/shelltest", "engine/store", "engine/strategy")
		}
		findings = append(findings, strangers(name, "a test of ", slices.Concat(p.TestImports, p.XTestImports), allowed)...)
	}
	for name := range table {
		if !seen[name] {
			findings = append(findings, fmt.Sprintf("the table of internal/archtest/imports_test.go names %s, which is no package: remove the row", name))
		}
	}
	slices.Sort(findings)
	return slices.Compact(findings)
}

func strangers(name, prefix string, imports, allowed []string) (findings []string) {
	if slices.Contains(allowed, "all") {
		return nil
	}
	for _, path := range imports {
		ours, isOurs := strings.CutPrefix(path, module+"/")
		if isOurs && !slices.Contains(allowed, ours) {
			findings = append(findings, fmt.Sprintf("%s%s imports %s; allowed are %v", prefix, name, ours, allowed))
		}
	}
	return findings
}

func checkHomes(all []listed) (findings []string) {
	for _, p := range all {
		for _, imported := range p.Imports {
			if finding := checkHome(p.name(), imported); finding != "" {
				findings = append(findings, finding)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if finding := checkHome(p.name(), imported); finding != "" && thirdParty(imported) && !below(imported, testHomes) {
				findings = append(findings, "in a test: "+finding)
			}
		}
	}
	return findings
}

// checkHome says what is wrong with the package importing this path, or "".
func checkHome(name, imported string) string {
	for dependency, allowed := range homes {
		if !below(imported, []string{dependency}) {
			continue
		}
		for _, home := range allowed {
			if name == home || !slices.Contains(exactHomes, home) && below(name, []string{home}) {
				return ""
			}
		}
		return fmt.Sprintf("%s imports %s, whose only home is %v", name, imported, allowed)
	}
	if below(imported, testHomes) {
		return fmt.Sprintf("%s imports %s, which is for tests only", name, imported)
	}
	if thirdParty(imported) {
		return fmt.Sprintf("%s imports %s, which has no row in the table homes of internal/archtest/imports_test.go", name, imported)
	}
	return ""
}

func thirdParty(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && imported != module && !strings.HasPrefix(imported, module+"/")
}

// below says whether name is one of the roots or is under one.
func below(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return name == root || strings.HasPrefix(name, root+"/")
	})
}

// The two rules see what they are for.
func TestImportRulesBite(t *testing.T) {
	t.Parallel()
	table := map[string][]string{"a": {"b"}, "b": {}, "gone": {}}
	all := []listed{
		{ImportPath: path.Join(module, "a"), Imports: []string{module + "/b", "fmt"}, TestImports: []string{module + "/c"}},
		{ImportPath: path.Join(module, "b"), Imports: []string{module + "/a"}},
		{ImportPath: path.Join(module, "new")},
	}
	if got := checkImports(all, table, nil); len(got) != 4 {
		t.Errorf("got %d findings %q, want 4: b imports a, a test of a imports c, new is not in the table, gone is no package", len(got), got)
	}
	for _, c := range []struct {
		name, imported string
		wrong          bool
	}{
		{"engine/sqlitedb", "github.com/mattn/go-sqlite3", false},
		{"engine/store", "github.com/mattn/go-sqlite3", true},
		{"engine", "github.com/prometheus/client_golang/prometheus", false},
		{"engine/shard", "github.com/prometheus/client_golang/prometheus", true},
		{"cmd/quern", "github.com/knadh/koanf/v2", false},
		{"web", "github.com/spf13/cobra", true},
		{"web", "example.com/unheard/of", true},
		{"engine/shard", "pgregory.net/rapid", true},
		{"engine/shard", "net/http", true},
		{"engine/shard", "strings", false},
		{"web", "net/http/httptest", false},
	} {
		if got := checkHome(c.name, c.imported); (got != "") != c.wrong {
			t.Errorf("checkHome(%q, %q) = %q, want wrong = %v", c.name, c.imported, got, c.wrong)
		}
	}
}
