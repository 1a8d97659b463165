package file_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/file"
)

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, `  - id: rule-%d
    when: { host: api.example.com, path: /search/%d/**, method: GET, header.x-plan: gold }
    key: [user]
    limits: [10/s burst 20, 1000/h sliding-window]
    overrides: [{ when: {user: acme}, limits: [100/s] }, { when: {ip: 10.0.0.0/8}, unlimited: true }]
`, i, i)
	}
	doc, err := file.Parse("rules.yaml", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{"rules.yaml": []byte(text.String()), "rules.json": doc.JSON()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := file.Parse(name, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
