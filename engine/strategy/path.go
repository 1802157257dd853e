package strategy

import (
	"slices"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// Node is one block of a strategy's tree. Fields that the block does not use are zero: only blocks that select have a
// Filter, only limits have Limits, only Fair has Fair. Limits has one limit, and with MissingOne that of submissions without
// its key, too.
type Node struct {
	Block   string // its name in the text form
	Text    string // without the blocks inside of it, as in MaxSimultaneous(company<5)
	Pointer string // into the canonical JSON, below "/strategy"
	Parent  int    // number of the block that holds it, -1 for the root
	After   int    // number of the first block that is not inside of it
	Filter  Filter
	Limits  []Limit
	Soft    bool // the limit is that of PreferDistinct
	Fair    queue.MetaKey
	Cost    Cost // of Fair
}

// Nodes lists the blocks of the tree in the order of the text, each before the blocks inside of it. There are none when the
// plan was not compiled from a strategy.
func (p *Plan) Nodes() []Node {
	if p.root == nil {
		return nil
	}
	return appendNodes(nil, p.root, pointer, -1)
}

func appendNodes(nodes []Node, b block, at string, parent int) []Node {
	number := len(nodes)
	nodes = append(nodes, alone(b))
	nodes[number].Pointer, nodes[number].Parent = at, parent
	for i, inner := range insideOf(b) {
		nodes = appendNodes(nodes, inner, at+"/"+fieldOf(b, i), number)
	}
	nodes[number].After = len(nodes)
	return nodes
}

// insideOf is the blocks inside of a block.
func insideOf(b block) (inner []block) {
	for _, arg := range b.arguments() {
		inner = append(inner, arg.blocks...)
	}
	return inner
}

// fieldOf is where the canonical JSON of a block has the block of this place.
func fieldOf(b block, place int) string {
	parameters := b.definition().parameters
	last := parameters[len(parameters)-1]
	switch n := len(insideOf(b)); {
	case last.kind != blocksParameter:
		return last.field
	case n == len(last.pair):
		return last.pair[place]
	}
	return last.field + "/" + strconv.Itoa(place)
}

// alone is the node of a block without its place in the tree.
func alone(b block) Node {
	name := b.definition().name
	n := Node{Block: name, Text: name}
	b.note(&n)
	return n
}

// The ways through PreferDistinct.
const (
	withinSoftLimit = iota
	beyondSoftLimit
)

// through notes that the leaves of a block's branches leave it by this way: which alternative of OrElse, which of the two of
// PreferDistinct, 0 otherwise. It is called from the inside to the outside. The notes of two leaves never share memory.
func through(way int, branches []Branch) []Branch {
	for i := range branches {
		branches[i].Leaves(func(leaf *Branch) bool {
			leaf.ways = append(slices.Clip(leaf.ways), uint8(way))
			return true
		})
	}
	return branches
}

// Leaf is a branch of a plan that is not fair: one of Plan.Branches, or one inside of a fair one.
type Leaf struct {
	*Branch
	Of     int       // index in Plan.Branches of the branch that it is, or that holds it
	Number int       // its place among the leaves of that branch
	Around []*Branch // the fair branches around it, the outermost first
	Arms   []int     // which of the Inner of each of them leads to it
}

// Leaves are the leaves of all branches, in the order in which they are asked inside of one tenant. The list is a new one.
func (p *Plan) Leaves() []Leaf {
	var list []Leaf
	for i := range p.Branches {
		list = appendLeaves(list, Leaf{Branch: &p.Branches[i], Of: i}, len(list))
	}
	return list
}

// appendLeaves appends the leaves of a branch that stands where `at` says; first is the place in list of the first leaf of
// its plan's branch.
func appendLeaves(list []Leaf, at Leaf, first int) []Leaf {
	if at.Fair == "" {
		at.Number = len(list) - first
		return append(list, at)
	}
	for k := range at.Inner {
		list = appendLeaves(list, Leaf{
			Branch: &at.Inner[k], Of: at.Of, Around: append(slices.Clip(at.Around), at.Branch), Arms: append(slices.Clip(at.Arms), k),
		}, first)
	}
	return list
}

// Text is the leaf's key with the Fair blocks around it, as in "Fair company Fair user by time OldestFirst while tier<3".
func (l *Leaf) Text() string {
	var dst []byte
	for _, br := range l.Around {
		dst = br.appendFair(dst)
	}
	return string(append(dst, l.Key()...))
}

// Step is one block on the way from the root of a tree to the order of a branch. Way is the alternative of an OrElse,
// from 0; of PreferDistinct it is 0 for chunks within the soft limit and 1 for those beyond it; otherwise 0.
type Step struct{ Node, Way int }

// Path is the way to a leaf of the plan through Nodes: from the root to the order that it is. Of equal leaves in the same
// fair branches, only the first has a place in the plan, so the path is that of the first. It is nil when the plan was not
// compiled from a strategy.
func (p *Plan) Path(leaf *Leaf) []Step {
	if p.root == nil {
		return nil
	}
	var path []Step
	b, node := p.root, 0
	for _, way := range slices.Backward(leaf.ways) {
		path = append(path, Step{node, int(way)})
		inner := insideOf(b)
		place := min(int(way), len(inner)-1) // PreferDistinct holds one block
		node++
		for _, before := range inner[:place] {
			node += count(before)
		}
		b = inner[place]
	}
	return append(path, Step{node, 0})
}

// PathText shows a path to a person, as in
//
//	OrElse[1] > PreferDistinct(company<3, beyond it) > Random
//
// with the alternatives of OrElse counted from 0.
func (p *Plan) PathText(leaf *Leaf) string { return p.pathText(p.Path(leaf)) }

// PathTo shows the path to a block, as PathText does: to the first one around a leaf of the plan that is found.
func (p *Plan) PathTo(leaf *Branch, found func(*Node) bool) string {
	nodes, path := p.Nodes(), p.Path(&Leaf{Branch: leaf})
	return p.pathText(path[:1+slices.IndexFunc(path, func(s Step) bool { return found(&nodes[s.Node]) })])
}

func (p *Plan) pathText(path []Step) string {
	nodes := p.Nodes()
	var dst []byte
	for i, step := range path {
		if i > 0 {
			dst = append(dst, " > "...)
		}
		text := nodes[step.Node].Text
		switch nodes[step.Node].Block {
		case orElseDefinition.name:
			dst = append(strconv.AppendInt(append(append(dst, text...), '['), int64(step.Way), 10), ']')
		case preferDistinctDefinition.name:
			if !nodes[step.Node].Soft {
				dst = append(dst, text...)
				continue
			}
			way := [...]string{withinSoftLimit: ", soft limit)", beyondSoftLimit: ", beyond it)"}
			dst = append(append(dst, text[:len(text)-1]...), way[step.Way]...)
		default:
			dst = append(dst, text...)
		}
	}
	return string(dst)
}

// count is how many blocks a tree has.
func count(b block) int {
	n := 1
	for _, inner := range insideOf(b) {
		n += count(inner)
	}
	return n
}

// Unscored is the plan without its scores: the candidates of each scored branch in their inner order, and so one branch
// for each index that a plan stands on. A branch that stands both inside of a scored branch and beside it is there twice, as
// each has a path of its own.
func (p *Plan) Unscored() *Plan {
	if !slices.ContainsFunc(p.Branches, func(b Branch) bool { return b.Scored != nil }) {
		return p
	}
	var list []Branch
	for i := range p.Branches {
		switch b := &p.Branches[i]; {
		case b.OnFault: // among those of the scored branch
		case b.Scored == nil:
			list = append(list, *b)
		default:
			list = append(list, b.Inner...)
		}
	}
	return &Plan{Branches: list, root: p.root}
}

// Text is the canonical text of the strategy that the plan was compiled from; "" if there is none.
func (p *Plan) Text() string {
	if p.root == nil {
		return ""
	}
	return string(appendText(nil, p.root))
}
