package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/sdk/api"
)

// maxConfigBytes bounds the configuration file: it holds a handful of lines.
const maxConfigBytes = 1 << 20

// setting is an option with the value it got and where that came from.
type setting struct {
	option
	text   string
	source string
}

// gave says that someone gave a value to an option.
func (c *Config) gave(name string) bool {
	return slices.ContainsFunc(c.settings, func(s setting) bool { return s.name == name && s.source != "default" })
}

// configFlags adds --config and one flag for every option.
func (a *app) configFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.String("config", "", "YAML file with options, such as `quern.yaml` (environment QUERN_CONFIG); flags "+
		"override the environment, which "+
		"overrides the file")
	for _, o := range options() {
		flags.String(o.name, o.value, o.help+" ("+o.limit+"; environment "+o.variable()+")")
		if o.limit == trueOrFalse {
			flags.Lookup(o.name).NoOptDefVal = "true"
		}
	}
}

// loadConfig puts the configuration together: defaults, then the file, then the environment, then the flags. It
// reports every value that is not allowed, not only the first.
func (a *app) loadConfig(flags *pflag.FlagSet) (Config, error) {
	path, err := flags.GetString("config")
	if err != nil {
		return Config{}, err
	}
	path = cmp.Or(path, a.getenv("QUERN_CONFIG"))
	all := options()
	merged, sources, err := a.layers(flags, path, all)
	if err != nil {
		return Config{}, err
	}
	var config Config
	var wrong []error
	for _, o := range all {
		s := setting{option: o, text: textOf(merged.Get(o.key())), source: sources[o.key()]}
		if err := o.set(&config, s.text); err != nil {
			wrong = append(wrong, fmt.Errorf("%s is %q (from the %s) but %w", o.name, o.shown(s.text), s.source, err))
		}
		config.settings = append(config.settings, s)
	}
	if len(wrong) == 0 {
		wrong = append(wrong, config.checkListening(), config.checkCopies(), config.checkCluster())
	}
	if err := errors.Join(wrong...); err != nil {
		return Config{}, usageError{err}
	}
	return config, nil
}

// layers reads the four layers and says for each key which one had the last word.
func (a *app) layers(flags *pflag.FlagSet, path string, all []option) (*koanf.Koanf, map[string]string, error) {
	merged := koanf.New(".")
	sources := map[string]string{}
	load := func(source string, provider koanf.Provider, parser koanf.Parser) error {
		layer := koanf.New(".")
		if err := layer.Load(provider, parser); err != nil {
			return err
		}
		for _, key := range layer.Keys() {
			if !slices.ContainsFunc(all, func(o option) bool { return o.key() == key }) {
				return fmt.Errorf("there is no option %q; `quern config show` lists them all", key)
			}
			sources[key] = source
		}
		return merged.Merge(layer)
	}
	defaults := map[string]any{}
	for _, o := range all {
		defaults[o.key()] = o.value
	}
	if err := load("default", confmap.Provider(defaults, ""), nil); err != nil {
		return nil, nil, err
	}
	if path != "" {
		if info, err := os.Stat(path); err == nil && info.Size() > maxConfigBytes {
			return nil, nil, usageError{fmt.Errorf("the configuration file %s has %d bytes; at most %d are read", path,
				info.Size(), maxConfigBytes)}
		}
		if err := load("file "+path, file.Provider(path), yaml.Parser()); err != nil {
			return nil, nil, usageError{fmt.Errorf("the configuration file %s cannot be used: %w", path, err)}
		}
	}
	if err := load("environment", env.Provider(".", env.Opt{EnvironFunc: a.env, TransformFunc: optionVariable(all)}), nil); err != nil {
		return nil, nil, err
	}
	changed := posflag.ProviderWithValue(flags, ".", nil, func(name, value string) (string, any) {
		if name == "config" || !slices.ContainsFunc(all, func(o option) bool { return o.name == name }) {
			return "", nil
		}
		return strings.ReplaceAll(name, "-", "_"), value
	})
	if err := load("flag", changed, nil); err != nil {
		return nil, nil, err
	}
	return merged, sources, nil
}

// optionVariable maps the environment variables that are options to their keys and drops all others.
func optionVariable(all []option) func(name, value string) (string, any) {
	return func(name, value string) (string, any) {
		for _, o := range all {
			if o.variable() == name {
				return o.key(), value
			}
		}
		return "", nil
	}
}

// textOf is a value from YAML, the environment or a flag as text; a list becomes its parts with commas between.
func textOf(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	parts := make([]string, len(list))
	for i, part := range list {
		parts[i] = fmt.Sprint(part)
	}
	return strings.Join(parts, ",")
}

// serverOptions are the options with their values: of the server that runs, or of one that would be started here.
func serverOptions(a *app, cmd *cobra.Command, running bool) ([]api.ServerOption, error) {
	if running {
		c, err := a.client()
		if err != nil {
			return nil, err
		}
		return c.ServerOptions(cmd.Context())
	}
	config, err := a.loadConfig(cmd.Flags())
	return config.shown(), err
}

// shown are the options as they may be shown to everybody.
func (c *Config) shown() []api.ServerOption {
	out := make([]api.ServerOption, len(c.settings))
	for i, s := range c.settings {
		out[i] = api.ServerOption{Option: s.key(), Value: s.option.shown(s.text), Source: s.source, Default: s.value,
			Limit: s.limit, Help: s.help}
	}
	return out
}

// configCommand shows what a server started here and now would use.
func configCommand(a *app) *cobra.Command {
	var running bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print every option with its effective value, origin, limits and meaning",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := serverOptions(a, cmd, running)
			if err != nil {
				return err
			}
			return printList(a, rows, []string{"OPTION", "VALUE", "SOURCE", "LIMIT", "WHAT IT DOES"}, func(r api.ServerOption) []string {
				return []string{r.Option, r.Value, r.Source, r.Limit, r.Help}
			})
		},
	}
	a.clientFlags(show)
	a.configFlags(show)
	show.Flags().BoolVar(&running, "running", false, "show the options of the server at --server, instead of those "+
		"of a server started here")
	a.formatFlag(show, formatTable, formatJSON, formatJSONL)
	return parent(&cobra.Command{Use: "config", Short: "Show the server's options"}, show, configExampleCommand(a))
}
