package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/backups"
)

// backupOptions are about the backups that a server makes by itself.
func backupOptions() []option {
	return []option{
		{
			"backup-dir", "", "a directory, created when absent; empty for none",
			"where the server writes its own backups; use another disk, so that the loss of one does not take both",
			func(c *Config, text string) error { c.BackupDir = text; return nil },
		},
		{
			"backup-every", "24h", "1m to 8760h",
			"how often the server makes a backup; it makes one at the start if backup-dir has none",
			func(c *Config, text string) error {
				d, err := time.ParseDuration(text)
				if err != nil || d < time.Minute || d > 8760*time.Hour {
					return fmt.Errorf("must be a time from 1m to 8760h, such as 6h")
				}
				c.BackupEvery = d
				return nil
			},
		},
		{
			"backup-keep", "7", "1 to 10,000",
			"how many of its backups the server keeps; it removes the oldest when a new one is complete",
			func(c *Config, text string) error {
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 || n > 10_000 {
					return fmt.Errorf("must be from 1 to 10,000")
				}
				c.BackupKeep = n
				return nil
			},
		},
	}
}

// checkCopies refuses a folder for backups or snapshots within the data directory: a program that removes or copies the directory
// would take them along.
func (c *Config) checkCopies() error {
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	for _, folder := range []struct{ option, path string }{{"backup-dir", c.BackupDir}, {"snapshot-dir", c.SnapshotDir}} {
		dir, err := filepath.Abs(folder.path)
		switch {
		case folder.path == "":
		case err != nil:
			return err
		case dir == data || strings.HasPrefix(dir, data+string(filepath.Separator)):
			return fmt.Errorf("%s %s is in the data directory %s: choose a folder outside of it, preferably on another disk",
				folder.option, folder.path, c.Data)
		}
	}
	return nil
}

// newBackups makes the keeper of automatic backups. It is nil if no folder for them is configured.
func newBackups(config Config, core *engine.Engine, registry *prometheus.Registry, logger *slog.Logger) (*backups.Keeper, error) {
	if config.BackupDir == "" {
		return nil, nil
	}
	return backups.New(backups.Options{
		Dir: config.BackupDir, Every: config.BackupEvery, Keep: config.BackupKeep, Now: time.Now, Logger: logger, Registerer: registry,
		Make: func(ctx context.Context) (*engine.Backup, error) {
			return core.Storage().Backup(ctx, thisVersion().Version, "", nil)
		},
	})
}
