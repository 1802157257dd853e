package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

// templates are the beginnings of plugins, by language. "dot-" at the front of a name stands for a full stop.
//
//go:embed template
var templates embed.FS

// pluginLanguages are the languages that there is an SDK for.
var pluginLanguages = []string{"go", "rust", "c", "assemblyscript"}

var pluginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

func pluginNewCommand(a *app) *cobra.Command {
	var language, sdk string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a new plugin in a directory of its name",
		Long: "Create a directory with a working scorer, and for Go a test of it. Build it with 'quern plugin build NAME'. " +
			"--sdk is a checkout of\n" +
			"Quern, which has the SDKs in its folder sdk/. Without it, a plugin in Go takes the released SDK ('go mod tidy' " +
			"fetches it).",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case !pluginName.MatchString(name):
				return usageError{fmt.Errorf("NAME is %q; it must be 1 to 64 lower-case letters, digits and '-', a letter first", name)}
			case !slices.Contains(pluginLanguages, language):
				return usageError{fmt.Errorf("--lang is %q; it must be one of %s", language, strings.Join(pluginLanguages, ", "))}
			case sdk == "" && language != "go":
				return usageError{fmt.Errorf("--sdk is missing: a plugin in %s needs the SDK of a checkout of Quern", language)}
			}
			if sdk != "" {
				full, err := filepath.Abs(sdk)
				if err != nil {
					return err
				}
				if _, err := os.Stat(filepath.Join(full, "sdk")); err != nil {
					return usageError{fmt.Errorf("--sdk is %q, which is no checkout of Quern: it has no folder sdk", sdk)}
				}
				sdk = full
			}
			if err := writePlugin(name, language, sdk); err != nil {
				return err
			}
			say(a.out, "quern: %s is begun in %s. Next:\n", name, language)
			if language == "go" {
				say(a.out, "  (cd %s && go mod tidy && go test ./...)\n", name)
			}
			build := "quern plugin build " + name
			if language == "c" {
				build += " --sdk " + shellWord(sdk) // its header is there
			}
			say(a.out, "  %s\n  quern plugin push %s/%s.wasm --activate\n", build, name, name)
			return nil
		},
	}
	c.Flags().StringVar(&language, "lang", "go", strings.Join(pluginLanguages, ", "))
	c.Flags().StringVar(&sdk, "sdk", "", "a checkout of Quern, for its SDKs")
	return c
}

// shellWord writes text so that a shell reads it as one word.
func shellWord(text string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`).MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// writePlugin fills in the templates of a language.
func writePlugin(name, language, sdk string) error {
	if err := os.Mkdir(name, 0o755); err != nil {
		return err
	}
	values := struct{ Name, SDK, Release string }{name, sdk, released()}
	from := "template/" + language
	return fs.WalkDir(templates, from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(path)
		if err != nil {
			return err
		}
		filled, err := template.New(path).Parse(string(text))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := filled.Execute(&out, values); err != nil {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(path, from+"/"), ".tmpl")
		to = filepath.Join(name, filepath.FromSlash(strings.ReplaceAll("/"+to, "/dot-", "/.")[1:]))
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), writeNew(to, out.Bytes()))
	})
}

// released is the version of the SDK that a plugin asks for: this program's, or none where it was not released.
func released() string {
	if v := webVersion().Version; regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(v) {
		return v
	}
	return "v0.0.0"
}
