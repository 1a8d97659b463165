package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/gcpause"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
	"github.com/headgate/headgate/telemetry"
)

// A keeper keeps the rules of a file in force.
type keeper struct {
	path    string
	shared  bool
	widths  widths
	engine  *engine.Engine
	metrics *telemetry.Metrics
	log     *slog.Logger

	loading sync.Mutex // held by who reads the file

	mu     sync.Mutex // of what follows
	data   []byte     // what is in force
	status telemetry.RulesStatus
	shown  *mirror // what shows them to the API; nil if nothing does
}

// mirror has the rules shown to the API, now and whenever they change.
func (k *keeper) mirror(to *mirror) {
	k.shown = to
	to.reload()
}

// source says where rules come from.
func (k *keeper) source() string { return k.path }

// read returns what the file holds.
func (k *keeper) read() ([]byte, error) {
	f, err := os.Open(k.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, source.MaxJSON+1)) // the parser says what is too much
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.path, err)
	}
	return data, nil
}

// compile makes the rules of a text ready.
func compile(name string, data []byte, w widths) (*rules.Set, error) {
	doc, err := file.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if err := w.refuses(name, data, doc); err != nil {
		return nil, err
	}
	return doc.Compile()
}

// first returns the rules to start with.
func (k *keeper) first() (*rules.Set, error) {
	data, err := k.read()
	if err != nil {
		return nil, err
	}
	set, err := compile(k.source(), data, k.widths)
	if err != nil {
		return nil, err
	}
	k.data = data
	return set, nil
}

// begin says that the engine was made with the first rules.
func (k *keeper) begin(e *engine.Engine) {
	k.engine = e
	k.accepted(e.Rules())
}

// heavyFile is from how many bytes on a file is much to read while requests are decided.
const heavyFile = 128 << 10

// reload reads the file and puts its rules in force, if they have changed and are right.
func (k *keeper) reload() {
	k.loading.Lock()
	defer k.loading.Unlock()
	data, err := k.read()
	switch {
	case err != nil:
		k.refused(err)
		return
	case bytes.Equal(data, k.data):
		k.unchanged()
		return
	}
	if len(data) >= heavyFile {
		defer gcpause.Start(gcpause.ForRules)()
	}
	set, err := compile(k.path, data, k.widths)
	if err == nil {
		k.metrics.ExpectRules(set, k.shared)
		if err = k.engine.SetRules(set); err != nil {
			k.metrics.KeepRules(k.engine.Rules(), k.shared)
			err = Locate(k.path, data, err)
		}
	}
	if err != nil {
		k.refused(err)
		return
	}
	k.data = data
	k.accepted(set)
	if k.shown != nil {
		k.shown.reload()
	}
	k.log.Info("rules loaded", "file", k.path, "rules", set.Len(), "revision", k.current().Revision)
}

func (k *keeper) accepted(set *rules.Set) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = telemetry.RulesStatus{
		Source: k.source(), Revision: k.status.Revision + 1, Count: set.Len(), Loaded: time.Now().UTC(),
	}
	k.metrics.SetRules(telemetry.RuleLoad{Set: set, Shared: k.shared, Revision: k.status.Revision, Loaded: k.status.Loaded})
}

func (k *keeper) unchanged() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status.Error != "" {
		k.log.Info("rules are right again and those in force", "file", k.path)
		k.status.Error = ""
	}
	k.metrics.RulesUnchanged()
}

func (k *keeper) refused(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.metrics.RulesRefused()
	if text := err.Error(); text != k.status.Error { // the log is not filled with one
		k.status.Error = text
		k.log.Error("rules refused, those in force stay", "file", k.path, "revision", k.status.Revision, "err", text)
	}
}

// current returns which rules are in force.
func (k *keeper) current() telemetry.RulesStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// Locate says where in a rules file stands what an engine has refused of it.
func Locate(name string, data []byte, err error) error {
	var refused *rules.Error
	if !errors.As(err, &refused) {
		return err
	}
	f, readErr := source.Read(name, data)
	doc, parseErr := file.Parse(name, data)
	if readErr != nil || parseErr != nil {
		return err
	}
	places := make(map[string]int, len(doc.Rules))
	for i := range doc.Rules {
		places[doc.Rules[i].ID] = i
	}
	var found []source.Problem
	for _, p := range refused.Problems {
		made := source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
		// "rule search-per-user: consistency"
		if id, field, ok := strings.Cut(strings.TrimPrefix(p.Path, "rule "), ": "); ok {
			if i, known := places[id]; known {
				made.Path = "rules[" + strconv.Itoa(i) + "]." + field
				made.Line, made.Column = f.Locate(made.Path)
			}
		}
		found = append(found, made)
	}
	return f.Error(found, refused.More, rules.ErrInvalid)
}
