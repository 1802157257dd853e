package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// objectsProgram keeps chunks in object storage. It is a program of its own because it carries the SDKs of three clouds.
const objectsProgram = "quern-objects"

// objectsFlag adds the flag that names a bucket. A command with it is carried out by quern-objects, in this process's place: signals
// and the exit code are those of the caller's command.
func objectsFlag(a *app, c *cobra.Command, name, about string) {
	bucket := c.Flags().String(name, "", about)
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed(name) {
			return run(cmd, args)
		}
		program, err := findObjectsProgram()
		if err != nil {
			return usageError{fmt.Errorf("--%s needs %w", name, err)}
		}
		given := append([]string{cmd.Name(), "--bucket=" + *bucket}, flagsBut(cmd.Flags(), name, "server-ca", "token-file")...)
		becomes := exec.CommandContext(context.WithoutCancel(cmd.Context()), program, append(append(given, "--"), args...)...)
		becomes.Env = append(a.env(), objectsTrust(a)...)
		return fmt.Errorf("%s cannot be run: %w", program, syscall.Exec(program, becomes.Args, becomes.Environ()))
	}
}

// findObjectsProgram looks beside this program, then in the PATH.
func findObjectsProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), objectsProgram)); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath(objectsProgram)
	if err != nil {
		return "", errors.New("the program " + objectsProgram + ", which is neither beside quern nor in the PATH: " +
			"'make objects' builds it, and every release has it")
	}
	return found, nil
}

// flagsBut are the flags of a command line in their long form, without some.
func flagsBut(flags *pflag.FlagSet, but ...string) (list []string) {
	without := " " + strings.Join(but, " ") + " "
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			if !strings.Contains(without, " "+f.Name+" ") {
				list = append(list, "--"+f.Name+"="+value)
			}
		}
	})
	return list
}

// objectsTrust is the environment that quern-objects has no flags for: the servers to trust, and the access token.
func objectsTrust(a *app) (env []string) {
	if a.trust.ca != "" {
		env = append(env, "QUERN_SERVER_CA="+a.trust.ca)
	}
	if a.tokenFile != "" {
		env = append(env, "QUERN_TOKEN=", "QUERN_TOKEN_FILE="+a.tokenFile)
	}
	return env
}
