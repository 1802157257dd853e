package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

const (
	socketScheme = "unix:" // before the path of a Unix socket

	maxSocketPath = 100 // the kernel takes 108 bytes, with room for a suffix and an end
)

// listenSocket opens a Unix socket that only this process's user may connect to. What an earlier server left there when it was killed is
// replaced; anything else at the path is refused.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	// It is made beside its place and moved there, so that no one can connect before its mode is set.
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // it would remove the path that it was made at
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(fresh))
	}
	return &socketListener{listener, path}, nil
}

// clearSocket removes a socket on which no one listens.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("there is something at this path that is not a socket: move it away, or give another path")
	}
	if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		c.Close()
		return errors.New("another process listens there")
	}
	return os.Remove(path)
}

// socketListener removes its file when it is closed.
type socketListener struct {
	net.Listener
	path string
}

// Addr is where clients find it.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.path} }

// Close stops listening.
func (l *socketListener) Close() error {
	err := l.Listener.Close()
	if err == nil {
		err = os.Remove(l.path)
	}
	if err != nil {
		return fmt.Errorf("close the socket %s: %w", l.path, err)
	}
	return nil
}
