// Package score compiles the formula of a Score block into a WebAssembly module for version 1 of the plugin interface (sdk/abi).
// The module is like any that is uploaded: it goes through the same scan, the same rewriting and the same sandbox, and earns no
// trust for having been written here.
//
// The module has one loop over the rows of a batch and no other; every part of the formula is computed for every row, so there
// is nothing that a formula could make slow. strategy.Expression.Eval says the same, slowly, and the tests hold one against
// the other bit for bit.
//
// Read compile.go first, for the frame of the module; then row.go, for the computation of one row.
//
//quern:tests pure
package score
