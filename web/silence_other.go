//go:build !linux

package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

func withConn(ctx context.Context, _ net.Conn) context.Context { return ctx }

// noticeSilence does nothing here: how soon a machine that vanished is noticed is the kernel's to say.
func noticeSilence(*slog.Logger, *http.Request) {}
