package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules/source"
)

// imported is how far an import has come. What is in it is in force.
type imported struct {
	// Revision is that of the last change, or what the namespace is at if nothing was to be changed.
	Revision  int64 `json:"revision"`
	Clients   int   `json:"clients"`
	Created   int   `json:"created"`
	Updated   int   `json:"updated"`
	Deleted   int   `json:"deleted"`
	Unchanged int   `json:"unchanged"`
	// Changes are the revisions in which it was done: each is whole.
	Changes []int64 `json:"changes,omitempty"`
}

// defaultImportChunk is how many clients are imported in one change.
const defaultImportChunk = 5_000

// chunkTime is how long a chunk may take to be sent.
const chunkTime = 5 * time.Minute

// maxImportLine is the most bytes of a client, and maxImportChunk about the most of those of one change.
const (
	maxImportLine  = 64 << 10
	maxImportChunk = 8 << 20
)

// importClients answers POST /v1/clients:import. Lines of JSON are taken as they come, a change for each defaultImportChunk of
// them; a rules file is one change.
func (s *Server) importClients(c *call) error {
	prune, err := c.flag("prune")
	if err != nil {
		return err
	}
	form, err := c.form()
	if err != nil {
		return err
	}
	in := &clientImport{server: s, call: c, done: imported{}}
	if prune {
		in.seen = newIDSet(s.importPruned)
	}
	if form == "body.ndjson" {
		err = in.lines()
	} else {
		err = in.file()
	}
	if err == nil && prune && len(in.seen.hashes) == 0 {
		err = fail(http.StatusUnprocessableEntity, "No client was sent: to prune would delete all of them.")
	} else if err == nil && prune {
		err = in.prune()
	}
	if err != nil {
		p, fault := problemOf(err)
		if fault {
			s.config.Logger.Error("rules service: an import failed", "namespace", c.namespace, "err", err.Error())
		}
		if len(in.done.Changes) > 0 {
			p.Detail += " What came before it is done: see import."
			p.Import = &in.done
		}
		return p
	}
	if len(in.done.Changes) == 0 {
		if in.done.Revision, _, err = s.config.DB.Revision(c.r.Context(), c.namespace); err != nil {
			return err
		}
	}
	return c.answer(http.StatusOK, in.done)
}

// maxImportPruned is how many clients an import that deletes others may have: their ids take up to 40 MB.
const maxImportPruned = 1_000_000

// An idSet is the ids of clients that are not to be deleted, as hashes with a random seed: two ids with the same one are
// improbable, and then a client stays. A nil set takes any id and has none.
type idSet struct {
	most   int
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

func newIDSet(most int) *idSet {
	return &idSet{most: most, seed: maphash.MakeSeed(), hashes: make(map[uint64]struct{})}
}

func (s *idSet) add(id string) error {
	if s == nil {
		return nil
	}
	if len(s.hashes) == s.most {
		return fail(http.StatusRequestEntityTooLarge, "More than %d clients in an import with ?prune: "+
			"import them without it, and delete the others one by one.", s.most)
	}
	s.hashes[maphash.String(s.seed, id)] = struct{}{}
	return nil
}

func (s *idSet) has(id string) bool {
	if s == nil {
		return false
	}
	_, there := s.hashes[maphash.String(s.seed, id)]
	return there
}

// A clientImport is one that is under way.
type clientImport struct {
	server *Server
	call   *call
	done   imported
	seen   *idSet // nil unless others are to be deleted
	chunk  []edit
	bytes  int            // of the bodies in chunk
	ids    map[string]int // the line of each client of the chunk
}

// file imports the clients of a rules file that has nothing else.
func (in *clientImport) file() error {
	name, data, err := in.call.read()
	if err != nil {
		return err
	}
	f, err := source.Read(name, data)
	if err != nil {
		return err
	}
	list, err := listOfClients(f)
	if err != nil {
		return err
	}
	var wrong findings
	for i, n := range list {
		path := "clients[" + strconv.Itoa(i) + "]"
		e, err := readClient("body.json", source.JSON(n), time.Time{})
		var is *source.Error
		if errors.As(err, &is) {
			for _, one := range fieldErrors(is) {
				one.Path = join(path, one.Path)
				one.Line, one.Column = f.Locate(one.Path)
				wrong.add(one)
			}
			continue
		} else if err != nil {
			return err
		}
		e.path, e.line = path, n.Line
		in.chunk = append(in.chunk, e)
		if err := in.seen.add(e.id); err != nil {
			return err
		}
	}
	if len(wrong.list) > 0 {
		return invalid(wrong.list, wrong.more)
	}
	return in.flush()
}

// listOfClients returns the clients of a rules file that has nothing else.
func listOfClients(f *source.File) ([]*source.Node, error) {
	if f.Root == nil || f.Root.Kind != source.Map || f.Root.Field("clients") == nil {
		return nil, invalid([]fieldError{{Want: `{"clients": [...]}, or a client a line as application/x-ndjson`}}, 0)
	}
	for _, field := range f.Root.Fields {
		switch {
		case field.Name != "clients":
			return nil, invalid([]fieldError{{Path: field.Name, Want: "only clients here; /v1/rules:apply takes rules, too", Line: field.Line, Column: field.Column}}, 0)
		case field.Value.Kind != source.List:
			return nil, invalid([]fieldError{{Path: field.Name, Value: field.Value.Kind.String(), Want: "a list", Line: field.Line, Column: field.Column}}, 0)
		}
	}
	return f.Root.Field("clients").Items, nil
}

// lines imports a client a line.
func (in *clientImport) lines() error {
	c := in.call
	scanner := bufio.NewScanner(c.r.Body)
	scanner.Buffer(make([]byte, 0, 4096), maxImportLine)
	line := 0
	c.give(chunkTime, time.Hour)
	var wrong findings
	for scanner.Scan() && scanner.Err() == nil { // else the line is cut off
		line++
		text := bytes.TrimSpace(scanner.Bytes())
		if len(text) == 0 {
			continue
		}
		e, err := readClient("body.json", text, time.Time{})
		if err != nil {
			var is *source.Error
			if !errors.As(err, &is) {
				return err
			}
			for _, one := range fieldErrors(is) {
				one.Line, one.Column = line, 0
				wrong.add(one)
			}
			if wrong.more > 0 { // nobody reads so many
				break
			}
			continue
		}
		e.line = line
		if err := in.add(e, &wrong); err != nil {
			return err
		}
		if len(in.chunk) == in.server.importChunk || in.bytes > maxImportChunk {
			if len(wrong.list) > 0 {
				break
			}
			if err := in.flush(); err != nil {
				return err
			}
			c.give(chunkTime, time.Hour)
		}
	}
	if len(wrong.list) > 0 {
		return invalid(wrong.list, wrong.more)
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return invalid([]fieldError{{Line: line + 1, Want: fmt.Sprintf("lines of at most %d bytes", maxImportLine)}}, 0)
	case err != nil && !errors.Is(err, io.EOF):
		return fail(http.StatusBadRequest, "The body did not arrive: %v.", err)
	}
	return in.flush()
}

// add takes a client into the chunk.
func (in *clientImport) add(e edit, wrong *findings) error {
	if in.ids == nil {
		in.ids = make(map[string]int, in.server.importChunk)
	}
	if first, twice := in.ids[e.id]; twice {
		wrong.add(fieldError{Path: "id", Value: e.id, Want: "each client once; line " + strconv.Itoa(first) + " has this one", Line: e.line})
		return nil
	}
	in.ids[e.id] = e.line
	in.chunk = append(in.chunk, e)
	in.bytes += len(e.body)
	return in.seen.add(e.id)
}

// flush commits the chunk.
func (in *clientImport) flush() error {
	chunk := in.chunk
	in.chunk, in.ids, in.bytes = nil, nil, 0
	for len(chunk) > 0 {
		n := min(len(chunk), control.MaxOps)
		if err := in.commit(chunk[:n]); err != nil {
			return err
		}
		chunk = chunk[n:]
	}
	return nil
}

func (in *clientImport) commit(chunk []edit) error {
	s, c := in.server, in.call
	change := c.change(c.namespace, "clients.import")
	var created, updated int
	changed, err := s.commit(c.r.Context(), request{change: change, edits: func(ctx context.Context, sp *space) ([]edit, error) {
		created, updated = 0, 0
		var edits []edit
		for _, e := range chunk {
			var was *control.Object
			if _, there := sp.clients.Get(e.id); there {
				var err error
				if was, err = s.get(ctx, c.namespace, control.KindClient, e.id); err != nil {
					return nil, err
				}
			}
			switch {
			case was == nil:
				e.base = control.Absent
				created++
			case bytes.Equal(was.Body, e.body):
				continue
			default:
				e.base = was.Revision
				updated++
			}
			edits = append(edits, e)
		}
		return edits, nil
	}})
	if err != nil {
		return err
	}
	in.done.Clients += len(chunk)
	in.done.Created += created
	in.done.Updated += updated
	in.done.Unchanged += len(chunk) - created - updated
	if changed {
		in.changed(change)
	}
	return nil
}

func (in *clientImport) changed(change *control.Change) {
	in.done.Revision = change.Revision
	in.done.Changes = append(in.done.Changes, change.Revision)
}

// prune deletes the clients that were not sent.
func (in *clientImport) prune() error {
	s, c := in.server, in.call
	for {
		change := c.change(c.namespace, "clients.import")
		left := false
		var edits []edit
		changed, err := s.commit(c.r.Context(), request{change: change, edits: func(ctx context.Context, _ *space) ([]edit, error) {
			edits, left = nil, false
			err := s.eachClient(ctx, c.namespace, func(o *control.Object) {
				switch {
				case in.seen.has(o.ID):
				case len(edits) == s.importChunk:
					left = true
				default:
					edits = append(edits, edit{kind: control.KindClient, id: o.ID, base: o.Revision})
				}
			})
			return edits, err
		}})
		if err != nil {
			return err
		}
		if changed {
			in.done.Deleted += len(edits)
			in.changed(change)
		}
		if !left {
			return nil
		}
	}
}
