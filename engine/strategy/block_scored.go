package strategy

import (
	"encoding/json"
	"strings"
)

// Plugin and Score both take a window of the candidates that underlying offers, and hand them out in the order of scores.
var (
	pluginDefinition = definition{
		name:   "Plugin",
		snake:  "plugin",
		scores: true,
		parameters: []parameter{
			{kind: pluginParameter, caption: "name@version", field: "name", pair: [2]string{"version"}},
			{kind: configParameter, caption: "config", field: "config", optional: true},
			windowParameter(0),
			exploreParameter,
			underlying,
		},
		build: func(a []argument) block {
			s := &Scored{Plugin: a[0].name, Version: a[0].version, Window: int(a[2].max), Explore: a[3].explore()}
			if a[1].config != "" {
				s.Config = json.RawMessage(a[1].config)
			}
			return &scoredBlock{s, a[4].blocks[0]}
		},
	}
	scoreDefinition = definition{
		name:   "Score",
		snake:  "score",
		scores: true,
		parameters: []parameter{
			{kind: formulaParameter, caption: "expression", field: "expression"},
			windowParameter(DefaultWindow),
			exploreParameter,
			underlying,
		},
		build: func(a []argument) block {
			return &scoredBlock{&Scored{Expression: a[0].formula, Window: int(a[1].max), Explore: a[2].explore()}, a[3].blocks[0]}
		},
	}
)

// windowParameter is how many candidates are scored at once. usual is left out in canonical form; 0: it depends on the plugin.
func windowParameter(usual uint32) parameter {
	return parameter{kind: settingParameter, caption: "window=N", field: "window", optional: true, low: MinWindow,
		high: MaxWindow, usual: usual}
}

var exploreParameter = parameter{kind: settingParameter, caption: "explore=N", field: "explore", optional: true, low: 0,
	high: MaxExplore, usual: DefaultExplore}

// explore is the bound of the argument of exploreParameter.
func (a argument) explore() int {
	if !a.given {
		return DefaultExplore
	}
	return int(a.max)
}

// scoredBlock is a Plugin or a Score block.
type scoredBlock struct {
	scored     *Scored
	underlying block
}

func (s *scoredBlock) definition() *definition {
	if s.scored.Expression != nil {
		return &scoreDefinition
	}
	return &pluginDefinition
}

func (s *scoredBlock) arguments() []argument {
	of := s.scored
	var window, explore argument
	if of.Window != 0 {
		window = argument{max: uint32(of.Window), given: true}
	}
	if of.Explore != DefaultExplore {
		explore = argument{max: uint32(of.Explore), given: true}
	}
	inner := argument{blocks: []block{s.underlying}}
	if of.Expression != nil {
		return []argument{{formula: of.Expression}, window, explore, inner}
	}
	return []argument{{name: of.Plugin, version: of.Version}, {config: string(of.Config)}, window, explore, inner}
}

// branches makes the branches of underlying the candidates of one that scores them. The demands of the blocks around it are in
// these already, as within was handed down. Filters leave out the submissions that the formula would skip, as far as filters
// can say that.
func (s *scoredBlock) branches(within demands) ([]Branch, error) {
	if e := s.scored.Expression; e != nil {
		for _, f := range e.Needs() {
			var possible bool
			if within, possible = within.filtered(f); !possible {
				return nil, nil
			}
		}
	}
	inner, err := s.underlying.branches(within)
	if err != nil || len(inner) == 0 {
		return nil, err
	}
	return through(0, []Branch{scoredBranch(s.scored, inner)}), nil
}

func (s *scoredBlock) note(n *Node) {
	_, who, _ := strings.Cut(s.scored.String(), " ")
	n.Text += "(" + who + ")"
}

// warn warns of a formula that reads nothing: one score for all candidates.
func (s *scoredBlock) warn(f *finder, path string, within demands, before []Branch) error {
	if e := s.scored.Expression; e != nil && len(e.Columns()) == 0 {
		if score := e.Eval(&Window{Rows: 1}, 0); score != score {
			f.add(WarnContradiction, path, "can never yield: its score is never a number, which skips every candidate")
		} else {
			f.add(WarnSameScores, path, "changes nothing: its expression reads no column, so that all candidates have the same score")
		}
	}
	return f.underlying(s.underlying, path, within, before)
}
