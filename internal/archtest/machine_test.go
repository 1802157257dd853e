package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The state of a shard is in the machine and its parts. They change by what they are handed alone: no goroutine, no channel, no lock, no
// I/O. The one exception makes the row of an ended submission once, outside of the shard's mutex. A part's face, which waits, logs and reads
// the store through the shell, is in the files of its folder whose names begin with "face".
var (
	machines = []string{
		"engine/shard/acts", "engine/shard/audit", "engine/shard/bulks", "engine/shard/consumers/roster", "engine/shard/deadletters",
		"engine/shard/deadletters/lettergroups", "engine/shard/deadletters/outbox", "engine/shard/deletions", "engine/shard/ends", "engine/shard/indexset",
		"engine/shard/machine", "engine/shard/recount", "engine/shard/rules",
		"engine/shard/schedules", "engine/shard/scoring", "engine/shard/settings", "engine/shard/stops", "engine/shard/survey",
		"engine/shard/values",
	}
	machineOnce = []string{"imports sync", "uses sync.Once"}
	ioPackages  = []string{"context", "database/sql", "io", "io/fs", "log/slog", "net", "net/http", "os"}
)

func TestMachinesArePure(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		if s.test || !slices.Contains(machines, s.pkg) || strings.HasPrefix(path.Base(s.path), "face") {
			continue
		}
		for _, finding := range checkPure(s) {
			once := slices.ContainsFunc(machineOnce, func(x string) bool { return strings.HasSuffix(finding, " "+x) })
			if !once || s.pkg != "engine/shard/machine" || !strings.Contains(finding, "ending.go") {
				findings = append(findings, finding)
			}
		}
		for _, spec := range s.file.Imports {
			if name, err := strconv.Unquote(spec.Path.Value); err == nil && slices.Contains(ioPackages, name) {
				findings = append(findings, s.at(spec)+" imports "+name)
			}
		}
	}
	report(t, findings, "leave waiting and I/O to engine/shard, and hand the machine what it needs")
}

// A part knows the machine, and no other part: engine/shard/parts.go gives it what it needs of another one. Questions are about decisions
// of other parts, so inspect may know them. An insert decides on its key and its contents, so inserts may know these.
func TestPartsAreApart(t *testing.T) {
	t.Parallel()
	core := []string{
		"engine/shard/machine", "engine/shard/commit", "engine/shard/shell", "engine/shard/survey", "engine/shard/trouble",
		"engine/shard/consumers/roster", "engine/shard/indexset", // the state of the machine
		"engine/shard/deadletters/lettergroups", "engine/shard/deadletters/outbox", // the state of a part
	}
	var findings []string
	for name, imports := range mayImport {
		part := slices.Contains(imports, "engine/shard/shell") && strings.HasPrefix(name, "engine/shard/")
		if !part && name != "engine/shard/machine" || name == "engine/shard/inspect" || name == "engine/shard/inserts" {
			continue
		}
		for _, x := range imports {
			if strings.HasPrefix(x, "engine/shard") && !slices.Contains(core, x) || name == "engine/shard/machine" && x == "engine/store" {
				findings = append(findings, name+" may import "+x)
			}
		}
	}
	report(t, findings, "declare what the part needs as an interface or a function, and join the two in engine/shard/parts.go")
}

// The types of a shard hold the things that they need, and not the shard: so a reader sees in their fields what they can change.
func TestNoTypeHoldsItsShard(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		if s.pkg != "engine/shard" || s.test {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			of, is := node.(*ast.StructType)
			if !is {
				return true
			}
			for _, field := range of.Fields.List {
				if star, is := field.Type.(*ast.StarExpr); is {
					if name, is := star.X.(*ast.Ident); is && name.Name == "Shard" {
						findings = append(findings, s.at(field)+" holds a *Shard")
					}
				}
			}
			return true
		})
	}
	report(t, findings, "let the type own its state, and hand it a shell.Shell and the few other things in engine/shard/resources.go")
}
