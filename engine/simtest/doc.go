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
// A failure prints its seed; `go test ./engine/simtest -run TestSimulation -seed N` plays it again. QUERN_SIM_SEEDS=N
// plays N seeds instead of the usual number.
package simtest
