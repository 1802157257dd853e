// Package settings is the part of a shard that has what operators set: the settings of the
// queue, limits and weights of values of meta keys, and strategies under names. They are
// ops like any other: each holds from its answer on, in one order with everything else,
// and a server that takes the journal over has them too.
package settings
