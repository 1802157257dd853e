package top

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/quern-queue/quern/sdk/api"
)

// model has a Screen live: it reads looks, and takes keys.
type model struct {
	Screen
	ctx  context.Context
	read Reader
	ask  Ask
	turn int // of the look that is being read; one of another turn is late
}

// looked is an answer.
type looked struct {
	turn    int
	look    *Look
	problem error
	at      time.Time
}

type ticked struct{ turn int }

// New shows a queue, read every so often until the user quits or ctx ends.
func New(ctx context.Context, read Reader, screen Screen) tea.Model {
	return &model{Screen: screen, ctx: ctx, read: read}
}

// Init begins to read.
func (m *model) Init() tea.Cmd { return m.again() }

// again reads now; an answer that is on its way, to an older question, counts no more.
func (m *model) again() tea.Cmd {
	m.turn++
	ctx, read, ask, turn := m.ctx, m.read, m.ask, m.turn
	return func() tea.Msg {
		look, err := read(ctx, ask)
		return looked{turn, look, err, time.Now()}
	}
}

// Update takes an answer, a key or a new size.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.Width, m.Height = msg.Width, msg.Height
	case ticked:
		if msg.turn == m.turn && !m.Paused {
			return m, m.again()
		}
	case looked:
		if msg.turn == m.turn {
			m.take(msg)
			return m, tea.Tick(m.Every, func(time.Time) tea.Msg { return ticked{msg.turn} })
		}
	case tea.KeyPressMsg:
		if m.Typing {
			return m, m.typed(msg)
		}
		return m, m.pressed(msg.String())
	}
	return m, nil
}

func (m *model) take(msg looked) {
	m.At, m.Problem = msg.at, msg.problem
	if msg.look != nil && msg.problem == nil {
		m.Before, m.Now = m.Now, msg.look
		m.ask.Key = msg.look.Key
	}
}

// typed is a key while the filter is typed.
func (m *model) typed(key tea.KeyPressMsg) tea.Cmd {
	switch key.String() {
	case "ctrl+c":
		return tea.Quit
	case "enter":
		m.Typing = false
	case "esc":
		m.Typing, m.Filter = false, ""
	case "backspace":
		if r := []rune(m.Filter); len(r) > 0 {
			m.Filter = string(r[:len(r)-1])
		}
	default:
		if len(m.Filter)+len(key.Text) <= maxFilter {
			m.Filter += key.Text
		}
	}
	m.From = 0
	return nil
}

// maxFilter is how long a value may be, in bytes.
const maxFilter = 256

func (m *model) pressed(key string) tea.Cmd {
	rows := max(m.Height/2, 1)
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "/":
		m.Typing = true
	case "space":
		if m.Paused = !m.Paused; !m.Paused {
			return m.again()
		}
	case "s":
		m.Order, m.From = (m.Order+1)%orders, 0
		m.ask.Ready = m.Order == byReady
		return m.again()
	case "tab":
		return m.turnKey(1)
	case "shift+tab":
		return m.turnKey(-1)
	case "down", "j":
		m.scroll(1)
	case "up", "k":
		m.scroll(-1)
	case "pgdown":
		m.scroll(rows)
	case "pgup":
		m.scroll(-rows)
	case "home":
		m.From = 0
	}
	return nil
}

func (m *model) scroll(by int) { m.From = min(max(m.From+by, 0), max(len(m.chosen())-1, 0)) }

// turnKey shows the next meta key, or the one before.
func (m *model) turnKey(by int) tea.Cmd {
	if m.Now == nil || len(m.Now.Keys) == 0 {
		return nil
	}
	n := len(m.Now.Keys)
	at := slices.IndexFunc(m.Now.Keys, func(k api.MetaKey) bool { return k.Key == m.Now.Key })
	m.ask.Key = m.Now.Keys[((at+by)%n+n)%n].Key
	m.From, m.Filter = 0, ""
	return m.again()
}

// View is the whole terminal.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.Lines(), "\n"))
	v.AltScreen = true
	return v
}

// Once is the screen as plain text without its last line, which is about keys.
func (s *Screen) Once() string {
	lines := s.Lines()
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	return strings.TrimRight(strings.Join(lines[:len(lines)-1], "\n"), "\n") + "\n"
}
