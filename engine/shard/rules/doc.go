// Package rules is the part of a shard with the pauses and blocks that operators set, and
// with the submissions that they cover.
//
// A submission is blocked if any block covers it, else paused if any pause does. To answer this, Set makes one lookup
// per meta key, however many rules there are. The part gives the rulings to the backlog, and the backlog hands out no
// covered chunk (engine/backlog/ruled.go).
//
//quern:tests pure
package rules
