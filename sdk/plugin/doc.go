// Package plugin is the guest SDK for Go: what a scoring plugin for Quern is written with. It needs nothing but the Go
// toolchain (1.24 or newer):
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
// Built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o deadline-first.wasm .
//
// it is the module, still without its manifest; `go run .` prints the manifest, and `quern plugin pack` puts the two together.
// The same scorer runs natively in tests: see NewBatch and Scorer.
//
// A module of this kind runs package variables' initialisers and never main, so Register belongs into a variable.
//
// One instance is used by one batch at a time, and scoring allocates nothing: the slices lie over the memory that the host
// wrote. They are valid during the call only. Variables of the plugin may outlive a batch when its state is "pooled", but which
// instance gets the next batch is open.
//
// Keep fmt and encoding/json out if you can: they add 0.7 and 1.4 MB to a module of 1.8 MB, and compile time in proportion.
package plugin
