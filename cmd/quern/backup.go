package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/cluster/pg"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/repair"
	"github.com/quern-queue/quern/sdk/client"
)

// backupCommand makes a backup of a running server.
func backupCommand(a *app) *cobra.Command {
	var since, queue string
	c := &cobra.Command{
		Use: "backup FILE|-", Short: "Back up a running server", Args: cobra.ExactArgs(1),
		Long: "Back up a running server as of one moment, while work continues. The command checks the backup while it writes\n" +
			"it. FILE appears, and replaces an older one, when the whole backup is on the disk. With \"-\" the backup goes to\n" +
			"standard output, and is complete if the exit code is 0. Keep it as secret as the data directory. Any node of a\n" +
			"cluster backs up all queues.\n\n" +
			"With --since, write an increment, which has only the changes since that backup. The earlier backup may be an\n" +
			"increment, too. A restore needs the full backup and all increments after it, so keep them all.\n\n" +
			"With --queue, back up one queue, or one shard such as orders~2. \"quern restore --queue\" brings it back into the\n" +
			"same data directory.",
		Example: "  quern backup /backups/quern.tar\n  quern backup - | zstd > quern.tar.zst\n" +
			"  quern backup /backups/monday.tar --since /backups/sunday.tar\n" +
			"  quern backup /backups/orders.tar --queue orders",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return writeBackup(cmd.Context(), a, queue, since, a.out)
			}
			return engine.WriteFile(args[0], func(w io.Writer) error { return writeBackup(cmd.Context(), a, queue, since, w) })
		},
	}
	c.Flags().StringVar(&queue, "queue", "", "back up only this queue, or this shard, such as orders~2")
	c.Flags().StringVar(&since, "since", "", "earlier backup of this server: write only what changed since then")
	a.clientFlags(c)
	a.quietFlag(c)
	return c
}

// writeBackup writes a backup of a queue, or of all, to w, and checks it. With since it is an increment of the one in that file.
func writeBackup(ctx context.Context, a *app, queue, since string, w io.Writer) error {
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
	tar, size, err := client.BackupQueue(ctx, c, queue, earlier)
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

// openBackups opens the files of a backup and its increments; "-" is standard input. It returns their length together, -1 if it is not
// known.
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

// restoring is where a backup is restored to: a data directory, or a cluster.
type restoring struct {
	dir     string
	queue   string // of the directory; "": all of it
	replace bool
	cluster ClusterConfig
}

// restoreCommand restores a backup.
func restoreCommand(a *app) *cobra.Command {
	var to restoring
	c := &cobra.Command{
		Use: "restore FILE|- [INCREMENT...]", Short: "Restore a backup into a new data directory or an empty cluster",
		Args: cobra.MinimumNArgs(1),
		Long: "Restore a backup into a directory that is empty or missing. The command compares every checksum before it " +
			"reports success. To\n" +
			"continue after an interruption, run it again with the same backup. Until it finishes, no server starts there.\n" +
			"Name increments after the full backup, in the order in which they were made. If one does not continue the one " +
			"before it, the\n" +
			"command refuses it before it writes anything.\n\n" +
			"With --cluster, restore into the database of a cluster: into a schema without queues. The backup may be of a " +
			"single server or of\n" +
			"a cluster. Stop all nodes first. The command unpacks and checks the backup in --data, or in a temporary folder, " +
			"before it changes\n" +
			"the database. After an interruption no node starts in that schema. Run the command again: it starts over.\n\n" +
			"With --queue, bring back a queue, or one shard such as orders~2, that is in quarantine in an existing data " +
			"directory. Stop the\n" +
			"server first. The other queues stay as they are. The backup must be of this directory. The files that were there " +
			"get another name.\n" +
			"After an interruption, run the command again.\n\n" +
			"The restored server is another server. It does not know what the old one did after the backup, and refuses " +
			"tokens of reservations\n" +
			"from the old one, so that the two cannot complete each other's chunks. Access tokens stay valid. Stop the old " +
			"server before you\n" +
			"send work to the restored one.",
		Example: "  quern restore /backups/quern.tar --data /var/lib/quern\n" +
			"  quern restore /backups/sunday.tar /backups/monday.tar /backups/tuesday.tar --data /var/lib/quern\n" +
			"  zstd -d < quern.tar.zst | quern restore - --data /var/lib/quern\n" +
			"  quern restore /backups/quern.tar --data /var/lib/quern --queue orders~2\n" +
			"  quern restore /backups/quern.tar --cluster postgres://quern:SECRET@db:5432/quern",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case to.dir == "" && to.cluster.URL == "":
				return usageError{errors.New("--data is missing: name the directory to restore into, or with --cluster the database of a " +
					"cluster")}
			case to.cluster.URL == "" && (cmd.Flags().Changed("cluster-schema") || to.cluster.AcceptAsync):
				return usageError{errors.New("--cluster-schema and --accept-async need --cluster: give the database, or leave them out")}
			case to.queue != "" && to.cluster.URL != "":
				return usageError{errors.New("--queue is for the data directory of a single server: a cluster is restored whole, so " +
					"leave out --queue or --cluster")}
			case to.replace && to.queue == "":
				return usageError{errors.New("--replace needs --queue: name the queue, or leave it out")}
			}
			return to.restore(cmd.Context(), a, args)
		},
	}
	c.Flags().StringVar(&to.dir, "data", "",
		"data directory to create: empty, missing, or with this restore unfinished; with --cluster, the folder to unpack in")
	c.Flags().StringVar(&to.queue, "queue", "",
		"restore only this queue, or this shard, such as orders~2, into the existing directory --data")
	c.Flags().BoolVar(&to.replace, "replace", false,
		"with --queue: also replace what is not in quarantine; what it did since the backup is lost")
	c.Flags().StringVar(&to.cluster.URL, "cluster", "",
		"PostgreSQL database to restore into: postgres://USER:PASSWORD@HOST:PORT/DATABASE")
	c.Flags().StringVar(&to.cluster.Schema, "cluster-schema", pg.DefaultSchema, "schema of that database, which must have no queues")
	c.Flags().BoolVar(&to.cluster.AcceptAsync, "accept-async", false, "accept a database without a synchronous standby")
	a.quietFlag(c)
	return c
}

func (r *restoring) restore(ctx context.Context, a *app, names []string) (err error) {
	files, size, err := openBackups(a, names)
	if err != nil {
		return err
	}
	defer files.close()
	shown := a.newProgress("bytes", size, time.Now)
	for i := range files.from {
		files.from[i] = &shownReader{r: files.from[i], shown: shown, n: &files.read}
	}
	if r.queue != "" {
		return r.oneQueue(ctx, a, files.from, shown)
	}
	run, where := r.intoDirectory, r.dir
	if r.cluster.URL != "" {
		run, where = r.intoCluster, "the schema "+r.cluster.Schema+" of "+withoutPassword(r.cluster.URL)
	}
	m, err := run(ctx, files.from)
	shown.End()
	if err != nil {
		return err
	}
	return say(a.out, "restored %s as of %s to %s; every checksum is right\n", queuesOf(m.Queues),
		m.Made.Format(time.RFC3339), where)
}

// queuesOf counts the queues of a backup, and their shards where a queue has several.
func queuesOf(list []archive.Queue) string {
	more := 0
	for _, q := range list {
		if _, number := queue.CutShard(q.Name); number > 0 { // the first one has the name of the queue
			more++
		}
	}
	text := several(len(list)-more, "queue")
	if more > 0 {
		text += fmt.Sprintf(" with %d shards", len(list))
	}
	return text
}

// oneQueue restores a queue of a directory.
func (r *restoring) oneQueue(ctx context.Context, a *app, from []io.Reader, shown *progress) error {
	o := repair.Restore{Dir: r.dir, Queue: r.queue, Replace: r.replace, Now: time.Now}
	done, err := o.Run(ctx, from...)
	shown.End()
	for i, name := range done.Queues {
		if said := say(a.out, "restored the queue %s as of %s\n", name, done.Made.Format(time.RFC3339)); said != nil {
			return errors.Join(err, said)
		}
		if before := done.Before[i]; before != "" {
			err = errors.Join(err, say(a.out, "  the files that were there are in %s\n", before))
		}
	}
	return err
}

func (r *restoring) intoDirectory(ctx context.Context, from []io.Reader) (*archive.Manifest, error) {
	return engine.Restore(ctx, r.dir, from...)
}

func (r *restoring) intoCluster(ctx context.Context, from []io.Reader) (m *archive.Manifest, err error) {
	backend, err := pg.Open(ctx, pg.Options{URL: r.cluster.URL, Schema: r.cluster.Schema, AcceptAsync: r.cluster.AcceptAsync})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	work := r.dir
	if work == "" {
		temporary, err := os.MkdirTemp("", "quern-restore-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(temporary)
		work = filepath.Join(temporary, "data")
	}
	into := engine.ClusterRestore{Backend: backend, Work: work, Now: time.Now, Silence: silence}
	return into.Run(ctx, from...)
}

// silence waits until every node that runs has beaten.
func silence(ctx context.Context) error {
	waited := time.NewTimer(member.TTL)
	defer waited.Stop()
	select {
	case <-waited.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
