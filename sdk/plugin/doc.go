// Package plugin is the SDK for scoring plugins of Quern in Go. It needs only the Go toolchain (1.24 or newer). This is a whole
// plugin:
//
//	package main
//
//	import "github.com/quern-queue/quern/sdk/plugin"
//
//	var (
//		priority = plugin.I64("priority")
//		deadline = plugin.I64("meta_i64:deadline_ms")
//	)
//
//	var scorer = plugin.Register(plugin.Plugin{
//		Name: "deadline-first", Version: "1.0.0",
//		Columns: []plugin.Column{priority, deadline},
//		Score: func(b *plugin.Batch) {
//			due, known, scores := deadline.Of(b), deadline.Valid(b), b.Scores()
//			for i, p := range priority.Of(b) {
//				scores[i] = float64(p)
//				if known[i] {
//					scores[i] += 1e6 / float64(max(1, due[i]-b.Now()))
//				}
//			}
//		},
//	})
//
//	func main() { plugin.Main() }
//
// Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o deadline-first.wasm .
//
// The module has no manifest yet: `go run .` prints it, and `quern plugin pack` puts it into the module. In tests, the same
// scorer runs natively: see NewBatch and Scorer.
//
// The server runs the initialisers of package variables and never main, so call Register in the initialiser of a variable.
//
// An instance scores one batch at a time and allocates nothing: the slices point into the memory that the host wrote, and are
// valid only during the call. With the state "pooled", variables of the plugin keep their values after a batch, but any
// instance may get the next batch.
//
// Avoid fmt and encoding/json if you can: they add 0.7 and 1.4 MB to a module of 1.8 MB, and the module takes longer to compile.
package plugin
