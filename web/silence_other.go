//go:build !linux

package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

func withConn(ctx context.Context, _ net.Conn) context.Context { return ctx }

// noticeSilence does nothing here: the kernel decides how soon it notices that a machine vanished.
func noticeSilence(*slog.Logger, *http.Request) {}
