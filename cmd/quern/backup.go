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
	"github.com/quern-queue/quern/sdk/client"
)

// backupCommand makes a backup of a running server.
func backupCommand(a *app) *cobra.Command {
	var since string
	c := &cobra.Command{
		Use: "backup FILE|-", Short: "Make a backup of a running server", Args: cobra.ExactArgs(1),
		Long: "Make a backup of everything a running server keeps, as of one moment, without stopping work. It is checked " +
			"while it is written: FILE appears\nwhen all of it is there and on the disk, and takes the place of an older one. " +
			"With \"-\" it goes to standard output; it is whole when\nthe exit code is 0. It is as secret as the data directory.\n\n" +
			"With --since it is an increment: it has what changed since that backup, which may be an increment itself. To restore it, " +
			"name all of them,\nfrom the full one on: keep those that others continue.",
		Example: "  quern backup /backups/quern.tar\n  quern backup - | zstd > quern.tar.zst\n" +
			"  quern backup /backups/monday.tar --since /backups/sunday.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return writeBackup(cmd.Context(), a, since, a.out)
			}
			return engine.WriteFile(args[0], func(w io.Writer) error { return writeBackup(cmd.Context(), a, since, w) })
		},
	}
	c.Flags().StringVar(&since, "since", "", "an earlier backup of this server: only what changed since it is in this one")
	a.clientFlags(c)
	a.quietFlag(c)
	return c
}

// writeBackup writes a backup to w, and checks it. With since it is an increment of the one in that file.
func writeBackup(ctx context.Context, a *app, since string, w io.Writer) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := answers(ctx, c); err != nil {
		return err
	}
	var earlier io.Reader
	if since != "" {
		f, err := os.Open(since)
		if err != nil {
			return err
		}
		defer f.Close()
		earlier = f
	}
	tar, size, err := client.Backup(ctx, c, earlier)
	if err != nil {
		return err
	}
	defer tar.Close()
	shown := a.newProgress("bytes", size, time.Now)
	_, err = archive.Read(io.TeeReader(&shownReader{r: tar, shown: shown, n: new(int64)}, w))
	shown.End()
	if err != nil {
		return fmt.Errorf("the backup is not whole: %w", err)
	}
	return nil
}

// shownReader shows how much was read.
type shownReader struct {
	r     io.Reader
	shown *progress
	n     *int64 // bytes, of this and others
}

func (s *shownReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	*s.n += int64(n)
	s.shown.Set(*s.n, "")
	return n, err
}

// restoreCommand makes a data directory of a backup.
func restoreCommand(a *app) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "restore FILE|- [INCREMENT...]", Short: "Make a data directory of a backup", Args: cobra.MinimumNArgs(1),
		Long: "Make a data directory of a backup, in one that is empty or missing. Every checksum is compared before it says " +
			"that it is done. One that\nwas cut off continues when it is run again with the same backup; until it is done no " +
			"server starts there.\nIncrements come behind the full backup in the order in which they were made. One that does not " +
			"continue the one before it is refused\nbefore anything is written.\n\n" +
			"The restored server is another one: what the old one did after the backup it does " +
			"not know, and tokens of reservations that the\nold one gave out are refused, so that both cannot go on with the same work " +
			"unnoticed. Access tokens stay good. Stop the old server\nbefore work goes to the restored one.",
		Example: "  quern restore /backups/quern.tar --data /var/lib/quern\n" +
			"  quern restore /backups/sunday.tar /backups/monday.tar /backups/tuesday.tar --data /var/lib/quern\n" +
			"  zstd -d < quern.tar.zst | quern restore - --data /var/lib/quern",
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return usageError{errors.New("--data is missing: say which directory the backup is to be restored to")}
			}
			return restore(cmd.Context(), a, args, dir)
		},
	}
	c.Flags().StringVar(&dir, "data", "", "the data directory to make: empty, missing, or with the same restore cut off")
	a.quietFlag(c)
	return c
}

func restore(ctx context.Context, a *app, names []string, dir string) error {
	files, size, err := openBackups(a, names)
	if err != nil {
		return err
	}
	defer files.close()
	shown := a.newProgress("bytes", size, time.Now)
	for i := range files.from {
		files.from[i] = &shownReader{r: files.from[i], shown: shown, n: &files.read}
	}
	m, err := engine.Restore(ctx, dir, files.from...)
	shown.End()
	if err != nil {
		return err
	}
	err = say(a.out, "restored %s as of %s to %s; every checksum is right\n", several(len(m.Queues), "queue"),
		m.Made.Format(time.RFC3339), dir)
	return err
}

// backupFiles are a backup and its increments, open.
type backupFiles struct {
	from []io.Reader
	read int64 // bytes of all of them
	open []*os.File
}

func (b *backupFiles) close() {
	for _, f := range b.open {
		f.Close() // it was only read
	}
}

// openBackups opens the files of a backup and its increments; "-" is standard input. It says how long they are together, -1 when it cannot
// tell.
func openBackups(a *app, names []string) (b *backupFiles, size int64, err error) {
	b = &backupFiles{}
	for _, name := range names {
		if name == "-" {
			b.from, size = append(b.from, a.in), -1
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			b.close()
			return nil, 0, err
		}
		b.from, b.open = append(b.from, f), append(b.open, f)
		if info, err := f.Stat(); err == nil && size >= 0 {
			size += info.Size()
		}
	}
	return b, size, nil
}
