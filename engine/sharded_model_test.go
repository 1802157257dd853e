package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A queue of four shards is compared with a model that knows of no shards: a list of submissions, the chunks in flight, and the place of
// each group. Reserves use random compositions of strategies. Meanwhile groups move, shards drain and are opened again, the queue is
// divided, and the engine restarts. A failure prints its seed, and seedOfShards plays it again.
//
//quern:sequential
func TestShardedAgainstModel(t *testing.T) {
	t.Parallel()
	seeds := 12
	if testing.Short() {
		seeds = 4
	}
	happened := map[string]int{}
	for range seeds {
		m := newShardModel(t, rand.Uint64())
		for range 200 {
			m.step()
			if m.check(); t.Failed() {
				t.Fatalf("seed %d:\n%s", m.seed, strings.Join(m.log, "\n"))
			}
		}
		closed(t, m.e)
		for what, n := range m.happened {
			happened[what] += n
		}
	}
	t.Logf("%v", happened)
	for _, what := range []string{"divided", "moved", "moved later", "drained away", "restarted", "repeated", "refused by a limit", "empty",
		"by order", "at random", "behind a limit", "completed", "released"} {
		if happened[what] == 0 && !testing.Short() {
			t.Errorf("nothing was %s: this shows too little", what)
		}
	}
}

// modelSubmission is a submission as the model has it.
type modelSubmission struct {
	id          queue.SubmissionID
	group, user string
	priority    int64
	ready, held int
}

func (s *modelSubmission) open() bool { return s.ready+s.held > 0 }

// modelBranch is one branch of a strategy.
type modelBranch struct {
	only, except string // of users; "": none
	group        string // the only one; "": any
	most         map[string]int
	order        string
}

func (b *modelBranch) text() string {
	text := b.order
	if b.group != "" {
		text = fmt.Sprintf(`SelectOnly("group", %q, %s)`, b.group, text)
	}
	if b.only != "" {
		text = fmt.Sprintf(`SelectOnly("user", %q, %s)`, b.only, text)
	}
	if b.except != "" {
		text = fmt.Sprintf(`Except("user", [%q], %s)`, b.except, text)
	}
	for _, key := range []string{"group", "user"} {
		if n := b.most[key]; n > 0 {
			text = fmt.Sprintf(`MaxSimultaneous(%q, %d, %s)`, key, n, text)
		}
	}
	return text
}

// first compares submissions by the order of the branch.
func (b *modelBranch) first(x, y *modelSubmission) bool {
	switch {
	case b.order == "NewestFirst":
		return x.id > y.id
	case b.order == "CustomPriority" && x.priority != y.priority:
		return x.priority > y.priority
	}
	return x.id < y.id
}

// shardModel is the model, with the engine that it is compared with.
type shardModel struct {
	t        *testing.T
	seed     uint64
	r        *rand.Rand
	dir      string
	e        *Engine
	clock    atomic.Int64 // milliseconds
	seeds    atomic.Uint64
	shards   int
	inserts  int // keys that were used
	all      []*modelSubmission
	keys     map[string]*modelSubmission
	holds    map[queue.Token]*modelSubmission
	done     []queue.Token
	at       map[string]int // the shard of a group
	came     map[string]int // where it was before it moved
	going    map[string]int // where it is to go
	draining int            // 0: none
	log      []string
	happened map[string]int
}

// seedOfShards plays one seed again, if it is set.
const seedOfShards = 0

func newShardModel(t *testing.T, seed uint64) *shardModel {
	t.Helper()
	if seedOfShards != 0 {
		seed = seedOfShards
	}
	m := &shardModel{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 39)), dir: t.TempDir(), shards: 1, keys: map[string]*modelSubmission{},
		holds: map[queue.Token]*modelSubmission{}, at: map[string]int{}, came: map[string]int{}, going: map[string]int{},
		happened: map[string]int{}}
	m.clock.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	m.seeds.Store(seed << 20)
	m.begin()
	settings := queue.DefaultSettings()
	if settings.ReservationTimeout = time.Hour; seed%4 > 0 {
		settings.Durability = queue.Relaxed
	}
	if _, _, err := m.e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.e.PutGroup(t.Context(), shardedName, "g0", "", queue.Quota{Submissions: modelLimit}, anyGroup); err != nil {
		t.Fatal(err)
	}
	return m
}

// modelLimit is how many open submissions the group g0 may have.
const modelLimit = 2

func (m *shardModel) begin() {
	e, err := Open(m.t.Context(), Options{Dir: m.dir, Now: func() time.Time { return time.UnixMilli(m.clock.Load()) }, BallastBytes: -1,
		Seed: func() uint64 { return m.seeds.Add(0x9e3779b97f4a7c15) }})
	if err != nil {
		m.t.Fatalf("seed %d: %v", m.seed, err)
	}
	m.e = e
}

func (m *shardModel) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *shardModel) must(err error) {
	if err != nil {
		m.t.Fatalf("seed %d: %v\n%s", m.seed, err, strings.Join(m.log, "\n"))
	}
}

// step makes one random step.
func (m *shardModel) step() {
	m.clock.Add(int64(1 + m.r.IntN(30)))
	switch n := m.r.IntN(100); {
	case n < 22:
		m.insert()
	case n < 42:
		m.reserve()
	case n < 56:
		m.finish()
	case n < 68:
		m.workOff(m.group())
	case n < 83:
		m.move()
	case n < 90:
		m.tick()
	case n < 94:
		m.drain()
	case n < 97:
		m.restart()
	default:
		m.divide()
	}
}

func (m *shardModel) group() string { return fmt.Sprint("g", m.r.IntN(8)) }

func (m *shardModel) user() string { return fmt.Sprint("u", m.r.IntN(3)) }

// insert inserts some submissions, at times one that was inserted before.
func (m *shardModel) insert() {
	list := make([]queue.Insertion, 1+m.r.IntN(3))
	made := make([]*modelSubmission, len(list))
	for i := range list {
		s := &modelSubmission{group: m.group(), user: m.user(), priority: int64(m.r.IntN(3)), ready: 1 + m.r.IntN(4)}
		key := fmt.Sprint("key", m.inserts)
		m.inserts++
		if repeat := fmt.Sprint("key", m.r.IntN(m.inserts)); m.r.IntN(4) == 0 && m.keys[repeat] != nil && i == 0 {
			key, s = repeat, m.keys[repeat]
		}
		made[i] = s
		list[i].New = &queue.NewSubmission{Group: s.group, IdempotencyKey: key, Priority: s.priority, OperationsPerChunk: 1,
			Meta:   queue.Meta{{Key: "user", Value: queue.StringValue(s.user)}},
			Chunks: queue.Chunks{Count: uint32(max(1, s.ready)), Prefix: "x/"}}
	}
	m.must(workAt(m.t, m.e).InsertMany(m.t.Context(), list, false))
	for i := range list {
		m.inserted(&list[i], made[i])
	}
}

func (m *shardModel) inserted(in *queue.Insertion, s *modelSubmission) {
	m.note("insert %s into %s: %v, %v", in.New.IdempotencyKey, s.group, in.Submission.ID, in.Err)
	if s.id != 0 {
		if in.Err != nil || in.Submission.ID != s.id {
			m.t.Errorf("the repeated insert %s is submission %d, %v, and was %d", in.New.IdempotencyKey, in.Submission.ID, in.Err, s.id)
		}
		m.happened["repeated"]++
		return
	}
	full := s.group == "g0" && m.open("g0") >= modelLimit
	if full != (queue.CodeOf(in.Err) == queue.CodeLimitReached) || !full && in.Err != nil {
		m.t.Errorf("an insert into %s with %d open submissions: %v", s.group, m.open(s.group), in.Err)
	}
	if full {
		m.happened["refused by a limit"]++
		return
	}
	s.id = in.Submission.ID
	m.all, m.keys[in.New.IdempotencyKey] = append(m.all, s), s
}

// open is how many open submissions a group has.
func (m *shardModel) open(group string) (n int) {
	for _, s := range m.all {
		if s.group == group && s.open() {
			n++
		}
	}
	return n
}

// flying is how many chunks of a value are in flight.
func (m *shardModel) flying(key, value string) (n int) {
	for _, s := range m.all {
		if key == "group" && s.group == value || key == "user" && s.user == value {
			n += s.held
		}
	}
	return n
}

// fits are the submissions that a branch may give a chunk of now.
func (m *shardModel) fits(b *modelBranch) (list []*modelSubmission, limited bool) {
	for _, s := range m.all {
		if s.ready == 0 || b.only != "" && s.user != b.only || b.except != "" && s.user == b.except || b.group != "" && s.group != b.group {
			continue
		}
		if n := b.most["group"]; n > 0 && m.flying("group", s.group) >= n {
			limited = true
			continue
		}
		if n := b.most["user"]; n > 0 && m.flying("user", s.user) >= n {
			limited = true
			continue
		}
		list = append(list, s)
	}
	return list, limited
}

func (m *shardModel) branch() *modelBranch {
	b := &modelBranch{most: map[string]int{}, order: []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority"}[m.r.IntN(4)]}
	switch m.r.IntN(5) {
	case 0:
		b.only = m.user()
	case 1:
		b.except = m.user()
	case 2:
		b.group = m.group()
	}
	for _, key := range []string{"group", "user"} {
		if m.r.IntN(3) == 0 {
			b.most[key] = 1 + m.r.IntN(3)
		}
	}
	return b
}

// reserve compares the chunks that a strategy gives with those that it may and must give.
func (m *shardModel) reserve() {
	branches := []*modelBranch{m.branch()}
	text := branches[0].text()
	if m.r.IntN(3) == 0 {
		branches = append(branches, m.branch())
		text = fmt.Sprintf("OrElse(%s, %s)", text, branches[1].text())
	}
	most := 1 + m.r.IntN(6)
	got, err := reserveBy(m.t, workAt(m.t, m.e), text, most, 0)
	m.must(err)
	m.note("reserve %d by %s: %d", most, text, len(got.Reservations))
	b := 0
	for i := range got.Reservations {
		r := &got.Reservations[i]
		var may []*modelSubmission
		for ; b < len(branches); b++ {
			if may, _ = m.fits(branches[b]); len(may) > 0 {
				break
			}
		}
		k := slices.IndexFunc(may, func(s *modelSubmission) bool { return s.id == r.Token.Submission })
		if k < 0 {
			m.t.Errorf("%s gave a chunk of %d as the %dth, and may give %v", text, r.Token.Submission, i+1, idsOf(may))
			return
		}
		if s := may[k]; branches[b].order != "Random" {
			m.happened["by order"]++
			if j := slices.IndexFunc(may, func(x *modelSubmission) bool { return branches[b].first(x, s) }); j >= 0 {
				m.t.Errorf("%s gave %+v before %+v, as the %dth", text, *s, *may[j], i+1)
			}
		} else {
			m.happened["at random"]++
		}
		may[k].ready--
		may[k].held++
		m.holds[r.Token] = may[k]
	}
	if len(got.Reservations) == most {
		return
	}
	m.happened["empty"]++
	for _, b := range branches {
		may, limited := m.fits(b)
		if len(may) > 0 {
			m.t.Errorf("%s gave %d of %d chunks, and could give some of %v", text, len(got.Reservations), most, idsOf(may))
		}
		if limited {
			m.happened["behind a limit"]++
		}
	}
}

func idsOf(list []*modelSubmission) (ids []queue.SubmissionID) {
	for _, s := range list {
		ids = append(ids, s.id)
	}
	return ids
}

// finish completes or gives back some chunks in flight, and completes done ones again.
func (m *shardModel) finish() {
	var tokens []queue.Token
	for token := range m.holds {
		tokens = append(tokens, token)
	}
	slices.SortFunc(tokens, func(a, b queue.Token) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	m.r.Shuffle(len(tokens), func(i, j int) { tokens[i], tokens[j] = tokens[j], tokens[i] })
	tokens = tokens[:min(len(tokens), 1+m.r.IntN(6))]
	if m.r.IntN(4) == 0 {
		items := make([]queue.ReleaseItem, len(tokens))
		for i := range tokens {
			items[i].Token = tokens[i]
		}
		results, err := workAt(m.t, m.e).Release(m.t.Context(), items, nil)
		m.must(err)
		m.finished("released", tokens, results)
		return
	}
	again := len(tokens)
	tokens = append(tokens, m.done[max(0, len(m.done)-2):]...)
	items := make([]queue.CompleteItem, len(tokens))
	for i := range tokens {
		items[i].Token = tokens[i]
	}
	results, err := workAt(m.t, m.e).Complete(m.t.Context(), items, nil)
	m.must(err)
	for i := again; i < len(results); i++ {
		if results[i].Outcome != queue.OutcomeAlready {
			m.t.Errorf("a completion that is repeated answers %v", results[i].Outcome)
		}
	}
	m.finished("completed", tokens[:again], results[:again])
}

func (m *shardModel) finished(what string, tokens []queue.Token, results []queue.Result) {
	m.note("%s %d", what, len(tokens))
	for i, token := range tokens {
		if results[i].Outcome != queue.OutcomeOK {
			m.t.Errorf("a chunk of %d is %s: %v", token.Submission, what, results[i].Outcome)
		}
		s := m.holds[token]
		delete(m.holds, token)
		if s.held--; what == "released" {
			s.ready++
		} else {
			m.done = append(m.done, token)
		}
		m.happened[what]++
	}
}

// workOff completes all of a group, which may then move.
func (m *shardModel) workOff(group string) {
	got, err := reserveBy(m.t, workAt(m.t, m.e), fmt.Sprintf(`SelectOnly("group", %q, Random)`, group), 1000, 0)
	m.must(err)
	for i := range got.Reservations {
		token := got.Reservations[i].Token
		k := slices.IndexFunc(m.all, func(s *modelSubmission) bool { return s.id == token.Submission && s.group == group && s.ready > 0 })
		if k < 0 {
			m.t.Errorf("group %s gave a chunk of %d", group, token.Submission)
			return
		}
		m.all[k].ready--
		m.all[k].held++
		m.holds[token] = m.all[k]
	}
	var items []queue.CompleteItem
	var tokens []queue.Token
	for token, s := range m.holds {
		if s.group == group {
			items, tokens = append(items, queue.CompleteItem{Token: token}), append(tokens, token)
		}
	}
	results, err := workAt(m.t, m.e).Complete(m.t.Context(), items, nil)
	m.must(err)
	m.finished("completed", tokens, results)
	if n := m.open(group); n > 0 {
		m.t.Errorf("group %s has %d open submissions when all that it gave is completed", group, n)
	}
}

// move asks for a move, which is refused where repeated inserts could not be recognised.
func (m *shardModel) move() {
	if m.shards < 4 {
		return
	}
	group, to := m.group(), 1+m.r.IntN(m.shards)
	info, err := m.e.MoveGroup(m.t.Context(), shardedName, group, to)
	m.note("move %s from %d to %d: %v", group, m.at[group], to, err)
	from := m.at[group]
	want := queue.Code("")
	switch {
	case from == 0:
		want = queue.CodeUnknownGroup
	case to == from:
	case to == m.draining:
		want = queue.CodeInvalid
	case m.came[group] > 0 && m.came[group] != to:
		want = queue.CodeConflict
	}
	if queue.CodeOf(err) != want {
		m.t.Errorf("a move of %s from %d to %d, where shard %d drains and it came from %d: %v", group, from, to, m.draining, m.came[group], err)
	}
	switch {
	case want != "":
	case to == from:
		delete(m.going, group)
	case m.open(group) > 0:
		m.going[group] = to
		if info.Shard != from || info.MovingTo != to {
			m.t.Errorf("a group with work is %+v", info)
		}
	default:
		m.arrives(group, to, "moved")
	}
}

// arrives notes that a group is in another shard.
func (m *shardModel) arrives(group string, to int, how string) {
	m.came[group], m.at[group] = m.at[group], to
	delete(m.going, group)
	m.happened[how]++
}

// tick has the worker move groups that are to move and have no open submissions.
func (m *shardModel) tick() {
	m.e.moveGroups(m.t.Context())
	m.note("tick")
	for group, to := range m.going {
		if m.open(group) == 0 && to != m.draining && (m.came[group] == 0 || m.came[group] == to) {
			m.arrives(group, to, "moved later")
		}
	}
	for group, at := range m.at {
		if at != m.draining || m.open(group) > 0 {
			continue
		}
		info, err := m.e.Group(shardedName, group)
		m.must(err)
		if info.Shard != at {
			m.arrives(group, info.Shard, "drained away")
		} else {
			m.t.Errorf("the empty group %s stays in shard %d, which drains; it came from %d", group, at, m.came[group])
		}
	}
}

func (m *shardModel) drain() {
	if m.shards < 4 {
		return
	}
	number, drains := m.draining, false
	if number == 0 {
		number, drains = 1+m.r.IntN(m.shards), true
	}
	m.must(m.e.DrainShard(m.t.Context(), shardedName, number, drains))
	if m.note("shard %d drains: %v", number, drains); drains {
		m.draining = number
	} else {
		m.draining = 0
	}
}

// restart restarts the engine. Chunks in flight stay in flight.
func (m *shardModel) restart() {
	m.note("restart")
	m.happened["restarted"]++
	m.must(m.e.Close())
	m.begin()
}

// divide gives the queue more shards. A group has one from then on: the first, if it has work now.
func (m *shardModel) divide() {
	if m.shards == 4 {
		return
	}
	m.shards *= 2
	m.note("%d shards", m.shards)
	_, err := m.e.ChangeQueue(m.t.Context(), shardedName, func(s *queue.Settings) error { s.Shards = uint8(m.shards); return nil })
	m.must(err)
	m.happened["divided"]++
}

// check compares the numbers of all groups, and of the queue, with the model.
func (m *shardModel) check() {
	work := workAt(m.t, m.e)
	s, several := work.(*Sharded)
	for n := range 8 {
		group := fmt.Sprint("g", n)
		var ready, held, open uint64
		where := map[queue.ShardID]bool{}
		for _, sub := range m.all {
			if sub.group == group && sub.open() {
				ready, held, open = ready+uint64(sub.ready), held+uint64(sub.held), open+1
				where[sub.id.Shard()] = true
			}
		}
		info, err := m.e.Group(shardedName, group)
		if err != nil && (queue.CodeOf(err) != queue.CodeUnknownGroup || open > 0) {
			m.must(err)
		}
		if info.Waiting != ready || info.InFlight != held || info.Submissions != open {
			m.t.Errorf("the group is %+v, want %d waiting, %d in flight, %d submissions", info, ready, held, open)
		}
		if !several || err != nil {
			continue
		}
		if m.at[group] == 0 {
			m.at[group] = info.Shard
		}
		q, err := s.shard(info.Shard)
		m.must(err)
		if info.Shard != m.at[group] || len(where) > 1 || len(where) == 1 && !where[q.id] || info.MovingTo != m.going[group] {
			m.t.Errorf("the group is %+v, want it in shard %d, on the way to %d; its submissions are in %v", info, m.at[group], m.going[group],
				where)
		}
		if n == 0 && info.Settings.Limits.Submissions != modelLimit {
			m.t.Errorf("the group with a limit is %+v", info)
		}
	}
	if !several {
		return
	}
	page, err := m.e.Groups(shardedName, "", 1000)
	m.must(errors.Join(err, s.follow()))
	if len(page.Items) != len(m.at) || s.groups.number() != len(m.at) {
		m.t.Errorf("%d groups are listed, want %d", len(page.Items), len(m.at))
	}
}
