//go:build !unix

package host

// systemPages leaves the memories of guests to the engine, on the Go heap.
func systemPages() *pages { return nil }
