//go:build race

package objects_test

import "testing"

// Under the race detector buckets are of files only: it has nothing to see in a cloud's SDK, and to compile those for it takes minutes.
func clouds(*testing.T) map[string]string { return nil }
