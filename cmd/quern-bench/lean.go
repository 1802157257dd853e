package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// lean is one keep-alive HTTP/1.1 connection that sends a prebuilt header and looks at nothing of an answer but its
// status and length: a load generator that takes as little as possible of the two cores it shares with the server.
type lean struct {
	conn   net.Conn
	reader *bufio.Reader
	out    []byte
	body   []byte
	head   string // of every request, between its path and its length
	heard  func(path string, answer []byte)
}

// errAway is the error of a call that was answered with 503. A call that names tokens may be sent again.
var errAway = errors.New("the server asks to be asked again")

// dialLean connects; a token that is not empty goes out with every request.
func dialLean(address, token string, secure *tls.Config) (*lean, error) {
	conn, err := dial(address, secure)
	if err != nil {
		return nil, err
	}
	head := " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	return &lean{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), head: head + "Content-Length: "}, nil
}

func dial(address string, secure *tls.Config) (net.Conn, error) {
	if secure != nil {
		return tls.Dial("tcp", address, secure)
	}
	return net.Dial("tcp", address)
}

// post sends a body to a path and returns the answer's body, good until the next call.
func (l *lean) post(path string, body []byte) ([]byte, error) {
	l.out = append(l.out[:0], "POST "...)
	l.out = append(l.out, path...)
	l.out = append(l.out, l.head...)
	l.out = strconv.AppendInt(l.out, int64(len(body)), 10)
	l.out = append(append(l.out, "\r\n\r\n"...), body...)
	if _, err := l.conn.Write(l.out); err != nil {
		return nil, err
	}
	answer, err := l.answer()
	if l.heard != nil {
		l.heard(path, answer)
	}
	return answer, err
}

func (l *lean) answer() ([]byte, error) {
	status, err := l.reader.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	ok, away := bytes.HasPrefix(status, []byte("HTTP/1.1 20")), bytes.HasPrefix(status, []byte("HTTP/1.1 503"))
	line := strings.TrimSpace(string(status[:min(len(status), 16)]))
	length := -1
	for {
		header, err := l.reader.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(header) <= 2 {
			break
		}
		if name := []byte("content-length:"); len(header) > len(name) && bytes.EqualFold(header[:len(name)], name) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(header[len(name):]))); err != nil {
				return nil, err
			}
		}
	}
	if length < 0 {
		return nil, fmt.Errorf("%s: an answer without a length", line)
	}
	if cap(l.body) < length {
		l.body = make([]byte, length)
	}
	l.body = l.body[:length]
	if _, err := io.ReadFull(l.reader, l.body); err != nil {
		return nil, err
	}
	if away {
		return nil, fmt.Errorf("%w: %s: %s", errAway, line, l.body)
	}
	if !ok {
		return nil, fmt.Errorf("%s: %s", line, l.body)
	}
	return l.body, nil
}

func (l *lean) close() { l.conn.Close() }
