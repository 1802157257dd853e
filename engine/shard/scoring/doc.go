// Package scoring is the part of a shard that lets plugins and formulas score candidates.
// Under the shard's mutex, it copies a window of candidates into columns. It scores them
// without the mutex, and takes the best under the mutex again. As long as the views of a
// branch do not change, one window serves many reserves.
package scoring
