package envoyrls

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// ErrInvalid is wrapped by the errors about a configuration that can be read and is wrong.
var ErrInvalid = errors.New("envoyrls: a configuration that is wrong")

// A Document is one file of a configuration: the limits of a domain.
type Document struct {
	Domain      string       `field:"domain"`
	Descriptors []Descriptor `field:"descriptors"`

	file *source.File
}

// A Descriptor is an entry that requests' descriptors may have, the limit of those that end with it, and what may follow.
type Descriptor struct {
	// Key is the key of the entry. Not empty.
	Key string `field:"key"`
	// Value is the value of the entry. A '*' in it stands for any text, as in "/api/*/login". No value stands for every
	// value that no other Descriptor of this key matches. A '*' in Key works on key and value joined by '_'.
	Value string `field:"value"`
	// RateLimit is the limit; nil for none.
	RateLimit *RateLimit `field:"rate_limit"`
	// Limit is short for a RateLimit that has only this.
	Limit *headgate.Limit `field:"limit"`
	// Descriptors are those of the next entry.
	Descriptors []Descriptor `field:"descriptors"`
	// ShadowMode lets pass what is over the limit.
	ShadowMode bool `field:"shadow_mode"`
	// QuotaMode denies a request only if all limits of this kind that it meets are exceeded.
	QuotaMode bool `field:"quota_mode"`
	// DetailedMetric counts the hits by the values of all entries, ValueToMetric by that of this one.
	DetailedMetric bool `field:"detailed_metric"`
	ValueToMetric  bool `field:"value_to_metric"`
	// ShareThreshold makes all values that match a Value with '*' share one counter.
	ShareThreshold bool `field:"share_threshold"`
	// Metadata is sent along with the answer if the limit is not exceeded. Nil for none.
	Metadata *structpb.Struct `field:"metadata"`
}

// A RateLimit is how much may pass.
type RateLimit struct {
	// Unit is second, minute, hour, day, week, month (30 days) or year (365 days), and RequestsPerUnit how many may pass in
	// one. They are counted in windows that begin when the clock is at a multiple of the unit.
	Unit            Unit  `field:"unit"`
	RequestsPerUnit int64 `field:"requests_per_unit"`
	// Unlimited lets pass everything, and says so.
	Unlimited bool `field:"unlimited"`
	// Limit stands in place of Unit and RequestsPerUnit, for other algorithms and other times.
	Limit *headgate.Limit `field:"limit"`
	// Name is what Replaces of others can name.
	Name string `field:"name"`
	// Replaces are limits that do not apply to requests that this one applies to.
	Replaces []Replaced `field:"replaces"`
}

// Replaced names a limit.
type Replaced struct {
	Name string `field:"name"`
}

// Parse reads a file. The error is a *source.Error that lists everything that is wrong with its place, and wraps ErrInvalid
// or source.ErrSyntax.
func Parse(name string, data []byte) (*Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	leaveOutNothing(f.Root)
	doc := &Document{file: f}
	found := newCodec().Decode(f, doc)
	found = append(found, doc.validate(found)...)
	if err := f.Error(found, 0, ErrInvalid); err != nil {
		return nil, err
	}
	return doc, nil
}

// Load reads the configuration at a path: that of one file, or of all files of a directory that end in .yaml, .yml or .json
// and do not begin with a dot. What is in directories below is not read.
func Load(path string) ([]*Document, error) {
	texts, _, err := readTexts(path)
	if err != nil {
		return nil, err
	}
	return parseTexts(texts)
}

// A text is a file that was read.
type text struct {
	name string
	data []byte
}

// readTexts reads the files of a configuration. leftOut are the names in its directory that are not part of it.
func readTexts(path string) (texts []text, leftOut []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	names := []string{path}
	if info.IsDir() {
		if names, leftOut, err = filesOf(path); err != nil {
			return nil, nil, err
		}
	}
	texts = make([]text, 0, len(names))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		texts = append(texts, text{name, data})
	}
	return texts, leftOut, nil
}

// parseTexts reads all of them, to say everything that is wrong at once.
func parseTexts(texts []text) ([]*Document, error) {
	docs := make([]*Document, 0, len(texts))
	var failed []error
	for _, t := range texts {
		doc, err := Parse(t.name, t.data)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		docs = append(docs, doc)
	}
	if failed != nil {
		return nil, errors.Join(failed...)
	}
	return docs, nil
}

// filesOf returns the files of a directory that are part of a configuration, and the names of all others. The ..data of a
// Kubernetes ConfigMap is in neither: what it holds is linked beside it.
func filesOf(dir string) (files, leftOut []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range list {
		name := entry.Name()
		if strings.HasPrefix(name, "..") {
			continue
		}
		path := filepath.Join(dir, name)
		wanted, err := isConfiguration(path)
		switch {
		case err != nil:
			return nil, nil, err
		case wanted:
			files = append(files, path)
		default:
			leftOut = append(leftOut, name)
		}
	}
	return files, leftOut, nil
}

func isConfiguration(path string) (bool, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
	default:
		return false, nil
	}
	if strings.HasPrefix(filepath.Base(path), ".") {
		return false, nil
	}
	info, err := os.Stat(path)
	return err == nil && !info.IsDir(), err
}

// leaveOutNothing removes fields without a value: there they are as good as none.
func leaveOutNothing(n *source.Node) {
	if n == nil {
		return
	}
	n.Fields = slices.DeleteFunc(n.Fields, func(f source.Field) bool {
		return f.Value.Kind == source.Null && slices.Contains(knownFields, f.Name)
	})
	for i := range n.Fields {
		if f := &n.Fields[i]; f.Name != "metadata" {
			leaveOutNothing(f.Value)
		}
	}
	for _, item := range n.Items {
		leaveOutNothing(item)
	}
}

var knownFields = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "limit", "shadow_mode", "quota_mode", "detailed_metric",
	"value_to_metric", "share_threshold", "metadata", "unit", "requests_per_unit", "unlimited", "name", "replaces",
}

func newCodec() *source.Codec {
	c := source.NewCodec()
	c.Explain = rules.Explain
	source.Words(c, ParseUnit, Unit.String)
	source.Words(c, headgate.ParseLimit, headgate.Limit.String)
	source.Words(c, parseBool, strconv.FormatBool)
	source.Nodes(c, decodeMetadata, nil)
	source.Nodes(c, decodeDescriptors, nil)
	return c
}

// parseBool takes every word that YAML 1.1 had for it, as those files are written.
func parseBool(word string) (bool, error) {
	switch strings.ToLower(word) {
	case "true", "yes", "on", "y":
		return true, nil
	case "false", "no", "off", "n":
		return false, nil
	}
	return false, &headgate.InputError{Err: ErrInvalid, Field: "value", Value: rules.Quote(word), Want: "true or false"}
}

// decodeDescriptors takes only a list. One descriptor in its place may be an entry that was not meant to be its only one.
func decodeDescriptors(d *source.Decoder, n *source.Node, path string, into *[]Descriptor) {
	if n.Kind != source.List {
		d.Refuse(n, path, n.Kind.String(), "a list of descriptors, as in [{ key: user, rate_limit: … }]")
		return
	}
	*into = make([]Descriptor, len(n.Items))
	for i, item := range n.Items {
		at := path + "[" + strconv.Itoa(i) + "]"
		if item.Kind != source.Map {
			d.Refuse(item, at, item.Kind.String(), "a descriptor, as in { key: user, rate_limit: … }")
			continue
		}
		d.Fields(item, at, &(*into)[i])
	}
}

func decodeMetadata(d *source.Decoder, n *source.Node, path string, into *structpb.Struct) {
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(), "a mapping, as in { service: search }")
		return
	}
	into.Fields = fieldsOf(n)
}

func fieldsOf(n *source.Node) map[string]*structpb.Value {
	fields := make(map[string]*structpb.Value, len(n.Fields))
	for _, f := range n.Fields {
		fields[f.Name] = valueOf(f.Value)
	}
	return fields
}

func valueOf(n *source.Node) *structpb.Value {
	switch n.Kind {
	case source.Map:
		return structpb.NewStructValue(&structpb.Struct{Fields: fieldsOf(n)})
	case source.List:
		list := &structpb.ListValue{}
		for _, item := range n.Items {
			list.Values = append(list.Values, valueOf(item))
		}
		return structpb.NewListValue(list)
	case source.Scalar:
		return scalarOf(n)
	default:
		return structpb.NewNullValue()
	}
}

func scalarOf(n *source.Node) *structpb.Value {
	if !n.Quoted {
		if n.Text == "true" || n.Text == "false" {
			return structpb.NewBoolValue(n.Text == "true")
		}
		if number, err := strconv.ParseFloat(n.Text, 64); err == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
			return structpb.NewNumberValue(number)
		}
	}
	return structpb.NewStringValue(n.Text)
}
