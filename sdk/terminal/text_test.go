package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

const hostile = "a\x1b[2J\u009b1m\r\nb\t\x00\x7f\u202ec\u2028\U000e0041 日本 é"

// No character that steers a terminal passes, and those that can be seen do.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	var written strings.Builder
	if n, err := (Writer{&written}).Write([]byte(hostile)); n != len(hostile) || err != nil {
		t.Errorf("wrote %d of %d bytes: %v", n, len(hostile), err)
	}
	for name, test := range map[string]struct{ got, want string }{
		"text":    {Text(hostile), `a\x1b[2J\u009b1m\r\nb\t\x00\x7f\u202ec\u2028\U000e0041 日本 é`},
		"lines":   {Lines(hostile), `a\x1b[2J\u009b1m\r` + "\n  " + `b\t\x00\x7f\u202ec\u2028\U000e0041 日本 é`},
		"writer":  {written.String(), `a\x1b[2J\u009b1m\r` + "\nb\t" + `\x00\x7f\u202ec\u2028\U000e0041 日本 é`},
		"invalid": {Text("a\xffb"), "a\ufffdb"},
		"plain":   {Text("plain"), "plain"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %q, want %q", name, test.got, test.want)
		}
	}
}

// JSON keeps its meaning.
func TestJSONMeansTheSame(t *testing.T) {
	t.Parallel()
	encoded, err := json.MarshalIndent([]string{hostile}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	shown, again := JSON(string(encoded)), []string{}
	if err := json.Unmarshal([]byte(shown), &again); err != nil || again[0] != hostile {
		t.Errorf("%s reads as %q, %v", shown, again, err)
	}
	if strings.ContainsAny(shown, "\u009b\u202e\x7f\U000e0041") {
		t.Errorf("%q has characters that cannot be seen", shown)
	}
}
