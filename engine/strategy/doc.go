// Package strategy is the language in which a consumer says what it wants next: its text and JSON forms, one canonical
// spelling of each, every check, and the compilation to a Plan. It is pure: no clock, no chance, no I/O, no state.
//
// The text form is canonical; white space between its parts does not matter, names are case-sensitive, strings are
// quoted as in JSON:
//
//	strategy = block
//	block    = NAME [ "(" argument { "," argument } ")" ]
//	argument = STRING | INTEGER | block | JSON-OBJECT | NAME "=" INTEGER | formula
//
//	OrElse(SelectOnly("mode", "preview", Random), OldestFirst)
//
// In JSON a block is an object whose "type" is the name in snake_case and whose other fields are the arguments. A block
// without arguments may be written as its bare name ("random"), and any string in the place of a block may hold the
// text form:
//
//	{"type":"or_else",
//	 "try_first":{"type":"select_only","meta_field":"mode","value":"preview","underlying":"random"},
//	 "fallback":"OldestFirst"}
//
// The formula of Score is a language of its own, which expression.go and the files formula_*.go have.
//
// Read strategy.go first, then block.go (what a block is, and the map of all of them), then normalise.go. A new block is
// a new file block_NAME.go and one line in that map.
//
//quern:tests pure
package strategy
