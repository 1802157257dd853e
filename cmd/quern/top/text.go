package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// fit makes a text as wide as a column: cut with an ellipsis, or filled up.
func fit(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// fitName is fit for a name: long names often differ at their ends, so it is the middle that goes.
func fitName(text string, width int) string {
	whole := ansi.StringWidth(text)
	if whole <= width {
		return fit(text, width)
	}
	tail := (width - 1) * 2 / 5
	end := ansi.TruncateLeft(text, whole-tail, "")
	return fit(ansi.Truncate(text, max(width-1-ansi.StringWidth(end), 0), "")+"…"+end, width)
}

// right is fit, with the text at the right.
func right(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return strings.Repeat(" ", max(width-ansi.StringWidth(text), 0)) + text
}

// count is a number that fits a narrow column: exact below 100,000, then with three digits and a unit.
func count(n float64) string {
	if n < 100_000 {
		return Thousands(uint64(n + 0.5))
	}
	for _, unit := range []string{"k", "M", "G", "T"} {
		if n /= 1000; n < 999.5 || unit == "T" {
			return strconv.FormatFloat(n, 'f', max(0, 2-len(strconv.Itoa(int(n)))+1), 64) + " " + unit
		}
	}
	return ""
}

// Thousands is a number with commas.
func Thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// lasting is a duration in at most two units.
func lasting(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
