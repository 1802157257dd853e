package archtest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The state of a shard is in the machine and its parts. They change by what they are handed alone: no goroutine, no channel, no lock, no
// I/O. The one exception makes the row of an ended submission once, outside of the shard's mutex.
var (
	machines = []string{
		"engine/shard/audit", "engine/shard/bulks", "engine/shard/consumers", "engine/shard/deadletters",
		"engine/shard/deadletters/lettergroups", "engine/shard/deadletters/outbox", "engine/shard/ends", "engine/shard/indexset",
		"engine/shard/machine", "engine/shard/recount", "engine/shard/rules",
		"engine/shard/schedules", "engine/shard/scoring", "engine/shard/settings", "engine/shard/stops",
	}
	machineOnce = []string{"imports sync", "uses sync.Once"}
	ioPackages  = []string{"context", "database/sql", "io", "io/fs", "log/slog", "net", "net/http", "os"}
)

func TestMachinesArePure(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		if s.test || !slices.Contains(machines, s.pkg) {
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

// Parts know the machine, and no other part: what one needs of another it gets from engine/shard/parts.go.
func TestPartsAreApart(t *testing.T) {
	t.Parallel()
	core := []string{
		"engine/shard/machine", "engine/shard/commit",
		"engine/shard/consumers", "engine/shard/indexset", // what the machine keeps its state in
		"engine/shard/deadletters/lettergroups", "engine/shard/deadletters/outbox", // and what a part does
	}
	parts := []string{
		"engine/shard/bulks", "engine/shard/deadletters", "engine/shard/ends", "engine/shard/recount", "engine/shard/rules", "engine/shard/schedules",
		"engine/shard/scoring", "engine/shard/settings", "engine/shard/stops",
	}
	var findings []string
	for name, imports := range mayImport {
		if !slices.Contains(parts, name) && name != "engine/shard/machine" {
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
