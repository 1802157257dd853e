package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// load puts a configuration together from the text of a file, an environment and flags.
func load(t *testing.T, file string, env, args []string) (Config, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "quern.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, env: func() []string { return env }}
	var c cobra.Command
	a.configFlags(&c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatalf("flags %q: %v", args, err)
	}
	config, err := a.loadConfig(c.Flags())
	return config, err
}

// Every default is allowed by its own option, and the help of every option has its range and its
// effect.
func TestDefaults(t *testing.T) {
	t.Parallel()
	config, err := load(t, "", nil, nil)
	if err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	if config.Listen != "127.0.0.1:7700" || config.FoldBytes != 16<<20 || config.RecountEvery != time.Hour || config.AllowedHosts != nil {
		t.Errorf("defaults = %+v", config)
	}
	for _, o := range options() {
		if o.limit == "" || o.help == "" {
			t.Errorf("option %s has no limit or no sentence", o.name)
		}
	}
}

// The file wins over the defaults, the environment over the file, a flag over all.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := "data: /from/file\nfold_bytes: 2MiB\nallowed_hosts: [a.example, b.example]\nballast_bytes: 5MiB\n"
	config, err := load(t, file, []string{"QUERN_FOLD_BYTES=3MiB", "QUERN_BALLAST_BYTES=6MiB", "QUERN_SERVER=http://x", "OTHER=1"}, []string{"--ballast-bytes", "7MiB"})
	if err != nil {
		t.Fatal(err)
	}
	if config.Data != "/from/file" || config.FoldBytes != 3<<20 || config.BallastBytes != 7<<20 || strings.Join(config.AllowedHosts, " ") != "a.example b.example" {
		t.Errorf("got %+v", config)
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		env  []string
		args []string
		want string
	}{
		"another machine's address":     {args: []string{"--listen", "0.0.0.0:7700"}, want: "which other machines can reach"},
		"no port":                       {args: []string{"--listen", "127.0.0.1"}, want: "HOST:PORT"},
		"a port too large":              {args: []string{"--listen", "127.0.0.1:77000"}, want: "0 to 65535"},
		"too small":                     {env: []string{"QUERN_BALLAST_BYTES=1KiB"}, want: "from the environment"},
		"too large":                     {file: "fold_bytes: 5GiB\n", want: "from 64KiB to 4GiB"},
		"no size":                       {file: "fold_bytes: lots\n", want: "number of bytes"},
		"no meta key":                   {args: []string{"--metric-keys", "company,a b"}, want: "no meta key"},
		"too many meta keys":            {args: []string{"--metric-keys", "a,b,c,d,e,f,g,h,i"}, want: "at most 8"},
		"no collector":                  {args: []string{"--otlp-endpoint", "127.0.0.1:4318"}, want: "http://HOST:PORT"},
		"no share":                      {args: []string{"--otlp-ratio", "1.5"}, want: "0 to 1"},
		"recounts all the time":         {args: []string{"--recount-every", "1s"}, want: "1m to 168h"},
		"recounts at no time":           {args: []string{"--recount-every", "often"}, want: "1m to 168h"},
		"memory for no view":            {args: []string{"--view-memory", "1MiB"}, want: "auto, or from 16MiB to 1TiB"},
		"submissions in words":          {args: []string{"--max-live-submissions", "many"}, want: "1 to 1,000,000,000"},
		"a header without a value":      {env: []string{"QUERN_OTLP_HEADERS=Authorization"}, want: "has no header's name and a '='"},
		"a header that is ours":         {args: []string{"--otlp-headers", "content-type=a"}, want: "has Content-Type, which the server sets itself"},
		"empty data":                    {args: []string{"--data", ""}, want: "must not be empty"},
		"unknown level":                 {args: []string{"--log-level", "loud"}, want: "log-level"},
		"unknown format":                {args: []string{"--log-format", "xml"}, want: "must be one of text, json"},
		"unknown key in the file":       {file: "lisen: 127.0.0.1:1\n", want: `there is no option "lisen"`},
		"file that is not YAML":         {file: "a: b: c\n", want: "cannot be used"},
		"nested value":                  {file: "data:\n  dir: x\n", want: `there is no option "data.dir"`},
		"file that does not exist":      {args: []string{"--config", "/nonexistent/quern.yaml"}, want: "no such file"},
		"host with a scheme":            {args: []string{"--allowed-hosts", "http://a"}, want: "without scheme"},
		"two wrong options, both named": {args: []string{"--fold-bytes", "1", "--log-format", "xml"}, want: "log-format"},
	} {
		_, err := load(t, test.file, test.env, test.args)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "17": 17, "17B": 17, "2KiB": 2048, "64MiB": 64 << 20, "4 GiB": 4 << 30} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "MiB", "9999999999GiB", "1TB", "99999999999999999999"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0B", 17: "17B", 2048: "2KiB", 64 << 20: "64MiB", 3 << 30: "3GiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", n, got, want)
		}
	}
}
