package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/web/certificate"
	"github.com/quern-queue/quern/web/trace"
)

// Config is the effective configuration of a server. options declares each value: its default, its limits and its help.
type Config struct {
	Data   string
	Listen string // HOST:PORT; "": only at Socket
	Socket string // path of a Unix socket; "": none
	Auth   bool

	Cluster ClusterConfig

	TokenLimits access.Limits // of each access token

	BackupDir   string // "": no backups are made
	BackupEvery time.Duration
	BackupKeep  int

	// How the server can be reached; checkListening says what goes together.
	MetricsListen string            // "": probes and metrics only at Listen
	TLS           certificate.Files // zero: plain HTTP, unless TLSSelfSigned
	TLSSelfSigned bool
	BehindProxy   bool // a proxy ends TLS

	AllowedHosts  []string
	LogLevel      slog.Level
	LogFormat     string
	FoldBytes     int64
	SnapshotDir   string
	SnapshotBytes int64
	BallastBytes  int64
	PluginMemory  int64         // bytes
	RecountEvery  time.Duration // negative: never
	AuditKeep     time.Duration // negative: for ever
	memoryConfig
	MetricKeys   []string
	OTLPEndpoint string
	OTLPRatio    float64
	OTLPHeaders  []trace.Header

	settings []setting // each value with its origin
}

// option is one setting of the server. Its name is that of the flag. The configuration file has '_' for '-', and the
// environment has QUERN_ and the name in capitals.
type option struct {
	name  string
	value string // the default, as text
	limit string // the allowed values, in words
	help  string // what it does: one sentence
	set   func(c *Config, text string) error
}

// otlpHeaders is the option whose value is a secret.
const otlpHeaders = "otlp-headers"

// shown is a value without its secrets.
func (o option) shown(text string) string {
	switch {
	case o.name == "cluster": // it may have a password in it
		return withoutPassword(text)
	case o.name == otlpHeaders && text != "":
		return "(hidden)"
	}
	return text
}

// options lists all settings of a server, in the order in which the help shows them.
func options() []option {
	return slices.Concat(dataOptions(), clusterOptions(), backupOptions(), listenOptions(), tokenOptions(), logOptions(), watchOptions())
}

// dataOptions are about files, and how much disk and memory they may take.
func dataOptions() []option {
	return []option{
		{
			"data", "quern-data", "a directory; created when absent; one server at a time",
			"directory for everything that must survive a restart; in a cluster only a cache, by default a temporary " +
				"directory",
			func(c *Config, text string) error { return nonEmpty(&c.Data, text) },
		},
		{
			"fold-bytes", "16MiB", "64KiB to 4GiB",
			"size of the journal at which the server makes a checkpoint; with a larger size, the server writes " +
				"less, but takes longer to start",
			func(c *Config, text string) error { return sizeBetween(&c.FoldBytes, text, 64<<10, 4<<30) },
		},
		{
			"snapshot-dir", "", "a directory outside of the data directory; empty for none",
			"where to keep snapshots of the queues' stores, on another disk; the server rebuilds a lost store from its " +
				"snapshot and the journal since then",
			func(c *Config, text string) error { c.SnapshotDir = text; return nil },
		},
		{
			"snapshot-bytes", "64MiB", "64KiB to 64GiB",
			"the server makes a snapshot when the journal has grown by this size, or by half the store's size if " +
				"that is more",
			func(c *Config, text string) error { return sizeBetween(&c.SnapshotBytes, text, 64<<10, 64<<30) },
		},
		{
			"ballast-bytes", "16MiB", "1MiB to 1GiB",
			"disk space that the server reserves so that completions succeed on a full disk; with a quarter of it " +
				"the server can start on a full disk",
			func(c *Config, text string) error { return sizeBetween(&c.BallastBytes, text, 1<<20, 1<<30) },
		},
		{
			"plugin-memory", "512MiB", "16MiB to 1024GiB",
			"memory for the sandboxes and the compiled code of all plugins; above it, the server evicts those that " +
				"have been idle longest; if a plugin gets no memory, requests use the next branch of their strategy",
			func(c *Config, text string) error { return sizeBetween(&c.PluginMemory, text, 16<<20, 1<<40) },
		},
		{
			"audit-keep", "2160h", "1h to 87600h, or 0 for ever",
			"how long to keep entries of the audit log",
			func(c *Config, text string) error { return setPeriod(&c.AuditKeep, text, time.Hour, 87600*time.Hour) },
		},
		{
			"recount-every", "1h", "1m to 168h, or 0 for never",
			"how often to recount and correct all counters, a little at a time",
			func(c *Config, text string) error {
				return setPeriod(&c.RecountEvery, text, time.Minute, 168*time.Hour)
			},
		},
	}
}

// logOptions are about the log.
func logOptions() []option {
	return []option{
		{
			"log-level", "info", "debug, info, warn or error",
			"write log lines of this level and above",
			func(c *Config, text string) error { return c.LogLevel.UnmarshalText([]byte(text)) },
		},
		{
			"log-format", "text", "text or json",
			"format of log lines",
			func(c *Config, text string) error { return oneOf(&c.LogFormat, text, "text", "json") },
		},
	}
}

// watchOptions are about memory, metrics and traces.
func watchOptions() []option {
	return []option{
		{
			"max-live-submissions", "auto", "auto, 1 to 1,000,000,000, or 0 for any number",
			"open submissions of all queues together; further inserts get 429; auto is one for every 2 KB that the " +
				"process may use",
			setMaxLive,
		},
		{
			"memory-limit", "auto", "auto, 64MiB to 1024GiB, or 0 for none",
			"memory of the process above which inserts get 429, so that the kernel does not kill the server; all other calls go on; " +
				"auto is 80 % of the least of GOMEMLIMIT, the limit of the control group and the memory of the machine",
			setMemoryLimit,
		},
		{
			"view-memory", "auto", "auto, or 16MiB to 1TiB",
			"memory for the indexes of strategies in all queues; previews and similar questions may use a quarter " +
				"of this size in addition; auto is an eighth of the least of GOMEMLIMIT, the limit of the control group and " +
				"the memory of the machine",
			setViewMemory,
		},
		{
			"metric-keys", "", "meta keys separated by commas, at most 8",
			"meta keys whose values appear in /metrics: for each key, the 50 values with the most chunks in flight, and " +
				"the sum of the others",
			setMetricKeys,
		},
		{
			"otlp-endpoint", "", "http://HOST:PORT or https://HOST:PORT of a collector, with a path or without; empty for none",
			"where to send spans of inserts, reserves and completions, as OTLP over HTTP in JSON",
			setOTLPEndpoint,
		},
		{
			"otlp-ratio", "1", "0 to 1",
			"of the requests that bring no trace context, the share for which the server starts a trace; " +
				"the others are recorded if their sampled flag is set",
			setOTLPRatio,
		},
		{
			"otlp-headers", "", "NAME=VALUE pairs separated by commas, at most 16, %2C for a comma in a value",
			"headers for the collector, such as Authorization=Bearer%20SECRET; the server never shows or logs them, but " +
				"other users of the machine can see a flag, so use the file or the environment",
			func(c *Config, text string) (err error) { c.OTLPHeaders, err = trace.ParseHeaders(text); return err },
		},
	}
}

// key is the option's name in the configuration file.
func (o option) key() string { return strings.ReplaceAll(o.name, "-", "_") }

// variable is the option's name in the environment.
func (o option) variable() string { return "QUERN_" + strings.ToUpper(o.key()) }

func nonEmpty(to *string, text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*to = text
	return nil
}

func oneOf(to *string, text string, allowed ...string) error {
	if slices.Contains(allowed, text) {
		*to = text
		return nil
	}
	return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
}

// setPeriod reads a time within bounds. 0 means no end, which the configuration has as a negative number.
func setPeriod(to *time.Duration, text string, low, high time.Duration) error {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d == 0:
		*to = -1
	case err != nil || d < low || d > high:
		return fmt.Errorf("must be a time from %s to %s, such as 90m, or 0", shortPeriod(low), shortPeriod(high))
	default:
		*to = d
	}
	return nil
}

// shortPeriod is a whole number of hours or minutes as people write it.
func shortPeriod(d time.Duration) string {
	if d%time.Hour == 0 {
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/time.Minute)) + "m"
}

func sizeBetween(to *int64, text string, low, high int64) error {
	n, err := parseSize(text)
	if err != nil {
		return err
	}
	if n < low || n > high {
		return fmt.Errorf("must be from %s to %s", formatSize(low), formatSize(high))
	}
	*to = n
	return nil
}

// parseSize reads a number of bytes: "1048576", "1024KiB", "1MiB", "1GiB".
func parseSize(text string) (int64, error) {
	digits, shift := text, 0
	for _, unit := range []struct {
		suffix string
		shift  int
	}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}} {
		if rest, ok := strings.CutSuffix(text, unit.suffix); ok {
			digits, shift = rest, unit.shift
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > 1<<62>>shift {
		return 0, errors.New("must be a number of bytes such as 1048576, 512KiB, 64MiB or 1GiB")
	}
	return n << shift, nil
}

// formatSize writes a number of bytes in the largest unit that needs no fraction.
func formatSize(n int64) string {
	for _, unit := range []struct {
		suffix string
		shift  int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n > 0 && n%(1<<unit.shift) == 0 {
			return strconv.FormatInt(n>>unit.shift, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func setMetricKeys(c *Config, text string) error {
	c.MetricKeys = nil
	for key := range strings.SplitSeq(text, ",") {
		if key = strings.TrimSpace(key); key == "" || slices.Contains(c.MetricKeys, key) {
			continue
		}
		if err := queue.ValidMetaKey(key); err != nil {
			return fmt.Errorf("has %q, which is no meta key: 1 to %d letters, digits, '_', '-' and '.'", key, queue.MaxMetaKeyBytes)
		}
		c.MetricKeys = append(c.MetricKeys, key)
	}
	if len(c.MetricKeys) > engine.MaxMetricKeys {
		return fmt.Errorf("has %d keys; at most %d are allowed, as each is up to 100 series", len(c.MetricKeys), engine.MaxMetricKeys)
	}
	return nil
}

func setOTLPEndpoint(c *Config, text string) error {
	if text != "" {
		if _, err := trace.CheckEndpoint(text); err != nil {
			return err
		}
	}
	c.OTLPEndpoint = text
	return nil
}

func setOTLPRatio(c *Config, text string) error {
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return errors.New("must be a number from 0 to 1, such as 0.01")
	}
	c.OTLPRatio = ratio
	return nil
}

func setHosts(c *Config, text string) error {
	c.AllowedHosts = nil
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if strings.ContainsAny(name, "/*: ") {
			return fmt.Errorf("has %q; a name is given without scheme, port or pattern, such as queue.example.com", name)
		}
		c.AllowedHosts = append(c.AllowedHosts, name)
	}
	if len(c.AllowedHosts) > 32 {
		return fmt.Errorf("has %d names; at most 32 are allowed", len(c.AllowedHosts))
	}
	return nil
}
