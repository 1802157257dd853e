package web

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long bytes that were sent to an attached consumer may stay
// unacknowledged. The kernel alone would wait a quarter of an hour for a machine that
// vanished without a word.
const silence = 20 * time.Second

// connKey is where the context of a request has its connection.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// noticeSilence makes the kernel end the connection of a request when the machine at
// its other end does not answer any more.
func noticeSilence(log *slog.Logger, r *http.Request) {
	under := r.Context().Value(connKey{})
	if secure, ok := under.(*tls.Conn); ok {
		under = secure.NetConn()
	}
	conn, ok := under.(syscall.Conn)
	if !ok {
		return // not a socket of ours: embedded, or in a test
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	err2 := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence/time.Millisecond))
	})
	if err != nil || err2 != nil {
		log.Debug("a vanished consumer will be noticed late", "error", err, "control", err2)
	}
}
