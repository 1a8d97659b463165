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
	"github.com/headgate/headgate/rules/file/source"
)

// ErrInvalid is wrapped by errors about a configuration that has valid syntax but is invalid.
var ErrInvalid = errors.New("envoyrls: invalid configuration")

// A Document is one file of a configuration: the limits of a domain.
type Document struct {
	Domain      string       `field:"domain"`
	Descriptors []Descriptor `field:"descriptors"`

	file *source.File
}

// A Descriptor matches one entry of a request's descriptor. It has the limit for descriptors that end with this entry,
// and the Descriptors that match the next entry.
type Descriptor struct {
	// Key is the key of the entry. It must not be empty.
	Key string `field:"key"`
	// Value is the value of the entry. A '*' in it matches any text, as in "/api/*/login". An empty Value matches every
	// value that no other Descriptor of this key matches. If Key contains '*', the pattern Key_Value is matched with the
	// entry's key and value, joined by '_'.
	Value string `field:"value"`
	// RateLimit is the limit; nil for none.
	RateLimit *RateLimit `field:"rate_limit"`
	// Limit is a short form of a RateLimit that has only a Limit.
	Limit *headgate.Limit `field:"limit"`
	// Descriptors match the next entry.
	Descriptors []Descriptor `field:"descriptors"`
	// ShadowMode allows requests over the limit, but counts them.
	ShadowMode bool `field:"shadow_mode"`
	// QuotaMode denies a request only if all limits in quota mode that apply to it are exceeded.
	QuotaMode bool `field:"quota_mode"`
	// DetailedMetric counts hits by the values of all entries, and ValueToMetric by the value of this entry.
	DetailedMetric bool `field:"detailed_metric"`
	ValueToMetric  bool `field:"value_to_metric"`
	// ShareThreshold makes all values that match a Key or Value with '*' share one counter.
	ShareThreshold bool `field:"share_threshold"`
	// Metadata is sent with the response if the limit is not exceeded. Nil for none.
	Metadata *structpb.Struct `field:"metadata"`
}

// A RateLimit is the limit of a descriptor.
type RateLimit struct {
	// RequestsPerUnit requests are allowed per Unit: second, minute, hour, day, week, month (30 days) or year (365 days).
	// Windows begin at multiples of the unit since 1970.
	Unit            Unit  `field:"unit"`
	RequestsPerUnit int64 `field:"requests_per_unit"`
	// Unlimited allows every request. The response has no limit then.
	Unlimited bool `field:"unlimited"`
	// Limit replaces Unit and RequestsPerUnit, for other algorithms and periods.
	Limit *headgate.Limit `field:"limit"`
	// Name is the name that the Replaces of other limits refer to.
	Name string `field:"name"`
	// Replaces lists limits that do not apply to a request if this one does.
	Replaces []Replaced `field:"replaces"`
}

// Replaced names a limit.
type Replaced struct {
	Name string `field:"name"`
}

// Parse reads a file. The error is a *source.Error that lists all problems with their positions, and wraps ErrInvalid
// or source.ErrSyntax.
func Parse(name string, data []byte) (*Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	dropNullFields(f.Root)
	doc := &Document{file: f}
	found := newCodec().Decode(f, doc)
	found = append(found, doc.validate(found)...)
	if err := f.Error(found, 0, ErrInvalid); err != nil {
		return nil, err
	}
	return doc, nil
}

// A sourceFile is the content of a file.
type sourceFile struct {
	name string
	data []byte
}

// readFiles reads the files of a configuration. ignored has the names of other files in its directory.
func readFiles(path string) (files []sourceFile, ignored []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	names := []string{path}
	if info.IsDir() {
		if names, ignored, err = configFiles(path); err != nil {
			return nil, nil, err
		}
	}
	files = make([]sourceFile, 0, len(names))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, sourceFile{name, data})
	}
	return files, ignored, nil
}

// parseFiles parses all files, even after an error, so that the error lists the problems of all files.
func parseFiles(files []sourceFile) ([]*Document, error) {
	docs := make([]*Document, 0, len(files))
	var errs []error
	for _, f := range files {
		doc, err := Parse(f.name, f.data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		docs = append(docs, doc)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return docs, nil
}

// configFiles returns the configuration files in a directory, and the names of all other files. It skips names that
// begin with "..", such as the ..data link of a Kubernetes ConfigMap. The ConfigMap's files have separate links.
func configFiles(dir string) (files, ignored []string, err error) {
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
		included, err := isConfiguration(path)
		switch {
		case err != nil:
			return nil, nil, err
		case included:
			files = append(files, path)
		default:
			ignored = append(ignored, name)
		}
	}
	return files, ignored, nil
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
	return err == nil && info.Mode().IsRegular(), err // only regular files, because opening a pipe may block forever
}

// dropNullFields removes known fields with a null value, which count as absent.
func dropNullFields(n *source.Node) {
	if n == nil {
		return
	}
	n.Fields = slices.DeleteFunc(n.Fields, func(f source.Field) bool {
		return f.Value.Kind == source.Null && slices.Contains(knownFields, f.Name)
	})
	for i := range n.Fields {
		if f := &n.Fields[i]; f.Name != "metadata" {
			dropNullFields(f.Value)
		}
	}
	for _, item := range n.Items {
		dropNullFields(item)
	}
}

var knownFields = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "limit", "shadow_mode", "quota_mode", "detailed_metric",
	"value_to_metric", "share_threshold", "metadata", "unit", "requests_per_unit", "unlimited", "name", "replaces",
}

func newCodec() *source.Codec {
	c := source.NewCodec()
	c.Explain = rules.Explain
	source.RegisterScalar(c, ParseUnit, Unit.String)
	source.RegisterScalar(c, headgate.ParseLimit, headgate.Limit.String)
	source.RegisterScalar(c, parseBool, strconv.FormatBool)
	source.RegisterNode(c, decodeMetadata, nil)
	source.RegisterNode(c, decodeDescriptors, nil)
	return c
}

// parseBool accepts all boolean words of YAML 1.1, because existing files use them.
func parseBool(word string) (bool, error) {
	switch strings.ToLower(word) {
	case "true", "yes", "on", "y":
		return true, nil
	case "false", "no", "off", "n":
		return false, nil
	}
	return false, &headgate.InputError{Err: ErrInvalid, Field: "value", Value: rules.Quote(word), Want: "true or false"}
}

// decodeDescriptors accepts only a list. A single descriptor without a list is probably a mistake.
func decodeDescriptors(d *source.Decoder, n *source.Node, path string, descriptors *[]Descriptor) {
	if n.Kind != source.List {
		d.Refuse(n, path, n.Kind.String(), "a list of descriptors, as in [{ key: user, rate_limit: … }]")
		return
	}
	*descriptors = make([]Descriptor, len(n.Items))
	for i, item := range n.Items {
		itemPath := path + "[" + strconv.Itoa(i) + "]"
		if item.Kind != source.Map {
			d.Refuse(item, itemPath, item.Kind.String(), "a descriptor, as in { key: user, rate_limit: … }")
			continue
		}
		d.Fields(item, itemPath, &(*descriptors)[i])
	}
}

func decodeMetadata(d *source.Decoder, n *source.Node, path string, metadata *structpb.Struct) {
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(), "a mapping, as in { service: search }")
		return
	}
	metadata.Fields = fieldsOf(n)
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
