package strategy

import (
	"encoding/json"
	"strconv"
)

// Scored is what a Plugin or Score block asks for: that the candidates of its inner strategy go in the order of scores.
type Scored struct {
	Plugin     string          // its name; "" for an expression
	Version    string          // "" for the active one; otherwise a version or the first 8 or more digits of its sha256
	Config     json.RawMessage // canonical JSON object; nil: the activation's
	Expression *Expression     // of Score
	Window     int             // candidates at once, MinWindow to MaxWindow; 0: as the plugin says
	Explore    int             // every so manyth emission is the oldest candidate left, 1 to MaxExplore; 0: never
}

// MaxExplore is the largest bound on starvation that a Plugin or Score block may ask for.
const MaxExplore = 1024

// String is who scores, without window and explore, as in
//
//	Plugin deadline-first@1.2.0 {"weight":3}
//	Score priority*10 - attempts*5
func (s *Scored) String() string {
	if s.Expression != nil {
		return "Score " + s.Expression.String()
	}
	text := "Plugin " + s.Plugin
	if s.Version != "" {
		text += "@" + s.Version
	}
	if s.Config != nil {
		text += " " + string(s.Config)
	}
	return text
}

// appendKey writes all of it, but for what is as usual.
func (s *Scored) appendKey(dst []byte) []byte {
	dst = append(dst, s.String()...)
	if s.Window != 0 {
		dst = strconv.AppendInt(append(dst, " window "...), int64(s.Window), 10)
	}
	if s.Explore != DefaultExplore {
		dst = strconv.AppendInt(append(dst, " explore "...), int64(s.Explore), 10)
	}
	return dst
}
