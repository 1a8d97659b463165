package api

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
)

const (
	// defaultImportChunk is the number of clients per change of an import. A change is also committed when its clients
	// have more than maxImportBytes bytes.
	defaultImportChunk = 5_000
	maxImportBytes     = 8 << 20
	// maxImportLine is the maximum size of a client in bytes.
	maxImportLine = 64 << 10
	// maxImportPruned is the maximum number of clients in an import that deletes others: their IDs take up to 40 MB.
	maxImportPruned = 1_000_000
	// chunkTime limits the time that a caller takes to send the clients of one change.
	chunkTime = 5 * time.Minute
)

// A clientImport is an import of clients.
type clientImport struct {
	server   *Server
	call     *call.Call
	progress edit.Imported
	keep     *edit.IDSet // the clients not to delete; nil if the import deletes none

	// The following fields are the clients of the next change.
	chunk      []edit.Edit
	chunkBytes int
	chunkLines map[string]int // line by ID
}

// importClients serves POST /v1/clients:import. It commits a change for each defaultImportChunk lines of NDJSON, or one
// change for a rules file.
func (s *Server) importClients(c *call.Call) error {
	prune, err := c.Flag("prune")
	if err != nil {
		return err
	}
	bodyName, err := c.BodyName() // the extension is the format of the body
	if err != nil {
		return err
	}
	in := &clientImport{server: s, call: c}
	if prune {
		in.keep = edit.NewIDSet(s.importPruned)
	}
	if err := in.run(bodyName); err != nil {
		p, internal := problemOf(err)
		if internal {
			s.config.Logger.Error("rules service: an import failed", "namespace", c.Namespace, "err", err.Error())
		}
		if len(in.progress.Changes) > 0 {
			p.Detail += " Earlier lines are imported: see import."
			p.Import = &in.progress
		}
		return p
	}
	if len(in.progress.Changes) == 0 {
		if in.progress.Revision, _, err = s.config.DB.Revision(c.R.Context(), c.Namespace); err != nil {
			return err
		}
	}
	return c.Respond(http.StatusOK, in.progress)
}

func (in *clientImport) run(bodyName string) error {
	var err error
	if bodyName == call.NDJSON {
		err = in.importLines()
	} else {
		err = in.importFile()
	}
	if err != nil || in.keep == nil {
		return err
	}
	if in.keep.Len() == 0 {
		return problem.New(http.StatusUnprocessableEntity, "The import has no clients, so ?prune would delete all clients.")
	}
	return in.prune()
}

// importFile imports the clients of a rules file that contains nothing else.
func (in *clientImport) importFile() error {
	name, data, err := in.call.ReadBody()
	if err != nil {
		return err
	}
	f, err := source.Read(name, data)
	if err != nil {
		return err
	}
	list, err := clientNodes(f)
	if err != nil {
		return err
	}
	var problems edit.Problems
	for i, n := range list {
		path := "clients[" + strconv.Itoa(i) + "]"
		e, err := edit.Parse(control.KindClient, call.JSON, source.JSON(n), time.Time{})
		var invalid *source.Error
		if errors.As(err, &invalid) {
			for _, p := range invalid.Problems {
				p.Path = edit.JoinPath(path, p.Path)
				p.Line, p.Column = f.Locate(p.Path)
				problems.Add(p)
			}
			continue
		} else if err != nil {
			return err
		}
		e.Path, e.Line = path, n.Line
		in.chunk = append(in.chunk, e)
		if err := in.keepID(e.ID); err != nil {
			return err
		}
	}
	if err := problems.Err(); err != nil {
		return err
	}
	return in.commit()
}

// clientNodes returns the clients of a rules file, or an error if it contains anything else.
func clientNodes(f *source.File) ([]*source.Node, error) {
	if f.Root == nil || f.Root.Kind != source.Map || f.Root.Field("clients") == nil {
		return nil, problem.InvalidField("", "", `{"clients": [...]}, or one client per line as application/x-ndjson`)
	}
	for _, field := range f.Root.Fields {
		p := source.Problem{Path: field.Name, Line: field.Line, Column: field.Column}
		switch {
		case field.Name != "clients":
			p.Want = "only clients here; /v1/rules:apply also accepts rules"
			return nil, problem.Invalid([]source.Problem{p}, 0)
		case field.Value.Kind != source.List:
			p.Value, p.Want = field.Value.Kind.String(), "a list"
			return nil, problem.Invalid([]source.Problem{p}, 0)
		}
	}
	return f.Root.Field("clients").Items, nil
}

// importLines imports one client per line.
func (in *clientImport) importLines() error {
	scanner := bufio.NewScanner(in.call.R.Body)
	scanner.Buffer(make([]byte, 0, 4096), maxImportLine)
	in.call.SetDeadlines(chunkTime, time.Hour)
	var problems edit.Problems
	line := 0                                    // number of the line that was read last
	for scanner.Scan() && scanner.Err() == nil { // if there is an error, the last line is incomplete
		line++
		text := bytes.TrimSpace(scanner.Bytes())
		if len(text) == 0 {
			continue
		}
		if err := in.addLine(line, text, &problems); err != nil {
			return err
		}
		isFull := len(in.chunk) == in.server.importChunk || in.chunkBytes > maxImportBytes
		// Stop if the list of problems is full, or if the chunk is full but has a problem.
		if problems.More > 0 || isFull && len(problems.List) > 0 {
			break
		}
		if isFull {
			if err := in.commit(); err != nil {
				return err
			}
			in.call.SetDeadlines(chunkTime, time.Hour)
		}
	}
	if err := problems.Err(); err != nil {
		return err
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		want := fmt.Sprintf("lines of at most %d bytes", maxImportLine)
		return problem.Invalid([]source.Problem{{Line: line + 1, Want: want}}, 0)
	case err != nil && !errors.Is(err, io.EOF):
		return problem.New(http.StatusBadRequest, "The body could not be received: %v.", err)
	}
	return in.commit()
}

// addLine adds the client of a line to the next change.
func (in *clientImport) addLine(line int, text []byte, problems *edit.Problems) error {
	e, err := edit.Parse(control.KindClient, call.JSON, text, time.Time{})
	var invalid *source.Error
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			p.Line, p.Column = line, 0
			problems.Add(p)
		}
		return nil
	} else if err != nil {
		return err
	}
	if first, duplicate := in.chunkLines[e.ID]; duplicate {
		want := "each client once; line " + strconv.Itoa(first) + " has the same client"
		problems.Add(source.Problem{Path: "id", Value: e.ID, Want: want, Line: line})
		return nil
	}
	if in.chunkLines == nil {
		in.chunkLines = make(map[string]int, in.server.importChunk)
	}
	in.chunkLines[e.ID] = line
	e.Line = line
	in.chunk = append(in.chunk, e)
	in.chunkBytes += len(e.Body)
	return in.keepID(e.ID)
}

func (in *clientImport) keepID(id string) error {
	if in.keep == nil {
		return nil
	}
	return in.keep.Add(id)
}

// commit commits the clients of the chunk, and empties it.
func (in *clientImport) commit() error {
	c, chunk := in.call, in.chunk
	in.chunk, in.chunkLines, in.chunkBytes = nil, nil, 0
	for len(chunk) > 0 {
		n := min(len(chunk), control.MaxOps)
		change := c.Change(c.Namespace, "clients.import")
		if err := in.server.editor.Import(c.R.Context(), change, chunk[:n], &in.progress); err != nil {
			return err
		}
		chunk = chunk[n:]
	}
	return nil
}

// prune deletes the clients that were not in the import.
func (in *clientImport) prune() error {
	s, c := in.server, in.call
	for more := true; more; {
		var err error
		change := c.Change(c.Namespace, "clients.import")
		if more, err = s.editor.Prune(c.R.Context(), change, in.keep, s.importChunk, &in.progress); err != nil {
			return err
		}
	}
	return nil
}
