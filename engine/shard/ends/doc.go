// Package ends is the part of a shard that lists the ends of submissions in the order in
// which they became durable, for the stream of ends. It has those since the last checkpoint;
// earlier ones are in the history.
package ends
