package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/wasm/manifest"
)

func pluginBuildCommand(a *app) *cobra.Command {
	var sdk, out string
	c := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a plugin with its language's own toolchain, and check it",
		Long: "Build the plugin in DIR (default: here) with the toolchain of its language. The language is Go if the directory\n" +
			"has a go.mod, Rust with Cargo.toml, AssemblyScript with asconfig.json, and C with plugin.c. Add the manifest to\n" +
			"the module, and check it against the rules of a server.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(cmp.Or(append(args, ".")[0], "."))
			if err != nil {
				return err
			}
			out = cmp.Or(out, filepath.Join(dir, filepath.Base(dir)+".wasm"))
			if err := buildPlugin(cmd.Context(), a, dir, out, sdk); err != nil {
				return err
			}
			return checkFile(a, out, "", "")
		},
	}
	c.Flags().StringVar(&sdk, "sdk", "", "a checkout of Quern, for C's header")
	c.Flags().StringVarP(&out, "out", "O", "", "the module (default DIR/NAME.wasm)")
	return c
}

func buildPlugin(ctx context.Context, a *app, dir, out, sdk string) error {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	work, err := os.MkdirTemp("", "quern-build-")
	if err != nil {
		return err
	}
	raw := filepath.Join(work, "module.wasm")
	switch {
	case has("go.mod"):
		err = buildGo(ctx, a, dir, raw)
	case has("Cargo.toml"):
		err = buildRust(ctx, a, dir, raw)
	case has("asconfig.json"):
		err = runTool(ctx, a, dir, nil, "npm", "install", "--no-audit", "--no-fund", "--silent")
		if err == nil {
			err = runTool(ctx, a, dir, nil, "npx", "--no-install", "asc", "assembly/index.ts", "--config", "asconfig.json",
				"--outFile", raw)
		}
	case has("plugin.c") && sdk == "":
		err = usageError{errors.New("--sdk is missing: C needs the header sdk/c/quern.h of a checkout of Quern")}
	case has("plugin.c"):
		err = runTool(ctx, a, dir, nil, "clang", "--target=wasm32", "-std=c11", "-O3", "-msimd128", "-mbulk-memory",
			"-ffreestanding", "-nostdlib",
			"-I"+filepath.Join(sdk, "sdk", "c"), "-Wl,--no-entry", "-Wl,-zstack-size=16384", "-o", raw, "plugin.c")
	default:
		err = usageError{fmt.Errorf("%s holds no plugin: there is no go.mod, Cargo.toml, asconfig.json or plugin.c", dir)}
	}
	var module []byte
	if err == nil {
		module, err = readAtMost(raw, maxModuleFile)
	}
	if err == nil {
		err = os.WriteFile(out, module, 0o644)
	}
	return errors.Join(err, os.RemoveAll(work))
}

// buildGo builds the module, and the same program natively, which prints the manifest.
func buildGo(ctx context.Context, a *app, dir, out string) error {
	if err := runTool(ctx, a, dir, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}, "go", "build",
		"-buildmode=c-shared", "-o", out, "."); err != nil {
		return err
	}
	list := exec.CommandContext(ctx, "go", "run", ".")
	list.Dir, list.Stderr, list.Env = dir, a.err, a.env()
	text, err := list.Output()
	if err != nil {
		return fmt.Errorf("the plugin does not print its manifest: %w", err)
	}
	return packFile(out, text, out)
}

func buildRust(ctx context.Context, a *app, dir, out string) error {
	target := out + ".target"
	if err := runTool(ctx, a, dir, []string{"CARGO_TARGET_DIR=" + target}, "cargo", "build", "--release", "--target",
		"wasm32-unknown-unknown"); err != nil {
		return err
	}
	built, err := filepath.Glob(filepath.Join(target, "wasm32-unknown-unknown", "release", "*.wasm"))
	if err != nil || len(built) != 1 {
		return fmt.Errorf("cargo made the modules %q, want one", built)
	}
	return os.Rename(built[0], out)
}

// runTool runs a program of the language, and sends its output to stderr.
func runTool(ctx context.Context, a *app, dir string, env []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stdout, c.Stderr, c.Env = dir, a.err, a.err, append(a.env(), env...)
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func pluginPackCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "pack MODULE.wasm MANIFEST.json",
		Short: "Put a manifest into a module, and replace any earlier one",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := readAtMost(args[1], manifest.MaxBytes)
			if err != nil {
				return err
			}
			return packFile(args[0], text, cmp.Or(out, args[0]))
		},
	}
	c.Flags().StringVarP(&out, "out", "O", "", "the file to write (default: MODULE.wasm itself)")
	return c
}

func packFile(from string, text []byte, to string) error {
	module, err := readAtMost(from, maxModuleFile)
	if err != nil {
		return err
	}
	if _, wrong := manifest.Parse(text); len(wrong) > 0 {
		lines := make([]string, len(wrong))
		for i, w := range wrong {
			lines[i] = w.String()
		}
		return fmt.Errorf("the manifest is not valid:\n  %s", strings.Join(lines, "\n  "))
	}
	packed, err := manifest.Pack(module, text)
	if err != nil {
		return err
	}
	return os.WriteFile(to, packed, 0o644)
}

// templates are the beginnings of plugins, by language. "dot-" at the front of a name stands for a full stop.
//
//go:embed template
var templates embed.FS

// pluginLanguages are the languages that have an SDK.
var pluginLanguages = []string{"go", "rust", "c", "assemblyscript"}

var pluginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

func pluginNewCommand(a *app) *cobra.Command {
	var language, sdk string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a new plugin in a directory of its name",
		Long: "Create a directory with a working scorer, and for Go a test of it. Build it with 'quern plugin build NAME'.\n" +
			"--sdk is a checkout of Quern, which has the SDKs in its folder sdk/. Without it, a plugin in Go uses the\n" +
			"released SDK ('go mod tidy' fetches it).",
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
