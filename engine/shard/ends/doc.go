// Package ends is the part of a shard that has the ends of submissions in the order in
// which they became durable, for those who follow them: from the last checkpoint on. Those
// before it are in the history.
package ends
