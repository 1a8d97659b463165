package top

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options configure Run. All are required.
type Options struct {
	// Fetch returns the current figures.
	Fetch func(ctx context.Context, q Query) (*Figures, error)
	// Query is the first query; the user can change its Order and Search.
	Query  Query
	Server string // the name of the rules service
	In     io.Reader
	Out    io.Writer
}

// refreshEvery is the interval in which figures are fetched.
const refreshEvery = time.Second

// Run shows figures until the user quits or ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &model{
		query:  o.Query,
		load:   func(q Query) (*Figures, error) { return o.Fetch(ctx, q) },
		screen: screen{order: o.Query.Order, server: o.Server, width: 80, height: 24},
	}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out)).Run()
	return err
}

// A model is the state of the program.
type model struct {
	screen
	query Query
	load  func(Query) (*Figures, error)
}

// The messages of a model.
type (
	fetched struct {
		figures *Figures
		err     error
	}
	refresh struct{}
)

var _ tea.Model = (*model)(nil)

// Init fetches the first figures.
func (m *model) Init() tea.Cmd { return m.fetch() }

// fetch returns a command that fetches figures. Commands run in goroutines of their own.
func (m *model) fetch() tea.Cmd {
	q, load := m.query, m.load
	return func() tea.Msg {
		f, err := load(q)
		return fetched{f, err}
	}
}

// Update handles keys and figures.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case fetched:
		if m.err = message.err; m.err == nil && !m.paused {
			m.figures = message.figures
		}
		return m, tea.Tick(refreshEvery, func(time.Time) tea.Msg { return refresh{} })
	case refresh:
		m.query.Order, m.query.Search = m.order, m.search
		return m, m.fetch()
	case tea.KeyPressMsg:
		if m.editing {
			m.edit(message)
			return m, nil
		}
		return m, m.press(message.String())
	}
	return m, nil
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "s":
		m.order = m.otherOrder()
	case "p", "space":
		m.paused = !m.paused
	case "/":
		m.editing, m.search = true, ""
	}
	return nil
}

// edit handles a key while the filter is typed.
func (m *model) edit(key tea.KeyPressMsg) {
	switch key.String() {
	case "enter":
		m.editing = false
	case "esc", "ctrl+c":
		m.editing, m.search = false, ""
	case "backspace":
		if r := []rune(m.search); len(r) > 0 {
			m.search = string(r[:len(r)-1])
		}
	default:
		m.search += key.Text
	}
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.view())
	v.AltScreen = true
	return v
}
