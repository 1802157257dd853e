// Package nodes simulates a cluster: three nodes, the database that they share, the network between them, and workers. It holds tests only.
// Each node runs the real member.Member and the real shard on a store of its own. The database and the network are simulated, on virtual
// time, so a fault can come between any two steps.
//
//	backend, journal   the database: a cluster.Backend that passes clustertest (backend_test.go, journal_test.go, conform_test.go)
//	network            calls that are slow, lost, made twice or made late, and links that are cut (network_test.go)
//	nodes              lives of a process: it is killed, stopped in order, or stands still for too long (node_test.go)
//	workers            outsiders: their calls, and their knowledge of the chunks that they hold (worker_test.go)
//	oracle             checks every answer: a model of the journal, and the books of the workers (oracle_test.go)
//
// A failure prints the seed and the line that plays it again. QUERN_SIM_SEEDS=N plays N new seeds instead of the usual ones.
//
//quern:tests mixed
package nodes
