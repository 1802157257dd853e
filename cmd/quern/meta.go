package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// parseMeta reads the pairs of --meta: k=v, where v is an integer when it parses as an int64. k=s:v is always the text
// after "s:".
func parseMeta(pairs []string) (api.Meta, error) { return parsePairs("--meta", pairs, queue.NewMeta) }

// contextFlag is what plugins may know of the consumer that reserves: pairs as --meta takes them.
type contextFlag []string

func (f *contextFlag) flag(c *cobra.Command) {
	c.Flags().StringArrayVar((*[]string)(f), "context", nil,
		"context for plugins: `KEY=VALUE`, as for --meta of submit; repeatable")
}

func (f *contextFlag) read() (api.Meta, error) { return parsePairs("--context", *f, queue.NewContext) }

// parsePairs reads the pairs of a flag and has them checked before anything is sent.
func parsePairs(flag string, pairs []string, check func([]queue.MetaEntry) (queue.Meta, error)) (api.Meta, error) {
	entries := make([]queue.MetaEntry, 0, len(pairs))
	meta := make(api.Meta, len(pairs))
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("%s %q is not KEY=VALUE", flag, pair)}
		}
		value := parseMetaValue(text)
		meta[key] = value
		entries = append(entries, queue.MetaEntry{Key: key, Value: value})
	}
	if _, err := check(entries); err != nil { // says what is wrong before anything is sent
		return nil, usageError{fmt.Errorf("%s is wrong: %w", flag, err)}
	}
	return meta, nil
}

func parseMetaValue(text string) api.MetaValue {
	if forced, ok := strings.CutPrefix(text, "s:"); ok {
		return api.Text(forced)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return api.Int(n)
	}
	return api.Text(text)
}

// metaText is a value the way --meta takes it: what parseMetaValue would read back.
func metaText(v api.MetaValue) string {
	if !v.IsInt() && parseMetaValue(v.Text()) != v {
		return "s:" + v.Text()
	}
	return v.String()
}

// metaLine is metadata in one line, sorted by key.
func metaLine(meta api.Meta) string {
	parts := make([]string, 0, len(meta))
	for key, value := range meta {
		parts = append(parts, key+"="+metaText(value))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
