package main

import (
	"testing"

	"github.com/quern-queue/quern/engine/archive"
)

// A queue of several shards is one queue of a backup.
//
//quern:killing
func TestQueuesOfABackup(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{
		"1 queue": {"default"}, "2 queues": {"default", "mails"}, "2 queues with 4 shards": {"default", "orders", "orders~2", "orders~3"},
	} {
		var list []archive.Queue
		for _, name := range names {
			list = append(list, archive.Queue{Name: name})
		}
		if got := queuesOf(list); got != want {
			t.Errorf("%q are %s, want %s", names, got, want)
		}
	}
}
