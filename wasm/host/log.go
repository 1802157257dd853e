package host

import (
	"bytes"
	"strings"

	"github.com/quern-queue/quern/sdk/abi"
)

// Line is one line that a guest logged. Its text is valid UTF-8 without control characters.
type Line struct {
	Level int // abi.LevelDebug to abi.LevelError
	Text  string
}

// log keeps the lines of one call.
type log struct {
	level, maxLines, maxBytes int
	lines                     []Line
	dropped                   int
	written                   [3][]byte // by file descriptor: an unfinished line on stdout and stderr
}

func (l *log) begin(level, lines, size int) {
	*l = log{level: level, maxLines: lines, maxBytes: size}
}

func (l *log) enabled(level int) bool { return level >= l.level && len(l.lines) < l.maxLines }

// add keeps a line if there is room.
func (l *log) add(level int, text []byte) {
	level = min(max(level, abi.LevelDebug), abi.LevelError)
	if level < l.level {
		return
	}
	if len(l.lines) >= l.maxLines {
		l.dropped++
		return
	}
	l.lines = append(l.lines, Line{level, clean(text, l.maxBytes)})
}

// clean cuts text to size bytes and replaces what could break a terminal or a log.
func clean(text []byte, size int) string {
	if len(text) > size {
		text = text[:size]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
}

// write takes what the guest writes to stdout (as information) or stderr (as warnings), line by line.
func (l *log) write(fd uint32, p []byte) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		p = rest
		room := max(0, l.maxBytes-len(l.written[fd]))
		l.written[fd] = append(l.written[fd], line[:min(len(line), room)]...)
		if ended {
			l.flush(fd)
		}
	}
}

func (l *log) flush(fd uint32) {
	if len(l.written[fd]) > 0 {
		l.add(int(fd), l.written[fd]) // stdout is 1 as LevelInfo is, stderr 2 as LevelWarn is
		l.written[fd] = l.written[fd][:0]
	}
}

// end gives the lines; the next call begins with none.
func (l *log) end() ([]Line, int) {
	l.flush(1)
	l.flush(2)
	return l.lines, l.dropped
}

// last is the last line so far, which mostly says what went wrong.
func (l *log) last() string {
	l.flush(1)
	l.flush(2)
	return lastOf(l.lines)
}

func lastOf(lines []Line) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1].Text
}
