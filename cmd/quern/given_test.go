package main

import (
	"io"
	"strings"
	"testing"
)

// A command refuses an empty flag and text that is not UTF-8 before it asks a server. An empty flag is most often a variable that is not
// set. Text that is not UTF-8 would be changed on its way. File names may be any bytes.
func TestCheckGiven(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code int
		line []string
		want string
	}{
		{exitUsage, []string{"stats", "--queue", ""}, "--queue is empty: give it a value, or leave it out"},
		{exitUsage, []string{"stats", "--queue="}, "--queue is empty"},
		{exitUsage, []string{"stats", "--server", ""}, "--server is empty"},
		{exitUsage, []string{"token", "new", "x", "--scopes", "read", "--queues", ""}, "--queues is empty"},
		{exitUsage, []string{"token", "new", "x", "--scopes", "read", "--expires", ""}, "--expires is empty"},
		{exitUsage, []string{"bulk", "run", "cancel", "--state", ""}, "--state is empty"},
		{exitUsage, []string{"dead", "delete", "--fingerprint", "", "--submission", "7529572615950696448"}, "--fingerprint is empty"},
		{exitUsage, []string{"serve", "--config", ""}, "--config is empty"},
		{exitUsage, []string{"submit", "--count", "1", "--template", "x", "--meta", "k=a\xffb"}, `--meta "k=a\xffb" is not UTF-8`},
		{exitUsage, []string{"submit", "--count", "1", "--template", "x\xff"}, `--template "x\xff" is not UTF-8`},
		{exitUsage, []string{"reserve", "--consumer", "\xe9"}, `--consumer "\xe9" is not UTF-8`},
		{exitUsage, []string{"keys", "set", "company", "\xe9", "--limit", "1"}, `the argument "\xe9" is not UTF-8`},
		{exitUsage, []string{"stats", "--token-file", "/\xe9"}, "no such file"},
		{exitFailure, []string{"submit", "/\xe9"}, "no such file"},
		{exitUnreachable, []string{"fail", hostileToken, "--error", ""}, "no server answers"},
		{exitUnreachable, []string{"queue", "set", "x", "--dead-letter-queue", ""}, "no server answers"},
	} {
		var said strings.Builder
		a := &app{in: strings.NewReader(""), out: io.Discard, err: &said, env: func() []string { return []string{"QUERN_SERVER=127.0.0.1:1"} }}
		if code := a.run(t.Context(), tc.line); code != tc.code || !strings.Contains(said.String(), tc.want) {
			t.Errorf("quern %q: exit code %d, want %d and %q; it said: %s", tc.line, code, tc.code, tc.want, said.String())
		}
	}
}
