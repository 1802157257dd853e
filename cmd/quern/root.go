package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what the commands share: where to read and print, and how to reach a server.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func() []string // NAME=value pairs, as os.Environ returns them

	server    string                 // --server
	tokenFile string                 // --token-file
	tokenFrom string                 // the option or variable that gave the token; "": none was sent
	trust     trust                  // --server-ca, --server-fingerprint, --client-cert, --client-key
	timeout   time.Duration          // --request-timeout; 0: the command's own
	queue     string                 // --queue
	format    string                 // --output
	quiet     bool                   // --quiet
	abort     atomic.Pointer[func()] // called before a second signal ends the process
	asked     bool                   // a server was called, so that errors of the network are about that server
	offered   map[string]lister      // listers for the arguments of resources' commands
	started   bool                   // a command's own code began to run: later errors are not errors of usage
}

// run parses and runs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var unwritten *fs.PathError // of completion and --version, which cobra prints
	if err != nil && !a.started && !errors.As(err, &unwritten) {
		err = usageError{err}
	}
	return a.report(err)
}

// newRoot is the command tree. A new command is one line here.
func (a *app) newRoot() *cobra.Command {
	a.offered = map[string]lister{}
	root := parent(&cobra.Command{
		Use:   "quern",
		Short: "A queue server for very large batches of work",
		Long: "Quern is a queue server for very large batches of work, and the tools around it.\n\n" +
			"Start a server with temporary data:             quern dev\n" +
			"Watch a server with made-up work:               quern demo\n" +
			"Insert the lines of a file as chunks:           quern submit < lines.txt\n" +
			"Run a command for every chunk:                  quern work -- ./process {}\n\n" + exitCodesHelp,
		Version:       thisVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetVersionTemplate("quern {{.Version}}\n")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "The server:"},
		&cobra.Group{ID: groupWork, Title: "Work:"},
		&cobra.Group{ID: groupLook, Title: "Monitoring and operating:"},
	)
	add(root, groupServer, serveCommand(a), devCommand(a), demoCommand(a), configCommand(a),
		healthCommand(a), backupCommand(a), restoreCommand(a), checkCommand(a), inspectCommand(a), repairCommand(a))
	add(root, groupWork, submitCommand(a), workCommand(a), reserveCommand(a), completeCommand(a), failCommand(a),
		extendCommand(a), releaseCommand(a))
	add(root, groupLook, getCommand(a), listCommand(a), watchCommand(a), topCommand(a), waitCommand(a), endsCommand(a),
		outputsCommand(a), priorityCommand(a),
		cancelCommand(a), deleteCommand(a), deadCommand(a), retriesCommand(a), bulkCommand(a), rulesCommand(a), lifecycleCommand(a),
		consumersCommand(a), reservationsCommand(a),
		statsCommand(a), durationsCommand(a), queueCommand(a), keysCommand(a), strategyCommand(a), pluginCommand(a),
		previewCommand(a), explainCommand(a), whyCommand(a), diagnoseCommand(a), compareCommand(a))
	add(root, groupLook, schedulesCommand(a), ledgersCommand(a), viewsCommand(a), mapCommand(a), tokenCommand(a), auditCommand(a),
		nodesCommand(a), moveCommand(a), groupsCommand(a), shardsCommand(a))
	root.AddCommand(compileChildCommand(a), manCommand(a), versionCommand(a))
	a.markStart(root)
	suggest(root)
	completions(a, root, argumentLists(a.offered), flagLists(a.offered))
	root.InitDefaultCompletionCmd()
	unmark(root)
	return root
}

// unmark takes the marks of Markdown from the help of the commands that cobra makes: a terminal shows them as they are.
func unmark(c *cobra.Command) {
	c.Long = strings.ReplaceAll(c.Long, "#### ", "")
	for _, sub := range c.Commands() {
		unmark(sub)
	}
}

const (
	groupServer = "server"
	groupWork   = "work"
	groupLook   = "look"
)

func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// parent is a command that only has others below it; alone it shows its help.
func parent(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	c.AddCommand(below...)
	return c
}

// markStart makes every command check its arguments, and note that its own code began, which separates a wrong command line from a failure.
func (a *app) markStart(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := checkGiven(cmd, args); err != nil {
				return err
			}
			a.started = true
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		a.markStart(sub)
	}
}

// onAbort sets what must be done before a second signal ends the process.
func (a *app) onAbort(do func()) { a.abort.Store(&do) }

// getenv reads one environment variable.
func (a *app) getenv(name string) string {
	value := ""
	for _, pair := range a.env() { // the last one counts, as it does for a shell
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			value = v
		}
	}
	return value
}

// clientFlags adds the flags of every command that talks to a server.
func (a *app) clientFlags(c *cobra.Command) {
	c.Flags().StringVar(&a.server, "server", "",
		"address of the server, such as http://127.0.0.1:7700, or of several nodes of a cluster, separated by commas "+
			"(environment QUERN_SERVER; default "+defaultServer+")")
	a.trust.flags(c)
	c.Flags().StringVar(&a.tokenFile, "token-file", "",
		"file with the access token (environment QUERN_TOKEN_FILE, or the token itself in QUERN_TOKEN)")
	c.Flags().DurationVar(&a.timeout, "request-timeout", 0, "time limit of each attempt of a request, "+
		"plus any time for which the server waits for work: 1ms to 1h (0: 10s for most "+
		"commands, 30s for submit, work and plugins, 5s for health and top)")
}

// queueFlags adds the server's flags and --queue.
func (a *app) queueFlags(c *cobra.Command) {
	a.clientFlags(c)
	a.queueFlag(c)
}

func (a *app) queueFlag(c *cobra.Command) {
	c.Flags().StringVarP(&a.queue, "queue", "Q", "", "name of the queue (environment QUERN_QUEUE; default \"default\")")
}

// serverCommand is a command that asks a server, and prints its answer in one of the usual formats.
func (a *app) serverCommand(c *cobra.Command) *cobra.Command {
	a.clientFlags(c)
	a.formatFlag(c)
	return c
}

// queueCommand is a serverCommand about a queue.
func (a *app) queueCommand(c *cobra.Command) *cobra.Command {
	a.queueFlags(c)
	a.formatFlag(c)
	return c
}

// quietFlag adds --quiet to a command that shows progress.
func (a *app) quietFlag(c *cobra.Command) {
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "show no progress")
}

const defaultServer = "http://127.0.0.1:7700"

// serverURL is where the server is, for messages.
func (a *app) serverURL() string { return strings.Join(a.serverURLs(), ",") }

// serverURLs are the addresses of the server, or of several that serve the same queues: the flag, else the environment, else the default.
func (a *app) serverURLs() []string {
	list := strings.Split(cmp.Or(a.server, a.getenv("QUERN_SERVER"), defaultServer), ",")
	for i, url := range list {
		url = strings.TrimSpace(url)
		if !strings.Contains(url, "://") && !strings.HasPrefix(url, socketScheme) { // people type host:port
			scheme := "http://"
			if a.trusted() != (trust{}) {
				scheme = "https://"
			}
			url = scheme + url
		}
		list[i] = strings.TrimRight(url, "/")
	}
	return list
}

// queueName is the queue to use: the flag, else the environment, else "default".
func (a *app) queueName() string { return cmp.Or(a.queue, a.getenv("QUERN_QUEUE"), "default") }

// emptyMeans are the flags whose empty text means something. All others are most often a variable of a shell that is not set: taken for
// "not given", it would be a filter that keeps everything, or a token for all queues.
var emptyMeans = []string{
	"attachment", "error", "output-text", "reason", // a text of no bytes
	"dead-letter-queue", // none any more
}

// namesFiles are the flags whose values name files, which may be any bytes.
var namesFiles = []string{
	"client-cert", "client-key", "config", "data", "file", "jsonl", "manifest", "out", "rows", "sdk", "server-ca", "since", "to",
	"token-file", "work",
}

// checkGiven refuses flags that were given empty, and text that JSON cannot carry: it would reach the server changed.
func checkGiven(c *cobra.Command, args []string) (err error) {
	asks := c.Flags().Lookup("server") != nil
	serves := c.Flags().Lookup("fold-bytes") != nil // options say themselves what they mean when they are empty
	c.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		slice, many := f.Value.(pflag.SliceValue)
		empty := text == "" && f.NoOptDefVal == "" || many && len(slice.GetSlice()) == 0 // not a switch
		switch {
		case err != nil:
		case empty && (!serves || f.Name == "config") && !slices.Contains(emptyMeans, f.Name):
			err = fmt.Errorf("--%s is empty: give it a value, or leave it out", f.Name)
		case many && asks:
			err = checkText("--"+f.Name, slice.GetSlice()...)
		case asks && !slices.Contains(namesFiles, f.Name):
			err = checkText("--"+f.Name, text)
		}
	})
	if err != nil || !asks || strings.Contains(c.Use, "FILE") || strings.Contains(c.Use, "COMMAND") {
		return err
	}
	return checkText("the argument", args...)
}

func checkText(of string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s %q is not UTF-8: the server takes text as UTF-8", of, text)
		}
	}
	return nil
}
