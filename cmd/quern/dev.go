package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// devCommand runs a server whose data is thrown away.
func devCommand(a *app) *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a server with temporary data, deleted at the end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDev(cmd.Context(), a, o, func(url string) {
				say(a.out, "quern: serving %s with data that is removed at the end\n", url)
			})
		},
	}
	o.flags(c)
	return c
}

// devOptions are the few options of a server for trying things out.
type devOptions struct{ listen, logLevel string }

func (o *devOptions) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:7700", "address to serve HTTP on; loopback only; port 0 "+
		"picks a free one")
	c.Flags().StringVar(&o.logLevel, "log-level", "warn", "least severe log lines to write: debug, info, warn or error")
}

// runDev runs a server in a temporary directory until ctx ends, and removes the directory.
func runDev(ctx context.Context, a *app, o devOptions, ready func(url string)) error {
	dir, err := os.MkdirTemp("", "quern-dev-")
	if err != nil {
		return err
	}
	config, err := o.config(dir)
	if err == nil {
		err = runServer(ctx, a, config, ready)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// config is the default configuration with data in dir.
func (o *devOptions) config(dir string) (Config, error) {
	given := map[string]string{"data": dir, "listen": o.listen, "log-level": o.logLevel}
	var config Config
	for _, option := range options() {
		text, ok := given[option.name]
		source := "command"
		if !ok {
			text, source = option.value, "default"
		}
		config.settings = append(config.settings, setting{option, text, source})
		if err := option.set(&config, text); err != nil {
			return Config{}, usageError{fmt.Errorf("%s is %q but %w", option.name, text, err)}
		}
	}
	if reachable, err := config.reachable(); err != nil || reachable || config.Listen == "" {
		return Config{}, usageError{fmt.Errorf("listen is %q; a server for trying things out listens on loopback "+
			"only, such as 127.0.0.1:7700: use `quern serve` for others", given["listen"])}
	}
	return config, nil
}
