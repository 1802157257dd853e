// Package cluster has the interfaces of the things that several servers share: the journals of all queues, blobs, and leases. A server of a
// cluster is a node. It keeps nothing of its own that the others could not make again. The implementations are in folders below. All of
// them pass the conformance suite in clustertest.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Limits.
const (
	// MaxName bounds the name of a node and of a journal, in bytes.
	MaxName = 64
	// MaxURL bounds the URL of a node, in bytes.
	MaxURL = 2048
	// MaxNote bounds the note of a node, in bytes.
	MaxNote = 64 << 10
	// MaxNodes is how many nodes a cluster may have. Each one reads the rows of all others, every second.
	MaxNodes = 64
)

// Backend has the things that the nodes of a cluster share. Its methods may be called from several goroutines at once. The caller that
// opened it closes it, after its journals.
type Backend interface {
	// MakeJournal makes a journal that begins behind a position, 0 for a new one. A journal that exists already stays as it is. CheckName
	// says which names are allowed.
	MakeJournal(ctx context.Context, name string, after journal.Position) error

	// Journal opens a handle of a journal; ErrNoJournal: there is none. Any number of handles may be open, on all nodes: the journal lets
	// only those append that know its last batch.
	Journal(ctx context.Context, name string) (journal.Journal, error)

	// DeleteJournal deletes a journal with all its batches. Handles that are open on any node get journal.ErrConflict from then on, also
	// when a journal of the same name is made again. A missing journal is no error. When the end of the journal is known, DeleteJournal
	// asks still whether the caller is its owner. If it is not, or if someone appends behind that end, nothing is deleted, and the error is
	// journal.ErrConflict. With a nil still, the journal is deleted, even while a node appends to it.
	DeleteJournal(ctx context.Context, name string, still func() bool) error

	// Journals are the ends of all journals as of one moment. If they include a batch, they include all batches that were acknowledged
	// before that one was appended.
	Journals(ctx context.Context) (map[string]journal.Position, error)

	// Blobs are the blobs of all nodes: every node can read a blob that another node put.
	Blobs() blobs.Blobs

	// Leases are the signs of life of all nodes.
	Leases() Leases

	// Promise says what the acknowledgement of an append and of a Put means, as the backend is set up at this moment. ErrPromise says that
	// acknowledged work may be lost with this setup, and lists everything to change. Any other error: it could not be asked.
	Promise(ctx context.Context) (Promise, error)
}

// Leases tell which nodes live and who serves which shard. They are for liveness and for finding the owner: no write is safe because of
// them. A journal refuses a writer that was overtaken, whatever the leases say. A call that ends with an error may have had its effect.
type Leases interface {
	// Beat says that a node lives. It replaces the node's last beat, unless it comes late, behind a newer beat of the same process: other
	// nodes would then miss the newer one. ErrTooManyNodes: there are MaxNodes others. A node that has not beaten for an hour is forgotten.
	Beat(ctx context.Context, n Node) error

	// Nodes are the nodes as of their last beats, by name. A counter that has changed is proof of life. A node has missed its beats when
	// its counter, or its absence, stood still for the length of its lease on the clock of the node that looks: no clock is compared with
	// that of another machine.
	Nodes(ctx context.Context) ([]Node, error)

	// SetOwner says that a node has claimed a shard with this epoch. Epochs only rise: ErrNewerOwner says that an owner with a newer epoch
	// is known, or another one with the same, and that nothing has changed. The same owner once more is no error.
	SetOwner(ctx context.Context, shard queue.ShardID, epoch uint32, node string) error

	// Owners are the last known owners of all shards that ever had one. An owner may have died, or have been overtaken meanwhile.
	Owners(ctx context.Context) (map[queue.ShardID]Owner, error)
}

// Node is what a node says about itself.
type Node struct {
	Name    string // as CheckName takes it, and no other node's
	URL     string // where clients and other nodes reach it: http or https, without a path
	Counter uint64 // one more with each beat; the upper half is another one after a restart
	Leaving bool   // it is about to stop and hands over what it serves: it is to be given nothing new
	Note    string // more for the other nodes, in a form that they know; UTF-8 without a zero byte, at most MaxNote bytes
}

// Owner is the node that has claimed a shard, and the epoch of its claim.
type Owner struct {
	Epoch uint32
	Node  string
}

// Promise is what an acknowledgement means.
type Promise struct {
	Engine   string // the database that keeps the journals, and its version
	Standbys int    // how many machines besides the primary have a batch on their disks before it is acknowledged
}

// String is the promise as a sentence, for the log of a start.
func (p Promise) String() string {
	where := "on the disk of " + p.Engine
	switch {
	case p.Standbys == 1:
		where += " and on that of a standby"
	case p.Standbys > 1:
		where += fmt.Sprintf(" and on those of %d standbys", p.Standbys)
	}
	return "Acknowledged work is " + where + "."
}

// The failures of a backend; errors wrap them, so test with errors.Is.
var (
	// ErrNoJournal is a conflict: the journal was deleted, so that its writer is deposed.
	ErrNoJournal    = fmt.Errorf("cluster: there is no such journal: %w", journal.ErrConflict)
	ErrPromise      = errors.New("cluster: the database cannot keep what Quern promises")
	ErrNewerOwner   = errors.New("cluster: another node has claimed the shard since")
	ErrTooManyNodes = fmt.Errorf(
		"cluster: there may be no more than %d nodes: stop one, or wait an hour for those that are gone to be forgotten", MaxNodes)
)

// CheckName refuses a name of a node or of a journal that is not 1 to MaxName of the characters 0-9, a-z, -, _ and the full stop.
func CheckName(name string) error {
	foreign := func(c rune) bool { return !strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyz-_.", c) }
	if name == "" || len(name) > MaxName || strings.IndexFunc(name, foreign) >= 0 {
		return fmt.Errorf("the name %.100q is not 1 to %d of the characters 0-9, a-z, -, _ and the full stop", name, MaxName)
	}
	return nil
}

// Check refuses a node that no Beat takes.
func (n Node) Check() error {
	if err := CheckName(n.Name); err != nil {
		return fmt.Errorf("cluster: a node: %w", err)
	}
	u, err := url.Parse(n.URL)
	if err != nil || len(n.URL) > MaxURL || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("cluster: node %s: %.100q is not an http or https URL of at most %d bytes", n.Name, n.URL, MaxURL)
	}
	if len(n.Note) > MaxNote || !utf8.ValidString(n.Note) || strings.ContainsRune(n.Note, 0) {
		return fmt.Errorf("cluster: node %s: its note has to be UTF-8 without a zero byte, of at most %d bytes", n.Name, MaxNote)
	}
	return nil
}
