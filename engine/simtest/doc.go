// Package simtest tests the shard as a whole against models of it: it holds tests only.
//
//	model      a shard without any cleverness: maps of chunks with their states (model_test.go, tokens_test.go)
//	simulation a seeded driver of a real shard on real files; every answer is compared with the model's (sim_test.go)
//	concurrent goroutines against one shard, an invariant checker and a linearizability check (concurrent_test.go)
//	overlaps   a seeded driver of calls that overlap appends and writes which end late, fail, or end unknown; answers may say only what
//	           is on the disk at that moment (overlap_test.go; gates, the disk, calls and checks in files beside it)
//	coverage   what has to happen in the simulations, with an effect (coverage_sim_test.go)
//	faults     a journal that fails where it is told to (fault_test.go)
//	waiting    who is served, by what, and who is not woken (wait_test.go)
//	scripts    commands and what they print, to be read: testdata/scripts (script_test.go)
//	cost       submissions looked at per reservation (cost_test.go)
//
// All of them drive one shard. A queue of several shards is not a shard: package engine has it, and it chooses among the offers of its
// shards. TestShardedAgainstModel there drives it against a model, with moves of groups, drains and restarts.
//
// A failure prints the seed, and the line that plays it again: `go test ./engine/simtest -run '^TestSimulation$' -seed N`.
// QUERN_SIM_SEEDS=N plays N new seeds instead of the usual ones, QUERN_SIM_SEEDS=1-N the first N. The seeds with the most rare events
// are played by name (nasty_test.go; rare_test.go says how they were found).
//
//quern:tests mixed
package simtest
