package main

import (
	"context"
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
		Use: "backup FILE|-", Short: "Back up a running server", Args: cobra.ExactArgs(1),
		Long: "Back up a running server as of one moment, while work continues. The command checks the backup while it writes " +
			"it. FILE appears,\n" +
			"and replaces an older one, when the whole backup is on the disk. With \"-\" the backup goes to standard output; it is " +
			"complete when\n" +
			"the exit code is 0. Keep it as secret as the data directory. Any node of a cluster backs up all queues.\n\n" +
			"With --since, write an increment: only what changed since that backup, which may be an increment itself. A " +
			"restore needs the whole\n" +
			"chain from the full backup on, so keep every backup that another one continues.",
		Example: "  quern backup /backups/quern.tar\n  quern backup - | zstd > quern.tar.zst\n" +
			"  quern backup /backups/monday.tar --since /backups/sunday.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return writeBackup(cmd.Context(), a, since, a.out)
			}
			return engine.WriteFile(args[0], func(w io.Writer) error { return writeBackup(cmd.Context(), a, since, w) })
		},
	}
	c.Flags().StringVar(&since, "since", "", "earlier backup of this server: write only what changed since then")
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
