// Package rules keeps an operator's standing orders, pauses and blocks, and answers whom they cover. It is pure: no clock, no lock, no
// I/O. What follows from an answer (what is not handed out, which counts change) is the shard's affair.
//
// Something is blocked if any block covers it, else paused if any pause does. Every answer costs one look per meta key, however
// many rules there are.
package rules
