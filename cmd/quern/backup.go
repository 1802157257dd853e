package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/backups"
	"github.com/quern-queue/quern/sdk/client"
)

// backupCommand makes a backup of a running server.
func backupCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "backup FILE|-", Short: "Make a backup of a running server", Args: cobra.ExactArgs(1),
		Long: "Make a backup of everything a running server keeps, as of one moment, while work goes on. It is checked " +
			"while it is written: FILE appears\nwhen all of it is there and on the disk, and takes the place of an older one. " +
			"With \"-\" it goes to standard output; it is whole when\nthe exit code is 0. It is as secret as the data directory.",
		Example: "  quern backup /backups/quern.tar\n  quern backup - | zstd > quern.tar.zst",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return writeBackup(cmd.Context(), a, a.out)
			}
			return backups.WriteFile(args[0], func(w io.Writer) error { return writeBackup(cmd.Context(), a, w) })
		},
	}
	a.clientFlags(c)
	a.quietFlag(c)
	return c
}

// writeBackup writes a backup to w, and checks it.
func writeBackup(ctx context.Context, a *app, w io.Writer) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	tar, size, err := client.Backup(ctx, c)
	if err != nil {
		return err
	}
	defer tar.Close()
	shown := a.newProgress("bytes", size, time.Now)
	_, err = archive.Read(io.TeeReader(&shownReader{r: tar, shown: shown}, w), archive.Reader{})
	shown.End()
	if err != nil {
		return fmt.Errorf("the backup is not whole: %w", err)
	}
	return nil
}

// shownReader shows how much of it was read.
type shownReader struct {
	r     io.Reader
	shown *progress
	n     int64
}

func (s *shownReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.n += int64(n)
	s.shown.Set(s.n, "")
	return n, err
}

// restoreCommand makes a data directory of a backup.
func restoreCommand(a *app) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "restore FILE|-", Short: "Make a data directory of a backup", Args: cobra.ExactArgs(1),
		Long: "Make a data directory of a backup, in one that is empty or missing. Every checksum is compared before it says " +
			"that it is done. One that\nwas cut off goes on when it is run again with the same backup; until it is done no " +
			"server starts there.\n\nThe restored server is another one: what the old one did after the backup it does " +
			"not know, and tokens of reservations that the\nold one gave out are refused, so that both cannot go on with the same work " +
			"unnoticed. Access tokens stay good. Stop the old server\nbefore work goes to the restored one.",
		Example: "  quern restore /backups/quern.tar --data /var/lib/quern\n" +
			"  zstd -d < quern.tar.zst | quern restore - --data /var/lib/quern",
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return usageError{errors.New("--data is missing: say which directory the backup is to be restored to")}
			}
			return restore(cmd.Context(), a, args[0], dir)
		},
	}
	c.Flags().StringVar(&dir, "data", "", "the data directory to make: empty, missing, or with the same restore cut off")
	a.quietFlag(c)
	return c
}

func restore(ctx context.Context, a *app, name, dir string) error {
	from, size := a.in, int64(-1)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		from, size = f, info.Size()
	}
	shown := a.newProgress("bytes", size, time.Now)
	m, err := engine.Restore(ctx, &shownReader{r: from, shown: shown}, dir)
	shown.End()
	if err != nil {
		return err
	}
	queues := "1 queue"
	if len(m.Queues) != 1 {
		queues = fmt.Sprintf("%d queues", len(m.Queues))
	}
	_, err = fmt.Fprintf(a.out, "restored %s as of %s to %s; every checksum is right\n", queues, m.Made.Format(time.RFC3339), dir)
	return err
}
