package strategy

import "encoding/json"

// Scored is what a Plugin or Score block asks for: that the candidates of its inner strategy go in the order of scores.
type Scored struct {
	Plugin     string          // its name; "" for an expression
	Version    string          // "" for the active one; otherwise a version or the first 8 or more digits of its sha256
	Config     json.RawMessage // canonical JSON object; nil: the activation's
	Expression *Expression     // of Score
	Window     int             // candidates at once, MinWindow to MaxWindow; 0: as the plugin says
	Explore    int             // every so manyth emission is the oldest candidate left, 1 to 1024; 0: never
}
