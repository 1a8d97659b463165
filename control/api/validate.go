package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
)

// validate answers POST /v1/validate: whether a rules file, or one rule, is right.
func (s *Server) validate(c *call) error {
	name, data, err := c.read()
	if err != nil {
		return err
	}
	doc, err := readDraft(name, data)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		Valid   bool `json:"valid"`
		Rules   int  `json:"rules"`
		Clients int  `json:"clients"`
	}{true, len(doc.Rules), len(doc.Clients)})
}

// readDraft reads a rules file, or one rule.
func readDraft(name string, data []byte) (*file.Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	if f.Root == nil || f.Root.Kind != source.Map {
		return nil, invalid([]fieldError{{Want: "a rules file, which has rules and clients, or one rule"}}, 0)
	}
	if f.Root.Field("id") == nil || f.Root.Field("rules") != nil {
		return file.FromSource(f)
	}
	r, err := file.ReadRule(name, data)
	if err != nil {
		return nil, err
	}
	return &file.Document{Rules: []rules.Rule{r}}, nil
}

// compileDraft makes a draft ready.
func compileDraft(doc *file.Document) (*rules.Set, error) {
	set, err := doc.Compile()
	var wrong *rules.Error
	if errors.As(err, &wrong) && len(doc.Rules) == 1 {
		for i := range wrong.Problems {
			wrong.Problems[i].Path = strings.TrimPrefix(wrong.Problems[i].Path, "rules["+strconv.Itoa(0)+"].")
		}
	}
	return set, err
}
