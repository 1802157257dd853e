package backlog

import (
	"math/rand/v2"
	"os"
	"testing"
)

// soakSeed is the seed of a statistical test: always the same, or with QUERN_NEW_SEEDS in the environment one of its own, which it prints.
func soakSeed(t *testing.T) uint64 {
	t.Helper()
	if os.Getenv("QUERN_NEW_SEEDS") == "" {
		return 1
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	return seed
}
