package blobs

import (
	"context"
	"io"
)

// Under has the blobs whose keys begin with prefix, by the rest of their keys.
func Under(of Blobs, prefix string) Blobs { return under{of, prefix} }

type under struct {
	of     Blobs
	prefix string
}

// Put implements Blobs.
func (u under) Put(ctx context.Context, key string, b []byte) error {
	return u.of.Put(ctx, u.prefix+key, b)
}

// Get implements Blobs.
func (u under) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return u.of.Get(ctx, u.prefix+key, off, n)
}

// List implements Blobs.
func (u under) List(ctx context.Context, prefix, after string, most int) ([]Blob, error) {
	list, err := u.of.List(ctx, u.prefix+prefix, u.prefix+after, most)
	for i := range list {
		list[i].Key = list[i].Key[len(u.prefix):]
	}
	return list, err
}

// Delete implements Blobs.
func (u under) Delete(ctx context.Context, key string) error { return u.of.Delete(ctx, u.prefix+key) }
