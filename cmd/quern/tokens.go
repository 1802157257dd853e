package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// tokenCommand is the parent of the commands on access tokens.
func tokenCommand(a *app) *cobra.Command {
	tokens := resource[api.Token]{
		parent: "token", word: "ID", fields: tokenFields, offer: func(t api.Token) (string, string) { return t.ID, t.Name },
		header: []string{"ID", "NAME", "SCOPES", "QUEUES", "META", "CREATED", "EXPIRES", "LAST USED"},
		row: func(t api.Token) []string {
			return []string{t.ID, t.Name, strings.Join(t.Scopes, ","), strings.Join(t.Queues, ","),
				metaLine(t.Meta), moment(t.CreatedAt), moment(t.ExpiresAt), moment(t.LastUsedAt)}
		},
		list: does("list", "List the access tokens, the oldest first", func(ctx context.Context, c call) (all[api.Token], error) {
			return c.Tokens(ctx), nil
		}),
		one: []action[*api.Token]{does("show ID", "Show an access token, without its secret",
			func(ctx context.Context, c call) (*api.Token, error) { return c.Token(ctx, tokenID(c.args[0])) })},
		remove: does("revoke ID...", "Revoke access tokens; a missing one is no error",
			func(ctx context.Context, c call) (none, error) { return none{}, c.RevokeToken(ctx, tokenID(c.args[0])) }),
	}
	return parent(&cobra.Command{
		Use: "token", Short: "Create, list, rotate and revoke access tokens, and show your own",
		Long: "Manage access tokens, which say who may do what. Once a token exists, every request needs one. The first token\n" +
			"needs the scope admin. Commands read their token from the file of --token-file, or from the environment:\n" +
			"QUERN_TOKEN, or the file in QUERN_TOKEN_FILE.",
	}, append(tokens.commands(a), tokenNewCommand(a), tokenRotateCommand(a), whoamiCommand(a))...)
}

func tokenNewCommand(a *app) *cobra.Command {
	var asked api.NewToken
	var meta, expires, to string
	c := a.serverCommand(&cobra.Command{
		Use: "new NAME --scopes SCOPE,...", Short: "Create an access token, and show it once", Args: cobra.ExactArgs(1),
		Long: "Create an access token and print its text, which the server does not keep. The audit log records its use under " +
			"NAME.\n" +
			"The scopes are produce, consume, read, metrics, operate, plugins and admin, which implies all others.",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			asked.Name = args[0]
			if meta != "" {
				if asked.Meta, err = parseMeta([]string{meta}); err != nil {
					return err
				}
			}
			if asked.ExpiresAt, err = parseExpires(expires, time.Now()); err != nil {
				return err
			}
			return printSecret(a, to, func() (*api.Token, error) {
				c, err := a.client()
				if err != nil {
					return nil, err
				}
				return c.NewToken(cmd.Context(), &asked)
			})
		},
	})
	c.Flags().StringSliceVar(&asked.Scopes, "scopes", nil, "what the token may do, separated by commas")
	c.Flags().StringSliceVar(&asked.Queues, "queues", nil, "limit it to these queues, separated by commas (default: all)")
	c.Flags().StringVarP(&meta, "meta", "m", "", "limit it to submissions with this meta: KEY=VALUE; write KEY=s:7 for the "+
		"text \"7\" (default: all)")
	c.Flags().StringVar(&asked.Subject, "certificate-subject", "",
		"subject of a client certificate that stands for the token, such as CN=worker,O=acme, for a server with --tls-client-ca")
	c.Flags().StringVar(&expires, "expires", "",
		"when it ends by itself: a time such as 2026-01-31T12:00:00Z, or a duration from now such as 90d or 12h (default: never)")
	secretFlag(c, &to)
	return c
}

// secretFlag adds where the text of a token goes.
func secretFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "to", "", "write the token's text to this new file, which only its owner can read, "+
		"instead of showing it")
}

// printSecret shows a token with its text, or writes the text to a file. The file is made first: no token is made whose text would be lost.
func printSecret(a *app, to string, ask func() (*api.Token, error)) (err error) {
	if to == "" {
		made, err := ask()
		return printAnswer(a, made, err, tokenFields)
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	made, err := ask()
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(to))
	}
	_, err = file.WriteString(made.Token + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	made.Token = ""
	return printOne(a, *made, tokenFields)
}

func tokenRotateCommand(a *app) *cobra.Command {
	var overlap time.Duration
	var to string
	c := a.serverCommand(&cobra.Command{
		Use: "rotate ID", Short: "Give an access token a new secret, and show it once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return printSecret(a, to, func() (*api.Token, error) {
				c, err := a.client()
				if err != nil {
					return nil, err
				}
				return c.RotateToken(cmd.Context(), tokenID(args[0]), overlap)
			})
		},
	})
	c.Flags().DurationVar(&overlap, "overlap", 0,
		"how long the old secret stays valid, such as 1h, so that you can change its users one by one")
	secretFlag(c, &to)
	return c
}

// tokenID is the id of a token that is named by its id or by its text: of a leaked token only the text is at hand. The secret is not sent.
func tokenID(arg string) string {
	if proof, ok := access.ProofOf(strings.TrimSpace(arg)); ok {
		return string(proof.ID)
	}
	return arg
}

func whoamiCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use: "whoami", Short: "Show which identity the server sees in your token", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			who, err := c.Whoami(ctx)
			return printAnswer(a, who, err, func(w api.Whoami) [][2]string {
				name := w.Name
				if !w.Required {
					name = "(no token is needed)"
				}
				return [][2]string{{"name", name}, {"id", w.ID}, {"scopes", strings.Join(w.Scopes, ",")},
					{"queues", strings.Join(w.Queues, ",")}, {"meta", metaLine(w.Meta)}, {"expires", moment(w.ExpiresAt)}}
			})
		}),
	})
}

func tokenFields(t api.Token) [][2]string {
	fields := [][2]string{
		{"id", t.ID}, {"name", t.Name}, {"scopes", strings.Join(t.Scopes, ",")},
		{"queues", strings.Join(t.Queues, ",")}, {"meta", metaLine(t.Meta)},
		{"certificate subject", t.Subject}, {"created", moment(t.CreatedAt)}, {"expires", moment(t.ExpiresAt)},
		{"last used", moment(t.LastUsedAt)}, {"previous secret until", moment(t.Previous)},
	}
	if t.Token != "" {
		fields = append(fields, [2]string{"token", t.Token})
	}
	return fields
}

// parseExpires reads a time, or how long from now on, also in days; "" is none.
func parseExpires(text string, now time.Time) (api.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := time.ParseDuration(days + "h"); err == nil && n > 0 {
			return api.At(now.Add(24 * n)), nil
		}
	}
	at, err := parseUntil(text, now)
	if err != nil {
		return at, usageError{fmt.Errorf("--expires %q is neither a time like 2026-01-31T12:00:00Z nor a duration "+
			"like 90d or 12h", text)}
	}
	return at, nil
}

// tokenOptions limit the calls of one access token, and its part of the server's resources.
func tokenOptions() []option {
	return []option{
		{
			"token-rate", "200000", "1 to 1,000,000, or 0 for any number",
			"requests per second that one access token may make on average, with bursts of up to twice as many; " +
				"further requests get 429",
			func(c *Config, text string) error { return setCount(&c.TokenLimits.PerSecond, text, 1_000_000) },
		},
		{
			"token-at-once", "20000", "1 to 1,000,000, or 0 for any number",
			"requests of one access token that the server answers at the same time, including those that wait for " +
				"work; further requests get 429",
			func(c *Config, text string) error { return setCount(&c.TokenLimits.AtOnce, text, 1_000_000) },
		},
		{
			"token-body-memory", "384MiB", "128MiB to 512MiB",
			"memory that the large requests of one access token may use together while the server reads them; all " +
				"tokens share 512 MiB; a request that needs more gets 429",
			func(c *Config, text string) error { return sizeBetween(&c.TokenLimits.Bodies, text, 128<<20, 512<<20) },
		},
		{
			"token-answer-memory", "96MiB", "16MiB to 128MiB",
			"memory that the large answers to one access token may use together until the client has read them; " +
				"all tokens share 128 MiB; a request that needs more gets 429",
			func(c *Config, text string) error { return sizeBetween(&c.TokenLimits.Answers, text, 16<<20, 128<<20) },
		},
		{
			"token-view-memory", "auto", "auto, or 1MiB to 1TiB",
			"memory for the indexes that the strategies of one access token need; a request that needs more gets " +
				"429; auto is three quarters of view-memory",
			func(c *Config, text string) error { return setTokenViews(&c.TokenLimits.Views, text) },
		},
		{
			"token-submissions", "auto", "auto, 1 to 1,000,000,000, or 0 for any number",
			"open submissions that one access token inserted since the server's start; further inserts get 429; " +
				"auto is three quarters of max-live-submissions",
			func(c *Config, text string) error { return setCountOrAuto(&c.TokenLimits.Submissions, text) },
		},
		{
			"token-meta-values", "auto", "auto, 1 to 1,000,000,000, or 0 for any number",
			"new values of metadata that one access token may introduce; a value counts until the last open submission " +
				"with it ends, or the server restarts; inserts with further values get 429; auto is the same as " +
				"token-submissions",
			func(c *Config, text string) error { return setCountOrAuto(&c.TokenLimits.Values, text) },
		},
		{
			"token-consumers", "15000", "1 to 1,000,000, or 0 for any number",
			"consumers that one access token may attach; a queue accepts 20,000 from all tokens together; further " +
				"ones get 429",
			func(c *Config, text string) error { return setCount(&c.TokenLimits.Consumers, text, 1_000_000) },
		},
	}
}

// worked is a number that tokenLimits works out from other options.
const worked = -1

func setCountOrAuto(to *int, text string) error {
	if text == auto {
		*to = worked
		return nil
	}
	if setCount(to, text, maxLive) != nil {
		return fmt.Errorf("must be auto, or a whole number from 0 to %d", maxLive)
	}
	return nil
}

func setTokenViews(to *int64, text string) error {
	if text == auto {
		*to = worked
		return nil
	}
	if sizeBetween(to, text, 1<<20, maxViewMemory) != nil {
		return errors.New("must be auto, or from 1MiB to " + formatSize(maxViewMemory))
	}
	return nil
}

// tokenLimits are the limits of one access token. Where the options leave a limit to the server, it is three quarters of the limit of all,
// so that there is room for others.
func (c *Config) tokenLimits() access.Limits {
	limits := c.TokenLimits
	limits.Rules = queue.MaxRules / 4 * 3
	limits.Bulks = queue.MaxBulkRunning / 4 * 3
	if limits.Views == worked {
		limits.Views = c.ViewMemory / 4 * 3
	}
	if limits.Submissions == worked {
		limits.Submissions = int(c.MaxLive - c.MaxLive/4)
	}
	if limits.Values == worked {
		limits.Values = limits.Submissions
	}
	return limits
}

// setCount takes a whole number; 0 is no limit.
func setCount(to *int, text string, most int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return fmt.Errorf("must be a whole number from 0 to %d", most)
	}
	*to = n
	return nil
}
