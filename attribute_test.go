package headgate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

func TestParseAttributeReadsWhatStringWrites(t *testing.T) {
	for _, text := range []string{
		"ip", "user", "api_key", "bearer", "method", "host", "path", "region", "namespace", "header.x-plan", "cookie.Session",
		"query.q", "jwt.sub", "jwt.a.b", "segment.2", "descriptor.remote_address",
	} {
		a, err := headgate.ParseAttribute(text)
		if err != nil || a.String() != text {
			t.Errorf("ParseAttribute(%q) = %q, %v", text, a, err)
		}
	}
	if a, err := headgate.ParseAttribute("header.X-Plan"); err != nil || a.Name != "x-plan" {
		t.Errorf("got %+v, %v, want the name in lower case", a, err)
	}
}

func TestParseAttributeRefusesTheRest(t *testing.T) {
	for _, text := range []string{
		"", ".", "ips", "IP", "ip.1", "header", "header.", "segment.0", "segment.x", "segment.100", "jwt.",
		"cookie." + strings.Repeat("x", headgate.MaxAttributeName+1),
	} {
		var input *headgate.InputError
		if a, err := headgate.ParseAttribute(text); !errors.As(err, &input) || a != (headgate.Attribute{}) {
			t.Errorf("ParseAttribute(%q) = %+v, %v, want an *InputError", text, a, err)
		}
	}
}

func ExampleParseAttribute() {
	a, err := headgate.ParseAttribute("header.X-Plan")
	if err != nil {
		panic(err)
	}
	fmt.Println(a)
	// Output: header.x-plan
}
