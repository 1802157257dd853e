package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/queue"
)

var ctx = context.Background()

func exerciseLeases(t *testing.T, m Medium) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *subject)
	}{
		{"a beat is seen by all nodes, and takes the place of the one before", beats},
		{"a beat that comes late does not take the place of a newer one of the same process", lateBeats},
		{"nodes that cannot be are refused, and leave nothing", badNodes},
		{"there are this many nodes and no more", manyNodes},
		{"an owner only gives way to a newer epoch", owners},
		{"of many who claim at once the newest stays", claims},
		{"a context that has ended does nothing", ended},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, begin(t, m))
		})
	}
}

// subject is a backend with the helpers that all parts use.
type subject struct {
	cluster.Backend
	t   *testing.T
	m   Medium
	dir string
}

func begin(t *testing.T, m Medium) *subject {
	return (&subject{t: t, m: m, dir: t.TempDir()}).another()
}

// another is a further backend with the same content: another node's.
func (s *subject) another() *subject {
	s.t.Helper()
	b, closeIt := s.m.Open(s.t, s.dir)
	s.t.Cleanup(func() {
		if err := closeIt(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	})
	return &subject{Backend: b, t: s.t, m: s.m, dir: s.dir}
}

func (s *subject) beat(n cluster.Node) {
	s.t.Helper()
	if err := s.Leases().Beat(ctx, n); err != nil {
		s.t.Fatalf("Beat(%+v): %v", n, err)
	}
}

func (s *subject) wantNodes(want ...cluster.Node) {
	s.t.Helper()
	if got, err := s.Leases().Nodes(ctx); err != nil || !slices.Equal(got, want) {
		s.t.Fatalf("Nodes = %+v, %v; want %+v", got, err, want)
	}
}

func (s *subject) wantOwners(want map[queue.ShardID]cluster.Owner) {
	s.t.Helper()
	if got, err := s.Leases().Owners(ctx); err != nil || !maps.Equal(got, want) {
		s.t.Fatalf("Owners = %v, %v; want %v", got, err, want)
	}
}

func beats(_ *testing.T, s *subject) {
	other := s.another()
	other.wantNodes()
	b := cluster.Node{Name: "b", URL: "http://10.0.0.2:8080", Counter: 1<<64 - 1}
	a := cluster.Node{Name: "a-long.name_1", URL: "https://a.example", Counter: 7}
	s.beat(b)
	other.wantNodes(b)
	other.beat(a)
	s.wantNodes(a, b)
	b.Counter, b.Leaving, b.Note = 3, true, strings.Repeat("é", cluster.MaxNote/2)
	s.beat(b)
	s.beat(b)
	a.URL = "https://a.example:8443"
	s.beat(a)
	for _, x := range []*subject{s, other, s.another()} {
		x.wantNodes(a, b)
	}
}

func lateBeats(_ *testing.T, s *subject) {
	for _, process := range []uint64{1<<32 - 1, 0, 1 << 31} { // a later process may have a smaller number
		n := cluster.Node{Name: "a", URL: "http://h", Counter: process<<32 + 5}
		s.beat(n)
		late := n
		late.Counter, late.Leaving = n.Counter-1, true
		_ = s.Leases().Beat(ctx, late) // no one waits for its answer
		s.wantNodes(n)
		n.Counter++
		s.beat(n)
		s.wantNodes(n)
	}
}

func badNodes(t *testing.T, s *subject) {
	for _, n := range []cluster.Node{
		{URL: "http://h"}, {Name: "A", URL: "http://h"}, {Name: "a b", URL: "http://h"}, {Name: "a"}, {Name: "a", URL: "h:80"},
		{Name: strings.Repeat("a", cluster.MaxName+1), URL: "http://h"}, {Name: "a", URL: "ftp://h"},
		{Name: "a", URL: "http://" + strings.Repeat("h", cluster.MaxURL)}, {Name: "a", URL: "http://h", Note: "a\x00"},
		{Name: "a", URL: "http://h", Note: "\xff"}, {Name: "a", URL: "http://h", Note: strings.Repeat("n", cluster.MaxNote+1)},
	} {
		if err := s.Leases().Beat(ctx, n); err == nil {
			t.Errorf("Beat took the node %+v", n)
		}
	}
	s.wantNodes()
	if err := s.Leases().SetOwner(ctx, 1, 1, ""); err == nil {
		t.Error("SetOwner took a node without a name")
	}
	if err := s.Leases().SetOwner(ctx, queue.MaxShards, 1, "a"); err == nil {
		t.Error("SetOwner took a shard that cannot be")
	}
	s.wantOwners(nil)
	s.beat(cluster.Node{Name: strings.Repeat("z", cluster.MaxName), URL: "http://" + strings.Repeat("h", cluster.MaxURL-len("http://"))})
}

func manyNodes(t *testing.T, s *subject) {
	node := func(i int) cluster.Node { return cluster.Node{Name: fmt.Sprintf("n%02d", i), URL: "http://h"} }
	var want []cluster.Node
	for i := range cluster.MaxNodes {
		s.beat(node(i))
		want = append(want, node(i))
	}
	if err := s.Leases().Beat(ctx, node(cluster.MaxNodes)); !errors.Is(err, cluster.ErrTooManyNodes) {
		t.Errorf("Beat of one node more = %v; want ErrTooManyNodes", err)
	}
	want[3].Counter++
	s.beat(want[3])
	s.wantNodes(want...)
}

func owners(t *testing.T, s *subject) {
	other := s.another()
	s.wantOwners(nil)
	const last = queue.MaxShards - 1
	want := map[queue.ShardID]cluster.Owner{}
	for _, claim := range []struct {
		shard   queue.ShardID
		epoch   uint32
		node    string
		refused bool
	}{
		{0, 5, "a", false}, {last, 1<<32 - 1, "b", false}, {0, 5, "a", false}, {0, 5, "b", true}, {0, 4, "a", true}, {0, 0, "b", true},
		{0, 6, "b", false}, {last, 7, "a", true}, {3, 0, "c", false}, {0, 5, "a", true},
	} {
		err := other.Leases().SetOwner(ctx, claim.shard, claim.epoch, claim.node)
		if refused := errors.Is(err, cluster.ErrNewerOwner); refused != claim.refused || err != nil && !refused {
			t.Fatalf("SetOwner(%+v) = %v", claim, err)
		}
		if err == nil {
			want[claim.shard] = cluster.Owner{Epoch: claim.epoch, Node: claim.node}
		}
		s.wantOwners(want)
	}
}

func claims(t *testing.T, s *subject) {
	const claimers, rounds = 4, 20
	var all sync.WaitGroup
	for c := range claimers {
		node := s.another()
		all.Go(func() {
			for i := range rounds {
				epoch := uint32(i*claimers + c)
				err := node.Leases().SetOwner(ctx, 2, epoch, fmt.Sprint("n", epoch))
				if err != nil && !errors.Is(err, cluster.ErrNewerOwner) {
					t.Errorf("SetOwner: %v", err)
				}
			}
		})
	}
	all.Wait()
	const newest = rounds*claimers - 1
	s.wantOwners(map[queue.ShardID]cluster.Owner{2: {Epoch: newest, Node: fmt.Sprint("n", newest)}})
}

func ended(t *testing.T, s *subject) {
	over, cancel := context.WithCancel(ctx)
	cancel()
	l := s.Leases()
	_, nodes := l.Nodes(over)
	_, owned := l.Owners(over)
	_, promise := s.Promise(over)
	for name, err := range map[string]error{"Beat": l.Beat(over, cluster.Node{Name: "a", URL: "http://h"}), "Nodes": nodes, "Owners": owned,
		"SetOwner": l.SetOwner(over, 1, 1, "a"), "Promise": promise} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v; want context.Canceled", name, err)
		}
	}
	s.wantNodes()
	s.wantOwners(nil)
}
