package objects

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Remove removes the objects of one submission: the contents that Submit uploaded, and all outputs. Attempts that
// still run fail, and so do the submission's dead letters in other queues, which have only the key.
func (s Store) Remove(ctx context.Context, submission *api.Submission) error {
	err := s.removeFolder(ctx, outputsOf(submission.ID))
	if folder := folderOf(submission.Prefix); folder == submission.Prefix && folder != "" {
		err = errors.Join(err, s.removeFolder(ctx, folder))
	}
	if err != nil {
		return fmt.Errorf("objects: remove: %w", err)
	}
	return nil
}

// Sweep removes the objects of submissions that the server does not have: those whose retention is over, that went
// with their queue, or that were never inserted. It removes a submission's objects if the last of them was written
// before the given time, which must be earlier than the start of any running Submit: a day ago is usual. Sweep asks
// for all submissions of all queues, so its access token must see them all. It returns the number of removed folders.
func (s Store) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	// Folders first, submissions second: one that is inserted meanwhile is seen.
	old, err := s.folders(ctx, before)
	if err == nil {
		err = s.seesAll(ctx)
	}
	if err == nil && len(old) > 0 {
		err = s.keepLive(ctx, old)
	}
	if err != nil {
		return 0, fmt.Errorf("objects: sweep: nothing was removed: %w", err)
	}
	for folder := range old {
		if err := s.removeFolder(ctx, folder); err != nil {
			return removed, fmt.Errorf("objects: sweep: %w", err)
		}
		removed++
	}
	return removed, nil
}

// folders are those of submissions in which nothing was written at or after the given time.
func (s Store) folders(ctx context.Context, before time.Time) (map[string]struct{}, error) {
	old := make(map[string]struct{})
	for _, root := range []string{contents, outputs} {
		young := ""
		all := s.Bucket.List(&blob.ListOptions{Prefix: root})
		for {
			object, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			switch folder := folderOf(object.Key); {
			case folder == "" || folder == young:
			case !object.ModTime.Before(before):
				young = folder // keys come in order
				delete(old, folder)
			default:
				old[folder] = struct{}{}
			}
		}
	}
	return old, nil
}

// seesAll returns an error when the client sees only some submissions: the others would be taken for gone.
func (s Store) seesAll(ctx context.Context) error {
	who, err := s.Client.Whoami(ctx)
	if err == nil && len(who.Queues)+len(who.Meta) > 0 {
		err = fmt.Errorf("the access token %q sees only some submissions; use one without a restriction", who.Name)
	}
	return err
}

// keepLive takes out of folders those of submissions that the server has. A dead letter that went on to another queue has the contents
// of the submission that it came from.
func (s Store) keepLive(ctx context.Context, folders map[string]struct{}) error {
	for queue, err := range s.Client.Queues(ctx) {
		if err != nil {
			return err
		}
		for submission, err := range s.Client.List(ctx, queue.Name, client.ListOptions{Limit: 1000}) {
			if err != nil {
				return err
			}
			delete(folders, outputsOf(submission.ID))
			delete(folders, folderOf(submission.Prefix))
		}
	}
	return nil
}

// folderOf is the folder of a submission that a key or a prefix is below; "" if Store did not make it.
func folderOf(key string) string {
	for _, root := range []string{contents, outputs} {
		rest, ours := strings.CutPrefix(key, root)
		name, _, whole := strings.Cut(rest, "/")
		if !ours || !whole || name == "" {
			continue
		}
		if id, err := hex.DecodeString(name); root == contents && (err != nil || len(id) != idBytes) {
			continue
		}
		return root + name + "/"
	}
	return ""
}

// removeFolder removes all objects below the folder.
func (s Store) removeFolder(ctx context.Context, folder string) error {
	work := s.group(ctx)
	all := s.Bucket.List(&blob.ListOptions{Prefix: folder})
	for {
		object, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			work.cancel(err)
			break
		}
		if !work.start(func(ctx context.Context) error { return s.remove(ctx, object.Key) }) {
			break
		}
	}
	return work.wait()
}

// remove removes an object; one that is gone already is no error.
func (s Store) remove(ctx context.Context, key string) error {
	if err := s.Bucket.Delete(ctx, key); gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}
