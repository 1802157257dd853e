package engine

// Which shard of a queue has a group. It is decided when the group is seen first, and is in the catalogue before the
// group's first submission is in the shard. Only an empty group moves to another one (sharded_moves.go). So all open
// submissions of a group are in one shard, and what a strategy counts by the group is exact there.
//
//	new group ─► two random shards with room, the one with less to do takes it ─► catalogue ─► its first submission
//
// A submission without a group goes to the first shard.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// groups are the groups of a queue.
type groups struct {
	placing   sync.Mutex // held while new groups are placed, which waits for the disk
	following sync.Mutex // held while groups are read, which may wait for the disk too

	mu     sync.RWMutex // guards what follows; no one holds it for long
	byName map[string]int
	came   map[string]cameFrom // of groups that moved
	count  []int               // groups of each shard
	row    int64               // of the catalogue, up to which its groups are here; guarded by following too
	more   chan struct{}       // closed when more groups come, or one moves
}

// cameFrom is the shard that a group was in before, and the time when it left.
type cameFrom struct {
	shard int
	at    queue.Time
}

func newGroups() *groups {
	return &groups{byName: map[string]int{}, came: map[string]cameFrom{}, count: make([]int, queue.MaxQueueShards),
		more: make(chan struct{})}
}

// follow takes over the groups that the catalogue has got since the last time, from this node or from others.
func (s *Sharded) follow() error {
	s.groups.following.Lock()
	defer s.groups.following.Unlock()
	return s.groups.read(s, s.groups.row)
}

// reread takes over all groups that the catalogue has.
func (s *Sharded) reread() error {
	s.groups.following.Lock()
	defer s.groups.following.Unlock()
	return s.groups.read(s, 0)
}

// read takes over the groups behind a row. The caller holds g.following.
func (g *groups) read(s *Sharded, after int64) error {
	rows, err := store.Groups(s.e.catalogue, s.name, after)
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.byName)
	moved := false
	for _, row := range rows {
		if g.row = row.Row; row.Came > 0 {
			g.came[row.Name] = cameFrom{row.Came, row.Moved}
		}
		if row.Name == "" { // says only when the queue was divided
			continue
		}
		switch now := g.byName[row.Name]; {
		case now == row.Shard:
			continue
		case now > 0:
			g.count[now-1]--
			moved = true
		}
		g.byName[row.Name] = row.Shard
		g.count[row.Shard-1]++
	}
	if len(g.byName) > before || moved {
		close(g.more)
		g.more = make(chan struct{})
	}
	return err
}

// number is how many groups there are.
func (g *groups) number() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.byName)
}

// coming is closed when more groups come.
func (g *groups) coming() <-chan struct{} {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.more
}

// of is the number of the shard that has a group; 0: none has it yet.
func (g *groups) of(name string) int {
	if name == "" {
		return 1
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byName[name]
}

// unknown are the names of which there is no group yet, each once.
func (g *groups) unknown(names []string) (list []string) {
	for _, name := range names {
		if g.of(name) == 0 {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// place gives every group of these names a shard: a new one the shard of this number, or the one with least to do if that is 0. It returns
// when the catalogue has them.
func (s *Sharded) place(names []string, number int) error {
	g := s.groups
	if len(g.unknown(names)) == 0 {
		return nil
	}
	g.placing.Lock()
	defer g.placing.Unlock()
	seeOthers(s)
	names = g.unknown(names) // another call may have placed them
	err := s.placeNew(names, number)
	for try := 0; err != nil && s.e.nodes != nil && try < placeTries; try++ {
		// Another node may have placed one of them at the same moment.
		before := len(names)
		if again := s.reread(); again != nil {
			return err
		}
		if names = g.unknown(names); len(names) == before {
			return err
		}
		err = s.placeNew(names, number)
	}
	return err
}

// seeOthers has this node learn where the others have just placed groups, if shards can be full: one may just have become full. Without an
// answer, the node uses the placements that it knows.
func seeOthers(s *Sharded) {
	if settings, err := s.settings(); s.e.nodes == nil || err != nil || settings.GroupsPerShard == 0 {
		return
	}
	learnGroups(s)
}

// learnGroups has this node of a cluster learn all groups that the others have placed up to now.
func learnGroups(s *Sharded) {
	if err := errors.Join(s.e.nodes.catchUp(), s.follow()); err != nil {
		s.e.options.Logger.Warn("the groups that other nodes have placed are not known yet", "queue", s.name, "error", err)
	}
}

// placeTries bounds how often a call places groups again because another node has just placed some of them.
const placeTries = 100

// placeNew gives new groups their shards. The caller holds g.placing.
func (s *Sharded) placeNew(names []string, number int) error {
	if there := s.groups.number(); there+len(names) > queue.MaxGroups {
		return tooManyGroups(there)
	}
	loads, err := s.loads()
	if err != nil {
		return err
	}
	now := queue.At(s.e.options.Now())
	rows := make([]store.GroupRow, len(names))
	for i, name := range names {
		at := number
		if at == 0 {
			at = loads.lighter()
		}
		rows[i] = store.GroupRow{Name: name, Shard: at, Created: now}
		loads.load[at-1]++
		loads.groups[at-1]++
	}
	if len(rows) > 0 {
		if err := store.PutGroups(s.e.catalogue, s.name, rows); err != nil {
			return err
		}
	}
	return s.follow()
}

// loads are how much each shard has to do, and which of them serve.
type loads struct {
	load     []uint64
	groups   []int
	serves   []int // numbers less one
	settings *queue.Settings
	rnd      *rand.Rand
}

func (s *Sharded) loads() (*loads, error) {
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	all, refused := s.shards()
	l := &loads{load: make([]uint64, len(all)), settings: settings,
		rnd: rand.New(rand.NewPCG(s.e.options.Seed(), s.e.options.Seed()))}
	for i, open := range s.farLoads(all) {
		l.load[i], l.serves = open, append(l.serves, i)
	}
	for i, q := range all {
		if q != nil {
			l.load[i], l.serves = q.shard.Stats().SubmissionsOpen, append(l.serves, i)
		}
	}
	slices.Sort(l.serves) // so that a seed draws the same
	s.groups.mu.RLock()
	defer s.groups.mu.RUnlock()
	l.groups = slices.Clone(s.groups.count[:len(all)])
	for i := range all {
		l.load[i] += uint64(l.groups[i])
	}
	if len(l.serves) == 0 {
		return nil, refused
	}
	return l, nil
}

// lighter draws two shards from those that have room, and returns the number of the one with less to do. If none has room, it returns the
// one with the least to do: an insert does not wait for another shard.
func (l *loads) lighter() int {
	takes := slices.DeleteFunc(slices.Clone(l.serves), func(i int) bool { return l.settings.Drains(i + 1) })
	if len(takes) == 0 { // those that take new groups do not serve at this moment
		takes = l.serves
	}
	open := slices.DeleteFunc(slices.Clone(takes), func(i int) bool { return isFull(l.groups[i], l.settings) })
	if len(open) == 0 {
		return 1 + slices.MinFunc(takes, func(a, b int) int { return cmp.Compare(l.load[a], l.load[b]) })
	}
	a, b := open[l.rnd.IntN(len(open))], open[l.rnd.IntN(len(open))]
	if l.load[b] < l.load[a] {
		a = b
	}
	return a + 1
}

// adopt makes the groups of the only shard, before the queue gets several: all that its open submissions, its dead letters and its
// schedules name. Nothing is inserted meanwhile.
func (s *Sharded) adopt(ctx context.Context, first *Queue) error {
	names, err := first.groupNames(ctx)
	if err != nil {
		return err
	}
	if err := s.place(names, 1); err != nil || first.shard.Stats().Keys == 0 {
		return err
	}
	return noteDivision(s)
}

// noteDivision records that the only shard knows idempotency keys of groups that other shards may get, because they have no open work now.
// The record is a row of the group without a name, as if that had moved from the first shard to itself.
func noteDivision(s *Sharded) error {
	now := queue.At(s.e.options.Now())
	if rows, err := store.Groups(s.e.catalogue, s.name, 0); err != nil {
		return err
	} else if !slices.ContainsFunc(rows, func(row store.GroupRow) bool { return row.Name == "" }) {
		if err := store.PutGroups(s.e.catalogue, s.name, []store.GroupRow{{Shard: 1, Created: now}}); err != nil {
			return err
		}
	}
	if err := store.MoveGroup(s.e.catalogue, s.name, "", 1, 1, now); err != nil {
		return err
	}
	return s.follow()
}

// belongs checks that a submission inserted into one shard directly belongs there. A new group gets that shard.
func (s *Sharded) belongs(q *Queue, n *queue.NewSubmission) error {
	name, number := n.Meta.GroupOf(), s.number(q)
	if s.groups.of(name) == 0 {
		if q.config.Load().GroupMustExist {
			return nil // the shard refuses it: no one created it
		}
		if q.config.Load().Drains(number) {
			return queue.Invalid("/group", "is %q, a new group, and shard %d drains: it gets no new groups. Ask %q instead",
				clip(name, 80), number, s.name)
		}
		if err := s.place([]string{name}, number); err != nil {
			return err
		}
	}
	if s.groups.of(name) != number {
		return s.elsewhere(number, "/group", name)
	}
	return nil
}

// elsewhere refuses a group that belongs to another shard than the one of the call.
func (s *Sharded) elsewhere(number int, pointer, name string) error {
	at := s.groups.of(name)
	return queue.Invalid(pointer, "is %q, which belongs to shard %d of the queue; this is shard %d: ask %q, or %q",
		clip(name, 80), at, number, s.name, queue.ShardName(s.name, at))
}

// number is the number of one of its shards.
func (s *Sharded) number(q *Queue) int {
	if _, number := queue.CutShard(q.name); number > 0 {
		return number
	}
	return 1
}

// groupNames are the groups with work in a queue of one shard: the open ones, and those of its dead letters, whose submissions can be
// opened again.
func (q *Queue) groupNames(ctx context.Context) (names []string, err error) {
	if names, err = q.openGroups(); err != nil {
		return nil, err
	}
	dead := ListRequest{States: []queue.SubmissionState{queue.CompletedWithDead}, Limit: queue.MaxListLimit}
	for more := true; more; more = dead.Cursor != "" {
		page, err := q.Submissions.List(ctx, dead)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			names = append(names, page.Items[i].Meta.GroupOf())
		}
		dead.Cursor = page.Next
	}
	return eachOnce(names), nil
}

// openGroups are the groups of the open submissions and of the schedules of one shard, and those that someone created.
func (q *Queue) openGroups() (names []string, err error) {
	values, whole := q.shard.Values.List(queue.GroupKey, queue.MaxGroups, nil)
	if !whole {
		return nil, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has more than %d values of %q, the "+
			"most groups that a queue of several shards may have.", queue.MaxGroups, queue.GroupKey)}
	}
	for i := range values {
		names = append(names, values[i].Value.String())
	}
	for _, s := range q.shard.Schedules.List() {
		names = append(names, s.Schedule.Template.Meta.GroupOf())
	}
	names = append(names, q.shard.Settings.Groups()...)
	return eachOnce(names), nil
}

// eachOnce sorts names and leaves out the empty one.
func eachOnce(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
