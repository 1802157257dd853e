// Package terminal shows text from outside so that it cannot steer the terminal of the person who reads it. A producer chooses
// meta, groups and errors: an escape sequence in them could clear the screen, and a line end could forge a row of a table.
//
//quern:tests pure
package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a text on one line: each character that would steer the terminal, end the line, turn the direction of reading or not be seen is
// shown as its escape.
func Text(text string) string { return except(text, "") }

// Lines is Text of a text that may have several lines. All but the first are indented: none looks like a line of the program's own.
func Lines(text string) string { return strings.ReplaceAll(except(text, "\n"), "\n", "\n  ") }

// JSON is encoded JSON with such characters as escapes of JSON. They are in its strings only, but for line ends between its values.
func JSON(encoded string) string {
	return escape(encoded, func(r rune) string {
		switch high, low := utf16.EncodeRune(r); {
		case r == '\n':
			return "\n"
		case r > 0xffff:
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// Writer passes text on with its line ends and tabs as they are, and all else as Text shows it.
type Writer struct{ To io.Writer }

// Write writes a piece of text. A character that the piece has only a part of is shown as damaged.
func (w Writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.To, except(string(b), "\n\t")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// except escapes all but the kept characters.
func except(text, kept string) string {
	return escape(text, func(r rune) string {
		if strings.ContainsRune(kept, r) {
			return string(r)
		}
		return strings.Trim(strconv.QuoteRuneToASCII(r), "'")
	})
}

// escape replaces each character that cannot be seen by its text from show.
func escape(text string, show func(rune) string) string {
	hidden := func(r rune) bool { return !unicode.IsGraphic(r) }
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if hidden(r) {
			out.WriteString(show(r))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
