package strategy

import "encoding/json"

// What Plugin and Score have in common: a window of what underlying offers goes in the order of scores.
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

// explore is the bound that the argument of exploreParameter says.
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

func (b *scoredBlock) definition() *definition {
	if b.scored.Expression != nil {
		return &scoreDefinition
	}
	return &pluginDefinition
}

func (b *scoredBlock) arguments() []argument {
	s := b.scored
	var window, explore argument
	if s.Window != 0 {
		window = argument{max: uint32(s.Window), given: true}
	}
	if s.Explore != DefaultExplore {
		explore = argument{max: uint32(s.Explore), given: true}
	}
	inner := argument{blocks: []block{b.underlying}}
	if s.Expression != nil {
		return []argument{{formula: s.Expression}, window, explore, inner}
	}
	return []argument{{name: s.Plugin, version: s.Version}, {config: string(s.Config)}, window, explore, inner}
}

// branches makes the branches of underlying the candidates of one that scores them. What is around it is in them already, as
// it was handed down.
func (b *scoredBlock) branches(within scope) ([]Branch, error) {
	inner, err := b.underlying.branches(within)
	if err != nil || len(inner) == 0 {
		return nil, err
	}
	return through(0, []Branch{score(b.scored, inner)}), nil
}
