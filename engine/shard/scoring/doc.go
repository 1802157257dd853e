// Package scoring is the part of a shard that has candidates scored: windows of them are
// copied into columns under the shard's mutex, scored outside of it, and taken under it
// again. While nothing changes in the views of a branch, one window serves many reserves.
package scoring
