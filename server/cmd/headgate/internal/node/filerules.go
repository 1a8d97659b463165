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

	"github.com/headgate/headgate/internal/gcpause"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/cmd/headgate/internal/clientip"
	"github.com/headgate/headgate/server/telemetry"
)

// fileRules applies the rules of a file to the engine, at the start and whenever the file changes.
type fileRules struct {
	path         string
	storesShared bool // nodes share a store
	prefixes     clientip.PrefixLengths
	enforcement  *enforcement
	metrics      *telemetry.Metrics
	log          *slog.Logger

	reloadMu sync.Mutex // serializes reload

	mu     sync.Mutex // guards the fields below
	data   []byte     // the content of the file when its rules came into force
	state  telemetry.RulesStatus
	mirror *fileMirror // copies the rules to the database of the rules API; nil if there is none
}

// mirrorTo copies the rules to the database of the rules API, now and after each change.
func (r *fileRules) mirrorTo(mirror *fileMirror) {
	r.mirror = mirror
	mirror.reload()
}

// read returns the content of the file.
func (r *fileRules) read() ([]byte, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, source.MaxJSON+1)) // the parser refuses files above MaxJSON
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.path, err)
	}
	return data, nil
}

// compile parses, validates and compiles the rules of a file.
func compile(name string, data []byte, lengths clientip.PrefixLengths) (*match.Set, error) {
	doc, err := file.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if err := lengths.Validate(name, data, doc); err != nil {
		return nil, err
	}
	return doc.Compile()
}

// loadFirst reads the rules with which the engine is created.
func (r *fileRules) loadFirst() (*match.Set, error) {
	data, err := r.read()
	if err != nil {
		return nil, err
	}
	set, err := compile(r.path, data, r.prefixes)
	if err != nil {
		return nil, err
	}
	r.data = data
	return set, nil
}

// start must be called when the rules of loadFirst are in force. Later rules are applied with e.
func (r *fileRules) start(e *enforcement) {
	r.enforcement = e
	r.setLoaded(e.engine.Rules())
}

// heavyFile is the minimum size in bytes of a file whose compilation creates so much garbage that it would slow down
// decisions. The garbage collector is paused for it.
const heavyFile = 128 << 10

// reload reads the file and applies its rules, if they have changed and are valid.
func (r *fileRules) reload() {
	r.reloadMu.Lock()
	defer r.reloadMu.Unlock()
	data, err := r.read()
	switch {
	case err != nil:
		r.setRefused(err)
		return
	case bytes.Equal(data, r.data):
		r.setUnchanged()
		return
	}
	if len(data) >= heavyFile {
		defer gcpause.Start(gcpause.ForRules)()
	}
	set, err := compile(r.path, data, r.prefixes)
	if err == nil {
		if set, err = r.enforcement.apply(set); err != nil {
			err = Locate(r.path, data, err)
		}
	}
	if err != nil {
		r.setRefused(err)
		return
	}
	r.data = data
	r.setLoaded(set)
	if r.mirror != nil {
		r.mirror.reload()
	}
	r.log.Info("rules loaded", "file", r.path, "rules", set.Len(), "revision", r.status().Revision)
}

func (r *fileRules) setLoaded(set *match.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = telemetry.RulesStatus{
		Source: r.path, Revision: r.state.Revision + 1, Count: set.Len(), Loaded: time.Now().UTC(),
	}
	r.metrics.SetRules(telemetry.RuleLoad{Set: set, Shared: r.storesShared, Revision: r.state.Revision, Loaded: r.state.Loaded})
}

func (r *fileRules) setUnchanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Error != "" {
		r.log.Info("rules file valid again, its rules are already in force", "file", r.path)
		r.state.Error = ""
	}
	r.metrics.RulesUnchanged()
}

func (r *fileRules) setRefused(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics.RulesRefused()
	if text := err.Error(); text != r.state.Error { // log each error once
		r.state.Error = text
		r.log.Error("rules refused, keeping the rules in force", "file", r.path, "revision", r.state.Revision, "err", text)
	}
}

// status describes the rules in force.
func (r *fileRules) status() telemetry.RulesStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Locate adds the positions in a rules file to an error of the engine about rules of the file.
func Locate(name string, data []byte, err error) error {
	var rulesErr *rules.Error
	if !errors.As(err, &rulesErr) {
		return err
	}
	f, readErr := source.Read(name, data)
	doc, parseErr := file.Parse(name, data)
	if readErr != nil || parseErr != nil {
		return err
	}
	indexes := make(map[string]int, len(doc.Rules))
	for i := range doc.Rules {
		indexes[doc.Rules[i].ID] = i
	}
	var problems []source.Problem
	for _, p := range rulesErr.Problems {
		problem := source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
		// The path is "rule search-per-user: consistency", for example.
		if id, field, ok := strings.Cut(strings.TrimPrefix(p.Path, "rule "), ": "); ok {
			if i, known := indexes[id]; known {
				problem.Path = "rules[" + strconv.Itoa(i) + "]." + field
				problem.Line, problem.Column = f.Locate(problem.Path)
			}
		}
		problems = append(problems, problem)
	}
	return f.Error(problems, rulesErr.More, rules.ErrInvalid)
}
