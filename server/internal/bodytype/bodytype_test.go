package bodytype_test

import (
	"testing"

	"github.com/headgate/headgate/server/internal/bodytype"
)

func TestTypesOfContentTypeHeaders(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bodytype.Type{
		"":                                  bodytype.Unset,
		"application/x-www-form-urlencoded": bodytype.Unset,
		"application/x-www-form-urlencoded; charset=utf-8": bodytype.Unset,
		"text/plain":                       bodytype.Unset,
		"text/plain;charset=UTF-8":         bodytype.Unset,
		"application/json":                 bodytype.JSON,
		"Application/JSON; charset=utf-8":  bodytype.JSON,
		"application/merge-patch+json":     bodytype.JSON,
		"application/yaml":                 bodytype.YAML,
		"text/yaml":                        bodytype.YAML,
		"application/x-ndjson":             bodytype.NDJSON,
		"multipart/form-data; boundary=xx": bodytype.Unknown,
		"image/png":                        bodytype.Unknown,
		";;":                               bodytype.Unknown,
	} {
		if got := bodytype.Of(header); got != want {
			t.Errorf("%q: got %d, want %d", header, got, want)
		}
	}
}
