// Package bulks is the part of a shard that knows how far each bulk operation got: how far stands in the commit of what it did, so that
// after a crash it goes on exactly there, and its counts are exact.
package bulks
