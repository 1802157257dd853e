// Package rules is the part of a shard that keeps an operator's standing orders, pauses
// and blocks, and knows whom they cover.
//
// Something is blocked if any block covers it, else paused if any pause does. Every answer costs
// one look per meta key, however many rules there are (Set). That nothing covered is handed out
// is the backlog's affair, which the part tells what rules say (engine/backlog/ruled.go).
//
//quern:tests pure
package rules
